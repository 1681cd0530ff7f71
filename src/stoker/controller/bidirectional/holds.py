"""Files that syncs must not overwrite while a pull request is open. Pure.

Under `gitWins` there are none: the change is on the branch, and the next sync may restore git's version.
Under the other two strategies a file is held from the moment its change is committed. A conflict may arise
later, with the next commit, and agents would apply that commit before the controller could report the
conflict.

All held paths are in the metadata ConfigMap, so they must fit into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stoker.domain.errors import Retry
from stoker.domain.intent.policies import ConflictStrategy
from stoker.domain.protocol import ChangeSetReply
from stoker.domain.reasons import Reason

MAX_BYTES = 192 << 10
"""Of all replies together; a whole ConfigMap has at most 1 MiB."""
MAX_REFUSED_BYTES = 32 << 10


def holds_after(
    strategy: ConflictStrategy, before: Iterable[str], recorded: Iterable[str]
) -> tuple[str, ...]:
    """The paths that a gateway holds after another change set was committed."""
    if strategy is ConflictStrategy.GIT_WINS:
        return ()
    return tuple(sorted({*before, *recorded}))


def can_never_fit(
    answers: Mapping[str, ChangeSetReply], target: str, holds: Iterable[str], gateways: int = 1
) -> bool:
    """Whether there is no room for them even if nothing else waits for review."""
    return _paths_size(holds) > _fair_share(_remaining_room(answers, target), gateways)


def check_room(
    answers: Mapping[str, ChangeSetReply], target: str, holds: Iterable[str], gateways: int = 1
) -> None:
    """Raise Retry if a change set has to wait because too many files wait for review.

    Half of the room is first come, first served. Each gateway has its share of the other half, so that a
    single gateway cannot block all others.
    """
    taken = sum(_paths_size(answer.holds) for name, answer in answers.items() if name != target)
    wanted, room = _paths_size(holds), _remaining_room(answers, target)
    common = _fair_share(room, gateways)
    share = common // gateways if gateways > 1 else room
    if taken + wanted > (room if wanted <= share else common):
        raise Retry(
            "too many files are held by open pull requests: merge or close some of them",
            reason=Reason.CHANGE_PENDING,
        )


def answer_size(answer: ChangeSetReply) -> int:
    """The approximate size of a reply in the metadata ConfigMap."""
    return 200 + len(answer.message) + _paths_size(answer.holds + answer.refused)


def _remaining_room(answers: Mapping[str, ChangeSetReply], target: str) -> int:
    """The room for held paths; the replies of other gateways take theirs whatever they hold."""
    others = (answer for name, answer in answers.items() if name != target)
    return MAX_BYTES - sum(answer_size(one) - _paths_size(one.holds) for one in others)


def _fair_share(room: int, gateways: int) -> int:
    """The room that one gateway may use if no other gateway uses any."""
    return room // 2 if gateways > 1 else room


def _paths_size(paths: Iterable[str]) -> int:
    return sum(len(path.encode()) + 3 for path in paths)

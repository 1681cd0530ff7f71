"""What gateways must not overwrite while a pull request is open. Pure.

Under `gitWins` nothing is: what was changed is on the branch, and the next sync may take
git's version. Under the other two a file stays from the moment that its change was
recorded. A conflict may come later, with the next commit, and agents would take that
commit before anybody here could say that it is one.

Everything that is held stands in the map that tells agents what to do, so it must fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stoker.domain.errors import Retry
from stoker.domain.intent.policies import ConflictStrategy
from stoker.domain.protocol import ChangeSetReply
from stoker.domain.reasons import Reason

MAX_BYTES = 192 << 10
"""Of all answers together; a whole map ends at 1 MiB."""
MAX_REFUSED_BYTES = 32 << 10


def holds_after(
    strategy: ConflictStrategy, before: Iterable[str], recorded: Iterable[str]
) -> tuple[str, ...]:
    """What one gateway holds once more was recorded."""
    if strategy is ConflictStrategy.GIT_WINS:
        return ()
    return tuple(sorted({*before, *recorded}))


def can_never_fit(
    answers: Mapping[str, ChangeSetReply], target: str, holds: Iterable[str], gateways: int = 1
) -> bool:
    """Whether there is no room for them even when nothing else waits for review."""
    return _paths_size(holds) > _fair_share(_remaining_room(answers, target), gateways)


def check_room(
    answers: Mapping[str, ChangeSetReply], target: str, holds: Iterable[str], gateways: int = 1
) -> None:
    """Raises where a set has to wait because too much waits for review already.

    Half of the room is whoever comes first's; of the other half each gateway has its share, so
    that one of them cannot keep all others waiting.
    """
    taken = sum(_paths_size(answer.holds) for name, answer in answers.items() if name != target)
    wanted, room = _paths_size(holds), _remaining_room(answers, target)
    common = _fair_share(room, gateways)
    share = common // gateways if gateways > 1 else room
    if taken + wanted > (room if wanted <= share else common):
        raise Retry(
            "more files wait for open pull requests than agents can be told of: merge or close some",
            reason=Reason.CHANGE_PENDING,
        )


def answer_size(answer: ChangeSetReply) -> int:
    """About what it takes in the map."""
    return 200 + len(answer.message) + _paths_size(answer.holds + answer.refused)


def _remaining_room(answers: Mapping[str, ChangeSetReply], target: str) -> int:
    """For what is held; the answers of others take their part, whatever they hold."""
    others = (answer for name, answer in answers.items() if name != target)
    return MAX_BYTES - sum(answer_size(one) - _paths_size(one.holds) for one in others)


def _fair_share(room: int, gateways: int) -> int:
    """What one gateway may have where nobody else has any of it."""
    return room // 2 if gateways > 1 else room


def _paths_size(paths: Iterable[str]) -> int:
    return sum(len(path.encode()) + 3 for path in paths)

"""The reply to a gateway and the state to record, after a change set was committed or refused. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stoker.controller.bidirectional.branch_name import is_direct
from stoker.controller.bidirectional.commit import RecordedChangeSet
from stoker.controller.bidirectional.holds import holds_after
from stoker.controller.bidirectional.types import BidirectionalRequest, GatewayChangesState
from stoker.domain.git_objects import PathNote, printable_name
from stoker.domain.protocol import ChangeSet, ChangeSetReply, ChangeSetResult
from stoker.domain.reasons import Reason
from stoker.domain.text import first_names

_MAX_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ChangeSetOutcome:
    """The result of processing a change set or checking a pull request."""

    answer: ChangeSetReply | None
    """None: the earlier reply stays."""
    standing: GatewayChangesState


def recorded_outcome(
    ask: BidirectionalRequest,
    branch: str,
    changes: ChangeSet,
    recorded: RecordedChangeSet,
    last: ChangeSetReply | None,
    before: GatewayChangesState,
) -> ChangeSetOutcome:
    """The outcome of a committed change set; `last` and `before` are the reply and state until now."""
    held = last.holds if last is not None else ()
    refused = tuple(dict.fromkeys(note.path for note in recorded.refused))
    verdict = recorded.verdict
    open_before = not recorded.anew and (bool(before.branch) or recorded.ground.branch is not None)
    proposed = [one.path for one in verdict.changed if one.path not in refused]
    direct = is_direct(ask.policy, ask.source.ref)
    holds = () if direct else holds_after(ask.policy.conflicts, held if open_before else (), proposed)
    conflicts = {
        *(before.conflicts if open_before else ()),
        *(one.path for one in verdict.conflicts),
        *verdict.kept,
    }
    everything = len(refused) == len(changes.files) and bool(refused)
    answer = ChangeSetReply(
        changes.id,
        ChangeSetResult.REFUSED if everything else ChangeSetResult.RECORDED,
        _sentence(recorded.refused, [*(one.path for one in verdict.conflicts), *verdict.kept]),
        refused,
        holds,
        _ended_request_id(last, ended=recorded.anew and bool(before.branch)),
    )
    stays = not direct and (open_before or bool(verdict.edits))
    standing = GatewayChangesState(
        branch if stays else "",
        before.request if open_before else "",
        tuple(sorted(conflicts)) if stays or verdict.refused else (),
        refused,
        _reason(refused, conflicts),
        answer.message,
    )
    return ChangeSetOutcome(answer, standing)


def refused_outcome(
    set_id: str, why: str, before: ChangeSetReply | None, standing: GatewayChangesState
) -> ChangeSetOutcome:
    """The outcome of an invalid or wholly refused change set; held files stay held."""
    holds = before.holds if before is not None else ()
    answer = ChangeSetReply(set_id, ChangeSetResult.REFUSED, why, (), holds, _ended_request_id(before))
    return ChangeSetOutcome(answer, replace(standing, reason=Reason.CHANGE_REFUSED, message=why))


def release_holds(answer: ChangeSetReply | None) -> ChangeSetReply | None:
    """End all holds of a finished pull request; its agent may resend the files that exceeded its limit."""
    return replace(answer, holds=(), over=answer.id) if answer is not None else None


def _ended_request_id(last: ChangeSetReply | None, *, ended: bool = False) -> str:
    """The id of the last ended request is repeated, because the agent may not have read it yet."""
    if last is None:
        return ""
    return last.id if ended else last.over


def _reason(refused: tuple[str, ...], conflicts: set[str]) -> Reason | None:
    if conflicts:
        return Reason.CONFLICT_DETECTED
    return Reason.CHANGE_REFUSED if refused else None


def _sentence(refused: tuple[PathNote, ...], conflicts: list[str]) -> str:
    parts = []
    if conflicts:
        shown = first_names([printable_name(path) for path in conflicts], _MAX_SHOWN)
        parts.append(f"changed in git as well: {shown}")
    if refused:
        shown = first_names([f"{printable_name(note.path)} {note.why}" for note in refused], _MAX_SHOWN)
        parts.append(f"not taken: {shown}")
    return "; ".join(parts)


def with_open_request(standing: GatewayChangesState, url: str, warning: str = "") -> GatewayChangesState:
    """The state with an open pull request; messages about conflicts and refusals stay."""
    reason = _reason(standing.refused, set(standing.conflicts))
    message = standing.message if reason is not None else ""
    return replace(standing, request=url, reason=reason, message=message or warning)


def without_request(standing: GatewayChangesState) -> GatewayChangesState:
    """The state without a proposal; refused files are still named."""
    if not standing.refused:
        return GatewayChangesState()
    return GatewayChangesState(
        refused=standing.refused, reason=Reason.CHANGE_REFUSED, message=standing.message
    )

"""The status fields and conditions of bidirectional sync. Pure.

A new leader reads branches and pull requests from the status, so `read_standings` can parse what this module
writes.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.api.spec.status import GatewayChangesStatus, SyncStatus
from stoker.controller.bidirectional.types import BidirectionalResult, GatewayChangesState
from stoker.controller.cache.gateways import FleetGateway, GatewayFleet
from stoker.controller.cache.pods import AgentState
from stoker.domain.protocol import ChangeSetReply
from stoker.domain.reasons import Reason
from stoker.domain.text import first_names

MAX_PATHS = 20
_NO_STANDING = GatewayChangesState()
_LONGEST_WORD, _LONGEST_LINE = 253, 1024
# These reasons concern a gateway's content and do not block other gateways.
_CONTENT_REASONS = frozenset({None, Reason.CONFLICT_DETECTED, Reason.CHANGE_REFUSED})


def read_standings(status: SyncStatus, fleet: GatewayFleet) -> dict[str, GatewayChangesState]:
    """The states that an earlier leader wrote, by target."""
    written = {(one.name, one.pod_name): one for one in status.discovered_gateways or ()}
    found = {}
    for gateway in fleet.gateways:
        entry = written.get((gateway.name, gateway.pod.name))
        if entry is not None and entry.changes is not None and entry.changes.branch:
            found[gateway.target] = _read_standing(entry.changes)
    return found


def gateway_changes(
    gateway: FleetGateway, standing: GatewayChangesState | None, answer: ChangeSetReply | None
) -> GatewayChangesStatus | None:
    """Combine the agent's report with the controller's state."""
    said = gateway.report.changes if gateway.report is not None else None
    here = standing or _NO_STANDING
    pending, refused, held = (said.pending, said.refused, said.held) if said is not None else (0, 0, 0)
    refused = max(refused, len(here.refused))
    held = held or (len(answer.holds) if answer is not None else 0)
    reason = here.reason or (said.reason if said is not None else "")
    message = here.message or (said.message if said is not None else "")
    if not (pending or refused or held or here.branch or reason or message):
        return None
    paths = here.conflicts or (said.paths if said is not None else ()) or here.refused
    return GatewayChangesStatus(
        pending=pending or None,
        refused=refused or None,
        held=held or None,
        paths=tuple(path[:_LONGEST_LINE] for path in paths[:MAX_PATHS]) or None,
        reason=str(reason)[:_LONGEST_WORD] or None,
        message=message[:_LONGEST_LINE] or None,
        branch=here.branch[:_LONGEST_WORD] or None,
        pull_request=here.request[:_LONGEST_LINE] or None,
    )


def bidirectional_ready(
    fleet: GatewayFleet, standings: Mapping[str, GatewayChangesState]
) -> tuple[bool, Reason, str]:
    """The condition BidirectionalReady."""
    stuck = [
        (target, standing)
        for target, standing in sorted(standings.items())
        if standing.reason not in _CONTENT_REASONS
    ]
    if stuck:
        reason = stuck[0][1].reason or Reason.CHANGE_PENDING
        return False, reason, first_names([f"{target}: {standing.message}" for target, standing in stuck])
    tended = [one for one in fleet.gateways if one.pod.agent is not AgentState.NONE]
    waiting = [one.name for one in tended if one.report is None or one.report.changes is None]
    message = f"{len(tended) - len(waiting)} of {len(tended)} gateways watched"
    if waiting:  # edits made there now are not held yet, and users who wait for this condition must know
        return False, Reason.AGENT_STARTING, f"{message}; not yet {first_names(waiting)}"
    refused = [target for target, standing in sorted(standings.items()) if standing.refused]
    if refused:
        message += f"; some changes were refused on {first_names(refused)}"
    return True, Reason.WATCHERS_ACTIVE, message


def conflict_detected(accepted: BidirectionalResult) -> tuple[bool, Reason, str]:
    """The condition ConflictDetected."""
    told = [
        f"{target} ({first_names(standing.conflicts)})"
        for target, standing in sorted(accepted.standings.items())
        if standing.conflicts
    ]
    if not told:
        return False, Reason.NONE_FOUND, "no file was changed on both sides"
    return True, Reason.CONFLICT_DETECTED, f"git and the gateway changed the same files: {first_names(told)}"


def _read_standing(changes: GatewayChangesStatus) -> GatewayChangesState:
    conflict = changes.reason == Reason.CONFLICT_DETECTED
    return GatewayChangesState(
        branch=changes.branch or "",
        request=changes.pull_request or "",
        conflicts=changes.paths or () if conflict else (),
        reason=Reason.CONFLICT_DETECTED if conflict else None,
        message=changes.message or "" if conflict else "",
    )

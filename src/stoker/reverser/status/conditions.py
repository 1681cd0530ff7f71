"""Compute the conditions of the reverser's objects from the facts about them. Pure.

All conditions of a kind are always present, so that a missing condition never needs interpretation. Two are
exceptions: Stalled is present only while a person must act, Reconciling only while work is in progress. A
message names the first cause and the number of causes, and nothing that changes constantly: a status is
written only when a fact changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.domain.errors import Stalled, StokerError, Wait
from stoker.domain.reasons import ConditionType as Type
from stoker.domain.reasons import Reason
from stoker.kube.runtime.conditions import (
    ConditionStamp,
    StatusConditions,
    find_condition,
    mark_progressing,
    mark_stalled,
    remove_conditions,
    set_condition,
)
from stoker.reverser.selection.kinds import InertName, InertReason
from stoker.reverser.selection.selection import WatchedKind
from stoker.reverser.writer.deletion_brake import HeldDeletionPlan
from stoker.reverser.writer.ownership_marker import FolderOwnership, OwnershipMarker

_DEGRADING = {
    InertReason.PARTIAL_DISCOVERY: Reason.PARTIAL_DISCOVERY,
    InertReason.NO_LIST_WATCH: Reason.NO_LIST_WATCH,
    InertReason.SCOPE_MISMATCH: Reason.SCOPE_MISMATCH,
    InertReason.TOO_MANY_KINDS: Reason.TOO_MANY_KINDS,
}
_DENIED = (Reason.REPO_POLICY_DENIED, Reason.DESTINATION_POLICY_DENIED)
_WATCH_REASONS = (Reason.RESOURCE_VERSION_EXPIRED, Reason.RBAC_DENIED)
DISABLED = Stalled(
    "nothing is watched: the reverser was started with --enable-watch-ingestion=false",
    reason=Reason.WATCH_INGESTION_DISABLED,
)


_FREE = OwnershipMarker(FolderOwnership.FREE)
_MAX_NAMED = 3


class DesiredCondition(NamedTuple):
    """One condition with its wanted status."""

    type: Type
    status: bool | None
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """The state of a branch's Lease."""

    held: bool = True
    """Whether this replica holds it."""
    holder: str = ""
    error: StokerError | None = None


@dataclass(frozen=True, slots=True)
class DestinationFacts:
    """The facts about a destination."""

    error: StokerError | None = None
    """Why it cannot be written at all, or not now."""
    lease: LeaseFacts | None = LeaseFacts()
    """None if no replica needs it, because there is nothing to write."""
    is_open: bool = False
    marker: OwnershipMarker = _FREE
    marker_trouble: str = ""
    exclusive: bool = False
    trouble: StokerError | None = None
    """An error of this destination alone: another owner has the folder, or encryption is impossible."""
    unwritten: Mapping[str, str] = field(default_factory=dict)
    looping: tuple[str, ...] = ()
    secrets_in_clear: bool = False
    secrets_left_out: str = ""
    """Why Secrets are not written; empty if they are written."""
    held: HeldDeletionPlan | None = None
    """Deletions beyond the budget."""

    @property
    def stalled_by_deletions(self) -> Stalled | None:
        """The decision that a person must make while everything else continues."""
        if self.held is None:
            return None
        names = ", ".join(self.held.first[:_MAX_NAMED])
        more = ", …" if self.held.files > _MAX_NAMED else ""
        return Stalled(f"{self.held.why}; held: {names}{more}", reason=Reason.DELETION_HELD)


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """The facts about a WatchRule or ClusterWatchRule."""

    error: StokerError | None = None
    """Why its destination, or the reference to it, does not work."""
    push_error: StokerError | None = None
    inert: Sequence[InertName] = ()
    watched: Sequence[WatchedKind] = ()
    failing: Mapping[WatchedKind, StokerError] = field(default_factory=dict)
    seeded: bool = False
    """Whether every living object was brought to the destination."""


def destination_aspects(truth: DestinationFacts) -> list[DesiredCondition]:
    return [
        _destination_ready_aspect(truth),
        *_ownership_aspects(truth),
        _lease_aspect(truth.lease),
        _plaintext_secrets_aspect(truth),
        _excluded_secrets_aspect(truth),
    ]


def rule_aspects(truth: RuleFacts) -> list[DesiredCondition]:
    return [
        _rule_ready_aspect(truth),
        _access_aspect(truth.error),
        _watches_aspect(truth),
        _discovery_aspect(truth.inert),
        _push_aspect(truth.push_error),
    ]


def config_aspects(error: StokerError | None, used: bool, reached: bool) -> list[DesiredCondition]:
    """Return the Ready condition of a GitRepoConfig: whether its repository can be used."""
    if error is not None:
        return [_unready_aspect(error)]
    if not reached:
        what = "its branches are being looked at" if used else "the repository is being tried"
        return [DesiredCondition(Type.READY, None, Reason.RECONCILING, what)]
    idle = "" if used else "; no GitDestination uses it yet"
    return [DesiredCondition(Type.READY, True, Reason.INITIALIZED, f"the repository can be written{idle}")]


def merge_conditions(
    before: StatusConditions,
    aspects: Sequence[DesiredCondition],
    error: StokerError | None,
    at: ConditionStamp,
) -> StatusConditions:
    """Return the merged conditions; conditions that `aspects` does not name stay as they are."""
    after = before
    for aspect in aspects:
        after = set_condition(after, aspect.type, aspect.status, aspect.reason, aspect.message, at=at)
    if isinstance(error, Stalled):
        return mark_stalled(after, error.reason, error.message, at=at)
    ready = find_condition(after, Type.READY)
    if ready is None or ready.status == "True" or ready.reason == Reason.SUSPENDED:
        return remove_conditions(after, Type.STALLED, Type.RECONCILING)
    return mark_progressing(after, ready.reason, ready.message, at=at)


def _destination_ready_aspect(truth: DestinationFacts) -> DesiredCondition:
    error = truth.error or truth.trouble
    if error is not None:
        return _unready_aspect(error)
    if truth.lease is not None and not truth.lease.held:
        why = (
            f"{truth.lease.holder} holds its Lease"
            if truth.lease.holder
            else "no replica holds its Lease yet"
        )
        return DesiredCondition(Type.READY, None, Reason.RECONCILING, why)
    if (deletions := truth.stalled_by_deletions) is not None:
        return _unready_aspect(deletions)
    if truth.looping:
        return DesiredCondition(Type.READY, False, Reason.LOOP_DETECTED, _sync_loop_message(truth.looping))
    if truth.unwritten:
        path, why = next(iter(truth.unwritten.items()))
        count = _count_phrase(len(truth.unwritten), "object", "cannot be written")
        return DesiredCondition(Type.READY, False, Reason.OBJECT_NOT_WRITTEN, f"{count}; {path}: {why}")
    if not truth.is_open:
        return DesiredCondition(Type.READY, None, Reason.RECONCILING, "the branch is being looked at")
    return DesiredCondition(Type.READY, True, Reason.INITIALIZED, "the folder is ours and is written")


def _sync_loop_message(paths: tuple[str, ...]) -> str:
    count = _count_phrase(len(paths), "file", "changed back and forth and is held")
    return f"{count} until it rests; {paths[0]}: one tool applies git to the cluster while another changes it"


def _ownership_aspects(truth: DestinationFacts) -> list[DesiredCondition]:
    theirs = truth.marker.standing is FolderOwnership.THEIRS
    sentence = f"the folder belongs to {truth.marker.owner}"
    owned = DesiredCondition(Type.OWNERSHIP_CONFLICT, False, Reason.NONE_FOUND, "")
    marked = DesiredCondition(Type.MARKER_CONFLICT, False, Reason.NONE_FOUND, "")
    if theirs and truth.exclusive:
        reason = truth.trouble.reason if truth.trouble else Reason.MARKER_MISMATCH
        owned = DesiredCondition(Type.OWNERSHIP_CONFLICT, True, reason, sentence)
    elif theirs:
        marked = DesiredCondition(
            Type.MARKER_CONFLICT, True, Reason.MARKER_MISMATCH, f"{sentence}; it is written too"
        )
    elif truth.marker_trouble:
        why = f"the marker {truth.marker_trouble}"
        marked = DesiredCondition(Type.MARKER_CONFLICT, True, Reason.MARKER_WRITE_FAILED, why)
    return [owned, marked]


def _lease_aspect(lease: LeaseFacts | None) -> DesiredCondition:
    if lease is None:
        return DesiredCondition(Type.LEASE_NOT_ACQUIRED, False, Reason.NONE_FOUND, "")
    if lease.held:
        return DesiredCondition(Type.LEASE_NOT_ACQUIRED, False, Reason.LEASE_ACQUIRED, "")
    if lease.error is not None:
        return DesiredCondition(Type.LEASE_NOT_ACQUIRED, True, Reason.LEASE_API_ERROR, lease.error.message)
    if lease.holder:
        why = f"{lease.holder} holds the Lease of the branch and does not answer for it"
        return DesiredCondition(Type.LEASE_NOT_ACQUIRED, True, Reason.LEASE_HELD_ELSEWHERE, why)
    return DesiredCondition(Type.LEASE_NOT_ACQUIRED, None, Reason.RECONCILING, "the Lease is being asked for")


def _plaintext_secrets_aspect(truth: DestinationFacts) -> DesiredCondition:
    if truth.secrets_in_clear:
        why = "Secrets are written in clear; spec.secretPolicy can be Redact, Encrypt or Exclude"
        return DesiredCondition(Type.SECRETS_IN_CLEAR, True, Reason.SECRETS_IN_CLEAR, why)
    return DesiredCondition(Type.SECRETS_IN_CLEAR, False, Reason.NONE_FOUND, "")


def _excluded_secrets_aspect(truth: DestinationFacts) -> DesiredCondition:
    if truth.secrets_left_out:
        return DesiredCondition(Type.SECRETS_EXCLUDED, True, Reason.SECRETS_EXCLUDED, truth.secrets_left_out)
    return DesiredCondition(Type.SECRETS_EXCLUDED, False, Reason.NONE_FOUND, "")


def _rule_ready_aspect(truth: RuleFacts) -> DesiredCondition:
    error = truth.error or truth.push_error
    if error is not None:
        return _unready_aspect(error)
    if truth.failing:
        watches = _watches_aspect(truth)
        return DesiredCondition(Type.READY, False, watches.reason, watches.message)
    if not truth.watched:
        first = f": {truth.inert[0].name} {truth.inert[0].detail}" if truth.inert else ""
        return DesiredCondition(
            Type.READY, None, Reason.WAITING_DEPENDENCIES, f"it selects nothing at present{first}"
        )
    kinds = len({each.resource for each in truth.watched})
    if not truth.seeded:
        return DesiredCondition(
            Type.READY, None, Reason.RECONCILING, f"{_count_phrase(kinds, 'kind', 'is being listed')}"
        )
    inert = f"; {_count_phrase(len(truth.inert), 'name', 'selects nothing')}" if truth.inert else ""
    return DesiredCondition(
        Type.READY, True, Reason.INITIALIZED, f"{_count_phrase(kinds, 'kind', 'is watched')}{inert}"
    )


def _access_aspect(error: StokerError | None) -> DesiredCondition:
    if error is not None and error.reason in _DENIED:
        return DesiredCondition(Type.ACCESS_DENIED, True, error.reason, error.message)
    return DesiredCondition(Type.ACCESS_DENIED, False, Reason.NONE_FOUND, "")


def _watches_aspect(truth: RuleFacts) -> DesiredCondition:
    if not truth.failing:
        return DesiredCondition(Type.WATCH_ERRORED, False, Reason.NONE_FOUND, "")
    first = next(iter(truth.failing.values()))
    reason = first.reason if first.reason in _WATCH_REASONS else Reason.API_SERVER_ERROR
    count = f"{len(truth.failing)} of {_count_phrase(len(truth.watched), 'watch', 'fails')}"
    return DesiredCondition(Type.WATCH_ERRORED, True, reason, f"{count}; {first.message}")


def _discovery_aspect(inert: Sequence[InertName]) -> DesiredCondition:
    degraded = [each for each in inert if each.why in _DEGRADING]
    if not degraded:
        return DesiredCondition(Type.DISCOVERY_DEGRADED, False, Reason.NONE_FOUND, "")
    first = degraded[0]
    sentence = f"{_count_phrase(len(degraded), 'name', 'is skipped')}; {first.name} {first.detail}"
    return DesiredCondition(Type.DISCOVERY_DEGRADED, True, _DEGRADING[first.why], sentence)


def _push_aspect(error: StokerError | None) -> DesiredCondition:
    if error is None:
        return DesiredCondition(Type.REPO_PUSH_FAILED, False, Reason.NONE_FOUND, "")
    return DesiredCondition(Type.REPO_PUSH_FAILED, True, error.reason, error.message)


def _unready_aspect(error: StokerError) -> DesiredCondition:
    waits = isinstance(error, Wait) and error.reason is Reason.WAITING
    reason = Reason.ERROR if error.reason is Reason.INTERNAL_ERROR else error.reason
    return DesiredCondition(Type.READY, None if waits else False, reason, error.message)


def _count_phrase(number: int, thing: str, verb: str) -> str:
    """Format a count: `1 kind is watched`, `3 kinds are watched`."""
    if number == 1:
        return f"1 {thing} {verb}"
    plural = f"{thing}es" if thing.endswith("ch") else f"{thing}s"
    for one, many in (("is ", "are "), ("selects ", "select "), ("fails", "fail"), (" and is ", " and are ")):
        verb = verb.replace(one, many, 1) if verb.startswith(one) or one.startswith(" ") else verb
    return f"{number} {plural} {verb}"

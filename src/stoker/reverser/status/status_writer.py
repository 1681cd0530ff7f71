"""Write the statuses of the reverser's four kinds, and record Events when a condition changed.

One replica writes the status of an object: the replica that holds the branch, or the first member if no
replica holds it. `stoker.reverser.status.conditions` computes the conditions; this module compares them with
the status in the cluster and writes only differences. If only the commit id changed, it writes at most every
few seconds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stoker.api.kinds.destinations import (
    GitDestinationStatus,
    GitRepoConfigStatus,
    HeldDeletions,
    WrittenCommit,
    WrittenFolder,
)
from stoker.api.kinds.resource import ConditionedStatus
from stoker.api.registry import CustomResourceKind
from stoker.domain.clock import Clock, parse_rfc3339, rfc3339
from stoker.domain.errors import StokerError
from stoker.domain.reasons import ConditionType as Type
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import wait_for_event
from stoker.kube.client.errors import Invalid, NotFound
from stoker.kube.client.kinds import rest_resource
from stoker.kube.events.recorder import EventRecorder
from stoker.kube.events.series import ObjectRef
from stoker.kube.runtime.conditions import ConditionStamp, StatusConditions
from stoker.kube.watch.list_watch import is_newer
from stoker.reverser.status.conditions import DesiredCondition, merge_conditions
from stoker.reverser.writer.deletion_brake import HeldDeletionPlan
from stoker.reverser.writer.outbox import MAX_RECENT, DeliveredCommit
from stoker.telemetry.logs import get_logger

if TYPE_CHECKING:
    from stoker.reverser.status.status_facts import StatusFacts

log = get_logger(__name__)

SOON = 0.05
GAP = 0.25
"""Seconds between two comparisons of all statuses, because every push could change one."""
QUIET = 5.0
"""Seconds between two writes that change only the last commit or the pending changes."""
WAITS = 2.0
"""Seconds after which a pending change is reported: most changes are pushed by then."""
_AGAIN = 10.0

_POSITIVE = (Type.READY,)


class DesiredStatus(NamedTuple):
    """The wanted status of one object."""

    aspects: list[DesiredCondition]
    error: StokerError | None = None
    last_commit: str | None = None
    last_push: datetime | None = None
    orphans_kept: int | None = None
    public_key: str | None = None
    recent: tuple[DeliveredCommit, ...] = ()
    pending: int = 0
    pending_at: float | None = None
    """Monotonic seconds at which the first pending change was noticed."""
    held: HeldDeletionPlan | None = None
    held_is_known: bool = False
    """Whether `held` is known; until then the status keeps its held deletions."""
    approvals_used: frozenset[str] | None = None
    folder: WrittenFolder | None = None
    """The folder that a destination writes; while it is closed the status keeps the last folder."""


@dataclass(slots=True)
class _WrittenStatus:
    version: str
    status: ConditionedStatus
    at: float


class StatusWriter:
    """The loop that writes all statuses."""

    def __init__(self, client: KubeClient, facts: StatusFacts, events: EventRecorder, clock: Clock) -> None:
        self._client = client
        self._facts = facts
        self._events = events
        self._clock = clock
        self._stirred = asyncio.Event()
        self._written: dict[str, _WrittenStatus] = {}
        self._again_at: float | None = None

    def stir(self) -> None:
        self._stirred.set()

    async def run(self) -> None:
        while True:
            await self._rest()
            await self._clock.sleep(SOON)
            self._stirred.clear()
            await self.report()
            await self._clock.sleep(GAP)

    async def report(self) -> None:
        """Write every status that differs from the cluster."""
        self._again_at = None
        living: set[str] = set()
        for kind, one, said in list(self._facts.subjects()):
            living.add(one.metadata.uid)
            if one.metadata.deletion_timestamp:
                continue
            told = said()
            if told is None:
                self._written.pop(one.metadata.uid, None)
                continue
            try:
                await self._report(kind, one, told)
            except NotFound:
                continue
            except StokerError as error:
                log.warning("status.unwritten", kind=kind.name, name=one.metadata.name, error=error.message)
                self._later(_AGAIN)
        for uid in self._written.keys() - living:
            del self._written[uid]

    async def _report(self, kind: CustomResourceKind, one: Any, said: DesiredStatus) -> None:
        head, now = one.metadata, self._clock.monotonic()
        written = self._written.get(head.uid)
        before: ConditionedStatus = one.status or _empty_status(kind)
        if written is not None and not is_newer(head.resource_version, written.version):
            before = written.status
        after = self._status(before, head.generation, said)
        if after == before:
            return
        if (
            written is not None
            and _without_push_fields(after) == _without_push_fields(before)
            and now - written.at < QUIET
        ):
            self._later(written.at + QUIET - now)
            return
        wanted = msgspec.to_builtins(after)
        gone = dict.fromkeys(msgspec.to_builtins(before).keys() - wanted.keys())
        body = {"status": {**gone, **wanted}}
        namespace = head.namespace or None
        version = head.resource_version
        try:
            answer = await self._client.patch(
                rest_resource(kind), body, head.name, namespace, into=_WrittenObject, subresource="status"
            )
            version = answer.metadata.resource_version
        except Invalid as error:
            # Some objects that do not fit their schema cannot get a status; only Events report the error
            # then.
            log.warning("status.refused", kind=kind.name, name=head.name, error=error.message)
        self._written[head.uid] = _WrittenStatus(version, after, now)
        about = ObjectRef(kind.api_version, kind.name, head.name, head.namespace, head.uid)
        self._tell(about, before.conditions or (), after.conditions or ())

    def _status(self, before: ConditionedStatus, generation: int, said: DesiredStatus) -> ConditionedStatus:
        at = ConditionStamp(generation, self._clock.now())
        conditions = merge_conditions(before.conditions or (), said.aspects, said.error, at)
        after = msgspec.structs.replace(before, observed_generation=generation, conditions=conditions)
        if isinstance(after, GitDestinationStatus):
            more: dict[str, Any] = {"orphans_kept": said.orphans_kept or None}
            if said.last_commit is not None and said.last_push is not None:
                more |= {"last_commit": str(said.last_commit), "last_push_time": rfc3339(said.last_push)}
            if said.held_is_known:
                held = said.held
                more["held_deletions"] = held and HeldDeletions(
                    count=held.files, digest=held.digest, paths=held.first
                )
            if said.approvals_used is not None:
                more["approvals_used"] = tuple(sorted(said.approvals_used)) or None
            if said.folder is not None:
                more["folder"] = said.folder
            more |= self._pending(said, after.pending_since)
            if said.recent:
                more["recent_commits"] = recent_commits(said.recent, after.recent_commits or ())
            after = msgspec.structs.replace(after, **more)
        elif isinstance(after, GitRepoConfigStatus):
            after = msgspec.structs.replace(after, signing_public_key=said.public_key)
        return after

    def _pending(self, said: DesiredStatus, before: str | None) -> dict[str, Any]:
        told = pending_status(said, before, self._clock)
        if said.pending:
            self._later(QUIET if told.changes else WAITS)
        return {"pending_changes": told.changes, "pending_since": told.since}

    def _tell(self, about: ObjectRef, before: StatusConditions, after: StatusConditions) -> None:
        for condition in after:
            known = next((each for each in before if each.type == condition.type), None)
            if known is not None and (known.status, known.reason) == (condition.status, condition.reason):
                continue
            if condition.type in (Type.STALLED, Type.RECONCILING, Type.SECRETS_EXCLUDED):
                continue  # Ready reports the same, or it is the default
            good = "True" if condition.type in _POSITIVE else "False"
            if condition.reason == Reason.NONE_FOUND:
                continue
            if condition.status == good and condition.type in (Type.READY, Type.LEASE_NOT_ACQUIRED):
                message = condition.message or "this replica holds the Lease of the branch"
                self._events.normal(about, Reason(condition.reason), message)
            elif condition.status not in (good, "Unknown"):
                self._events.warning(about, Reason(condition.reason), condition.message)

    def _later(self, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        self._again_at = due if self._again_at is None else min(due, self._again_at)

    async def _rest(self) -> None:
        due = math.inf if self._again_at is None else max(0.0, self._again_at - self._clock.monotonic())
        await wait_for_event(self._stirred, self._clock, due)


class _WrittenMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _WrittenObject(msgspec.Struct):
    metadata: _WrittenMeta = msgspec.field(default_factory=_WrittenMeta)


def _empty_status(kind: CustomResourceKind) -> ConditionedStatus:
    if kind.name == "GitDestination":
        return GitDestinationStatus()
    return GitRepoConfigStatus() if kind.name == "GitRepoConfig" else ConditionedStatus()


def recent_commits(
    new: Sequence[DeliveredCommit], before: Sequence[WrittenCommit]
) -> tuple[WrittenCommit, ...]:
    """Return the newest commits first, followed by commits from before this replica held the branch."""
    told = [
        WrittenCommit(
            commit=str(one.commit),
            author=one.author[:253] if one.author else None,
            subject=one.subject[:256],
            time=rfc3339(one.at),
            waited=f"{one.waited:.1f}s",
        )
        for one in new
    ]
    known = {one.commit for one in told}
    return (*told, *(one for one in before if one.commit not in known))[:MAX_RECENT]


class PendingChanges(NamedTuple):
    """The status fields about changes that are not in git yet."""

    changes: int | None = None
    since: str | None = None


def pending_status(said: DesiredStatus, before: str | None, clock: Clock) -> PendingChanges:
    """Return the pending changes once they have waited for `WAITS`; a reported start time stays the same."""
    if not said.pending or said.pending_at is None:
        return PendingChanges()
    waited = clock.monotonic() - said.pending_at
    if waited < WAITS:
        return PendingChanges()
    since = clock.now() - timedelta(seconds=waited)
    same = before is not None and abs(since - parse_rfc3339(before)) < timedelta(seconds=WAITS)
    return PendingChanges(said.pending, before if same else rfc3339(since))


def _without_push_fields(status: ConditionedStatus) -> ConditionedStatus:
    """Return the status without the fields that change with every push."""
    if isinstance(status, GitDestinationStatus):
        volatile = (
            "last_commit",
            "last_push_time",
            "recent_commits",
            "pending_changes",
            "pending_since",
        )
        return msgspec.structs.replace(status, **dict.fromkeys(volatile))
    return status

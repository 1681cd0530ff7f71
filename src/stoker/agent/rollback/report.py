"""Reports of a rollback. No I/O and few imports, because every agent imports this module."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import rfc3339
from stoker.domain.errors import InvalidValue
from stoker.domain.git_objects import PathNote
from stoker.domain.protocol import QuarantineReport, SnapshotReport
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.plan.plan import SyncPlan
from stoker.fs.apply_plan import ApplyResult

if TYPE_CHECKING:
    from stoker.agent.rollback import state
    from stoker.agent.rollback.restore import RestoreResult
    from stoker.snapshots.types import Snapshot

NO_COMMIT = CommitId("0" * 40)
"""The commit of files from before the first sync."""


def pinned_report(
    pin: state.RollbackPin, done: RestoreResult | None, notes: Sequence[PathNote], ref: GitRef
) -> SyncReport:
    """Return the report of a sync in a folder that stays at a snapshot."""
    commit = NO_COMMIT
    with suppress(InvalidValue):
        commit, ref = CommitId(pin.commit), GitRef(pin.ref)
    plan, applied = (done.change.plan, done.applied) if done is not None else (SyncPlan(), ApplyResult())
    return SyncReport(commit, ref, plan, applied=applied, unverified=tuple(notes))


def snapshot_report(snapshot: Snapshot) -> SnapshotReport:
    when = datetime.fromtimestamp(snapshot.taken_at, UTC)
    return SnapshotReport(snapshot.id, snapshot.size, rfc3339(when))


def quarantine_report(note: state.QuarantineRecord | None) -> QuarantineReport | None:
    return None if note is None else QuarantineReport(note.commit, note.reason, note.message, note.since)

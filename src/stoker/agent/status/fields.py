"""Fields of a gateway's report, from the outcome of a sync; pure functions for `status_report`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from stoker.agent.sync.jobs import SyncResult
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.git_objects import HeldPath, PathNote
from stoker.domain.paths import RelPath
from stoker.domain.protocol import (
    ChecksumReport,
    DiffReport,
    FileChangeReport,
    GatewayReport,
    HeldProjectReport,
    HistoryEntryReport,
    PendingPlanReport,
    SyncState,
)
from stoker.domain.reasons import Reason
from stoker.engine.plan.ledger import STAT
from stoker.engine.plan.plan import SyncPlan

MAX_LISTED = 20
MAX_IN_HISTORY = 3
"""Paths listed for an earlier sync; kept small so that ten syncs fit into a report."""
SUCCESS = "success"

# The gateway is still starting: nothing has failed.
STARTING_REASONS = frozenset({Reason.GATEWAY_STARTING, Reason.NOT_COMMISSIONED})
_PROJECTS = "projects/"
LOCKED = "held"
"""The gateway hook's word for a scan lock that is held as intended."""


def report_subject(report: GatewayReport) -> tuple[str, ...]:
    """Return the subject of a report; once it differs, the earlier status no longer applies."""
    return report.commit, report.ref, report.sync_profile_name, report.service_path


def sync_status(report: SyncReport) -> tuple[SyncState, str, str]:
    """Return state, reason and message of a sync that wrote files."""
    if report.result is SyncResult.HELD:
        first = next((one for one in report.plan.held if _is_designer(one)), report.plan.held[0])
        names = ", ".join(sorted({one.place for one in report.plan.held if one.reason == first.reason}))
        return SyncState.SYNCING, first.reason, f"{names}: {first.why}"
    if report.result is SyncResult.PARTIAL:
        told = [*note_lines(report.errors), *note_lines(report.plan.conflicts)]
        return SyncState.ERROR, Reason.SYNC_PARTIAL, told[0] if told else ""
    if report.result is SyncResult.UNVERIFIED:
        word, colon, _ = report.unverified[0].why.partition(":")
        reason = Reason(word) if colon and word in tuple(Reason) else Reason.NOT_VERIFIED
        status = SyncState.SYNCING if reason in STARTING_REASONS else SyncState.ERROR
        return status, reason, next(note_lines(report.unverified))
    return SyncState.SYNCED, "", ""


def pending_plan(plan: SyncPlan, why: str) -> PendingPlanReport:
    return PendingPlanReport(
        digest=plan.digest,
        reason=str(why),
        commit=plan.facts.commit,
        files_added=sum(not write.replaces for write in plan.writes),
        files_modified=len(plan.rewrites),
        files_deleted=len(plan.removals) + len(plan.orphans_kept),
    )


def orphan_deletion_plan(report: SyncReport, kept: Sequence[str]) -> PendingPlanReport:
    """Return the plan that deletes these unmanaged files once it is approved."""
    plan = SyncPlan(orphans_kept=tuple(RelPath.known(path) for path in kept))
    return PendingPlanReport(plan.digest, Reason.ORPHANS_KEPT, str(report.commit), files_deleted=len(kept))


def held_projects(held: Iterable[HeldPath]) -> tuple[HeldProjectReport, ...]:
    return tuple(
        HeldProjectReport(one.place.removeprefix(_PROJECTS), one.user) for one in filter(_is_designer, held)
    )


def _is_designer(held: HeldPath) -> bool:
    return held.reason is Reason.DESIGNER_SESSION_ACTIVE


def sync_diff(report: SyncReport, before: str) -> DiffReport:
    """Return the changes of a sync, without contents."""
    done = report.done
    kinds = {"added": done.added, "modified": done.modified, "deleted": done.deleted}
    changes = [
        FileChangeReport(str(path), word) for word, paths in kinds.items() for path in paths[:MAX_LISTED]
    ]
    return DiffReport(
        before,
        str(report.commit),
        len(done.added),
        len(done.modified),
        len(done.deleted),
        report.projects,
        tuple(sorted(changes, key=lambda one: one.path)[:MAX_LISTED]),
    )


def history_entry(report: SyncReport, reason: str, diff: DiffReport | None = None) -> HistoryEntryReport:
    return HistoryEntryReport(
        timestamp="",
        commit=str(report.commit),
        ref=str(report.ref),
        files_changed=report.files_changed,
        projects_synced=report.projects,
        duration=report.lasted,
        result=reason or SUCCESS,
        diff=replace(diff, changes=diff.changes[:MAX_IN_HISTORY]) if diff is not None else None,
    )


def content_checksums(files: Mapping[str, bytes]) -> ChecksumReport:
    """Return one digest over all written files, by path and content."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.encode(errors="surrogateescape") + b"\0" + files[path][STAT.size :])
    return ChecksumReport(f"sha256:{digest.hexdigest()}", len(files))


def note_lines(notes: Iterable[PathNote]) -> Iterator[str]:
    return (f"{note.path}: {note.why}" for note in notes)

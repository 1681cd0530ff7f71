"""Restores a snapshot through the steps of a sync, with the snapshot as the source.

1. check the manifest and packs; for a snapshot that a person requested, check every content
2. plan against the live files
3. stage; each content is checked before any live file changes
4. take the gateway's locks, rename, write the ledger
5. scan and verify

A kill in between leaves whole files, and the next process continues from the ledger.

A restore is all or nothing: if one path is held by a hook or blocked by a conflict, nothing changes. An
automatic rollback leaves gateway changes that git does not have yet where they are. A restore that a person
requested waits for them, unless a snapshot of the current files is taken first.

A requested restore also passes the deletion guard: above its limits nothing is restored until the plan is
approved. An automatic rollback deletes only files that the rolled back sync added, so it does not wait.

Afterwards the ledger holds the facts of the time of the snapshot, so that the folder's commit and settings
are known. It is not marked complete, so that the next sync compares all files once.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from stoker.agent.rollback.ledger_facts import SnapshotLedgerFacts, decode_facts
from stoker.agent.sync.apply import apply_change
from stoker.agent.sync.hooks import SyncChange, SyncHook
from stoker.agent.sync.jobs import SyncJob
from stoker.agent.sync.threads import run_in_thread
from stoker.domain.errors import InvalidValue, Retry, Stalled, Wait
from stoker.domain.git_objects import HeldPath, PathNote
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.files import DeletionPolicy, ExcludePolicy, OrphanPolicy
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.layout.desired_files import NO_PLACES, DesiredFiles, ManagedPaths
from stoker.engine.layout.protected_paths import PROTECTED_PATHS, ProtectedPaths
from stoker.engine.match.globs import PathBatch
from stoker.engine.plan.approvals import unused, using
from stoker.engine.plan.guards import held_deletions_error
from stoker.engine.plan.ledger import STAT, UNSEEN_STAT, Ledger
from stoker.engine.plan.live import LiveDifferences
from stoker.engine.plan.plan import LedgerFacts, SyncPlan
from stoker.engine.plan.planner import make_plan as plan_for
from stoker.fs.apply_plan import ApplyResult, FileRules
from stoker.fs.data_folder import DataFolder, open_regular
from stoker.fs.find_changes import scan_folder
from stoker.fs.ledger_store import LedgerStore, lock_folder
from stoker.fs.stop_check import StopCheck, raise_if_stopped
from stoker.snapshots.repository import SnapshotRepository
from stoker.snapshots.types import SnapshotFile, SnapshotManifest, SnapshotOrigin, corrupt_snapshot
from stoker.telemetry.logs import get_logger

if TYPE_CHECKING:
    from stoker.agent.bidirectional.capture import ChangeCapture
    from stoker.ignition.content.noise import ResourceNoise

NO_COMMIT = "0" * 40
_KEEP_FOREIGN_FILES = DeletionPolicy(orphans=OrphanPolicy.OWNED)
_HOLD_CHECK_SECONDS = 5.0
_MAX_NAMED = 5

log = get_logger(__name__)


class RestoreResult(NamedTuple):
    """The restored snapshot and the change that it took."""

    snapshot: str
    origin: SnapshotOrigin
    change: SyncChange
    applied: ApplyResult
    unverified: tuple[PathNote, ...] = ()


async def restore_snapshot(
    job: SyncJob,
    snapshots: SnapshotRepository,
    snapshot_id: str,
    hooks: Sequence[SyncHook],
    *,
    whole: bool,
    owner: str = "",
    copied: bool = False,
    capture: ChangeCapture | None = None,
    noise: ResourceNoise | None = None,
    approved: Collection[PlanApproval] = (),
) -> RestoreResult:
    """Restore a snapshot.

    With `whole`, restore and check all of it; otherwise only files that a sync can have changed. `copied`: a
    hook takes a snapshot of the current files first. An error leaves everything as it was, unless the volume
    itself fails (`Retry`).
    """
    opened = await run_in_thread(lambda _: snapshots.open(snapshot_id))
    manifest = opened.manifest
    said = decode_facts(manifest.extra, snapshot_id)
    _refuse_protected_paths(manifest)
    if said.owner and said.owner != owner:
        raise Stalled(
            f"snapshot {snapshot_id} belongs to {said.owner}, not to this gateway",
            reason=Reason.ROLLBACK_FAILED,
        )
    if whole:
        await run_in_thread(
            lambda stop: snapshots.verify(snapshot_id, go_on=lambda: raise_if_stopped(stop.is_set))
        )
    async with AsyncExitStack() as around:
        if capture is not None:
            await around.enter_async_context(capture.beside_passes())
        folder = around.enter_context(DataFolder.opened(job.data_dir))
        around.enter_context(lock_folder(folder))
        book = await run_in_thread(lambda _: LedgerStore.load(folder))
        plan = await run_in_thread(
            lambda stop: _plan_restore(
                folder, book.ledger or Ledger(), manifest, said, whole, noise, stop.is_set
            )
        )
        released = unused(approved, book.ledger)
        held = held_deletions_error(plan, book.ledger, job.files.deletion, released) if whole else None
        if held is not None:
            raise held
        plan = using(plan, approved, book.ledger, plan.digest)
        change = _restore_change(job, plan, manifest.origin, book.ledger)
        if plan.actions:
            await _refuse_held_paths(hooks, change)
        if plan.actions and capture is not None:
            plan = await _without_gateway_changes(capture, change, whole=whole, copied=copied)
            change, hooks = replace(change, plan=plan), (*hooks, capture)
        paths = [str(write.path) for write in plan.writes] + [str(mode.path) for mode in plan.modes]
        modes = {path: manifest.files[path].mode for path in paths}
        applied, notes = await apply_change(
            change,
            folder,
            book,
            opened.read,
            FileRules(job.owner, job.umask),
            hooks,
            then=lambda: _set_modes(folder, modes),
        )
    if applied.errors:
        first = applied.errors[0]
        raise Retry(
            f"{first.path} of snapshot {snapshot_id} could not be restored: {first.why}",
            reason=Reason.ROLLBACK_FAILED,
        )
    return RestoreResult(snapshot_id, manifest.origin, change, applied, notes)


def _plan_restore(
    folder: DataFolder,
    ledger: Ledger,
    manifest: SnapshotManifest,
    said: SnapshotLedgerFacts,
    whole: bool,
    noise: ResourceNoise | None,
    stopped: StopCheck,
) -> SyncPlan:
    """Plan the restore of the snapshot's files; raise if a path is blocked."""
    ledger = _distrust_stat_stamps(ledger, noise)
    looked_at = {*manifest.files, *ledger.files, *ledger.intended}
    live = scan_folder(
        folder, ledger, compared=looked_at, walk=False, digits=manifest.digits, stopped=stopped
    )
    facts = _keep_deletion_safety(said.facts, ledger)
    wanted = manifest.files if whole else _files_changed_since(manifest, said, ledger, live)
    desired = DesiredFiles(
        files={path: kept.version for path, kept in wanted.items()},
        managed=ManagedPaths(folders=frozenset(map(RelPath.known, facts.folders))),
        protection=ProtectedPaths(ExcludePolicy()),
        kept=frozenset(manifest.left_out),
    )
    plan = plan_for(desired, live, ledger, _KEEP_FOREIGN_FILES)
    if plan.conflicts:
        first = plan.conflicts[0]
        raise Stalled(
            f"{first.path} {first.why}; nothing of snapshot {manifest.id} was restored",
            reason=Reason.ROLLBACK_FAILED,
        )
    foreign = said.foreign.intersection(wanted)
    return replace(
        plan,
        remembered={path: kept for path, kept in plan.remembered.items() if path not in foreign},
        facts=facts,
        lingering=True,
        abandoned=NO_PLACES,  # a snapshot has its own mappings; to leave the present ones was requested
        given_back=foreign,
    )


def _keep_deletion_safety(facts: LedgerFacts, ledger: Ledger) -> LedgerFacts:
    """Return the snapshot's facts, but keep the protection of files that may have been added since.

    A folder that became `owned` since then, or contains such a folder, may be full of files that were allowed
    there.
    """
    welcoming = ledger.folders - ledger.mirrored
    mirrored = (
        folder
        for folder in facts.mirrored & ledger.mirrored
        if not any(other.startswith(f"{folder}/") for other in welcoming)
    )
    return replace(
        facts,
        kept=facts.kept | ledger.kept,
        mirrored=frozenset(mirrored),
        unmapped=facts.unmapped | ledger.unmapped,
        approvals_begun=frozenset(),
    )


def _files_changed_since(
    manifest: SnapshotManifest, said: SnapshotLedgerFacts, ledger: Ledger, live: LiveDifferences
) -> Mapping[str, SnapshotFile]:
    """Return files that a sync can have changed: managed files, and files that it adopted or deleted."""
    folders = tuple(f"{folder}/" for folder in said.facts.folders | ledger.folders)

    def may_be(path: str) -> bool:
        if path not in said.foreign or path in ledger.files or path in ledger.intended:
            return True
        return path.startswith(folders) and live.at(path, ledger) is None

    return {path: kept for path, kept in manifest.files.items() if may_be(path)}


def _distrust_stat_stamps(ledger: Ledger, noise: ResourceNoise | None) -> Ledger:
    """Drop the stamps of files that may hold noise: there the ledger records the intended content only."""
    if noise is None:
        return ledger
    doubtful = [path for path in ledger.files if noise.doubtful([path])]
    unseen = {path: _without_stamp(ledger.files[path]) for path in doubtful}
    return replace(ledger, files={**ledger.files, **unseen})


def _without_stamp(kept: bytes) -> bytes:
    return UNSEEN_STAT[:-1] + kept[STAT.size - 1 :]


def _refuse_protected_paths(manifest: SnapshotManifest) -> None:
    """Refuse a snapshot with the gateway's own files: Stoker never takes such a snapshot."""
    found = PROTECTED_PATHS.matching(PathBatch(manifest.files))
    if found:
        raise corrupt_snapshot(
            f"snapshot {manifest.id} holds {min(found)}, a path that is reserved for the gateway"
        )


async def _refuse_held_paths(hooks: Sequence[SyncHook], change: SyncChange) -> None:
    held = [place for hook in hooks for place in await hook.hold(change)]
    if held:
        raise _held_error(held[0])


async def _without_gateway_changes(
    capture: ChangeCapture, change: SyncChange, *, whole: bool, copied: bool
) -> SyncPlan:
    """Return the plan without paths changed on the gateway; the full plan if a snapshot saves them first."""
    held = await capture.hold(change)
    if not whole:
        for one in held[:_MAX_NAMED]:
            log.warning("rollback.left_alone", place=one.place, why=one.why)
        return change.plan.holding(held, change.before)
    if held and not copied:
        raise _held_error(held[0])
    return change.plan


def _held_error(held: HeldPath) -> Wait:
    return Wait(
        f"{held.place}: {held.why}; nothing is restored while it is held",
        after=_HOLD_CHECK_SECONDS,
        reason=held.reason,
    )


def _restore_change(
    job: SyncJob, plan: SyncPlan, origin: SnapshotOrigin, ledger: Ledger | None
) -> SyncChange:
    commit, ref = CommitId(NO_COMMIT), job.source.ref
    with suppress(InvalidValue):  # files from before the first sync have neither
        commit, ref = CommitId(origin.commit), GitRef(origin.ref)
    return SyncChange(commit, ref, plan, initial=False, before=ledger)


def _set_modes(folder: DataFolder, modes: Mapping[str, int]) -> None:
    """Set the modes of unmanaged files, which may be any; managed files already have theirs."""
    for path, mode in modes.items():
        above, _, name = path.rpartition("/")
        with suppress(OSError), folder.entered(above) as place:
            fd = open_regular(place, name)
            try:
                if stat.S_IMODE(os.fstat(fd).st_mode) & 0o777 != mode:
                    os.fchmod(fd, mode)
            finally:
                os.close(fd)

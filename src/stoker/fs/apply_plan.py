"""Applies a plan to a data folder.

`stoker.fs.staging` first writes all contents to the data volume; until the last one is durable no live file
is touched. Then:

1. the ledger records what is about to happen;
2. folders and files are renamed into place in the plan's order;
3. deletions follow, only if nothing failed;
4. the ledger records what is really on disk.

A kill at any point leaves complete files, and a ledger from which the next sync continues.

A file that cannot be written is reported, and the others are still written. The `resource.json` beside it
is held back, because it would declare the resource complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stoker.domain.errors import Retry
from stoker.domain.git_objects import PathNote
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.plan.ledger import encode_record
from stoker.engine.plan.plan import RESOURCE_MANIFEST, SyncPlan
from stoker.fs.data_folder import DataFolder, os_error_reason
from stoker.fs.file_rules import FileRules
from stoker.fs.ledger_store import LedgerStore
from stoker.fs.live_files import LiveFileWriter
from stoker.fs.staging import SYNC_EACH, BlobReader, StagingArea, StagingProgress, discard_staging, staging
from stoker.fs.stat_stamp import unseen_stamp
from stoker.fs.stop_check import StopCheck, SyncStopped, never_stop

__all__ = [
    "SYNC_EACH",
    "ApplyResult",
    "BlobReader",
    "FileRules",
    "StagingProgress",
    "SyncStopped",
    "apply_plan",
]

DEFAULT_FILE_RULES = FileRules()


class ApplyResult(NamedTuple):
    """The changes and errors of an applied plan."""

    added: tuple[RelPath, ...] = ()
    modified: tuple[RelPath, ...] = ()
    """Changed in content or in mode."""
    deleted: tuple[RelPath, ...] = ()
    errors: tuple[PathNote, ...] = ()
    bytes_written: int = 0


def apply_plan(
    folder: DataFolder,
    plan: SyncPlan,
    book: LedgerStore,
    read: BlobReader,
    *,
    rules: FileRules = DEFAULT_FILE_RULES,
    ready: Callable[[], None] | None = None,
    stopped: StopCheck = never_stop,
    progress: StagingProgress | None = None,
) -> ApplyResult:
    """Apply `plan`, which was made from `book`; the caller holds the lock.

    `ready` is called when all contents are staged and no live file has been touched; if it raises, no live
    file is changed.
    """
    try:
        return _PlanApplication(folder, plan, book, rules.within(folder.fd), ready, stopped, progress).run(
            read
        )
    except OSError as error:
        raise Retry(
            f"data folder {folder.place} {os_error_reason(error)}", reason=Reason.DATA_VOLUME_FAILED
        ) from error


class _PlanApplication:
    def __init__(
        self,
        folder: DataFolder,
        plan: SyncPlan,
        book: LedgerStore,
        rules: FileRules,
        ready: Callable[[], None] | None,
        stopped: StopCheck,
        progress: StagingProgress | None,
    ) -> None:
        self._folder = folder
        self._plan = plan
        self._book = book
        self._rules = rules
        self._ready = ready
        self._stopped = stopped
        self._progress = progress
        self._hands = LiveFileWriter(folder, rules, stopped)
        self._moved: list[str] = []

    def run(self, read: BlobReader) -> ApplyResult:
        if self._plan.writes:
            with staging(self._folder) as fd:
                staged = StagingArea(self._folder, fd, self._rules)
                staged.fill(self._plan.writes, read, self._stopped, self._progress)
                self._carry_out(staged)
        else:
            discard_staging(self._folder)
            self._carry_out(None)
        done = self._hands
        return ApplyResult(
            added=tuple(w.path for w in self._plan.writes if not w.replaces and w.path in done.records),
            modified=tuple(w.path for w in self._plan.rewrites if w.path in done.records),
            deleted=tuple(done.deleted),
            errors=tuple(PathNote(path, reason) for path, reason in sorted(done.errors.items())),
            bytes_written=done.bytes_written,
        )

    def _carry_out(self, staged: StagingArea | None) -> None:
        """Apply the plan between two writes of the ledger: the intention before, the result after."""
        if self._ready is not None:
            self._ready()
        if self._plan.actions:
            self._book.intend(self._folder, self._intended(staged), self._plan.facts)
        done = False
        try:
            self._change(staged)
            done = not self._hands.errors
        finally:
            self._settle(done=done)

    def _intended(self, staged: StagingArea | None) -> dict[str, bytes]:
        """Return the records of the planned writes, and of mode changes to files that are ours.

        A file of others may already have the desired content. It must not count as ours before it has our
        mode too.
        """
        ledger = self._book.ledger
        known = ledger.files if ledger is not None and self._plan.modes else {}
        modes = {
            str(path): encode_record(version, unseen_stamp(version.executable))
            for path, version in self._plan.modes
            if path in known
        }
        return self._ours({**staged.records, **modes} if staged is not None else modes)

    def _change(self, staged: StagingArea | None) -> None:
        """Make every change that a reader of the live files can see."""
        plan, hands = self._plan, self._hands
        if staged is not None:
            hands.errors.update(staged.errors)
        if not hands.errors:  # without its replacement ready, nothing is deleted to make room
            hands.delete(plan.clearings, plan.prunable)
        if staged is not None:
            self._publish(staged)
        hands.set_modes(plan.modes)
        hands.flush()
        if not hands.errors:
            hands.delete(plan.deletions, plan.prunable)
        hands.prune({path.rpartition("/")[0] for path in plan.forgotten}, plan.prunable)
        hands.flush()

    def _publish(self, staged: StagingArea) -> None:
        left = self._hands.publish_trees(staged)
        wanted = {*(path for path in staged.single if path in staged.records), *left}
        paths = [str(write.path) for write in self._plan.writes if write.path in wanted]
        self._moved = paths
        data = [path for path in paths if path.rpartition("/")[2] != RESOURCE_MANIFEST]
        self._hands.publish_files(staged, data, self._progress)
        manifests = [path for path in paths if path.rpartition("/")[2] == RESOURCE_MANIFEST]
        if manifests:
            self._hands.flush()  # data is durable before the resource.json that declares it complete
            self._hands.publish_files(staged, manifests, self._progress)

    def _settle(self, *, done: bool) -> None:
        plan, hands = self._plan, self._hands
        hands.look_again(path for path in self._moved if path in hands.records)
        self._book.settle(
            self._folder,
            self._ours({**plan.remembered, **hands.records} if plan.remembered else hands.records),
            {*plan.forgotten, *hands.deleted, *plan.given_back},
            plan.facts,
            complete=done and plan.delivers_all,
            done=done,
        )

    def _ours(self, records: dict[str, bytes]) -> dict[str, bytes]:
        """Return the records without files that a restore gave back to others."""
        given_back = self._plan.given_back
        if not given_back:
            return records
        return {path: kept for path, kept in records.items() if path not in given_back}

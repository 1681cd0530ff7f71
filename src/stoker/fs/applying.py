"""Making a plan real.

All contents are staged on the data volume first and checked against their ids;
until the last one is durable nothing live has been touched, so a missing blob or a
full disk costs nothing. Then the ledger says what is about to happen, each file is
renamed into place in the plan's order, deletions follow only if nothing failed,
and the ledger says what is really there. A kill at any point leaves whole files,
and a ledger from which the next pass goes on.

A file that cannot be written is reported and the others go on (C-088); the
`resource.json` beside it is held back, because it would declare the resource
complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from stoker.domain.errors import Retry, StokerError
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.ledger import Ledger
from stoker.engine.objects import Blob, BlobHash, BlobId, FileVersion, Note
from stoker.engine.plans import RESOURCE_MANIFEST, Delete, Plan, Write
from stoker.fs import ledger as ledgers
from stoker.fs.confined import FOLDER_MODE, DataFolder, create, sync_volume, why

# Up to this many files each is made durable by itself; beyond, one call for the volume is far cheaper.
SYNC_EACH = 64

BlobReader = Callable[[Sequence[BlobId]], Iterator[Blob]]


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a plan."""

    added: tuple[RelPath, ...] = ()
    modified: tuple[RelPath, ...] = ()
    deleted: tuple[RelPath, ...] = ()
    errors: tuple[Note, ...] = ()
    bytes_written: int = 0


def apply(
    folder: DataFolder,
    plan: Plan,
    ledger: Ledger | None,
    read: BlobReader,
    stopped: Callable[[], bool] = lambda: False,
) -> Applied:
    """Carry out `plan`; the caller holds the lock, `ledger` is what it loaded under it."""
    try:
        return _Application(folder, plan, ledger, stopped).run(read)
    except OSError as error:
        raise Retry(f"data folder {folder.place} {why(error)}", reason=Reason.DATA_VOLUME_FAILED) from error


class _Application:
    def __init__(
        self, folder: DataFolder, plan: Plan, ledger: Ledger | None, stopped: Callable[[], bool]
    ) -> None:
        self._folder = folder
        self._plan = plan
        self._saved = ledger
        self._stopped = stopped
        self._files: dict[RelPath, FileVersion] = dict(plan.before.files)
        self._staged: dict[RelPath, tuple[str, int]] = {}
        self._done: list[Write] = []
        self._deleted: list[RelPath] = []
        self._errors: dict[RelPath, str] = {}
        self._touched: set[RelPath] = set()
        self._bytes = 0

    def run(self, read: BlobReader) -> Applied:
        if not self._plan.actions:
            self._save(self._plan.before)
            return Applied()
        with self._folder.staging() as staging:
            self._stage(staging, read)
            self._save(replace(self._plan.before, intended={w.path: w.version for w in self._to_publish()}))
            try:
                self._change(staging)
            finally:
                self._save(replace(self._plan.before, files=self._files))
        return Applied(
            added=tuple(write.path for write in self._done if not write.replaces),
            modified=tuple(write.path for write in self._done if write.replaces),
            deleted=tuple(self._deleted),
            errors=tuple(Note(path, reason) for path, reason in sorted(self._errors.items())),
            bytes_written=self._bytes,
        )

    def _change(self, staging: int) -> None:
        """Everything that a reader of the live files can see."""
        manifests = [write for write in self._plan.writes if write.path.name == RESOURCE_MANIFEST]
        if not self._errors:  # what has no successor ready does not make room for one
            self._delete(self._plan.clearings)
        self._publish(staging, [w for w in self._plan.writes if w.path.name != RESOURCE_MANIFEST])
        self._flush()  # data is durable before the resource.json that declares it complete
        self._publish(staging, manifests)
        for change in self._plan.modes:
            with self._reporting(change.path):
                self._folder.set_mode(change.path, change.version.mode)
                self._files[change.path] = change.version
        self._flush()
        if not self._errors:
            self._delete(self._plan.deletions)
            self._flush()

    def _stage(self, staging: int, read: BlobReader) -> None:
        each = len(self._plan.writes) <= SYNC_EACH
        blobs = read([write.version.blob for write in self._plan.writes])
        for number, (write, blob) in enumerate(zip(self._plan.writes, blobs, strict=True)):
            self._go_on()
            with self._reporting(write.path):
                _stage_one(staging, str(number), blob, write.version, durable=each)
                self._staged[write.path] = str(number), blob.size
        if not each:
            sync_volume(staging)

    def _to_publish(self) -> Iterator[Write]:
        return (write for write in self._plan.writes if write.path in self._staged)

    def _publish(self, staging: int, writes: Sequence[Write]) -> None:
        troubled = {path.parent for path in self._errors}
        for write in writes:
            self._go_on()
            parent = write.path.parent
            if write.path.name == RESOURCE_MANIFEST and parent in troubled:
                self._errors.setdefault(write.path, "is held back: a file of the same resource failed")
            if write.path in self._errors:
                continue
            with self._reporting(write.path), self._folder.entered(parent, make=FOLDER_MODE) as fd:
                name, size = self._staged[write.path]
                self._folder.publish(staging, name, fd, write.path.name)
                self._bytes += size
                self._files[write.path] = write.version
                self._done.append(write)
                self._touched.add(parent)

    def _delete(self, deletions: Sequence[Delete]) -> None:
        for delete in deletions:
            self._go_on()
            with self._reporting(delete.path):
                self._folder.remove(delete.path)
                self._files.pop(delete.path, None)
                self._deleted.append(delete.path)
                self._touched.add(delete.path.parent)
        for folder in sorted({delete.path.parent for delete in deletions}, reverse=True):
            self._prune(folder)

    def _prune(self, folder: RelPath) -> None:
        """Emptied folders go, up to the one that a mapping declared and never above it."""
        while any(folder.is_below(top) for top in self._plan.prunable) and self._folder.prune(folder):
            folder = folder.parent
            self._touched.add(folder)

    def _flush(self) -> None:
        """With the folders above, for some of them may be new."""
        changed: set[RelPath] = set()
        for folder in self._touched:
            above = folder
            while above not in changed:
                changed.add(above)
                above = above.parent
        self._folder.flush(changed)
        self._touched.clear()

    def _save(self, ledger: Ledger) -> None:
        if ledger != self._saved:
            ledgers.save(self._folder, ledger)
            self._saved = ledger

    def _go_on(self) -> None:
        if self._stopped():
            raise Stopped("the sync was stopped")

    @contextmanager
    def _reporting(self, path: RelPath) -> Iterator[None]:
        """A failure of one file is a line of the report, not the end of the pass."""
        try:
            yield
        except OSError as error:
            self._errors[path] = why(error)


class Stopped(StokerError):
    """The pass was asked to end; what is on disk and in the ledger is consistent."""


def _stage_one(staging: int, name: str, blob: Blob, version: FileVersion, *, durable: bool) -> None:
    digest = BlobHash(blob.size, digits=len(version.blob))
    with os.fdopen(create(staging, name), "wb") as file:
        for chunk in blob.chunks:
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        if digest.blob() != version.blob:
            raise Retry(f"blob {version.blob} in the mirror has another content", reason=Reason.GIT_FAILED)
        os.fchmod(file.fileno(), version.mode)
        if durable:
            os.fsync(file.fileno())

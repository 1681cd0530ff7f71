"""Stores the ledger on disk, and caches it in a process that runs several syncs.

It is in `.sync-state/` on the data volume itself, the only place that lives as long as the files that it
describes: a `manifest` with the whole state, and a `journal` to which each sync appends its changes
(`stoker.fs.journal`). Every step is durable before the call returns. When the journal exceeds a fraction of
the manifest, both become a new manifest, so the bytes that a sync writes are in proportion to its changes.

An unreadable manifest counts as absent: then nothing is deleted, and the next sync writes a new one. Nothing
is written if nothing changed: newer stat data alone stays in memory and is written with the next change.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import fields, replace

from stoker.domain.errors import Retry
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.git_objects import PathNote
from stoker.domain.reasons import Reason
from stoker.engine.layout.protected_paths import STATE
from stoker.engine.plan.ledger import STAT, Ledger
from stoker.engine.plan.plan import LedgerFacts
from stoker.fs import journal
from stoker.fs.data_folder import CREATE, DataFolder, open_regular, write_all
from stoker.fs.journal import JournalFrames, LedgerChange
from stoker.fs.lock import lock_folder, state_folder, unusable_folder_error

__all__ = ["JOURNAL", "MANIFEST", "LedgerStore", "lock_folder"]

MANIFEST = STATE.joined("manifest")
JOURNAL = STATE.joined("journal")
MAX_BYTES = 256 << 20
"""Enough for more than a million files; a larger file is not read."""
SMALL = 256 << 10

_NEW = "manifest.new"
_FileIdentity = tuple[int, int, int, int, int]


class LedgerStore:
    """The ledger of one data folder; one store for all syncs of a process."""

    def __init__(self) -> None:
        self.trouble: tuple[PathNote, ...] = ()
        self._files: dict[str, bytes] = {}
        self._intended: Mapping[str, bytes] = {}
        self._facts = LedgerFacts()
        self._complete = False
        self._known = False
        self._unsaved: dict[str, bytes] = {}
        self._frames = JournalFrames(b"")
        self._base_size = 0
        self._on_disk: tuple[_FileIdentity | None, _FileIdentity | None] | None = (None, None)

    @classmethod
    def load(cls, folder: DataFolder) -> LedgerStore:
        """Read the ledger that the last sync left."""
        book = cls()
        try:
            book._read(folder)
        except FileNotFoundError:
            return book
        except OSError as error:
            raise unusable_folder_error(folder, error) from error
        except journal.JournalUnreadable:
            why_not = "cannot be read; counted as first contact, on which nothing is deleted"
            book = cls()
            book.trouble = (PathNote(MANIFEST, why_not),)
            with folder.entered(STATE) as state:
                book._on_disk = _identities(state)
        return book

    @property
    def ledger(self) -> Ledger | None:
        """The current ledger, None on first contact.

        Its `files` are not a copy: they change with the store.
        """
        if not self._known:
            return None
        facts = {field.name: getattr(self._facts, field.name) for field in fields(LedgerFacts)}
        intended = {path: journal.unpack_version(kept) for path, kept in self._intended.items()}
        return Ledger(self._files, intended, complete=self._complete, **facts)

    def unchanged_on_disk(self, folder: DataFolder) -> bool:
        """Whether no other process has written the ledger since this one last read or wrote it."""
        try:
            with folder.entered(STATE) as state:
                return self._on_disk == _identities(state)
        except FileNotFoundError:
            return self._on_disk == (None, None)
        except OSError as error:
            raise unusable_folder_error(folder, error) from error

    def intend(self, folder: DataFolder, records: Mapping[str, bytes], facts: LedgerFacts) -> None:
        """Record the planned writes; until they are settled both the old and the new facts count."""
        change = LedgerChange(
            files=self._unsaved,
            intended={str(path): journal.pack_version(kept) for path, kept in records.items()},
            facts=journal.plain_facts(
                _combine_facts(self._facts, facts), self._facts if self._known else None
            ),
        )
        self._write(folder, change)

    def forget_approvals(self, folder: DataFolder, withdrawn: Collection[str]) -> None:
        """Remove withdrawn approvals, so that they count again when the user gives them again."""
        facts = replace(
            self._facts,
            approvals_used=self._facts.approvals_used.difference(withdrawn),
            approvals_begun=self._facts.approvals_begun.difference(withdrawn),
        )
        told = journal.plain_facts(facts, self._facts)
        change = LedgerChange(self._unsaved, intended=self._intended, facts=told, complete=self._complete)
        self._write(folder, change)

    def settle(
        self,
        folder: DataFolder,
        records: dict[str, bytes],
        gone: Collection[str],
        facts: LedgerFacts,
        *,
        complete: bool,
        done: bool = True,
    ) -> None:
        """Record what is on disk now.

        After a sync that failed in part or was stopped, `done` is False. Then intentions stay recorded,
        because a
        step that reported a failure may still have taken place.
        """
        if not done:
            facts = _combine_facts(self._facts, facts)
        intended = {} if done else {path: v for path, v in self._intended.items() if path not in records}
        gone = [str(path) for path in gone if path in self._files and path not in records]
        new = records
        if self._files:
            new = {path: kept for path, kept in records.items() if self._files.get(path) != kept}
        told = journal.plain_facts(facts, self._facts if self._known else None)
        if (
            self._known
            and not (gone or told)
            and intended == self._intended
            and complete == self._complete
            and all(self._is_same_version(path, kept) for path, kept in new.items())
        ):
            self._files.update(new)
            self._unsaved.update(new)
            return
        if self._unsaved:
            new = self._unsaved | new
            for path in gone:
                new.pop(path, None)
        self._write(
            folder, LedgerChange(files=new, gone=gone, intended=intended, facts=told, complete=complete)
        )

    def _is_same_version(self, path: str, kept: bytes) -> bool:
        """Whether only the stat data is newer."""
        before = self._files.get(path)
        return before is not None and before[STAT.size - 1 :] == kept[STAT.size - 1 :]

    def _write(self, folder: DataFolder, change: LedgerChange) -> None:
        """Write a change durably: as the next journal frame or, if the journal is long, as a new manifest."""
        if not self.unchanged_on_disk(folder):
            message = f"{folder.place / STATE} was written by another process; it is read again"
            raise Retry(message, reason=Reason.DATA_VOLUME_FAILED)
        self._on_disk = None  # until the write succeeded: after a failure the ledger is read again
        frame = self._frame(change)
        try:
            with state_folder(folder) as state:
                if frame is not None:
                    self._append(state, frame)
                self._take(change)
                if frame is None:
                    self._replace(state)
                self._on_disk = _identities(state)
        except OSError as error:
            raise unusable_folder_error(folder, error) from error
        self._unsaved = {}

    def _frame(self, change: LedgerChange) -> bytes | None:
        """Return the next journal frame; None if the journal would become too long."""
        room = max(SMALL, self._base_size // 2) - self._frames.end if self._known else 0
        if journal.minimum_size(change) > room:  # skip encoding a frame that cannot fit
            return None
        frame = self._frames.next(change)
        return frame if len(frame) <= room else None

    def _append(self, state: int, frame: bytes) -> None:
        end = self._frames.end
        flags = os.O_RDWR | (0 if end else os.O_CREAT)
        fd = open_regular(state, JOURNAL.name, flags)
        try:
            reach_failpoint("journal.append.before")
            os.ftruncate(fd, end)  # remove what a crash left behind the last good frame
            os.lseek(fd, end, os.SEEK_SET)
            write_all(fd, frame)
            reach_failpoint("journal.append.after")
            reach_failpoint("journal.sync.before")
            os.fdatasync(fd)
            if not end:
                os.fsync(state)
            reach_failpoint("journal.sync.after")
        finally:
            os.close(fd)
        self._frames.wrote(frame)

    def _replace(self, state: int) -> None:
        """Write a new manifest; from the rename on the old journal is invalid."""
        generation = os.urandom(journal.GENERATION)
        pieces = journal.encode_base(
            generation,
            LedgerChange(
                files=self._files,
                intended=self._intended,
                facts=journal.plain_facts(self._facts, None),
                complete=self._complete,
            ),
        )
        with suppress(FileNotFoundError):
            os.unlink(_NEW, dir_fd=state)
        fd = os.open(_NEW, CREATE, 0o600, dir_fd=state)
        try:
            reach_failpoint("base.write.before")
            for piece in pieces:
                write_all(fd, piece)
            reach_failpoint("base.write.after")
            reach_failpoint("base.sync.before")
            os.fsync(fd)
            reach_failpoint("base.sync.after")
        finally:
            os.close(fd)
        reach_failpoint("base.rename.before")
        os.rename(_NEW, MANIFEST.name, src_dir_fd=state, dst_dir_fd=state)
        reach_failpoint("base.rename.after")
        reach_failpoint("base.flush.before")
        os.fsync(state)
        reach_failpoint("base.flush.after")
        with suppress(FileNotFoundError):
            reach_failpoint("journal.unlink.before")
            os.unlink(JOURNAL.name, dir_fd=state)
            reach_failpoint("journal.unlink.after")
        self._frames = JournalFrames(generation)
        self._base_size = sum(map(len, pieces))

    def _read(self, folder: DataFolder) -> None:
        with folder.entered(STATE) as state:
            while True:  # a dry run holds no lock: the manifest may be replaced while the journal is read
                self._on_disk = _identities(state)
                base = _content(state, MANIFEST.name)
                try:
                    tail = _content(state, JOURNAL.name)
                except FileNotFoundError:
                    tail = b""
                if self._on_disk[0] == _identities(state)[0]:
                    break
        generation, whole = journal.decode_base(base)
        self._base_size = len(base)
        self._frames = JournalFrames(generation)
        self._take(whole)
        for change in self._frames.read(tail):
            self._take(change)
        if self._frames.end != len(
            tail
        ):  # the part that was cut off may have been valid, so the ledger is not complete
            self._complete = False

    def _take(self, change: LedgerChange) -> None:
        for path in change.gone:
            self._files.pop(path, None)
        self._files.update(change.files)
        self._intended = change.intended
        self._facts = journal.with_facts(self._facts, change.facts)
        self._complete = change.complete
        self._known = True


def _combine_facts(before: LedgerFacts, after: LedgerFacts) -> LedgerFacts:
    """Combine the facts of both states while a sync is not finished.

    New mappings, managed folders, kept files and begun approvals count already; all else stays as before. A
    folder counts as mirrored only if both states mirror it: where either allows files of others, others may
    have added some meanwhile.
    """
    return replace(
        before,
        mappings=before.mappings | after.mappings,
        folders=before.folders | after.folders,
        kept=before.kept | after.kept,
        mirrored=before.mirrored & after.mirrored,
        unmapped=before.unmapped | after.unmapped,
        approvals_begun=before.approvals_begun | (after.approvals_used - before.approvals_used),
    )


def _identities(state: int) -> tuple[_FileIdentity | None, _FileIdentity | None]:
    return _identity(state, MANIFEST.name), _identity(state, JOURNAL.name)


def _identity(state: int, name: str) -> _FileIdentity | None:
    try:
        found = os.stat(name, dir_fd=state, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _content(state: int, name: str) -> bytes:
    fd = open_regular(state, name)
    with os.fdopen(fd, "rb", buffering=0) as file:
        size = os.fstat(fd).st_size
        if size > MAX_BYTES:
            raise journal.JournalUnreadable(f"{name} is larger than anything that we write")
        pieces = []
        while size > 0 and (piece := file.read(size)):
            pieces.append(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

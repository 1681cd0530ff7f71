"""A local folder as the target of an export.

Each file appears as a whole or not at all: it is written to a temporary file beside its path and renamed. No
symlink is followed, neither in a parent folder nor at the file itself. Only one export at a time writes to a
folder, so leftover temporary files belong to a killed export and are removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker.domain.errors import Misconfigured, Retry, Stalled
from stoker.domain.git_objects import BlobHash, printable_name
from stoker.domain.reasons import Reason
from stoker.fs.data_folder import (
    CREATE,
    DataFolder,
    open_folder,
    publish_file,
    remove_empty_folder,
    remove_file,
    sync_volume,
    write_all,
)
from stoker.fs.folder_cursor import DirWalk
from stoker.reverser.export.types import ExportFinish, FileUnwritable

_TEMPORARY_NAME = re.compile(r"\.stoker-[0-9a-f]{16}\.tmp")
_CHUNK = 1 << 20
MAX_READ_BYTES = 4 << 20
"""The most bytes read from a file; no file that an export wrote and reads back is larger."""
# These errors concern the whole disk, not a single file.
_VOLUME_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})


class FolderStore:
    """Writes files at once; implements `types.ExportStore`."""

    digits = 40

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder
        self._paths: dict[str, set[str]] = {}
        self._descent = DirWalk(folder.fd, _open_or_make_folder)
        self._wrote = False

    @classmethod
    @contextmanager
    def opened(cls, place: Path) -> Iterator[FolderStore]:
        """Open the folder for this process alone; create it if it does not exist."""
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Misconfigured(f"folder {place} cannot be made: {error.strerror}") from None
        with DataFolder.opened(place) as folder:
            try:
                fcntl.flock(folder.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Stalled(
                    f"another export is writing to {place}", reason=Reason.SYNC_IN_PROGRESS
                ) from None
            store = cls(folder)
            with store._descent:
                yield store

    async def begin(self, bases: Collection[str]) -> None:
        for base in bases:
            self._paths[base] = set(self._walked(base))

    def paths(self, base: str) -> Collection[str]:
        return self._paths[base]

    def blob(self, path: str) -> str | None:
        with suppress(OSError), self._folder.reading(path) as fd:
            digest = BlobHash(os.fstat(fd).st_size)
            while chunk := os.read(fd, _CHUNK):
                digest.update(chunk)
            return digest.blob()
        return None

    async def read(self, paths: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for path in paths:
            with suppress(OSError), self._folder.reading(path) as fd:
                content = b""
                while len(content) <= MAX_READ_BYTES and (chunk := os.read(fd, _CHUNK)):
                    content += chunk
                found[path] = content
        return found

    def put(self, path: str, content: bytes | None, *, private: bool = False) -> None:
        above, _, name = path.rpartition("/")
        try:
            self._wrote = True
            if content is None:
                self._remove(above, name)
            else:
                self._write(self._descent.enter(above), name, content, 0o600 if private else 0o666)
        except OSError as error:
            if error.errno in _VOLUME_ERRNOS:
                raise Retry(
                    f"{self._folder.place} cannot be written: {error.strerror}",
                    reason=Reason.DATA_VOLUME_FAILED,
                ) from None
            raise FileUnwritable(
                f"{printable_name(path)} cannot be written: {error.strerror or error}"
            ) from None

    async def finish(self, message: str) -> ExportFinish:
        if self._wrote:
            sync_volume(self._folder.fd)
        return ExportFinish()

    def _write(self, folder: int, name: str, content: bytes, mode: int) -> None:
        beside = f".stoker-{os.urandom(8).hex()}.tmp"
        fd = os.open(beside, CREATE, mode, dir_fd=folder)
        try:
            try:
                write_all(fd, content)
            finally:
                os.close(fd)
            publish_file(folder, beside, folder, name)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside, dir_fd=folder)
            raise

    def _remove(self, above: str, name: str) -> None:
        remove_file(self._descent.enter(above), name)
        self._descent.forget()
        while above:  # remove folders that only held this file
            above, _, name = above.rpartition("/")
            if not remove_empty_folder(self._descent.enter(above), name):
                return

    def _walked(self, base: str) -> Iterator[str]:
        """Yield the regular files below a base folder, by their paths from the root."""
        try:
            with self._folder.entered(base) as fd:
                for here, folders, names, at in os.fwalk(".", dir_fd=fd):
                    folders[:] = sorted(name for name in folders if name != ".git")
                    inner = here.removeprefix(".").removeprefix("/")
                    prefix = "/".join(part for part in (base, inner) if part)
                    yield from self._regular(at, names, f"{prefix}/" if prefix else "")
        except FileNotFoundError:
            return
        except NotADirectoryError as error:
            raise Misconfigured(f"{self._folder.place}/{base}: {error.strerror}") from None

    def _regular(self, at: int, names: Sequence[str], prefix: str) -> Iterator[str]:
        for name in names:
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
                    continue
                if _TEMPORARY_NAME.fullmatch(name):
                    os.unlink(name, dir_fd=at)
                else:
                    yield prefix + name


def _open_or_make_folder(above: int, name: str, path: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=above)
    return open_folder(above, name)

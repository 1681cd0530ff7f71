"""Small state files on the data volume, beside the ledger.

They hold what must survive this process and is recorded nowhere else: a pending scan, a
project that waits for its Designer, a gateway before its first boot, the last known inventory of
a gateway. Each is a small file that is replaced atomically and is durable when the call returns.
Only this process's user reads them. A file with unexpected content counts as empty, never as an
error.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker.domain.errors import Misconfigured, Retry
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.reasons import Reason

MAX_FILE_BYTES = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class StateFiles:
    """The state files in the ledger's folder; the folder is created with the first file."""

    def __init__(self, state_dir: Path) -> None:
        self._place = state_dir

    def read(self, name: str) -> bytes | None:
        """Return the content of the file, or None if it does not exist."""
        with suppress(FileNotFoundError), self._opened() as state:
            fd = os.open(name, _READ, dir_fd=state)
            with os.fdopen(fd, "rb") as file:
                return file.read(MAX_FILE_BYTES)
        return None

    def write(self, name: str, content: bytes = b"") -> None:
        if self.read(name) != content:
            self._replace(name, content)

    def write_secret(self, name: str, content: bytes) -> None:
        """Write where no other user can read it; raise if another user owns or can read the folder."""
        with suppress(FileExistsError):
            self._place.mkdir(mode=0o700)
        with self._opened() as state:
            folder = os.fstat(state)
            if folder.st_uid != os.geteuid() or stat.S_IMODE(folder.st_mode) & 0o077:
                raise Misconfigured(
                    f"{self._place} is owned or can be read by another user, so {name} is not written there; "
                    f"run `chown {os.geteuid()}` and `chmod 700` on it, or keep the secret elsewhere"
                )
        self._replace(name, content)

    def _replace(self, name: str, content: bytes) -> None:
        with suppress(FileExistsError):
            self._place.mkdir(mode=0o700)
        with self._opened() as state:
            reach_failpoint("mark.write.before")
            with suppress(
                FileNotFoundError
            ):  # left by an earlier process, or with another user's permissions
                os.unlink(f"{name}.new", dir_fd=state)
            with os.fdopen(os.open(f"{name}.new", _WRITE, 0o600, dir_fd=state), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            reach_failpoint("mark.write.after")
            reach_failpoint("mark.rename.before")
            os.rename(f"{name}.new", name, src_dir_fd=state, dst_dir_fd=state)
            reach_failpoint("mark.rename.after")
            os.fsync(state)

    def clear(self, name: str) -> None:
        with suppress(FileNotFoundError), self._opened() as state:
            reach_failpoint("mark.clear.before")
            os.unlink(name, dir_fd=state)
            reach_failpoint("mark.clear.after")

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the folder without following a symlink in its place."""
        try:
            fd = os.open(self._place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                yield fd
            finally:
                os.close(fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Retry(
                f"{self._place} cannot be used: {error.strerror}", reason=Reason.DATA_VOLUME_FAILED
            ) from error

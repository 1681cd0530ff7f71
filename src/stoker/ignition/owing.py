"""A scan that is owed to the gateway, remembered on the data volume.

Files may be in place while the gateway was down, or this process was killed before
it could ask for a scan. The next pass then finds nothing to write; the mark tells it
that the gateway has not read everything yet. It lies beside the ledger, is one
empty file, and is made before the first live change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason
from stoker.engine.protecting import STATE

MARK = "scan-owed"


class ScanDebt:
    """Whether the gateway at this data folder still has to read something."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def owed(self) -> bool:
        with suppress(FileNotFoundError), self._state() as state:
            os.stat(MARK, dir_fd=state, follow_symlinks=False)
            return True
        return False

    def incur(self) -> None:
        with suppress(FileExistsError):
            (self._data_dir / STATE).mkdir(mode=0o700)
        with self._state() as state:
            os.close(
                os.open(MARK, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=state)
            )
            os.fsync(state)

    def settle(self) -> None:
        with suppress(FileNotFoundError), self._state() as state:
            os.unlink(MARK, dir_fd=state)

    @contextmanager
    def _state(self) -> Iterator[int]:
        """The folder of the ledger, opened without following a link that somebody put in its place."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(self._data_dir / STATE, flags)
            try:
                yield fd
            finally:
                os.close(fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Retry(
                f"{self._data_dir / STATE} cannot be used: {error.strerror}", reason=Reason.DATA_VOLUME_FAILED
            ) from error

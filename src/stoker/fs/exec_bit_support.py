"""Detects whether a data folder stores executable bits.

Network shares of other systems and some volume drivers show every file as executable, or none, whatever
mode was set. Code that treats a file's mode as a user's decision must check here first. The check touches
only its own file in `.sync-state/`.
"""

from __future__ import annotations

import os
from contextlib import suppress

from stoker.fs.data_folder import CREATE, DataFolder
from stoker.fs.lock import state_folder

_PROBE = "modes"


def supports_modes(folder: DataFolder) -> bool:
    """Test it with a file that is deleted afterwards; return False also where the test is not possible."""
    try:
        with state_folder(folder) as state:
            with suppress(FileNotFoundError):
                os.unlink(_PROBE, dir_fd=state)
            fd = os.open(_PROBE, CREATE, 0o600, dir_fd=state)
            try:
                plain = os.fstat(fd).st_mode
                os.fchmod(fd, 0o700)
                program = os.fstat(fd).st_mode
            finally:
                os.close(fd)
                os.unlink(_PROBE, dir_fd=state)
    except OSError:
        return False
    return not plain & 0o100 and bool(program & 0o100)

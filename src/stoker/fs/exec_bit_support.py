"""Whether a data folder can say which files may be executed.

Shares of other systems and some volume drivers show every file as executable, or none, whatever
was asked for. Whoever takes a file's rights for somebody's decision asks here first. Nothing
but a file of our own in `.sync-state/` is touched.
"""

from __future__ import annotations

import os
from contextlib import suppress

from stoker.fs.data_folder import CREATE, DataFolder
from stoker.fs.lock import state_folder

_PROBE = "modes"


def supports_modes(folder: DataFolder) -> bool:
    """Found out by trying, with a file that is gone afterwards; False also where it cannot be tried."""
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

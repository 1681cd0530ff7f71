"""Files beside the ledger for people and log collectors: an audit log, reports of syncs.

They are in `.sync-state/` and bounded: a full log is rotated, and only the newest reports stay. A sync needs
none of them, so nothing here is made durable at once, and callers continue if it raises `OSError`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from stoker.engine.layout.protected_paths import STATE
from stoker.fs.data_folder import PRIVATE_MODE, DataFolder, open_folder, open_regular, replace_file, write_all
from stoker.fs.ledger_store import JOURNAL, MANIFEST

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT


def append_line(data_dir: Path, name: str, line: bytes, *, at_most: int) -> bool:
    """Append a line to a log; return False, and leave no file, where nothing was ever synced.

    A log that would exceed its limit becomes `name.1`, replacing the previous one.
    """
    with DataFolder.opened(data_dir) as folder:
        try:
            state = open_folder(folder.fd, STATE)
        except FileNotFoundError:
            return False
        try:
            if not _was_synced(state):
                return False
            with suppress(FileNotFoundError):
                if os.stat(name, dir_fd=state, follow_symlinks=False).st_size + len(line) > at_most:
                    os.rename(name, f"{name}.1", src_dir_fd=state, dst_dir_fd=state)
            fd = open_regular(state, name, _APPEND)
            try:
                write_all(fd, line)
            finally:
                os.close(fd)
        finally:
            os.close(state)
    return True


def _was_synced(state: int) -> bool:
    """Whether there is a ledger; a refused sync leaves only its lock."""
    return not {MANIFEST.name, JOURNAL.name}.isdisjoint(os.listdir(state))


def store_report(data_dir: Path, shelf: str, name: str, content: bytes, *, most: int) -> None:
    """Store a report in a folder, and delete the oldest ones, by name, until `most` are left."""
    with DataFolder.opened(data_dir) as folder, folder.entered(STATE) as state:
        with suppress(FileExistsError):
            os.mkdir(shelf, PRIVATE_MODE, dir_fd=state)
        place = open_folder(state, shelf)
        try:
            replace_file(place, name, content, durable=False)
            with os.scandir(place) as entries:
                there = sorted(one.name for one in entries if not one.name.startswith("."))
            for oldest in there[:-most]:
                os.unlink(oldest, dir_fd=place)
        finally:
            os.close(place)

"""Locks between processes, held on files.

The kernel releases them when their holder dies, so none is ever left behind by a
crash. The files themselves are never removed: a lock on a removed file excludes
nobody.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock on a file, alone or with other shared holders, waiting for it."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


@contextmanager
def try_locked(path: Path) -> Iterator[bool]:
    """Hold a lock on a file alone if nobody else holds it, and say whether."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True

"""Atomic writes of the test gateway's own files.

What a gateway writes itself must not be what a witness calls torn, so everything goes
through a file in `.resources`, which is the gateway's own folder and is on the same
filesystem.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

CACHE = ".resources"

_numbers = itertools.count()


def read_file(path: Path) -> bytes | None:
    """Its present content; None if there is no such file."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def put_file(data_dir: Path, path: Path, content: bytes) -> None:
    """Write it whole; a file that is replaced keeps its mode."""
    cache = data_dir / CACHE
    cache.mkdir(exist_ok=True)
    beside = cache / f"written-{os.getpid()}-{next(_numbers)}"
    beside.write_bytes(content)
    if path.exists():
        beside.chmod(path.stat().st_mode & 0o7777)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside.replace(path)

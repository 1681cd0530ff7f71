"""Removes old mirrors, so that a cache does not grow with every credential and address it ever saw.

The cleanup runs once a day, in a process that has just used a mirror. It never touches a mirror that a
process holds. It removes mirrors that were not used for 14 days and, if all mirrors together are too
large, those that were unused for the longest time. A removed mirror is fetched again when needed.
"""

from __future__ import annotations

import contextlib
import os
import re
from datetime import datetime
from pathlib import Path

from stoker.git.mirror.layout import remove_path
from stoker.git.mirror.mirror import try_lock

CLEANUP_INTERVAL_SECONDS = 24 * 3600.0
UNUSED_SECONDS = 14 * 24 * 3600.0
MAX_BYTES = 32 << 30

_CLEANUP_MARKER = "tended"
_MIRROR = r"(?P<name>[0-9a-f]{40})(?:\..*)?"
# Temporary files are renamed at once; a day-old file was left by a killed process.
_TEMPORARY_NAME = r"key\.[0-9a-f]{16}(?:\..*)?|.*\.tmp"


def is_cleanup_due(cache: Path, now: datetime) -> bool:
    """Whether the last cleanup was over a day ago, or is over a day in the future after a clock change."""
    try:
        return abs(now.timestamp() - (cache / _CLEANUP_MARKER).stat().st_mtime) >= CLEANUP_INTERVAL_SECONDS
    except OSError:
        return True


def clean_cache(cache: Path, now: datetime) -> None:
    """Clean up; errors are ignored. It takes as long as the removal of the largest mirrors."""
    moment = now.timestamp()
    with contextlib.suppress(OSError):
        (cache / _CLEANUP_MARKER).touch()
        os.utime(cache / _CLEANUP_MARKER, (moment, moment))
        _drop_half_written(cache, moment)
        _drop_mirrors(cache / "mirrors", moment)


def _drop_half_written(cache: Path, now: float) -> None:
    for folder in (cache, cache / "home"):
        for path in folder.iterdir():
            if (
                re.fullmatch(_TEMPORARY_NAME, path.name)
                and now - path.lstat().st_mtime > CLEANUP_INTERVAL_SECONDS
            ):
                path.unlink()


def _drop_mirrors(folder: Path, now: float) -> None:
    names = {match["name"] for path in folder.iterdir() if (match := re.fullmatch(_MIRROR, path.name))}
    used = {name: _last_used(folder / name) for name in names}
    room = MAX_BYTES
    for name in sorted(names, key=lambda name: used[name], reverse=True):
        room -= _mirror_size(folder / name)
        if now - used[name] > UNUSED_SECONDS or room < 0:
            _remove_mirror(folder / name)


def _last_used(mirror: Path) -> float:
    """Return the time of last use; 0 without a lock file, which means an interrupted removal."""
    try:
        return mirror.with_suffix(".lock").lstat().st_mtime
    except OSError:
        return 0.0


def _remove_mirror(mirror: Path) -> None:
    fd = try_lock(mirror.with_suffix(".lock"))
    if fd is None:
        return  # in use
    try:
        lock = mirror.with_suffix(".lock")
        for path in (mirror, *mirror.parent.glob(f"{mirror.name}.*")):
            if path != lock:
                remove_path(path)
        lock.unlink()  # last: a mirror is only ever touched under its lock
    finally:
        os.close(fd)


def _mirror_size(mirror: Path) -> int:
    try:
        with os.scandir(mirror / "objects/pack") as entries:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    except OSError:
        return 0

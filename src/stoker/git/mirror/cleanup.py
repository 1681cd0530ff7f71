"""Old mirrors go, so that a cache does not grow with every credential and address it ever saw.

Once a day, by whoever has just used a mirror. A mirror that is held by somebody is
never touched; the others go when nobody has used them for a while, the longest unused
first also when all together are too large. What they held is fetched again if it is
needed again.
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
# Written and renamed within a moment; one that is a day old was left by a process that was killed.
_TEMPORARY_NAME = r"key\.[0-9a-f]{16}(?:\..*)?|.*\.tmp"


def is_cleanup_due(cache: Path, now: datetime) -> bool:
    """Whether nobody has cleaned up for a day, or somebody did in a future that a clock has left again."""
    try:
        return abs(now.timestamp() - (cache / _CLEANUP_MARKER).stat().st_mtime) >= CLEANUP_INTERVAL_SECONDS
    except OSError:
        return True


def clean_cache(cache: Path, now: datetime) -> None:
    """Clean up; it never fails, and takes as long as the largest mirror takes to remove."""
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
    """A mirror without its lock was left by a process that was killed while it took it away."""
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

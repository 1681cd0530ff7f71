"""Notices that something below a folder changed, without saying what.

inotify where the kernel has it, called through the C library; otherwise, or when its
limit of watches is reached, a look at the stat data of all files every 0.3 s. Either
way a burst of writes, as an editor or a branch switch makes, becomes one notice:
it is given when things have been quiet for a moment, and no later than half a second
after the first. `.git` is not looked at.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from stoker.domain.clock import Clock, SystemClock

QUIET = 0.05
PATIENCE = 0.5
POLL = 0.3

_GIT = ".git"
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED, _CREATE, _DELETE = 0x2, 0x4, 0x8, 0xC0, 0x100, 0x200
_ONLYDIR, _DONT_FOLLOW, _ISDIR, _OVERFLOW = 0x01000000, 0x02000000, 0x40000000, 0x4000
_MASK = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED | _CREATE | _DELETE | _ONLYDIR | _DONT_FOLLOW
_EVENT = struct.Struct("iIII")
_BUFFER = 64 * 1024


class FolderNotices:
    """`await changed()` returns after each burst of changes below the folder."""

    def __init__(self, root: Path, *, clock: Clock | None = None, inotify: bool = True) -> None:
        self._root = root
        self._clock = clock if clock is not None else SystemClock()
        self._event = asyncio.Event()
        self._inotify = _Inotify.opened(root, self._event.set) if inotify else None
        self._stamp = None if self._inotify is not None else _stamp(root)

    @property
    def polls(self) -> bool:
        return self._inotify is None

    async def changed(self) -> None:
        if self._inotify is None:
            await self._polled()
            return
        await self._event.wait()
        end = self._clock.monotonic() + PATIENCE
        while self._event.is_set() and self._clock.monotonic() < end:
            self._event.clear()
            await self._clock.sleep(QUIET)
        self._event.clear()
        if self._inotify.blind:
            # No watch could be added for a new folder: from here on everything is looked at.
            self.close()

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    async def _polled(self) -> None:
        while True:
            await self._clock.sleep(POLL)
            now = await asyncio.to_thread(_stamp, self._root)
            if now != self._stamp:
                self._stamp = now
                return


class _Inotify:
    """The kernel's notices, with one watch per folder."""

    def __init__(self, libc: ctypes.CDLL, fd: int, root: Path, tell: Callable[[], None]) -> None:
        self._libc = libc
        self._fd = fd
        self._root = root
        self._tell = tell
        self._folders: dict[int, Path] = {}
        self.blind = False

    @classmethod
    def opened(cls, root: Path, tell: Callable[[], None]) -> _Inotify | None:
        """None where there is no inotify, or not enough of it."""
        if sys.platform != "linux":
            return None
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.inotify_init1(_NONBLOCK | _CLOEXEC)
        if fd < 0:
            return None
        one = cls(libc, fd, root, tell)
        one._watch(root)
        if one.blind:
            one.close()
            return None
        asyncio.get_running_loop().add_reader(fd, one._read)
        return one

    def close(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _watch(self, folder: Path) -> None:
        """This folder and all below; the parent first, so that what is made meanwhile is noticed there."""
        for place in _folders(folder):
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(place), _MASK)
            if number >= 0:
                self._folders[number] = place
            elif ctypes.get_errno() not in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
                self.blind = True

    def _read(self) -> None:
        with suppress(BlockingIOError):
            while data := os.read(self._fd, _BUFFER):
                for number, mask, name in _events(data):
                    if name == _GIT:
                        continue
                    self._tell()
                    if mask & _OVERFLOW:
                        self._watch(self._root)
                    elif mask & _ISDIR and mask & (_CREATE | _MOVED) and number in self._folders:
                        self._watch(self._folders[number] / name)


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    at = 0
    while at < len(data):
        number, mask, _, size = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        yield number, mask, os.fsdecode(data[at : at + size].rstrip(b"\0"))
        at += size


def _folders(top: Path) -> Iterator[Path]:
    for place, names, _ in os.walk(top):
        names[:] = [name for name in names if name != _GIT]
        yield Path(place)


def _stamp(root: Path) -> frozenset[tuple[str, int, int, int, int]]:
    """Equal as long as no file below was touched."""
    found = set()
    for place in _folders(root):
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.name == _GIT:
                        continue
                    info = entry.stat(follow_symlinks=False)
                    found.add((entry.path, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns))
    return frozenset(found)

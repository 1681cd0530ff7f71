"""inotify, called through the C library: a watch for each folder, and its events.

It starts no thread and decides nothing: the caller chooses the folders and handles the events, in the event
loop. It reads no content and follows no symlink.
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
from typing import NamedTuple

MODIFY, ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
CREATE, DELETE = 0x100, 0x200
OVERFLOW, IGNORED, ISDIR = 0x4000, 0x8000, 0x40000000
MOVED = MOVED_FROM | MOVED_TO
_ONLYDIR, _DONT_FOLLOW = 0x01000000, 0x02000000
_EVENT = struct.Struct("iIII")
_BUFFER = 64 * 1024
# A folder that is gone, is a symlink or is unreadable has no events; any other error means too few watches.
_IGNORED_ERRNOS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)


class InotifyEvent(NamedTuple):
    """Something happened in a watched folder; `name` is empty if it happened to the folder itself."""

    number: int
    mask: int
    name: str


class Inotify:
    """One inotify instance."""

    def __init__(self, libc: ctypes.CDLL, fd: int, mask: int) -> None:
        self._libc = libc
        self._fd = fd
        self._mask = mask | _ONLYDIR | _DONT_FOLLOW
        self._read_by: asyncio.AbstractEventLoop | None = None
        self.blind = False
        """Whether an existing folder could not be watched: a limit is reached."""

    @classmethod
    def opened(cls, mask: int) -> Inotify | None:
        """Open an instance; return None without inotify, or if the limit of instances is reached."""
        if sys.platform != "linux":
            return None
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        return cls(libc, fd, mask) if fd >= 0 else None

    def watch(self, folder: Path) -> int | None:
        """Watch a folder and return the number of its watch; a watched folder keeps its number."""
        number: int = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), self._mask)
        if number >= 0:
            return number
        if ctypes.get_errno() not in _IGNORED_ERRNOS:
            self.blind = True
        return None

    def leave(self, number: int) -> None:
        self._libc.inotify_rm_watch(self._fd, number)

    def listen(self, hear: Callable[[InotifyEvent], None]) -> None:
        """Pass every event to `hear`, from the running event loop, until closed."""

        def read() -> None:
            with suppress(BlockingIOError):
                while self._fd >= 0 and (data := os.read(self._fd, _BUFFER)):
                    for event in _parse_events(data):
                        hear(event)

        self._read_by = asyncio.get_running_loop()
        self._read_by.add_reader(self._fd, read)

    def close(self) -> None:
        if self._fd < 0:
            return
        if self._read_by is not None:
            self._read_by.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1


def _parse_events(data: bytes) -> Iterator[InotifyEvent]:
    at = 0
    while at < len(data):
        number, mask, _, size = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        yield InotifyEvent(number, mask, os.fsdecode(data[at : at + size].rstrip(b"\0")))
        at += size

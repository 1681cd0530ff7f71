"""Detects that something below a folder changed, without reporting what.

It uses inotify where the kernel has it. Without inotify, when the limit of watches is reached, or if the
folder is a symlink, it polls the stat data of all files every 0.3 s. In both cases a burst of writes, as an
editor or a branch switch makes, becomes one notification: it is given after a short quiet period, and at
most half a second after the first change. `.git` is ignored.

inotify watches a folder, not its name. A branch switch can remove the folder and create another of the same
name, so every 0.3 s the watch checks that it is still the same folder.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from stoker.domain.clock import Clock, SystemClock
from stoker.fs.watch import inotify
from stoker.fs.watch.inotify import Inotify, InotifyEvent

SETTLE_SECONDS = 0.05
MAX_SETTLE_SECONDS = 0.5
POLL = 0.3

_GIT = ".git"
_MASK = (
    inotify.MODIFY | inotify.ATTRIB | inotify.CLOSE_WRITE | inotify.MOVED | inotify.CREATE | inotify.DELETE
)


class FolderWatch:
    """`await changed()` returns after each burst of changes below the folder."""

    def __init__(self, root: Path, *, clock: Clock | None = None, inotify: bool = True) -> None:
        self._root = root
        self._clock = clock if clock is not None else SystemClock()
        self._event = asyncio.Event()
        self._inotify = _InotifyFolderWatch.opened(root, self._event.set) if inotify else None
        self._stamp = None if self._inotify is not None else _stamp(root)

    @property
    def polls(self) -> bool:
        return self._inotify is None

    async def changed(self) -> None:
        if self._inotify is None:
            await self._polled()
            return
        await self._told(self._inotify)
        end = self._clock.monotonic() + MAX_SETTLE_SECONDS
        while self._event.is_set() and self._clock.monotonic() < end:
            self._event.clear()
            await self._clock.sleep(SETTLE_SECONDS)
        self._event.clear()
        if self._inotify is not None and self._inotify.blind:
            # No watch could be added for a new folder, so from here on it polls.
            self.close()

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    async def _told(self, watches: _InotifyFolderWatch) -> None:
        """Wait for an event of the kernel, or until the root was replaced; then set the watches again."""
        told = asyncio.ensure_future(self._event.wait())
        try:
            while not told.done() and not watches.astray:
                await asyncio.wait((told,), timeout=POLL)
        finally:
            told.cancel()
        if watches.astray:
            watches.close()
            self._inotify = _InotifyFolderWatch.opened(self._root, self._event.set)
            self._event.set()

    async def _polled(self) -> None:
        while True:
            await self._clock.sleep(POLL)
            now = await asyncio.to_thread(_stamp, self._root)
            if now != self._stamp:
                self._stamp = now
                return


class _InotifyFolderWatch:
    """Events of the kernel, with one watch per folder."""

    def __init__(self, kernel: Inotify, root: Path, tell: Callable[[], None]) -> None:
        self._kernel = kernel
        self._root = root
        self._tell = tell
        self._folders: dict[int, Path] = {}
        self._identity = _identity(root)

    @classmethod
    def opened(cls, root: Path, tell: Callable[[], None]) -> _InotifyFolderWatch | None:
        """Watch the root.

        Return None without inotify, with too few watches, or for a root that it cannot watch.
        """
        kernel = Inotify.opened(_MASK)
        if kernel is None:
            return None
        one = cls(kernel, root, tell)
        one._watch(root)
        if one.blind or one._is_deaf:
            one.close()
            return None
        kernel.listen(one._heard)
        return one

    @property
    def blind(self) -> bool:
        return self._kernel.blind

    @property
    def _is_deaf(self) -> bool:
        """Whether the root exists and cannot be watched: it is a symlink, or this process may not read it."""
        return (
            self._identity is not None
            and self._root not in self._folders.values()
            and _identity(self._root) == self._identity
        )

    @property
    def astray(self) -> bool:
        """Whether the root was replaced, removed, or created since the watch began.

        The filesystem may give a new folder the inode number of the removed one at once, so the IGNORED event
        of
        the kernel counts too.
        """
        return _identity(self._root) != self._identity or (
            self._identity is not None and self._root not in self._folders.values()
        )

    def close(self) -> None:
        self._kernel.close()

    def _watch(self, folder: Path) -> None:
        """Watch this folder and all below; parents first, so that a folder created meanwhile is noticed."""
        for place in _folders(folder):
            number = self._kernel.watch(place)
            if number is not None:
                self._folders[number] = place

    def _heard(self, event: InotifyEvent) -> None:
        if event.name == _GIT:
            return
        if event.mask & inotify.IGNORED:  # the folder is gone, and its watch with it
            self._folders.pop(event.number, None)
        self._tell()
        if event.mask & inotify.OVERFLOW:
            self._watch(self._root)
        elif (
            event.mask & inotify.ISDIR
            and event.mask & (inotify.CREATE | inotify.MOVED)
            and event.number in self._folders
        ):
            self._watch(self._folders[event.number] / event.name)


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        there = root.lstat()
    except OSError:
        return None
    return there.st_dev, there.st_ino


def _folders(top: Path) -> Iterator[Path]:
    for place, names, _ in os.walk(top):
        names[:] = [name for name in names if name != _GIT]
        yield Path(place)


def _stamp(root: Path) -> frozenset[tuple[str, int, int, int, int]]:
    """Return a value that is equal as long as no file below was touched."""
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

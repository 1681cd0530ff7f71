"""Detects which paths below a folder changed, so that only those have to be checked.

It reports where to look, never what happened there; the caller compares. Only folders that the caller
selects are watched. Events that the kernel drops, and folders that it cannot watch, are reported as
`everything`: the caller then has to walk. A caller that relies on this alone must still walk from time to
time. A folder that is created, deleted or moved is reported itself, for everything that is or was in it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from stoker.fs.watch import inotify
from stoker.fs.watch.inotify import Inotify, InotifyEvent

MAX_PATHS = 4096
"""Above this number of paths it reports `everything`, which costs less than checking each path."""
# MODIFY is left out: a write in progress is ignored, because its end is an event too.
_MASK = inotify.CLOSE_WRITE | inotify.ATTRIB | inotify.MOVED | inotify.CREATE | inotify.DELETE


class ChangedPaths(NamedTuple):
    """The places that changed since the last `take`."""

    paths: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    everything: bool = False

    def __bool__(self) -> bool:
        return bool(self.paths or self.folders or self.everything)


class PathWatch:
    """The watch of one folder; created in the event loop, `start` adds its watches in a thread."""

    def __init__(
        self,
        root: Path,
        enters: Callable[[str], bool],
        takes: Callable[[str], bool],
        tell: Callable[[], None],
        *,
        most: int = MAX_PATHS,
    ) -> None:
        """`enters` selects folders, `takes` everything else; `tell` is called in the event loop."""
        self._root = root
        self._enters = enters
        self._takes = takes
        self._tell = tell
        self._most = most
        self._kernel = Inotify.opened(_MASK)
        self._places: dict[int, str] = {}
        self._paths: set[str] = set()
        self._folders: set[str] = set()
        self._everything = True
        """True at the start, because earlier changes are unknown."""

    async def start(self) -> None:
        if self._kernel is not None:
            await asyncio.to_thread(self.watch_all)
            self._kernel.listen(self.hear)

    def watch_all(self) -> None:
        """Watch every selected folder; existing watches stay."""
        self._watch("")

    @property
    def watches(self) -> int:
        return len(self._places)

    @property
    def blind(self) -> bool:
        """Whether some folders are not watched, so that only a walk finds changes there."""
        return self._kernel is None or self._kernel.blind

    def take(self) -> ChangedPaths:
        """Return the changes since the last call, and reset them."""
        taken = ChangedPaths(frozenset(self._paths), frozenset(self._folders), self._everything)
        self._paths, self._folders, self._everything = set(), set(), False
        return taken

    def close(self) -> None:
        if self._kernel is not None:
            self._kernel.close()

    def hear(self, event: InotifyEvent) -> None:
        """Handle one event of the kernel."""
        if event.mask & inotify.OVERFLOW:
            self._lost()
            self.watch_all()  # new folders may have been among the lost events
        elif event.mask & inotify.IGNORED:
            self._places.pop(event.number, None)
        elif event.name and event.number in self._places:
            above = self._places[event.number]
            path = f"{above}/{event.name}" if above else event.name
            if not event.mask & inotify.ISDIR:
                if self._takes(path):
                    self._named(self._paths, path)
            elif not event.mask & inotify.ATTRIB and self._enters(path):
                self._folder(event, path)

    def _folder(self, event: InotifyEvent, path: str) -> None:
        if event.mask & inotify.MOVED_FROM:
            # Its watches move with it and would report the old path.
            inside = f"{path}/"
            for number in [n for n, it in self._places.items() if it == path or it.startswith(inside)]:
                del self._places[number]
                if self._kernel is not None:
                    self._kernel.leave(number)
        elif event.mask & (inotify.CREATE | inotify.MOVED_TO):
            self._watch(path)
        self._named(self._folders, path)

    def _named(self, where: set[str], path: str) -> None:
        if self._everything:
            self._tell()
            return
        where.add(path)
        if len(self._paths) + len(self._folders) > self._most:
            self._lost()
        else:
            self._tell()

    def _lost(self) -> None:
        self._everything = True
        self._paths, self._folders = set(), set()
        self._tell()

    def _watch(self, top: str) -> None:
        """Watch a folder and all below it; parents first, so that a folder created meanwhile is noticed."""
        if self._kernel is None:
            return
        for place in self._below(top):
            number = self._kernel.watch(self._root / place)
            if number is not None:
                self._places[number] = place

    def _below(self, top: str) -> Iterator[str]:
        waiting = [top]
        while waiting:
            place = waiting.pop()
            yield place
            with suppress(OSError), os.scandir(self._root / place) as entries:
                for entry in entries:
                    path = f"{place}/{entry.name}" if place else entry.name
                    if entry.is_dir(follow_symlinks=False) and self._enters(path):
                        waiting.append(path)

"""The way down to one folder after another.

Paths come in order, so the next folder is mostly the same one, or near it. The way
to the last one stays open, and only where the next one leaves it are folders closed
and opened: each folder once, never more open than a path is deep, and never by a
path, only by one name in a folder that is already held.
"""

from __future__ import annotations

import os
from contextlib import suppress
from types import TracebackType
from typing import Protocol

from stoker.fs.data_folder import open_folder


class FolderMaker(Protocol):
    """Makes a folder, unless somebody else just did, and gives back a descriptor of it."""

    def __call__(self, above: int, name: str, path: str, /) -> int: ...


class DirWalk:
    """Folders below one root; a descriptor that it gives is good until it is asked for the next."""

    __slots__ = ("_fds", "_make", "_names", "_new", "_root", "_text")

    def __init__(self, root: int, make: FolderMaker | None = None, *, new: bool = False) -> None:
        """With `new` a folder that is not held is made without a look: most likely it is not there."""
        self._root = root
        self._make = make
        self._new = new
        self._names: list[str] = []
        self._fds: list[int] = []
        self._text: str | None = ""

    @property
    def at(self) -> str:
        """The folder that is held; after a failure the last one that could be entered."""
        return "/".join(self._names)

    def next_of(self, folder: str) -> str:
        """The way to a folder, up to the first name behind `at`: where a descent to it ended."""
        held = self.at
        end = folder.find("/", len(held) + 1 if held else 0)
        return folder if end < 0 else folder[:end]

    def enter(self, folder: str) -> int:
        """A descriptor of a folder, "" being the root."""
        if folder == self._text:
            return self._fds[-1] if self._fds else self._root
        self._text = None
        names = folder.split("/") if folder else []
        shared = 0
        for ours, theirs in zip(self._names, names, strict=False):
            if ours != theirs:
                break
            shared += 1
        self._leave(shared)
        for name in names[shared:]:
            self._fds.append(self._below(name))
            self._names.append(name)
        self._text = folder
        return self._fds[-1] if self._fds else self._root

    def _below(self, name: str) -> int:
        above = self._fds[-1] if self._fds else self._root
        if self._make is None:
            return open_folder(above, name)
        if not self._new:
            with suppress(FileNotFoundError):
                return open_folder(above, name)
        return self._make(above, name, f"{self.at}/{name}" if self._names else name)

    def _leave(self, depth: int) -> None:
        while len(self._fds) > depth:
            os.close(self._fds.pop())
            self._names.pop()

    def __enter__(self) -> DirWalk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.forget()

    def forget(self) -> None:
        """Hold nothing: what was renamed meanwhile is looked up again."""
        self._leave(0)
        self._text = ""

"""Opens one folder after another with few system calls.

Paths arrive sorted, so the next folder is mostly the same as the last, or near it. The descriptors down to
the last folder stay open; only where the next path diverges are folders closed and opened. So each folder
is opened once, the number of open descriptors is at most the depth of a path, and each folder is opened by
one name within a folder that is already open, never by a whole path.
"""

from __future__ import annotations

import os
from contextlib import suppress
from types import TracebackType
from typing import Protocol

from stoker.fs.data_folder import open_folder


class FolderMaker(Protocol):
    """Creates a folder, unless another process just did, and returns a descriptor of it."""

    def __call__(self, above: int, name: str, path: str, /) -> int: ...


class DirWalk:
    """Folders below one root; a descriptor that it returns is valid until the next call of `enter`."""

    __slots__ = ("_fds", "_make", "_names", "_new", "_root", "_text")

    def __init__(self, root: int, make: FolderMaker | None = None, *, new: bool = False) -> None:
        """With `new`, create a folder without checking first: most likely it does not exist."""
        self._root = root
        self._make = make
        self._new = new
        self._names: list[str] = []
        self._fds: list[int] = []
        self._text: str | None = ""

    @property
    def at(self) -> str:
        """The folder that is open; after a failure the last one that could be opened."""
        return "/".join(self._names)

    def next_of(self, folder: str) -> str:
        """Return the path to a folder up to the first name after `at`: where `enter` failed."""
        held = self.at
        end = folder.find("/", len(held) + 1 if held else 0)
        return folder if end < 0 else folder[:end]

    def enter(self, folder: str) -> int:
        """Return a descriptor of a folder; "" is the root."""
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
        """Close all descriptors, so that folders renamed meanwhile are looked up again."""
        self._leave(0)
        self._text = ""

"""A reader of a data folder that reads all the time, as a gateway does.

It knows every content that a file may ever have, from the oldest tree to the youngest.
A file of another content is torn; a `resource.json` whose data is older than itself, or
is not there, declares complete what is not. Both are put down with their path.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

RESOURCE = "resource.json"
PAUSE = 0.001

Tree = Mapping[str, bytes]


class KnownContentReader:
    """Reads `place` until it is stopped; `trees` are in the order in which they were desired."""

    def __init__(self, place: Path, trees: Sequence[Tree], left_alone: Tree | None = None) -> None:
        self.looks = 0
        self.trouble: list[str] = []
        self._place = place
        self._trees = trees
        self._left_alone = left_alone or {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="onlooker")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def look(self) -> None:
        """One time all over."""
        for folder, _, names in os.walk(self._place):
            for path in (Path(folder, name) for name in names):
                content = _read(path)
                if content is not None:
                    self._judge(str(path.relative_to(self._place)), content)
        self.looks += 1

    def _watch(self) -> None:
        while not self._stop.wait(PAUSE):
            self.look()

    def _judge(self, path: str, content: bytes) -> None:
        known = [n for n, tree in enumerate(self._trees) if tree.get(path) == content]
        if not known and self._left_alone.get(path) != content:
            self.trouble.append(f"{path} is torn, or is of no known version")
        elif known and path.rpartition("/")[2] == RESOURCE:
            self._complete(path, content, known[0])

    def _complete(self, manifest: str, content: bytes, age: int) -> None:
        """Whether all data of a resource is there, as old as its manifest says or younger."""
        above = manifest.rpartition("/")[0]
        for path in self._trees[age]:
            if path.rpartition("/")[0] != above or path == manifest:
                continue
            data = _read(self._place / path)
            if data is None:
                if _read(self._place / manifest) == content:
                    self.trouble.append(f"{manifest} is there without {path}")
            elif not any(tree.get(path) == data for tree in self._trees[age:]):
                self.trouble.append(f"{manifest} is younger than {path}")


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None

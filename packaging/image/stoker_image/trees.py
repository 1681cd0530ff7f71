"""A root filesystem as a value: paths and what is there.

Paths have no leading slash. `bin`, `sbin`, `lib` and `lib64` are links into `usr`, as on
every Debian of today, although packages still carry files under the old names.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import NamedTuple

_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


class Node(NamedTuple):
    mode: int
    content: bytes = b""
    target: str = ""
    is_folder: bool = False


class Tree:
    """Grows by `put`; a folder above what is put comes with it."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def put(self, path: str, node: Node) -> None:
        path = merged(path)
        parent = path.rpartition("/")[0]
        if parent and parent not in self._nodes:
            self.put(parent, Node(0o755, is_folder=True))
        self._nodes[path] = node

    def file(self, path: str, content: bytes | str, mode: int = 0o644) -> None:
        self.put(path, Node(mode, content.encode() if isinstance(content, str) else content))

    def link(self, path: str, target: str) -> None:
        self.put(path, Node(0o777, target=target))

    def folder(self, path: str, mode: int = 0o755) -> None:
        self.put(path, Node(mode, is_folder=True))

    def raw_link(self, path: str, target: str) -> None:
        """A link at the very top, whose name is otherwise read as a place in `usr`."""
        self._nodes[path] = Node(0o777, target=target)

    def remove(self, path: str) -> None:
        del self._nodes[path]

    def __contains__(self, path: str) -> bool:
        return path in self._nodes

    def __getitem__(self, path: str) -> Node:
        return self._nodes[path]

    def __iter__(self) -> Iterator[tuple[str, Node]]:
        return iter(sorted(self._nodes.items()))

    def tar(self, when: int) -> bytes:
        """All of it as a tar whose bytes depend on nothing but the contents and `when`."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path, node in self:
                info = tarfile.TarInfo(path)
                info.mode, info.mtime = node.mode, when
                if node.is_folder:
                    info.type = tarfile.DIRTYPE
                elif node.target:
                    info.type, info.linkname = tarfile.SYMTYPE, node.target
                else:
                    info.size = len(node.content)
                archive.addfile(info, io.BytesIO(node.content))
        return buffer.getvalue()


def merged(path: str) -> str:
    """Where Debian with a merged `usr` has that file."""
    first = path.partition("/")[0]
    return f"usr/{path}" if first in _MERGED else path


def parents(path: str) -> Iterator[str]:
    """The folders above a path, the nearest first."""
    while path := path.rpartition("/")[0]:
        yield path


def remove_empty_folders(tree: Tree, kept: frozenset[str]) -> None:
    """Take away the folders that trimming left empty."""
    used = set(kept).union(*(parents(path) for path in kept))
    for path, node in tree:
        if not node.is_folder:
            used.update(parents(path))
    for path, node in list(tree):
        if node.is_folder and path not in used:
            tree.remove(path)

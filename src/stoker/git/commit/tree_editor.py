"""Applies file edits to the trees of a commit, without a worktree and without an index.

The editor reads and rewrites only the folders on the path to an edit, so the cost depends on the edits and
not on the size of the repository. It does not write again what already exists. It removes only files that
an edit names. A folder in the place of a file, or a file or symlink in the place of a folder, belongs to
others: the editor refuses that edit with its path and applies the rest. It reads no file contents.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stoker.domain.errors import InvalidValue
from stoker.domain.git_objects import BlobId, FileVersion, PathNote, printable_name
from stoker.domain.paths import RelPath
from stoker.git.commit.packfile import PackBuilder
from stoker.git.commit.types import FileEdit
from stoker.git.errors import GitFailed

_FILE, _PROGRAM, _FOLDER = b"100644", b"100755", b"40000"
_NONE: Mapping[str, FileVersion] = {}
_ENTRY = {size: re.compile(rb"[0-7]+ [^\0/]+\0.{%d}" % size, re.DOTALL) for size in (20, 32)}
# A push sends a changed tree as a delta against its old version, so compressing the whole tree is wasted.
_AS_IT_IS, _AS_USUAL = 0, -1

TreeLoader = Callable[[str], bytes]
"""Returns a tree as git stores it, by its id."""


class TreeFolder:
    """One tree in its current state; its subtrees are loaded when an edit enters them."""

    __slots__ = ("below", "raw")

    def __init__(self, raw: bytes = b"") -> None:
        self.raw = raw
        self.below: dict[bytes, TreeFolder] = {}

    def size(self) -> int:
        """Return the bytes of this tree and its loaded subtrees."""
        return len(self.raw) + sum(folder.size() for folder in self.below.values())


@dataclass(frozen=True, slots=True)
class _FolderEdits:
    """The edits of one folder: its files and its subfolders."""

    files: dict[bytes, bytes | FileVersion | None] = field(default_factory=dict)
    folders: dict[bytes, _FolderEdits] = field(default_factory=dict)

    def add(self, path: str, content: bytes | FileVersion | None) -> None:
        level = self
        *folders, name = path.encode().split(b"/")
        for folder in folders:
            level = level.folders.setdefault(folder, _FolderEdits())
        level.files[name] = content


class TreeEditor:
    """Applies edits to a tree and adds new objects to a pack."""

    def __init__(self, root: TreeFolder, pack: PackBuilder, load: TreeLoader) -> None:
        self._root = root
        self._pack = pack
        self._load = load
        self.refused: list[PathNote] = []

    def apply(self, edits: Sequence[FileEdit], kept: Mapping[str, FileVersion] = _NONE) -> str | None:
        """Apply the edits and return the id of the root tree; None if nothing changed.

        The last edit of a path wins. `kept` are files from another commit of the same repository; an edit
        of the same path wins over them.
        """
        top = _FolderEdits()
        for path, version in kept.items():
            top.add(path, version)
        for edit in self._canonical(edits):
            top.add(edit.path, edit.content if edit.executable is None else self._wanted(edit))
        if not self._change(self._root, top, b""):
            return None
        return self._pack.add("tree", self._root.raw).hex()

    def _canonical(self, edits: Sequence[FileEdit]) -> Iterator[FileEdit]:
        paths = [edit.path for edit in edits]
        fine = "" not in paths and RelPath.all_of(paths)
        for edit in edits:
            try:
                if fine or _check_path(edit.path):
                    yield edit
            except InvalidValue as error:
                self.refused.append(PathNote(printable_name(edit.path), error.message))

    def _wanted(self, edit: FileEdit) -> bytes | FileVersion | None:
        if edit.content is None:
            return None
        return FileVersion(BlobId(self._pack.add("blob", edit.content).hex()), bool(edit.executable))

    def _change(self, folder: TreeFolder, level: _FolderEdits, where: bytes) -> bool:
        """Apply the edits of one folder; return whether it changed.

        Deletions come first, because a deleted file may become a folder.
        """
        entries = _TreeEntries(folder.raw, self._pack.id_bytes)
        for name, content in level.files.items():
            if content is None and entries.is_file(name):
                entries.remove(name)
        for name, below in level.folders.items():
            self._enter(folder, entries, name, below, where + name + b"/")
        for name, content in level.files.items():
            if isinstance(content, FileVersion):
                self._keep(entries, name, content, where + name)
            elif content is not None:
                self._write(entries, name, content, where + name)
        before, folder.raw = folder.raw, entries.raw()
        return folder.raw != before

    def _enter(
        self, folder: TreeFolder, entries: _TreeEntries, name: bytes, level: _FolderEdits, where: bytes
    ) -> None:
        inside = folder.below.get(name)
        was = entries.find(name + b"/")
        if inside is None:
            if was is None and entries.find(name) is not None:
                self._refuse(level, where, where[:-1])
                return
            inside = TreeFolder()
            if was is not None:
                inside = folder.below[name] = TreeFolder(self._load(was.hex()))
        if not self._change(inside, level, where):
            return
        if inside.raw:
            compressed = _AS_USUAL if was is None else _AS_IT_IS
            entries.put(_FOLDER, name, self._pack.add("tree", inside.raw, compressed))
            folder.below[name] = inside
        else:
            entries.remove(name + b"/")
            folder.below.pop(name, None)

    def _write(self, entries: _TreeEntries, name: bytes, content: bytes, path: bytes) -> None:
        if entries.find(name + b"/") is not None:
            self.refused.append(PathNote(path.decode(), "is a folder in the repository"))
        elif not entries.is_file(name) or entries.find(name) != self._pack.id_of("blob", content):
            entries.put(_FILE, name, self._pack.add("blob", content))

    def _keep(self, entries: _TreeEntries, name: bytes, version: FileVersion, path: bytes) -> None:
        if entries.find(name + b"/") is not None:
            self.refused.append(PathNote(path.decode(), "is a folder in the repository"))
        else:
            entries.put(_PROGRAM if version.executable else _FILE, name, bytes.fromhex(version.blob))

    def _refuse(self, level: _FolderEdits, where: bytes, blocker: bytes) -> None:
        why = f"cannot be written because {printable_name(blocker.decode())} is no folder in the repository"
        for name, content in level.files.items():
            if content is not None:
                self.refused.append(PathNote((where + name).decode(), why))
        for name, below in level.folders.items():
            self._refuse(below, where + name + b"/", blocker)


class _TreeEntries:
    """The entries of one tree in git's order, which sorts a folder as if its name ended in a slash.

    Lookups use that key: `name` for a file, `name/` for a folder.
    """

    def __init__(self, raw: bytes, id_bytes: int) -> None:
        self._id_bytes = id_bytes
        self._all: list[bytes] = _ENTRY[id_bytes].findall(raw)
        if sum(map(len, self._all)) != len(raw):
            raise GitFailed("a tree cannot be read; the mirror is damaged")

    def raw(self) -> bytes:
        return b"".join(self._all)

    def find(self, key: bytes) -> bytes | None:
        """Return the id of the entry; None if there is none."""
        at, found = self._look(key)
        return self._all[at][-self._id_bytes :] if found else None

    def is_file(self, name: bytes) -> bool:
        """Whether the entry is a regular file, executable or not."""
        at, found = self._look(name)
        return found and self._all[at].startswith(b"100")

    def put(self, mode: bytes, name: bytes, id_: bytes) -> None:
        """Add an entry, replacing an entry with the same key."""
        at, found = self._look(name + b"/" if mode == _FOLDER else name)
        self._all[at : at + found] = [mode + b" " + name + b"\0" + id_]

    def remove(self, key: bytes) -> None:
        at, found = self._look(key)
        del self._all[at : at + found]

    def _look(self, key: bytes) -> tuple[int, bool]:
        at = bisect_left(self._all, key, key=self._key)
        return at, at < len(self._all) and self._key(self._all[at]) == key

    def _key(self, entry: bytes) -> bytes:
        name = entry[entry.index(b" ") + 1 : -self._id_bytes - 1]
        return name + b"/" if entry.startswith((b"4", b"04")) else name


def _check_path(path: str) -> RelPath:
    if not path:
        raise InvalidValue("the path of a file is empty")
    return RelPath(path)

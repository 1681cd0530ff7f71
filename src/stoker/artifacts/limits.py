"""How much of an artifact is accepted, and what is checked of every file in one.

Whatever was unpacked or listed passes through `bounded_files` before anybody takes it, so that
no way in can forget a rule: names are canonical and inside, no two files share a place,
and neither their number nor their bytes grow without end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from stoker.artifacts.errors import (
    ArtifactDamaged,
    ArtifactRefused,
    ArtifactTooLarge,
    ArtifactUnreachable,
    printable_name,
)
from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath
from stoker.engine.artifact_source import ArtifactFile

PLACES_PER_FILE = 2
HEADERS_PER_FILE = 4
"""Folders and extended headers count too: each costs work, and none is a file."""

_PathTree: TypeAlias = "dict[str, _PathTree | None]"
"""What lies in a folder; None is a file."""


class ArtifactLimits(NamedTuple):
    """Of one artifact."""

    manifest: int = 4 << 20
    layers: int = 1000
    packed: int = 1 << 30
    """Bytes that travel."""
    unpacked: int = 4 << 30
    """Bytes that they may become."""
    files: int = 100_000
    seconds: float = 1800.0
    """To pull it, and then as many to read what was pulled; silence ends it much sooner."""


class UncheckedFile(NamedTuple):
    """A file under a name that nobody has looked at yet."""

    name: str
    size: int
    chunks: Iterator[bytes]
    executable: bool = False


class ArtifactReadBudget:
    """What all parts of one artifact may cost together when they are read; `stop` ends it from any thread."""

    def __init__(self, title: str, limits: ArtifactLimits) -> None:
        self._title = title
        self._limits = limits
        self._bytes = limits.unpacked
        self._headers = HEADERS_PER_FILE * limits.files
        self._end = time.monotonic() + limits.seconds
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def go_on(self) -> None:
        """Raises if nobody waits for the rest, or if it takes too long."""
        if self._stopped.is_set():
            raise ArtifactUnreachable(f"{self._title} was given up")
        if time.monotonic() > self._end:
            raise ArtifactUnreachable(f"{self._title} could not be read within {self._limits.seconds:g} s")

    def header(self) -> None:
        """One more entry of an archive, whatever it is."""
        self._headers -= 1
        if self._headers < 0:
            most = HEADERS_PER_FILE * self._limits.files
            raise ArtifactTooLarge(
                f"{self._title} holds more than {most} entries, folders and headers among them"
            )

    def unpacked(self, size: int) -> None:
        """So many more bytes; fewer than none were asked for in vain."""
        self._bytes -= size
        if self._bytes < 0:
            raise ArtifactTooLarge(f"{self._title} unpacks to more than {self._limits.unpacked} bytes")


def bounded_files(
    files: Iterable[UncheckedFile], title: str, limits: ArtifactLimits
) -> Iterator[ArtifactFile]:
    """The files with canonical paths; raises at the first that may not be."""
    places = _ArtifactPaths(title, PLACES_PER_FILE * limits.files)
    room = limits.unpacked
    for count, file in enumerate(files, start=1):
        room -= file.size
        if count > limits.files:
            raise ArtifactTooLarge(f"{title} holds more than {limits.files} files")
        if room < 0:
            raise ArtifactTooLarge(f"{title} holds more than {limits.unpacked} bytes")
        path = _canonical_path(file.name, title)
        places.take(path)
        yield ArtifactFile(path, file.size, _exact_chunks(file, title), file.executable)


class _ArtifactPaths:
    """The files, and the folders that they need; a tree, because deep paths are mostly the same text."""

    def __init__(self, title: str, most: int) -> None:
        self._title = title
        self._most = self._left = most
        self._root: _PathTree = {}

    def take(self, path: RelPath) -> None:
        *folders, name = path.parts
        place = self._root
        for depth, folder in enumerate(folders, start=1):
            if folder not in place:
                self._put(place, folder, {})
            inside = place[folder]
            if inside is None:
                at = printable_name("/".join(folders[:depth]))
                raise ArtifactRefused(f"{self._title} holds {at} as a file and as a folder")
            place = inside
        if name in place:
            raise ArtifactRefused(
                f"{self._title} holds {printable_name(path)} twice, or as a file and as a folder"
            )
        self._put(place, name, None)

    def _put(self, place: _PathTree, name: str, what: _PathTree | None) -> None:
        self._left -= 1
        if self._left < 0:
            raise ArtifactTooLarge(f"{self._title} holds more than {self._most} files and folders")
        place[name] = what


def _canonical_path(name: str, title: str) -> RelPath:
    try:
        path = RelPath(name.removeprefix("./"))
    except InvalidValue as error:
        raise ArtifactRefused(f"{title} is refused: {error.message}") from None
    if not path or not path.isprintable():
        raise ArtifactRefused(f"{title} holds a file with the unusable name {printable_name(name)}")
    return path


def _exact_chunks(file: UncheckedFile, title: str) -> Iterator[bytes]:
    left = file.size
    for chunk in file.chunks:
        left -= len(chunk)
        if left < 0:
            break
        yield chunk
    if left:
        raise ArtifactDamaged(f"file {printable_name(file.name)} of {title} is not of the size that was said")

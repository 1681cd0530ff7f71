"""Limits of an artifact, and the checks on every file in it.

Every unpacked or listed file passes through `bounded_files` before a caller gets it, so that no origin can
skip a rule: paths are canonical and cannot escape the root, no two files have the same path, and the number
of files and their bytes are limited.
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
"""Limit on archive entries per allowed file. Folders and extended headers cost work too, but are no files."""

_PathTree: TypeAlias = "dict[str, _PathTree | None]"
"""The entries of a folder by name; None is a file."""


class ArtifactLimits(NamedTuple):
    """The limits of one artifact."""

    manifest: int = 4 << 20
    layers: int = 1000
    packed: int = 1 << 30
    """Maximum bytes to download."""
    unpacked: int = 4 << 30
    """Maximum bytes after unpacking."""
    files: int = 100_000
    seconds: float = 1800.0
    """Timeout for the pull, and again for reading what was pulled. A stalled connection ends much sooner."""


class UncheckedFile(NamedTuple):
    """A file whose name and size are not validated yet."""

    name: str
    size: int
    chunks: Iterator[bytes]
    executable: bool = False


class ArtifactReadBudget:
    """The shared budget of bytes, entries and time for reading one artifact; `stop` works from any thread."""

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
        """Raise if reading was stopped or takes too long."""
        if self._stopped.is_set():
            raise ArtifactUnreachable(f"reading {self._title} was cancelled")
        if time.monotonic() > self._end:
            raise ArtifactUnreachable(f"{self._title} could not be read within {self._limits.seconds:g} s")

    def header(self) -> None:
        """Count one more archive entry of any kind."""
        self._headers -= 1
        if self._headers < 0:
            most = HEADERS_PER_FILE * self._limits.files
            raise ArtifactTooLarge(
                f"{self._title} holds more than {most} entries, including folders and headers"
            )

    def unpacked(self, size: int) -> None:
        """Count unpacked bytes; a negative size returns bytes that were reserved and not read."""
        self._bytes -= size
        if self._bytes < 0:
            raise ArtifactTooLarge(f"{self._title} unpacks to more than {self._limits.unpacked} bytes")


def bounded_files(
    files: Iterable[UncheckedFile], title: str, limits: ArtifactLimits
) -> Iterator[ArtifactFile]:
    """Yield the files with canonical paths; raise at the first that breaks a rule or a limit."""
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
    """The paths of all files and their folders; a tree, because deep paths share most of their text."""

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
        raise ArtifactDamaged(f"file {printable_name(file.name)} of {title} does not have its declared size")

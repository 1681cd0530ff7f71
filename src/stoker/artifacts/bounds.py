"""How much of an artifact is accepted, and what is checked of every file in one.

Whatever was unpacked or listed passes through `bounded` before anybody takes it, so that
no way in can forget a rule: names are canonical and inside, no two files share a place,
and neither their number nor their bytes grow without end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stoker.artifacts.errors import Damaged, Refused, TooLarge, shown
from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath
from stoker.engine.artifacts import ArtifactFile


class Limits(NamedTuple):
    """Of one artifact."""

    manifest: int = 4 << 20
    layers: int = 1000
    packed: int = 1 << 30
    """Bytes that travel."""
    unpacked: int = 4 << 30
    """Bytes that they may become."""
    files: int = 100_000
    seconds: float = 1800.0
    """For one blob; silence ends it much sooner."""


class NamedFile(NamedTuple):
    """A file under a name that nobody has looked at yet."""

    name: str
    size: int
    chunks: Iterator[bytes]
    executable: bool = False


def bounded(files: Iterable[NamedFile], title: str, limits: Limits) -> Iterator[ArtifactFile]:
    """The files with canonical paths; raises at the first that may not be."""
    places: dict[str, bool] = {}  # the files, and with False the folders that they need
    room = limits.unpacked
    for count, file in enumerate(files, start=1):
        room -= file.size
        if count > limits.files:
            raise TooLarge(f"{title} holds more than {limits.files} files")
        if room < 0:
            raise TooLarge(f"{title} holds more than {limits.unpacked} bytes")
        path = _path(file.name, title)
        if path in places:
            raise Refused(f"{title} holds {shown(path)} twice, or as a file and as a folder")
        places[path] = True
        for folder in path.ancestors():
            if places.setdefault(folder, False):
                raise Refused(f"{title} holds {shown(folder)} as a file and as a folder")
        yield ArtifactFile(path, file.size, _exactly(file, title), file.executable)


def _path(name: str, title: str) -> RelPath:
    try:
        path = RelPath(name.removeprefix("./"))
    except InvalidValue as error:
        raise Refused(f"{title} is refused: {error.message}") from None
    if not path or not path.isprintable():
        raise Refused(f"{title} holds a file with the unusable name {shown(name)}")
    return path


def _exactly(file: NamedFile, title: str) -> Iterator[bytes]:
    left = file.size
    for chunk in file.chunks:
        left -= len(chunk)
        if left < 0:
            break
        yield chunk
    if left:
        raise Damaged(f"file {shown(file.name)} of {title} is not of the size that was said")

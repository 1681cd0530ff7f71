"""The static files of the page, read once from the package.

Files are served by exact name from a table in memory: a request path never becomes a file path. Each
file has an ETag of its content; a browser revalidates it and gets 304 if it is unchanged.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from stoker.domain.errors import Misconfigured

PREFIX = "/static/"
INDEX = "index.html"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "json": "application/json",
    "woff2": "font/woff2",
}
_MAX_DEPTH = 4


class StaticFile(NamedTuple):
    content: bytes
    kind: str
    etag: str


class StaticFiles:
    """All static files, by request path."""

    def __init__(self, root: Traversable | None = None) -> None:
        found = root if root is not None else resources.files("stoker.dashboard") / "static"
        self._files = {
            f"{PREFIX}{name}": _read_static_file(file) for name, file in _walk_files(found, "", _MAX_DEPTH)
        }
        page = self._files.get(PREFIX + INDEX)
        if page is None:
            raise Misconfigured("this installation has no page for the dashboard; install it again")
        self._files["/"] = page

    def get(self, path: str) -> StaticFile | None:
        return self._files.get(path)

    def paths(self) -> tuple[str, ...]:
        return tuple(sorted(self._files))


def etag_matches(etag: str, if_none_match: str) -> bool:
    """Return whether the browser already has this version of the file."""
    return any(one.strip().removeprefix("W/") == etag for one in if_none_match[:4096].split(","))


def _walk_files(place: Traversable, prefix: str, depth: int) -> list[tuple[str, Traversable]]:
    if depth == 0 or not place.is_dir():
        return []
    found: list[tuple[str, Traversable]] = []
    for one in place.iterdir():
        if one.is_dir():
            found += _walk_files(one, f"{prefix}{one.name}/", depth - 1)
        elif one.name.rpartition(".")[2] in _TYPES:
            found.append((f"{prefix}{one.name}", one))
    return found


def _read_static_file(file: Traversable) -> StaticFile:
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:32]
    return StaticFile(content, _TYPES[file.name.rpartition(".")[2]], f'"{digest}"')

"""What a gateway makes of the files in its data folder when it scans them.

A resource is a folder with a `resource.json`; a project is a folder below
`projects/` with a readable `project.json`. Of each file the digest of what was read
in that moment is kept. The nasty part is the real gateway's: a file that was empty,
half-written or missing when it was read keeps that digest after it is complete,
until the resource's `resource.json` changes or the gateway is started again. So a
writer that lets itself be seen in the middle leaves a resource that is `stale`.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

MANIFEST = "resource.json"
PROJECT_MANIFEST = "project.json"
NOTHING = ""
"""The digest of a file that was not there."""


@dataclass(frozen=True, slots=True)
class LoadedResource:
    """A resource as it was read."""

    manifest: str
    """Digest of its `resource.json`."""
    files: Mapping[str, str]
    torn: tuple[str, ...] = ()
    """Files that were empty, no whole JSON, or announced and missing."""

    @property
    def digest(self) -> str:
        parts = (f"{name}={digest}\n" for name, digest in sorted(self.files.items()))
        return hashlib.sha256("".join((self.manifest, *parts)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class LoadedProject:
    """A project and its resources by their path in it."""

    title: str
    enabled: bool
    resources: Mapping[str, LoadedResource] = field(default_factory=dict)


class Loader:
    """Reads the folder and remembers what it read badly; a new one is a gateway that was restarted."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._kept: dict[Path, LoadedResource] = {}

    def projects(self) -> dict[str, LoadedProject]:
        """What a scan of projects loads."""
        found = {}
        for folder in _folders(self.data_dir / "projects"):
            said = _parsed(_read(folder / PROJECT_MANIFEST))
            if isinstance(said, dict):
                title, enabled = str(said.get("title", "")), said.get("enabled") is not False
                found[folder.name] = LoadedProject(title, enabled, self._resources(folder))
        return found

    def config(self) -> dict[str, LoadedResource]:
        """What a scan of the configuration loads: the resources of every collection but the local one."""
        found = {}
        for collection in _folders(self.data_dir / "config" / "resources"):
            if collection.name != "local":
                for path, resource in self._resources(collection).items():
                    found[f"{collection.name}/{path}"] = resource
        return found

    def stale(self) -> list[str]:
        """The resources that were read badly and are complete on disk by now."""
        return sorted(
            str(folder.relative_to(self.data_dir))
            for folder, kept in self._kept.items()
            if kept.torn and (now := read_resource(folder)) is not None and not now.torn
        )

    def unwritable(self, uid: int) -> list[str]:
        """Files that a gateway of this user cannot write; a real one faults on them."""
        return sorted(
            str(Path(top, name).relative_to(self.data_dir))
            for root in ("projects", "config")
            for top, _, names in os.walk(self.data_dir / root)
            for name in names
            if not _writable(Path(top, name), uid)
        )

    def _resources(self, root: Path) -> dict[str, LoadedResource]:
        return {str(folder.relative_to(root)): self._resource(folder) for folder in resource_folders(root)}

    def _resource(self, folder: Path) -> LoadedResource:
        read = read_resource(folder) or LoadedResource(NOTHING, {}, (MANIFEST,))
        kept = self._kept.get(folder)
        if kept is not None and kept.torn and kept.manifest == read.manifest:
            return kept
        self._kept[folder] = read
        return read


def resource_folders(root: Path) -> Iterator[Path]:
    """Every folder with a `resource.json`; what begins with a dot is the gateway's own."""
    for top, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if MANIFEST in names:
            yield Path(top)


def read_resource(folder: Path) -> LoadedResource | None:
    """The resource as it is in this moment, its `resource.json` read first; None if that has gone."""
    while True:
        manifest = _read(folder / MANIFEST)
        if manifest is None:
            return None
        found = _read_with(folder, manifest)
        # Data that has gone together with the manifest that announced it was not torn.
        if NOTHING not in found.files.values() or _read(folder / MANIFEST) == manifest:
            return found


def _read_with(folder: Path, manifest: bytes) -> LoadedResource:
    said = _parsed(manifest)
    if not isinstance(said, dict):
        return LoadedResource(_digest(manifest), {}, (MANIFEST,))
    listed = said.get("files")
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    contents = {name: _read(folder / name) for name in names}
    return LoadedResource(
        _digest(manifest),
        {name: _digest(content) for name, content in contents.items()},
        tuple(name for name, content in contents.items() if _torn(name, content)),
    )


def _torn(name: str, content: bytes | None) -> bool:
    return not content or (name.endswith(".json") and _parsed(content) is None)


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(one for one in root.iterdir() if one.is_dir() and not one.name.startswith("."))
    except FileNotFoundError:
        return []


def _writable(path: Path, uid: int) -> bool:
    found = path.lstat()
    return uid == 0 or bool(found.st_mode & (stat.S_IWUSR if found.st_uid == uid else stat.S_IWOTH))


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _parsed(content: bytes | None) -> object:
    try:
        return json.loads(content or b"")
    except (ValueError, RecursionError):
        return None


def _digest(content: bytes | None) -> str:
    return NOTHING if content is None else hashlib.sha256(content).hexdigest()

"""One resource as a gateway reads it: its `resource.json` first, then the files that it lists.

Kept of each file is the digest of what was read in that moment. A file that is empty,
no whole JSON, or announced and missing is `torn`, unless the resource carries the
signature of exactly this content: then its writer meant it so.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker_testkit.gateway.atomic_write import read_file
from stoker_testkit.gateway.resource_signature import claimed, fits

MANIFEST = "resource.json"
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
class ResourceReading:
    """The same with what was read; too large to be kept."""

    loaded: LoadedResource
    manifest_data: Mapping[str, object] = field(default_factory=dict)
    contents: Mapping[str, bytes] = field(default_factory=dict)
    fits: bool = False
    """It carries the signature that its content has."""

    @property
    def claims(self) -> bool:
        """It carries a signature."""
        return bool(claimed(self.manifest_data))


def resource_folders(root: Path) -> Iterator[Path]:
    """Every folder with a `resource.json`; what begins with a dot is the gateway's own."""
    for top, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if MANIFEST in names:
            yield Path(top)


def read_resource(folder: Path) -> LoadedResource | None:
    """The resource as it is in this moment; None if its `resource.json` has gone."""
    found = look_at(folder)
    return None if found is None else found.loaded


def look_at(folder: Path) -> ResourceReading | None:
    """The same with its contents."""
    while True:
        manifest = read_file(folder / MANIFEST)
        if manifest is None:
            return None
        found = _read_with(folder, manifest)
        # Data that has gone together with the manifest that announced it was not torn.
        if NOTHING not in found.loaded.files.values() or read_file(folder / MANIFEST) == manifest:
            return found


def parsed(content: bytes | None) -> object:
    """Its JSON; None if it is none."""
    try:
        return json.loads(content or b"")
    except (ValueError, RecursionError):
        return None


def digest_of(content: bytes | None) -> str:
    return NOTHING if content is None else hashlib.sha256(content).hexdigest()


def _read_with(folder: Path, manifest: bytes) -> ResourceReading:
    manifest_data = parsed(manifest)
    if not isinstance(manifest_data, dict):
        return ResourceReading(LoadedResource(digest_of(manifest), {}, (MANIFEST,)))
    listed = manifest_data.get("files")
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    contents = {name: read_file(folder / name) for name in names}
    there = {name: content for name, content in contents.items() if content is not None}
    right = len(there) == len(names) and fits(manifest_data, there)
    torn = () if right else tuple(name for name, content in contents.items() if _torn(name, content))
    files = {name: digest_of(content) for name, content in contents.items()}
    return ResourceReading(LoadedResource(digest_of(manifest), files, torn), manifest_data, there, right)


def _torn(name: str, content: bytes | None) -> bool:
    return not content or (name.endswith(".json") and parsed(content) is None)

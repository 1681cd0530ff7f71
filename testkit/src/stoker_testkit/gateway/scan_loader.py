"""Loads the files of a data folder when the test gateway scans them.

A resource is a folder with a `resource.json`; a project is a folder below
`projects/` with a readable `project.json`. The nasty part is the real gateway's: a file
that was empty, half-written or missing when it was read keeps that digest after it is
complete, until the resource's `resource.json` changes or the gateway is started again.
And a `resource.json` whose signature does not fit the content is written anew, by actor
`external`, with the signature that fits; one without a signature does not fit either.
A resource that was read half is left as it is.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker_testkit.gateway.atomic_write import put_file, read_file
from stoker_testkit.gateway.resource_reader import (
    MANIFEST,
    NOTHING,
    LoadedResource,
    ResourceReading,
    digest_of,
    look_at,
    parsed,
    read_resource,
    resource_folders,
)
from stoker_testkit.gateway.resource_signature import signed
from stoker_testkit.gateway.torn_reads.scan_recorder import ScanRecorder

__all__ = ["LoadedProject", "LoadedResource", "ScanLoader", "read_resource"]

PROJECT_MANIFEST = "project.json"


@dataclass(frozen=True, slots=True)
class LoadedProject:
    """A project and its resources by their path in it."""

    title: str
    enabled: bool
    resources: Mapping[str, LoadedResource] = field(default_factory=dict)


class ScanLoader:
    """Reads the folder and remembers what it read badly; a new one is a gateway that was restarted."""

    def __init__(self, data_dir: Path, witness: ScanRecorder) -> None:
        self.data_dir = data_dir
        self._witness = witness
        self._kept: dict[Path, LoadedResource] = {}

    def projects(self, *, rewrites: bool) -> dict[str, LoadedProject]:
        """The result of a scan of projects."""
        found = {}
        for folder in _folders(self.data_dir / "projects"):
            project_json = parsed(read_file(folder / PROJECT_MANIFEST))
            if isinstance(project_json, dict):
                title, enabled = str(project_json.get("title", "")), project_json.get("enabled") is not False
                resources = self._resources(folder, rewrites=rewrites)
                found[folder.name] = LoadedProject(title, enabled, resources)
        return found

    def config(self, *, rewrites: bool) -> dict[str, LoadedResource]:
        """The result of a scan of the configuration: the resources of every collection but the local one."""
        found = {}
        for collection in _folders(self.data_dir / "config" / "resources"):
            if collection.name != "local":
                # `external` belongs to other programs: a gateway never writes to it.
                mine = rewrites and collection.name != "external"
                for path, resource in self._resources(collection, rewrites=mine).items():
                    found[f"{collection.name}/{path}"] = resource
        return found

    def poisoned(self) -> list[str]:
        """The resources that are held as they were read half, and are complete on disk by now."""
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

    def _resources(self, root: Path, *, rewrites: bool) -> dict[str, LoadedResource]:
        return {
            str(folder.relative_to(root)): self._resource(folder, rewrites=rewrites)
            for folder in resource_folders(root)
        }

    def _resource(self, folder: Path, *, rewrites: bool) -> LoadedResource:
        reading = look_at(folder)
        if reading is None:
            return LoadedResource(NOTHING, {}, (MANIFEST,))  # it went while the folder was walked
        self._witness.saw(str(folder.relative_to(self.data_dir)), reading)
        kept, read = self._kept.get(folder), reading.loaded
        if kept is not None and kept.torn and kept.manifest == read.manifest:
            return kept
        if rewrites and not read.torn and not reading.fits:
            read = self._rewritten(folder, reading)
        self._kept[folder] = read
        return read

    def _rewritten(self, folder: Path, reading: ResourceReading) -> LoadedResource:
        if digest_of(read_file(folder / MANIFEST)) != reading.loaded.manifest:
            return reading.loaded  # another process was faster; the next scan sees it
        content = json.dumps(
            signed(reading.manifest_data, reading.contents), indent=2, ensure_ascii=False
        ).encode()
        put_file(self.data_dir, folder / MANIFEST, content)
        rewritten = LoadedResource(digest_of(content), reading.loaded.files)
        self._witness.rewrote(str(folder.relative_to(self.data_dir)), rewritten)
        return rewritten


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(one for one in root.iterdir() if one.is_dir() and not one.name.startswith("."))
    except FileNotFoundError:
        return []


def _writable(path: Path, uid: int) -> bool:
    found = path.lstat()
    return uid == 0 or bool(found.st_mode & (stat.S_IWUSR if found.st_uid == uid else stat.S_IWOTH))

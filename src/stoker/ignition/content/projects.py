"""Finds projects, tag providers and modules in a data folder or in a plan.

A project is a folder below `projects/` with a `project.json`; a tag provider is a
resource in the collections that every gateway loads. This module only reads, and reads
little: it never follows a symlink, and skips `.resources` and everything else that begins
with a dot, which belongs to the gateway.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from stoker.engine.plan.plan import SyncPlan

PROJECTS = "projects"
PROJECT_MANIFEST = "project.json"
CONFIG = "config"
MODULES = "user-lib/modules"
MODULE_ENDINGS = (".modl", ".jar")
PROVIDER_FOLDERS = tuple(f"config/resources/{one}/ignition/tag-provider" for one in ("external", "core"))
"""Tag providers of the collections that are loaded in every deployment mode."""
_RESOURCE_MANIFEST = "resource.json"
_LARGEST_MANIFEST = 64 << 10


class AffectedContent(NamedTuple):
    """The parts of a gateway that a plan changes."""

    projects: frozenset[str] = frozenset()
    config: bool = False
    elsewhere: bool = False
    """Some path belongs to no project; the configuration counts as well."""
    gone: frozenset[str] = frozenset()
    """Folders of projects and tag providers that the plan removes."""

    @classmethod
    def by(cls, plan: SyncPlan) -> AffectedContent:
        projects: set[str] = set()
        others: set[str] = set()
        for action in plan.actions:
            name = project_of(action.path)
            if name is None:
                others.add(action.path.partition("/")[0])
            else:
                projects.add(name)
        written = {str(write.path) for write in plan.writes}
        return cls(
            frozenset(projects),
            CONFIG in others,
            bool(others),
            frozenset(removed_places(one.path for one in plan.removals if one.path not in written)),
        )


def project_of(path: str) -> str | None:
    """Return the project that a path belongs to, or None."""
    parts = path.split("/", 2)
    return parts[1] if len(parts) == 3 and parts[0] == PROJECTS else None


def is_module(path: str) -> bool:
    """Return whether the gateway loads it as a module when it starts."""
    folder, _, name = path.rpartition("/")
    return folder == MODULES and name.lower().endswith(MODULE_ENDINGS)


def removed_places(deleted: Iterable[str]) -> Iterator[str]:
    """Yield the folders of projects and tag providers whose manifest is among the deleted files."""
    for path in deleted:
        place, _, name = path.rpartition("/")
        parts = place.split("/")
        if (name == PROJECT_MANIFEST and len(parts) == 2 and parts[0] == PROJECTS) or (
            name == _RESOURCE_MANIFEST and place.rpartition("/")[0] in PROVIDER_FOLDERS
        ):
            yield place


def project_and_provider_names(places: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the projects and of the tag providers in these folders."""
    projects: set[str] = set()
    providers: set[str] = set()
    for place in places:
        folder, _, name = place.rpartition("/")
        (projects if folder == PROJECTS else providers).add(name)
    return frozenset(projects), frozenset(providers)


def project_folders(data_dir: Path) -> frozenset[str]:
    """Return the projects that the gateway must list after a scan."""
    return _folders_with(data_dir / PROJECTS, PROJECT_MANIFEST)


def tag_provider_folders(data_dir: Path) -> Mapping[str, str]:
    """Return the tag providers that the gateway must list after a scan, each with its folder."""
    return {
        name: f"{folder}/{name}"
        for folder in PROVIDER_FOLDERS
        for name in _folders_with(data_dir / folder, _RESOURCE_MANIFEST)
    }


def with_inheriting_projects(data_dir: Path, projects: frozenset[str]) -> frozenset[str]:
    """Return these projects and all that inherit from them, because a change of a parent changes them too."""
    parents = {name: _parent_project(data_dir / PROJECTS / name) for name in project_folders(data_dir)}
    found = projects
    while more := frozenset(name for name, parent in parents.items() if parent in found) - found:
        found |= more
    return found


def _parent_project(project: Path) -> str:
    try:
        fd = os.open(project / PROJECT_MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            said = json.loads(file.read(_LARGEST_MANIFEST))
    except (OSError, ValueError, RecursionError):
        return ""
    parent = said.get("parent") if isinstance(said, dict) else None
    return parent if isinstance(parent, str) else ""


def _folders_with(place: Path, manifest: str) -> frozenset[str]:
    try:
        with os.scandir(place) as entries:
            return frozenset(entry.name for entry in entries if _has_manifest(entry, manifest))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()


def _has_manifest(entry: os.DirEntry[str], manifest: str) -> bool:
    if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
        return False
    try:
        found = os.lstat(Path(entry.path) / manifest)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode)

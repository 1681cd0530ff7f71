"""What in a data folder is a project: a folder below `projects/` with a `project.json`.

Read only, and only names: a link is never followed, `.resources` and everything
else that begins with a dot is the gateway's own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

PROJECTS = "projects"
PROJECT_MANIFEST = "project.json"


def project_folders(data_dir: Path) -> frozenset[str]:
    """The projects that the gateway must show after a scan."""
    try:
        with os.scandir(data_dir / PROJECTS) as entries:
            return frozenset(entry.name for entry in entries if _is_project(entry))
    except FileNotFoundError:
        return frozenset()


def projects_removed(deleted: Iterable[str], left: frozenset[str]) -> frozenset[str]:
    """The projects that were there before these files were deleted, and are no more."""
    parts = (path.split("/") for path in deleted)
    gone = (
        part[1] for part in parts if len(part) == 3 and (part[0], part[2]) == (PROJECTS, PROJECT_MANIFEST)
    )
    return frozenset(gone) - left


def _is_project(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
        return False
    try:
        found = os.lstat(Path(entry.path) / PROJECT_MANIFEST)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode)

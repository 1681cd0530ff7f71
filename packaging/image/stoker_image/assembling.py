"""From the lock files to a root filesystem, and from it to the archive."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from stoker_image import wheels
from stoker_image.commands import ImageError
from stoker_image.contents import is_trimmed
from stoker_image.debs import control, fetch, members, read_lock
from stoker_image.settling import KEPT_FOLDERS, record, settle
from stoker_image.trees import Tree, merged, remove_empty_folders

PROJECT = Path(__file__).resolve().parents[3]
LOCK = PROJECT / "packaging" / "image" / "debian.lock.json"


def cache() -> Path:
    """Where fetched packages stay; never inside the repository."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "stoker" / "image"


def assemble(architecture: str, wheel: Path, locked: str, uv: str) -> Tree:
    """The root filesystem."""
    tree = Tree()
    day, packages = read_lock(LOCK, architecture)
    for package in packages:
        deb = fetch(package, day, cache())
        for path, node in members(deb):
            if not is_trimmed(merged(path)):
                tree.put(path, node)
        record(tree, package.name, control(deb))
    settle(tree, architecture)
    wheels.install(tree, wheel, locked, architecture, uv)
    own_day, own = read_lock(LOCK, wheels.own_architecture())
    wheels.compile_all(tree, own, own_day, cache())
    remove_empty_folders(tree, KEPT_FOLDERS)
    return tree


def unpack(tree: Tree, place: Path, when: int) -> None:
    """The root filesystem as a folder, for a stage of a Dockerfile or a chroot."""
    place.mkdir(parents=True, exist_ok=True)
    for path, node in tree:
        here = place / path
        if node.is_folder:
            here.mkdir(exist_ok=True)
            here.chmod(node.mode)
        elif node.target:
            here.symlink_to(node.target)
        else:
            here.write_bytes(node.content)
            here.chmod(node.mode)
    # From the inside out: what is put into a folder changes the folder's time.
    for path, _ in reversed(list(tree)):
        os.utime(place / path, (when, when), follow_symlinks=False)


def find_uv() -> str:
    beside = PROJECT / ".venv" / "bin" / "uv"
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise ImageError("uv is needed; scripts/setup installs it")
    return found

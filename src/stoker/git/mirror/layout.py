"""How a mirror lies on disk, and how what killed processes and strangers left in it is undone.

Only what we and git put there is known by name. A left-over of a killed git is
removed; anything else that is not known (settings, hooks, other object folders,
replaced or grafted objects, refs of others) means that the folder is not ours any
more, and it is built anew. So nothing planted is ever read by git. Whoever calls this
holds the mirror, which is why a lock file in it is always a left-over.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from stoker.git.mirror.bare_repository import CONFIG, HEAD, make_bare
from stoker.git.private_files import remove_tree

TIPS = Path("refs/stoker/tips")
"""The last commit of each ref that was fetched: what the next fetch of it builds on."""
STALE_REFS = Path("refs/stoker/stale")
"""The same for refs that could not be fetched from there; they still tell the server what we have."""
ALL_REFS = Path("refs/stoker/all")
"""All refs of the source, for as long as a commit is looked for among them."""

ARTIFACTS = Path("refs/stoker/artifacts")
"""The commit that was made of each artifact, under the artifact's id; only where there were any."""

_KNOWN_ENTRIES = {
    ".": r"HEAD|config|shallow|objects|refs",
    "objects": r"pack",
    "objects/pack": r"pack-[0-9a-f]{40,64}\.(?:pack|idx|rev|promisor)",
    "refs": r"heads|stoker",
    "refs/heads": r"(?!)",
    "refs/stoker": r"tips|stale|artifacts",
    str(TIPS): r"[0-9a-f]{32}",
    str(STALE_REFS): r"[0-9a-f]{32}",
}
_ARTIFACT = r"[0-9a-f]{64}"
_LEFTOVER_NAME = r"FETCH_HEAD|.*\.lock|.*\.keep|tmp_.*|config\.[0-9a-f]+\.tmp|fast_import_crash_[0-9]+"


class MirrorSize(NamedTuple):
    """What a mirror takes."""

    packs: int
    bytes: int


def init_empty(path: Path, digits: int) -> None:
    """A folder that git takes for an empty repository with ids of this length."""
    make_bare(path, digits, (str(TIPS), str(STALE_REFS)))


def repair_mirror(path: Path, digits: int) -> MirrorSize | None:
    """Its size, once left-overs are gone; None if it is not ours or not whole, and must be built anew.

    A torn ref or pack shows when git works with it.
    """
    try:
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return None
        if stat.S_IMODE(found.st_mode) != 0o700 or (path / "config").read_bytes() != CONFIG[digits]:
            return None
        if (path / ALL_REFS).exists():
            remove_tree(path / ALL_REFS)
        if not all(_tidy_folder(path / folder, known) for folder, known in _KNOWN_ENTRIES.items()):
            return None
        if (path / ARTIFACTS).exists() and not _tidy_folder(path / ARTIFACTS, _ARTIFACT):
            return None
        if not (path / "HEAD").exists():
            (path / "HEAD").write_bytes(HEAD)
        return _packs_size(path / "objects/pack") if (path / "HEAD").read_bytes() == HEAD else None
    except OSError:
        return None


def remove_path(path: Path) -> None:
    """Take away whatever is there, readable or not, and never what a symlink leads to."""
    aside = path.with_name(f"{path.name}.gone")
    with contextlib.suppress(OSError):
        _erase(aside)
    with contextlib.suppress(OSError):
        path.rename(aside)  # so that what cannot be taken away is at least no longer in the way
    for place in (aside, path):
        with contextlib.suppress(OSError):
            _erase(place)


def remove_temporary_packs(path: Path) -> None:
    """Take away what a git that failed left in the pack folder, which may be gigabytes."""
    with contextlib.suppress(OSError):
        _tidy_folder(path / "objects/pack", _KNOWN_ENTRIES["objects/pack"])


def _tidy_folder(folder: Path, known: str) -> bool:
    """Whether all that stays is known, once left-overs are gone."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if re.fullmatch(known, entry.name) and not entry.is_symlink():
                continue
            if not re.fullmatch(_LEFTOVER_NAME, entry.name) or entry.is_dir(follow_symlinks=False):
                return False
            Path(entry.path).unlink()
    return True


def _packs_size(packs: Path) -> MirrorSize | None:
    with os.scandir(packs) as entries:
        sizes = {entry.name: entry.stat(follow_symlinks=False).st_size for entry in entries}
    kinds = {
        kind: {name[: -len(kind)] for name in sizes if name.endswith(kind)} for kind in (".pack", ".idx")
    }
    if kinds[".pack"] != kinds[".idx"]:
        return None
    return MirrorSize(len(kinds[".pack"]), sum(sizes.values()))


def _erase(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    for folder, names, _ in os.walk(path):
        for inside in (Path(folder, name) for name in names):
            if not inside.is_symlink():
                inside.chmod(0o700)  # a folder that may not be entered cannot be emptied
    remove_tree(path)

"""The layout of a mirror on disk, and its repair after killed processes or foreign changes.

`stoker.git.mirror.mirror` calls this before each use. The layout lists the names of all files that
Stoker and git put into a mirror. Known leftovers of a killed git are removed. Any other unknown entry
(settings, hooks, other object folders, replaced or grafted objects, foreign refs) means that the folder
can no longer be trusted, and the mirror is rebuilt. So git never reads a planted file. The caller must
hold the mirror's lock, which is why a git lock file inside it is always a leftover.
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
"""The last fetched commit of each ref; the next fetch of that ref negotiates from it."""
STALE_REFS = Path("refs/stoker/stale")
"""Tips from which an incremental fetch failed; git still offers them to the server in negotiation."""
ALL_REFS = Path("refs/stoker/all")
"""All refs of the source, only while the fetcher searches them for a commit."""

ARTIFACTS = Path("refs/stoker/artifacts")
"""The commit made from each artifact, by the artifact's id; exists only after an import."""

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
    """Number of packs of a mirror and the bytes of its pack folder."""

    packs: int
    bytes: int


def init_empty(path: Path, digits: int) -> None:
    """Create an empty mirror for ids of this length."""
    make_bare(path, digits, (str(TIPS), str(STALE_REFS)))


def repair_mirror(path: Path, digits: int) -> MirrorSize | None:
    """Remove leftovers and return the size; None if the mirror is foreign or incomplete: rebuild it.

    This does not check contents: git reports a truncated ref or pack when it reads it.
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
    """Remove a file or folder, readable or not; a symlink is removed, never its target."""
    aside = path.with_name(f"{path.name}.gone")
    with contextlib.suppress(OSError):
        _erase(aside)
    with contextlib.suppress(OSError):
        path.rename(aside)  # if the removal fails, the path is at least free
    for place in (aside, path):
        with contextlib.suppress(OSError):
            _erase(place)


def remove_temporary_packs(path: Path) -> None:
    """Remove what a failed git left in the pack folder, which may be gigabytes."""
    with contextlib.suppress(OSError):
        _tidy_folder(path / "objects/pack", _KNOWN_ENTRIES["objects/pack"])


def _tidy_folder(folder: Path, known: str) -> bool:
    """Remove leftovers; return whether all other entries are known."""
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
                inside.chmod(0o700)  # without this permission a folder cannot be emptied
    remove_tree(path)

"""The layout of a complete mirror on a volume that one process fills and many processes read.

    current                 the name of the generation to read from
    generations/NAME/       a complete bare repository with all branches and tags
    generations/NAME.lock   locked shared by readers, exclusively by the process that removes it
    generations/NAME.retired   its modification time is when the generation stopped being current
    writer.lock             locked by the writer

`stoker.git.mirror.full_mirror` writes, `stoker.git.source.shared` reads. Nothing is ever removed inside a
generation: git only adds packs. Unneeded objects disappear together with their generation. The writer
removes a generation when another is current, no reader holds its lock, and a grace period has passed,
which protects readers on a filesystem without locks. All files are world-readable, because gateways run
as other users; a credential is never stored here.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from stoker.git.mirror.bare_repository import CONFIG, HEAD, make_bare
from stoker.git.mirror.layout import remove_path
from stoker.git.private_files import write_private

WANTED_REFS = Path("refs/stoker/wanted")
"""Commits that a reader was asked to apply: they are kept although no branch or tag leads to them."""

_NAME = re.compile(r"[0-9a-f]{16}")
# Any other entry is foreign and could change what git does when it reads.
_KNOWN_ENTRIES = frozenset({"HEAD", "config", "objects", "refs", "packed-refs"})


class MirrorVolume:
    """The generations of one volume."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._generations = root / "generations"

    @property
    def current(self) -> str | None:
        """The generation to read from; None before the first is published."""
        try:
            with (self.root / "current").open("rb") as file:
                name = file.read(64).decode("ascii", "replace").strip()
        except OSError:
            return None
        return name if _NAME.fullmatch(name) else None

    def path(self, name: str) -> Path:
        return self._generations / name

    def lock(self, name: str) -> Path:
        return self._generations / f"{name}.lock"

    def prepare(self) -> None:
        self._generations.mkdir(mode=0o755, parents=True, exist_ok=True)

    def make(self, digits: int) -> str:
        """Create an empty generation, which readers do not see yet, and return its name."""
        name = os.urandom(8).hex()
        path = make_bare(self.path(name), digits, ("refs/tags", str(WANTED_REFS)))
        for each, mode in ((path, 0o755), (path / "config", 0o644)):
            each.chmod(mode)
        self.lock(name).touch(mode=0o644)
        return name

    def publish(self, name: str) -> None:
        """Make this generation the current one for all readers."""
        write_private(self.root / "current", f"{name}\n".encode(), 0o644)

    def others(self) -> list[str]:
        """Every generation that is not current."""
        with contextlib.suppress(OSError):
            names = {entry.name.partition(".")[0] for entry in os.scandir(self._generations)}
            return sorted(name for name in names - {self.current or ""} if _NAME.fullmatch(name))
        return []

    def retired_at(self, name: str, now: float) -> float:
        """Return when the generation stopped being current; record `now` if that is not recorded yet."""
        marker = self._generations / f"{name}.retired"
        try:
            return marker.stat().st_mtime
        except OSError:
            marker.touch()
            os.utime(marker, (now, now))
            return now

    def drop(self, name: str) -> bool:
        """Remove a generation, unless a reader holds its lock; return whether it was removed."""
        with try_lock(self.lock(name), fcntl.LOCK_EX) as mine:
            if not mine:
                return False
            remove_path(self.path(name))
            for tail in ("retired", "lock"):
                (self._generations / f"{name}.{tail}").unlink(missing_ok=True)
        return True


@contextlib.contextmanager
def try_lock(lock: Path, how: int) -> Iterator[bool]:
    """Lock a file without waiting and yield whether that worked; True on a filesystem without locks."""
    flags = os.O_RDONLY if how == fcntl.LOCK_SH else os.O_RDWR | os.O_CREAT
    try:
        fd = os.open(lock, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError:  # the file was removed, or the filesystem is read-only
        yield how == fcntl.LOCK_SH
        return
    try:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            mine = True
        except BlockingIOError:
            mine = False
        except OSError:
            mine = True
        yield mine
    finally:
        os.close(fd)


def is_safe_generation(path: Path) -> bool:
    """Whether a generation contains nothing that would make git do more than read."""
    try:
        known = {entry.name for entry in os.scandir(path)} <= _KNOWN_ENTRIES
        plain = {entry.name for entry in os.scandir(path / "objects")} == {"pack"}
        config = (path / "config").read_bytes() in CONFIG.values()
        return known and plain and config and (path / "HEAD").read_bytes() == HEAD
    except OSError:
        return False


def is_intact(path: Path) -> bool:
    """Whether every pack has an index and matches the digest at its end. This reads all packs."""
    try:
        packs = list((path / "objects/pack").glob("*.pack"))
        whole = all(pack.with_suffix(".idx").is_file() for pack in packs)
        return whole and all(_has_valid_digest(pack) for pack in packs)
    except OSError:
        return False


def _has_valid_digest(pack: Path) -> bool:
    name = "sha256" if len(pack.stem.removeprefix("pack-")) == 64 else "sha1"
    digest = hashlib.new(name, usedforsecurity=False)
    with pack.open("rb") as file:
        left = file.seek(0, os.SEEK_END) - digest.digest_size
        file.seek(0)
        while left > 0 and (chunk := file.read(min(left, 1 << 20))):
            digest.update(chunk)
            left -= len(chunk)
        return left == 0 and file.read() == digest.digest()

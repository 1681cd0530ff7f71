"""Scans what a test run left for the credentials that it handed out (`tracked_credentials`).

Files below some folders, names included; every object of every repository among them; and
the output of programs that have ended (`captured_output`). grep does the reading:
there are gigabytes. A finding names the credential and the place, never the value. Credentials
are allowed where they were handed out and only there: mounted as a Secret, in the folders
and files that `BY_RIGHT_…` names, and alone in a file right in the folder of a test.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import IO

from stoker_testkit.repositories.bare_repository import git_environment
from stoker_testkit.secret_leaks.canary_tokens import Canaries
from stoker_testkit.secret_leaks.captured_output import HEAD
from stoker_testkit.secret_leaks.tracked_credentials import PLANTED, mark, planted_in

LARGEST = 32 << 20
"""Tests make files of terabytes, which are holes; a log may be as long as it likes."""
AT_ONCE = 50
"""The number of repositories that one git reads together; it searches each object in each of them."""
PARTS = 16
AT_MOST = "1000000"
"""Characters of file names for one grep: reading the patterns costs more than reading the files."""
BY_RIGHT_BESIDE = {b"..data", b"sshd_config"}
"""The link that a kubelet moves beside a Secret's files; and sshd's settings, beside its keys."""
BY_RIGHT_FOLDERS = ("etc", "keys", "secrets", "etcd")
"""In which tests lay out what is to be read, and what servers keep for themselves."""
BY_RIGHT_FILES = (
    *(".git-credentials", "kubeconfig*", "tokens.csv", "control-plane.json"),
    *("gitea.db*", "registry.log", "*.pub"),
)
"""Of git, of a control plane, of a forge that signs its calls, of a registry; public halves of keys."""
_RIGHT_IN_A_TEST = re.compile(r"/test_[^/]+/[^/]+$")


class LeakScanFailed(Exception):
    """The search did not find what it must find; what it says is worth nothing."""


@dataclass
class LeftoverFiles:
    """The files below some folders."""

    files: list[bytes] = field(default_factory=list)
    archives: list[bytes] = field(default_factory=list)
    repositories: list[bytes] = field(default_factory=list)
    """Their folders of objects."""

    def gather(self, folder: Path) -> None:
        """Add everything below a folder that is not allowed to be there."""
        waiting = [os.fsencode(folder)]
        while waiting:
            here = waiting.pop()
            try:
                with os.scandir(here) as entries:
                    inside = list(entries)
            except OSError:
                continue  # it is gone, or shut
            names = {one.name for one in inside}
            is_repository = {b"HEAD", b"objects"} <= names
            for one in inside if not BY_RIGHT_BESIDE & names else ():
                name = os.fsdecode(one.name)
                if one.is_dir(follow_symlinks=False):
                    if is_repository and name == "objects":
                        self.repositories.append(one.path)
                    elif not (is_repository and name == "hooks") and name not in BY_RIGHT_FOLDERS:
                        waiting.append(one.path)
                elif not any(fnmatch(name, pattern) for pattern in BY_RIGHT_FILES):
                    self._take(one)

    def _take(self, one: os.DirEntry[bytes]) -> None:
        try:
            found = one.stat(follow_symlinks=False)
        except OSError:
            return
        if stat.S_ISREG(found.st_mode) and (found.st_size <= LARGEST or one.name.endswith(b".log")):
            self.files.append(one.path)
            if one.name.endswith((b".gz", b".tgz")):
                self.archives.append(one.path)


class LeakScan:
    """The search of one run, whose folder holds what was planted and what was kept."""

    def __init__(self, run: Path) -> None:
        self.summary = ""
        """A summary of what was searched, and where."""
        self.doubtful: set[str] = set()
        """Findings in a file that is no log: a test may have written it itself."""
        self._run = run
        self._desk = run / "look"
        self._canaries = Canaries()
        planted = planted_in(run)
        self._values = {value for _, value in planted}
        for name, value in planted:
            self._canaries.add(name, value)
        self._canaries.add("a credential", mark())
        shutil.rmtree(self._desk, ignore_errors=True)
        self._desk.mkdir()
        self._patterns = self._desk / "patterns"
        self._patterns.write_bytes(b"".join(form + b"\n" for form in self._canaries.forms))

    def found(self, folders: Iterable[Path]) -> list[str]:
        """Each credential that was seen, as `name in place`, once."""
        self._try_out()
        left = LeftoverFiles()
        for folder in folders:
            left.gather(folder)
        kept = [path for path in self._run.iterdir() if path.is_file() and path.name != PLANTED]
        shown = sum(path.stat().st_size for path in kept) >> 10
        self.summary = (
            f"{len(self._values)} credentials in {len(left.files)} files, {len(left.repositories)} "
            f"repositories and {shown} KiB of what programs showed"
        )
        findings = [line for path in kept for line in self._in_kept(path)]
        names = self._desk / "names"
        names.write_bytes(b"\n".join((*left.files, *left.repositories)))
        findings += [f"{name} in the name of a file" for _, name in self._hits(names)]
        for path in map(Path, map(os.fsdecode, self._holding(left.files))):
            try:
                content = path.read_bytes()
            except OSError:
                continue  # another run has removed it since grep read it
            if not self._handed_out(path, content):
                seen = [f"{name} in {path}" for _, name in self._hits(path)]
                findings += seen
                if path.suffix != ".log":
                    self.doubtful.update(seen)
        findings += self._in_archives(left.archives)
        findings += self._in_repositories(left.repositories)
        return sorted(set(findings))

    def _try_out(self) -> None:
        """A search that finds nothing must be one that would find something."""
        file, objects = self._desk / "a-file", self._desk / "objects"
        file.write_text(f"it is {mark()}")
        content = file.read_bytes()
        loose = objects / "aa" / ("a" * 38)
        loose.parent.mkdir(parents=True)
        loose.write_bytes(zlib.compress(b"blob %d\0%s" % (len(content), content)))
        if not self._holding([os.fsencode(file)]) or not self._git_shows([os.fsencode(objects)]):
            raise LeakScanFailed("what was planted for the search itself was not found")

    def _holding(self, files: Sequence[bytes]) -> list[bytes]:
        """Those that contain a planted credential."""
        grep = ["xargs", "-0", "-r", "-s", AT_MOST, "grep", "-lasZFf", str(self._patterns), "--"]
        done = subprocess.run(
            grep, input=b"\0".join(files), stdout=subprocess.PIPE, check=False, env=_PLAIN | _path()
        )
        if done.returncode not in (0, 123):  # 123: in some there is nothing, or they are gone
            raise LeakScanFailed(f"grep could not be run: {done.returncode}")
        return [path for path in done.stdout.split(b"\0") if path]

    def _handed_out(self, path: Path, content: bytes) -> bool:
        """Whether a test wrote it for a command to read: a key, a kubeconfig, or a value with its user."""
        words = content.split()
        alone = len(words) == 1 and words[0].decode(errors="replace").rpartition(":")[2] in self._values
        key = words[0] == b"-----BEGIN" and words[-1].endswith(b"KEY-----")
        config = b"current-context" in content
        return (
            (alone or key or config)
            and path.suffix != ".log"
            and _RIGHT_IN_A_TEST.search(str(path)) is not None
        )

    def _in_kept(self, path: Path) -> Iterator[str]:
        """By the line above the piece that contains it."""
        hits = self._hits(path)
        content = path.read_bytes() if hits else b""
        for offset, name in hits:
            head = content.rfind(b"\n" + HEAD, 0, offset) + 1
            where = content[head + len(HEAD) : content.find(b"\n", head)]
            yield f"{name} in {where.decode(errors='replace')}"

    def _hits(self, path: Path) -> list[tuple[int, str]]:
        """The places of planted credentials in a file, with their names, by grep."""
        grep = ["grep", "-aobsFf", str(self._patterns), "--", str(path)]
        done = subprocess.run(grep, stdout=subprocess.PIPE, check=False, env=_PLAIN | _path())
        if done.returncode not in (0, 1, 2):  # 2: it is gone
            raise LeakScanFailed(f"grep could not be run: {done.returncode}")
        found = (line.partition(b":") for line in done.stdout.splitlines())
        return [(int(offset), self._canaries.name_of(form)) for offset, _, form in found]

    def _in_archives(self, archives: Iterable[bytes]) -> Iterator[str]:
        inside = self._desk / "unpacked"
        for path in map(os.fsdecode, archives):
            try:
                content = zlib.decompressobj(wbits=_GZIP).decompress(Path(path).read_bytes(), LARGEST)
            except (OSError, zlib.error):
                continue  # a test has torn it
            inside.write_bytes(content)
            yield from (f"{name} in {path}, unpacked" for _, name in self._hits(inside))

    def _in_repositories(self, objects: Sequence[bytes]) -> Iterator[str]:
        """All of them in one go; in parts only where something is found."""
        if not self._git_shows(objects):
            return
        if len(objects) == 1:
            yield f"a credential in an object of {os.fsdecode(objects[0])}"
            return
        part = max(1, len(objects) // PARTS)
        for start in range(0, len(objects), part):
            yield from self._in_repositories(objects[start : start + part])

    def _git_shows(self, objects: Sequence[bytes]) -> bool:
        """Whether any object of these repositories contains a planted credential."""
        with subprocess.Popen(
            ["grep", "-caFf", str(self._patterns)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=_PLAIN | _path(),
        ) as grep:
            assert grep.stdin is not None  # noqa: S101 - it is a pipe
            for start in range(0, len(objects), AT_ONCE):
                some = objects[start : start + AT_ONCE]
                if not self._pour(some, grep.stdin):  # one is broken: the others are read without it
                    for one in some:
                        self._pour((one,), grep.stdin)
        if grep.returncode not in (0, 1):
            raise LeakScanFailed(f"grep could not be run: {grep.returncode}")
        return grep.returncode == 0

    def _pour(self, objects: Sequence[bytes], into: IO[bytes]) -> bool:
        """Whether all objects could be read."""
        repository = _repository(self._desk / "many", objects)
        command = ["git", f"--git-dir={repository}", "cat-file", "--batch-all-objects", "--batch"]
        done = subprocess.run(
            [*command, "--unordered", "--buffer"],
            stdout=into,
            stderr=subprocess.DEVNULL,
            check=False,
            env=git_environment(),
        )
        return done.returncode == 0


_PLAIN = {"LC_ALL": "C"}
_GZIP = zlib.MAX_WBITS | 16


def _path() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath)}


def _repository(place: Path, objects: Sequence[bytes]) -> Path:
    """An empty one that reads the objects of others."""
    shutil.rmtree(place, ignore_errors=True)
    for folder in ("objects/info", "refs"):
        (place / folder).mkdir(parents=True)
    (place / "HEAD").write_text("ref: refs/heads/main\n")
    quoted = (b'"%s"' % one.replace(b"\\", b"\\\\").replace(b'"', b'\\"') for one in objects)
    (place / "objects/info/alternates").write_bytes(b"".join(one + b"\n" for one in quoted))
    return place

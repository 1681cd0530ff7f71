"""Bare repositories for tests and the demo, filled without a worktree.

The servers of `git_http_server` and `git_ssh_server` serve folders of these. A commit is a
mapping of paths to contents, written by `git fast-import`; names, times and
messages are fixed unless given, so that equal input makes equal commit ids on
every machine. It reads no configuration but its own, and nothing of
`stoker.git`, which is what it helps to test.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.domain.errors import StokerError
from stoker.domain.refs import CommitId

AUTHOR = "Test Author <author@example.test>"
WHEN = 1_767_225_600
"""Seconds of 2026-01-01, the time of every commit that names none."""

_SERVED = {
    "uploadpack.allowFilter": "true",
    "uploadpack.allowAnySHA1InWant": "true",
    "http.receivepack": "true",
    "receive.autogc": "false",
    "gc.auto": "0",
}


class GitCommandFailed(StokerError):
    """git refused; the message holds its words."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file with a mode of its own: executable, a symbolic link, or a submodule's commit."""

    content: str | bytes
    mode: str = "100644"


def executable(content: str | bytes) -> FileEntry:
    return FileEntry(content, "100755")


def symlink(target: str) -> FileEntry:
    return FileEntry(target, "120000")


def submodule(commit: str) -> FileEntry:
    return FileEntry(commit, "160000")


Files = Mapping[str, str | bytes | FileEntry | None]
"""The changes of a commit: the new content of a path, or None to delete it."""


def git_environment() -> dict[str, str]:
    """An environment in which git reads no configuration and never prompts."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    return kept | own


def run_git(*args: str | Path, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    """Run git, with additions to that environment, and return what it printed."""
    done = subprocess.run(
        ["git", *args], input=stdin, capture_output=True, check=False, env=git_environment() | dict(env or {})
    )
    if done.returncode:
        stderr = done.stderr.decode(errors="replace").strip()
        raise GitCommandFailed(f"git {' '.join(map(str, args))} ended with {done.returncode}: {stderr}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Repository:
    """A bare repository on disk."""

    path: Path

    @classmethod
    def create(cls, path: Path, *, branch: str = "main", object_format: str = "sha1") -> Repository:
        """Make an empty one that may be served: partial clones, any commit by id, pushes."""
        path.parent.mkdir(parents=True, exist_ok=True)
        run_git(
            "init",
            "--quiet",
            "--bare",
            f"--initial-branch={branch}",
            f"--object-format={object_format}",
            path,
        )
        repository = cls(path)
        for key, value in _SERVED.items():
            repository.git("config", key, value)
        return repository

    def git(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """Run git in this repository."""
        return run_git(f"--git-dir={self.path}", *args, stdin=stdin, env=env)

    def commit(
        self,
        files: Files,
        *,
        branch: str = "main",
        message: str = "Change",
        author: str = AUTHOR,
        when: int = WHEN,
        replace: bool = False,
        onto: str | None = None,
    ) -> CommitId:
        """Put a commit on a branch: on its tip or on `onto`; `replace` drops all other files."""
        parent = onto
        if parent is None and self.has_branch(branch):
            parent = self.tip(f"refs/heads/{branch}")
        stream = [
            f"commit refs/heads/{branch}\n".encode(),
            f"committer {author} {when} +0000\n".encode(),
            _data(message.encode()),
            f"from {parent}\n".encode() if parent else b"",
            b"deleteall\n" if replace else b"",
            *(_change(path, content) for path, content in files.items()),
            b"\ndone\n",
        ]
        # A branch that is moved back loses commits, which fast-import does only when forced.
        self.git("fast-import", "--quiet", "--done", "--force", stdin=b"".join(stream))
        return self.tip(f"refs/heads/{branch}")

    def tip(self, ref: str = "main") -> CommitId:
        """The commit at a branch, a tag or a full ref name."""
        return CommitId(
            self.git("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
        )

    def has_branch(self, name: str) -> bool:
        return bool(self.git("for-each-ref", f"refs/heads/{name}"))

    def set_branch(self, name: str, commit: str) -> None:
        """Point a branch at a commit, whatever it pointed at before."""
        self.git("update-ref", f"refs/heads/{name}", commit)

    def delete_branch(self, name: str) -> None:
        self.git("update-ref", "-d", f"refs/heads/{name}")

    def tag(self, name: str, commit: str, *, message: str | None = None) -> None:
        """A lightweight tag, or an annotated one if it has a message; an existing one is moved."""
        identity = {"GIT_COMMITTER_NAME": "Test Tagger", "GIT_COMMITTER_EMAIL": "tagger@example.test"}
        annotation = () if message is None else ("--annotate", f"--message={message}")
        date = {"GIT_COMMITTER_DATE": f"{WHEN} +0000"}
        self.git("tag", "--force", *annotation, name, commit, env=identity | date)

    def delete_tag(self, name: str) -> None:
        self.git("update-ref", "-d", f"refs/tags/{name}")

    def read(self, path: str, ref: str = "main") -> bytes:
        """The content of one file."""
        return self.git("cat-file", "blob", f"{ref}:{path}")

    def files(self, ref: str = "main") -> dict[str, bytes]:
        """All files of a commit with their contents."""
        names = self.git("ls-tree", "-r", "-z", "--name-only", "--full-tree", ref).decode().split("\0")
        return {name: self.read(name, ref) for name in names if name}

    def messages(self, ref: str = "main") -> list[str]:
        """The messages of the commits that lead to `ref`, newest first."""
        return [
            text.strip() for text in self.git("log", "-z", "--pretty=format:%B", ref).decode().split("\0")
        ]


def _change(path: str, content: str | bytes | FileEntry | None) -> bytes:
    name = _quoted(path)
    if content is None:
        return b"D " + name + b"\n"
    entry = content if isinstance(content, FileEntry) else FileEntry(content)
    raw = entry.content.encode() if isinstance(entry.content, str) else entry.content
    if entry.mode == "160000":
        return b"M 160000 " + raw + b" " + name + b"\n"
    return b"M " + entry.mode.encode() + b" inline " + name + b"\n" + _data(raw)


def _data(raw: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(raw), raw)


def _quoted(path: str) -> bytes:
    """The path as a C string, so that spaces, quotes and newlines in it mean nothing."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'.encode()

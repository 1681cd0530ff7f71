"""Values for writing to a branch: file edits, new commits, push results; and commits in git's format.

`stoker.git.commit.branch` takes `NewCommit` values and returns a `PushResult`. The bytes of a commit depend
only on these values, so equal values on the same parent make the same commit. Names, addresses and messages
come from users of the cluster, so characters that would end a header line are removed here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stoker.domain.errors import InvalidValue
from stoker.domain.git_objects import PathNote
from stoker.domain.refs import CommitId

MAX_MESSAGE_BYTES = 256 << 10
MAX_IDENTITY = 512
_MAX_WHEN = 1 << 40
_NAMELESS = "unknown"

# Characters that git itself removes from a name or an address.
_BREAKING = re.compile(r"[\x00-\x1f\x7f<>\u0085\u2028\u2029]+")
_CRUD = " .,:;\"'\\"
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class FileEdit(NamedTuple):
    """The desired state of one file."""

    path: str
    content: bytes | None
    """None: delete the file."""
    executable: bool | None = None
    """None: not executable, but a file that already has this content keeps its mode."""


class CommitAuthor(NamedTuple):
    """The author or committer of a commit."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class NewCommit:
    """One commit to add on top of the current tip."""

    author: CommitAuthor
    committer: CommitAuthor
    message: str
    edits: tuple[FileEdit, ...]
    when: int
    """Seconds since 1970."""

    def __post_init__(self) -> None:
        if not 0 <= self.when < _MAX_WHEN:
            raise InvalidValue(f"a commit cannot be from {self.when} seconds after 1970")
        if len(self.message.encode(errors="replace")) > MAX_MESSAGE_BYTES:
            raise InvalidValue(f"the message of a commit is longer than {MAX_MESSAGE_BYTES} bytes")


class PushResult(NamedTuple):
    """The branch after a push."""

    tip: CommitId | None
    """None: there was nothing to write, and the branch does not exist."""
    commits: tuple[CommitId, ...]
    """The new commits, in order; a commit that would change nothing is omitted."""
    replays: int
    """How often another push came first. If not zero, earlier listings of the branch may be outdated."""
    bytes: int
    refused: tuple[PathNote, ...] = ()
    """Edits that were not made because a foreign file or folder is in the way."""


class CommitSigner(Protocol):
    """Signs commits."""

    async def sign(self, payload: bytes) -> str:
        """Return the armored signature of a commit's bytes."""
        ...


def commit_object(tree: str, parent: str | None, commit: NewCommit, second: str | None = None) -> bytes:
    """Return a commit as git stores it, without a signature; with a second parent it is a merge."""
    lines = [f"tree {tree}"]
    lines += [f"parent {each}" for each in (parent, second) if each is not None]
    lines.append(f"author {_identity(commit.author)} {commit.when} +0000")
    lines.append(f"committer {_identity(commit.committer)} {commit.when} +0000")
    message = _NOT_TEXT.sub("?", commit.message).strip() + "\n"
    return ("\n".join(lines) + "\n\n" + message).encode(errors="replace")


def with_signature(commit: bytes, armored: str, digits: int) -> bytes:
    """Return the commit with a signature as its last header."""
    head, _, message = commit.partition(b"\n\n")
    name = "gpgsig" if digits == 40 else "gpgsig-sha256"
    signature = armored.strip().replace("\n", "\n ")
    return head + f"\n{name} {signature}\n\n".encode() + message


def _identity(author: CommitAuthor) -> str:
    return f"{_one_line(author.name) or _NAMELESS} <{_one_line(author.email)}>"


def _one_line(text: str) -> str:
    return _BREAKING.sub(" ", text)[:MAX_IDENTITY].strip(_CRUD)

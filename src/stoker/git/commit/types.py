"""What is to be written to a branch, and what became of it, as values; and a commit as git stores it.

It stands before everything that writes: `stoker.git.commit.branch` takes these and gives
`PushResult` back. A commit's bytes are made from its values alone, so equal values on an
equal parent are the same commit. Names, addresses and messages come from users of
the cluster: here they lose whatever would end the line that they stand in.
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

# What git itself does not keep in a name or an address.
_BREAKING = re.compile(r"[\x00-\x1f\x7f<>\u0085\u2028\u2029]+")
_CRUD = " .,:;\"'\\"
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class FileEdit(NamedTuple):
    """One file as it shall be."""

    path: str
    content: bytes | None
    """None: it shall be gone."""
    executable: bool | None = None
    """None: a plain file, unless one of this content is there already."""


class CommitAuthor(NamedTuple):
    """Whom a commit names."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class NewCommit:
    """One commit that is to follow whatever is there."""

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
    """Those that were made, in order; a commit in which nothing was left to change is not among them."""
    replays: int
    """How often somebody else was faster. Above zero, what was listed before may be something else now."""
    bytes: int
    refused: tuple[PathNote, ...] = ()
    """Edits that could not be made because something of somebody else is in their way."""


class CommitSigner(Protocol):
    """Puts a signature to what a commit says."""

    async def sign(self, payload: bytes) -> str:
        """The signature in its armour."""
        ...


def commit_object(tree: str, parent: str | None, commit: NewCommit, second: str | None = None) -> bytes:
    """A commit as git stores it, without a signature; one with a second parent brings two lines together."""
    lines = [f"tree {tree}"]
    lines += [f"parent {each}" for each in (parent, second) if each is not None]
    lines.append(f"author {_identity(commit.author)} {commit.when} +0000")
    lines.append(f"committer {_identity(commit.committer)} {commit.when} +0000")
    message = _NOT_TEXT.sub("?", commit.message).strip() + "\n"
    return ("\n".join(lines) + "\n\n" + message).encode(errors="replace")


def with_signature(commit: bytes, armored: str, digits: int) -> bytes:
    """The same with a signature, which is the last of its headers."""
    head, _, message = commit.partition(b"\n\n")
    name = "gpgsig" if digits == 40 else "gpgsig-sha256"
    signature = armored.strip().replace("\n", "\n ")
    return head + f"\n{name} {signature}\n\n".encode() + message


def _identity(author: CommitAuthor) -> str:
    return f"{_one_line(author.name) or _NAMELESS} <{_one_line(author.email)}>"


def _one_line(text: str) -> str:
    return _BREAKING.sub(" ", text)[:MAX_IDENTITY].strip(_CRUD)

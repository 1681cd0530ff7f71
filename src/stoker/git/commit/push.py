"""Pushes one branch once, and maps the server's answer to an error.

    StokerError
    ├── Stalled ── SourceAuthFailed     AuthFailed: no access, or read access only
    ├── Stalled ── PushDeclined         a protected branch, a rule or a hook rejects the push
    ├── Stalled ── PushTooLarge         the push is larger than the server allows
    ├── Retry ──── PushBehind           the branch is not at the expected commit; nothing was changed
    ├── Retry ──── PushFailed           the server could not store the objects
    ├── Retry ──── SourceUnreachable    NetworkError: the server does not answer or does not exist
    └── Retry ──── GitFailed            git failed locally, or was killed

A push names the expected commit (`--force-with-lease`), so a branch changes only if it is still at the
commit that we built on, and no commit of others is ever lost. Only some errors prove that the push did not
arrive (`is_final`); after any other the caller must ask the server. Only this module and
`stoker.git.errors`, for fetches, interpret git's messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl, without_userinfo
from stoker.git.errors import GitFailed, SourceAuthFailed, SourceUnreachable, error_for, git_message
from stoker.git.remote.remote import Remote

TIMEOUT = 300.0

COMMAND = (
    # Each thread takes memory and time to start, and a push is small.
    *("-c", "pack.threads=1"),
    # A long advice text would push the reason out of the part of stderr that is kept.
    *("-c", "advice.pushUpdateRejected=false"),
    *("-c", "push.recurseSubmodules=no"),
    "push",
    "--quiet",
    "--no-verify",
)
# The same errors as for reading; the reverser's API has other reasons for them when writing.
_WRITE_REASONS = {
    Reason.SOURCE_AUTH_FAILED: Reason.AUTH_FAILED,
    Reason.SOURCE_UNREACHABLE: Reason.NETWORK_ERROR,
}

# ` ! [remote rejected] 1234567 -> main (pre-receive hook declined)`. A server cannot forge this line: git
# puts `remote: ` before every line of the server.
_STATUS = re.compile(r"^ ! \[(?P<who>[a-z ]+)\].*\((?P<why>[^\n]*)\)$", re.MULTILINE)
_REMOTE = re.compile(r"^remote:[ \t]*(?P<words>[^\n]*?)[ \t]*$", re.MULTILINE)
_STALE_BRANCH_PATTERN = (
    r"stale info|fetch first|non-fast-forward|needs force|cannot lock ref|failed to update ref|failed to lock"
    r"|reference already exists|incorrect old value"
)
_SERVER_FAILURE_PATTERN = (
    r"unpacker error|unpack-objects|index-pack|unable to migrate|internal (?:server )?error|no space left"
    r"|disk quota|read-only file system|missing necessary objects|shallow update not allowed|failed to write"
    r"|failed to report status"
)
_TOO_LARGE_PATTERN = (
    r"exceeds maximum allowed size|exceeds (?:the )?(?:maximum|limit|\S+'s file size limit)|too large"
    r"|large files? detected|returned error: 413|http 413|size limit"
)
_READ_ONLY = (
    r"read[- ]only|not (?:allowed|authorized|permitted) to (?:push|write|upload)|write access"
    r"|permission to \S+ denied|denied to|do(?:es)? not have (?:permission|push|write)"
    r"|insufficient permission|unauthorized|forbidden"
)
_HASH_ALGORITHM_PATTERN = r"does not support this repository's hash algorithm|mismatched algorithms"


class PushBehind(Retry):
    """Another push came first: the branch is not at the expected commit."""

    default_reason = Reason.NON_FAST_FORWARD


class PushDeclined(Stalled):
    """The server rejects the push by a rule."""

    default_reason = Reason.PUSH_DECLINED


class PushTooLarge(Stalled):
    """The push exceeds the server's size limit."""

    default_reason = Reason.PUSH_TOO_LARGE


class PushFailed(Retry):
    """The server accepted the push and could not store it."""

    default_reason = Reason.PUSH_FAILED


class ObjectFormatMismatch(GitFailed):
    """The repository uses the other object format; an empty repository reveals this only on a push."""


def is_final(error: StokerError) -> bool:
    """Whether the error proves that the pushed commits are not on the server.

    `PushBehind` does not prove it: the push that came first may have been an earlier attempt with the same
    commits.
    """
    return isinstance(error, (PushDeclined, PushTooLarge, SourceAuthFailed, ObjectFormatMismatch))


async def push(
    remote: Remote, repository: Path, ref: GitRef, expected: CommitId | None, commit: CommitId
) -> None:
    """Set the ref of this full name to `commit` on the server, if it is still at `expected`.

    None as `expected` means that the ref must not exist yet.
    """
    try:
        reach_failpoint("push.before")
        await remote.git(
            [*COMMAND, f"--force-with-lease={ref}:{expected or ''}"],
            [remote.url, f"{commit}:{ref}"],
            repository=repository,
            timeout=TIMEOUT,
            judge=push_error,
        )
        reach_failpoint("push.after")
    except OSError as error:  # no more processes, no memory
        raise GitFailed(f"git push cannot be run: {error.strerror}") from error


def push_error(said: str, url: RepoUrl | None, max_bytes: int | None = None) -> StokerError:
    """Return the error for git's output of a failed push."""
    place = "the repository" if url is None else f"repository {without_userinfo(url)}"
    status = _STATUS.search(said)
    theirs = " ".join(match["words"] for match in _REMOTE.finditer(said))
    if status is None:
        return _unanswered_push_error(said, theirs, place, url, max_bytes)
    why = status["why"]
    words = git_message(f"{theirs} ({why})")
    if _matches_message(_STALE_BRANCH_PATTERN, why):
        return PushBehind(f"the branch of {place} has moved on: {words}")
    if _matches_message(_TOO_LARGE_PATTERN, theirs + why):
        return PushTooLarge(f"{place} does not take so much at once: {words}")
    if _matches_message(_SERVER_FAILURE_PATTERN, why):
        return PushFailed(f"{place} could not store what was pushed: {words}")
    return PushDeclined(f"{place} declines what was pushed: {words}")


@contextmanager
def translate_write_errors() -> Iterator[None]:
    """Give errors that are raised inside the reasons that are used for writing."""
    try:
        yield
    except StokerError as error:
        error.reason = _WRITE_REASONS.get(error.reason, error.reason)
        raise


def _unanswered_push_error(
    said: str, theirs: str, place: str, url: RepoUrl | None, max_bytes: int | None
) -> StokerError:
    """Return the error for a push without a status line for the branch."""
    if _matches_message(_HASH_ALGORITHM_PATTERN, said):
        return ObjectFormatMismatch(f"{place} has ids of another length: {git_message(said)}")
    if _matches_message(_TOO_LARGE_PATTERN, said):
        return PushTooLarge(f"{place} does not take so much at once: {git_message(said)}")
    error = error_for(said, url, max_bytes)
    if isinstance(error, SourceUnreachable) and _matches_message(_READ_ONLY, said):
        error = SourceAuthFailed(f"{place} does not let us write: {git_message(said)}")
    return error


def _matches_message(pattern: str, said: str) -> bool:
    return re.search(pattern, said, re.IGNORECASE) is not None

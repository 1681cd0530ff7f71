"""One push of one branch, and what the server's answer means.

    StokerError
    ├── Stalled ── SourceAuthFailed     AuthFailed: it does not let us in, or lets us only read
    ├── Stalled ── PushDeclined         a protected branch, a rule, a hook
    ├── Stalled ── PushTooLarge         more than it takes
    ├── Retry ──── PushBehind           the branch is not what we believed; nothing was changed there
    ├── Retry ──── PushFailed           it could not store what it got
    ├── Retry ──── SourceUnreachable    NetworkError: it does not answer, or is not there
    └── Retry ──── GitFailed            git itself failed here, or was killed

A push says which commit it expects to find, so a branch is changed only if it is what
we built on, and nobody's commits are ever lost. Only some answers say for sure that
it did not get there (`is_final`); after any other the server must be asked. As in
`stoker.git.errors`, which knows the words of fetching, nobody else looks at git's words.
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
from stoker.git.errors import GitFailed, SourceAuthFailed, SourceUnreachable, error_for, one_line
from stoker.git.remote.remote import Remote

TIMEOUT = 300.0

COMMAND = (
    # Each thread takes memory and time to start; a batch is small.
    *("-c", "pack.threads=1"),
    # Longer advice would push the reason out of what is kept of git's words.
    *("-c", "advice.pushUpdateRejected=false"),
    *("-c", "push.recurseSubmodules=no"),
    "push",
    "--quiet",
    "--no-verify",
)
# What is wrong is the same; where something is written the reverser's paper has its own words for it.
_WRITE_REASONS = {
    Reason.SOURCE_AUTH_FAILED: Reason.AUTH_FAILED,
    Reason.SOURCE_UNREACHABLE: Reason.NETWORK_ERROR,
}

# ` ! [remote rejected] 1234567 -> main (pre-receive hook declined)`. No server can say it: `remote: ` would
# stand before it.
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
    """Somebody else was faster."""

    default_reason = Reason.NON_FAST_FORWARD


class PushDeclined(Stalled):
    """The server does not want it."""

    default_reason = Reason.PUSH_DECLINED


class PushTooLarge(Stalled):
    """The server does not want that much."""

    default_reason = Reason.PUSH_TOO_LARGE


class PushFailed(Retry):
    """The server wanted it and could not keep it."""

    default_reason = Reason.PUSH_FAILED


class ObjectFormatMismatch(GitFailed):
    """The repository has ids of the other length; an empty one tells nobody before."""


def is_final(error: StokerError) -> bool:
    """Whether it is certain that what was pushed is not there.

    Being too late does not say so: who came first may have been an earlier push of the very same.
    """
    return isinstance(error, (PushDeclined, PushTooLarge, SourceAuthFailed, ObjectFormatMismatch))


async def push(
    remote: Remote, repository: Path, ref: GitRef, expected: CommitId | None, commit: CommitId
) -> None:
    """Have the full name `ref` lead to `commit` there, if it led to `expected` until now."""
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
    """The error that fits what git said about a push."""
    place = "the repository" if url is None else f"repository {without_userinfo(url)}"
    status = _STATUS.search(said)
    theirs = " ".join(match["words"] for match in _REMOTE.finditer(said))
    if status is None:
        return _unanswered_push_error(said, theirs, place, url, max_bytes)
    why = status["why"]
    words = one_line(f"{theirs} ({why})")
    if _matches_message(_STALE_BRANCH_PATTERN, why):
        return PushBehind(f"the branch of {place} has moved on: {words}")
    if _matches_message(_TOO_LARGE_PATTERN, theirs + why):
        return PushTooLarge(f"{place} does not take so much at once: {words}")
    if _matches_message(_SERVER_FAILURE_PATTERN, why):
        return PushFailed(f"{place} could not store what was pushed: {words}")
    return PushDeclined(f"{place} declines what was pushed: {words}")


@contextmanager
def translate_write_errors() -> Iterator[None]:
    """Whatever fails inside is called as it is called where something is written."""
    try:
        yield
    except StokerError as error:
        error.reason = _WRITE_REASONS.get(error.reason, error.reason)
        raise


def _unanswered_push_error(
    said: str, theirs: str, place: str, url: RepoUrl | None, max_bytes: int | None
) -> StokerError:
    """The server said nothing about the branch itself."""
    if _matches_message(_HASH_ALGORITHM_PATTERN, said):
        return ObjectFormatMismatch(f"{place} has ids of another length: {one_line(said)}")
    if _matches_message(_TOO_LARGE_PATTERN, said):
        return PushTooLarge(f"{place} does not take so much at once: {one_line(said)}")
    error = error_for(said, url, max_bytes)
    if isinstance(error, SourceUnreachable) and _matches_message(_READ_ONLY, said):
        error = SourceAuthFailed(f"{place} does not let us write: {one_line(said)}")
    return error


def _matches_message(pattern: str, said: str) -> bool:
    return re.search(pattern, said, re.IGNORECASE) is not None

"""Maps git's error output to Stoker's errors.

    StokerError
    ├── Stalled ── RefNotFound          the repository has no such ref or commit
    │              └── RefAmbiguous     a shortened commit id fits several commits
    ├── Stalled ── SourceAuthFailed     the server refuses the credentials
    │              └── HostKeyNotTrusted   the server's ssh host key is not trusted
    ├── Stalled ── SourceTooLarge       the server sends more than the limit
    ├── Retry ──── SourceUnreachable    the server does not answer, or its answer is not understood
    │              ├── FilterRefused    the server does not support partial fetches
    │              └── BrokenPack       a pack cannot be unpacked: it or our mirror is damaged
    └── Retry ──── GitFailed            git failed locally: a damaged mirror, a full disk

Only this module and `stoker.git.commit.push`, for pushes, interpret git's messages. Error messages are one
bounded printable line; user names and passwords in an address are removed.
"""

from __future__ import annotations

import re

from stoker.domain.errors import Retry, Stalled
from stoker.domain.reasons import Reason
from stoker.domain.refs import RepoUrl, without_userinfo
from stoker.domain.text import one_line

MAX_MESSAGE = 400


class RefNotFound(Stalled):
    default_reason = Reason.REF_NOT_FOUND


class RefAmbiguous(RefNotFound):
    default_reason = Reason.REF_AMBIGUOUS


class SourceAuthFailed(Stalled):
    default_reason = Reason.SOURCE_AUTH_FAILED


class HostKeyNotTrusted(SourceAuthFailed):
    default_reason = Reason.HOST_KEY_NOT_TRUSTED


class SourceTooLarge(Stalled):
    default_reason = Reason.SOURCE_TOO_LARGE


class SourceUnreachable(Retry):
    default_reason = Reason.SOURCE_UNREACHABLE


class FilterRefused(SourceUnreachable):
    """The server does not allow a partial fetch; a full fetch may work."""


class BrokenPack(SourceUnreachable):
    """Unpacking failed: the received pack, or the mirror's objects that complete it, are damaged."""


class GitFailed(Retry):
    default_reason = Reason.GIT_FAILED


GitError = RefNotFound | SourceAuthFailed | SourceTooLarge | SourceUnreachable | GitFailed

# Plain strings, compiled only after a failure; most processes never need them.
_REDIRECT = r"returned error: 30\d|unable to update url base from redirection"
_DUMB_HTTP_PATTERN = r"dumb http"
_REF = r"couldn't find remote ref|not our ref|unadvertised object|no such remote ref|does not allow request"
_AUTH = (
    r"authentication failed|could not read (?:username|password)|access denied|permission denied"
    r"|returned error: 40[137]|http code 407 from proxy|tunnel failed, response 407|terminal prompts disabled"
    r"|host key verification failed"
)
_UNREACHABLE = (
    r"could not resolve host|couldn't resolve|connection (?:refused|reset|timed out|closed)|timed out"
    r"|failed to connect|couldn't connect|no route to host|network is unreachable|unable to access"
    r"|returned error: [45]\d\d|rpc failed|early eof|hung up|unexpected disconnect|protocol error"
    r"|bad line length|repository .*not found|not appear to be a git repository|remote error"
    r"|could not read from remote|is this a git repository|ssl|gnutls|certificate|invalid server response"
    r"|not allowed|expected '|dubious ownership"
)
_PACK = (
    r"index-pack|bad pack header|pack has bad object|pack is corrupted|premature end of pack|unresolved delta"
    r"|did not send all necessary objects|bad object|invalid hash|inflate"
)
_FILTER = r"filter '[^']*' not supported|filter.* not (?:allowed|enabled)"
_MEMORY = (
    r"out of memory|cannot allocate memory|cannot create (?:async )?thread"
    r"|too large to fit into virtual memory"
)
_TOO_LARGE_PATTERN = r"file too large"
_LOCAL_FAILURE_PATTERN = (
    r"file too large|no space left|read-only file system|quota exceeded|unable to create|\.lock'"
)

# The first matching pattern decides.
_ERRORS_BY_PATTERN: tuple[tuple[str, type[GitError], str], ...] = (
    (_FILTER, FilterRefused, "allows no partial fetch"),
    (_REF, RefNotFound, "does not give out what was asked for"),
    (_AUTH, SourceAuthFailed, "does not let us in"),
    (_PACK, BrokenPack, "sent what cannot be unpacked"),
    (_UNREACHABLE, SourceUnreachable, "cannot be read"),
)


def error_for(said: str, url: RepoUrl | None, max_bytes: int | None = None) -> GitError:
    """Return the error for git's output; `url` is the remote that git contacted, if any.

    `max_bytes` is the limit on what git was allowed to receive.
    """
    words = git_message(said)
    if url is None:
        return GitFailed(f"git failed on the local mirror: {words}")
    place = without_userinfo(url)
    ours = re.sub(r"(?m)^remote:.*$", "", said)  # a full disk or memory on the server is not ours
    if _matches_message(_TOO_LARGE_PATTERN, ours) and max_bytes is not None:
        return SourceTooLarge(f"repository {place} sends more than the {max_bytes} bytes that are allowed")
    if _matches_message(_MEMORY, ours):
        return SourceTooLarge(f"repository {place} makes git hold more than the memory it may use: {words}")
    if _matches_message(_LOCAL_FAILURE_PATTERN, ours):
        return GitFailed(f"git failed on the mirror of {place}: {words}")
    if _matches_message(_DUMB_HTTP_PATTERN, ours):
        return SourceUnreachable(
            f"repository {place} is served by dumb HTTP, whose size nothing bounds, and is not fetched; "
            "serve it with git http-backend or from a forge"
        )
    if _matches_message(_REDIRECT, said):
        return SourceUnreachable(
            f"repository {place} answers with a redirect, which is not followed because credentials "
            f"would go with it; use the address that it leads to: {words}"
        )
    for pattern, kind, what in _ERRORS_BY_PATTERN:
        if _matches_message(pattern, said):
            return kind(f"repository {place} {what}: {words}")
    return GitFailed(f"git failed on repository {place}: {words}")


def git_message(said: str) -> str:
    """Return git's error output as one bounded printable line."""
    return one_line(without_userinfo(said), MAX_MESSAGE) or "it gave no reason"


def _matches_message(pattern: str, said: str) -> bool:
    return re.search(pattern, said, re.IGNORECASE) is not None

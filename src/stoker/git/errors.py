"""What git said on its error stream, as one of our errors.

    StokerError
    ├── Stalled ── RefNotFound          the repository has no such ref or commit
    ├── Stalled ── SourceAuthFailed     the other side does not let us in
    ├── Retry ──── SourceUnreachable    the other side does not answer, or answers with nonsense
    └── Retry ──── GitFailed            git itself failed here: a broken mirror, a full disk

The only place that looks at git's words. Messages are one bounded printable line;
user names and passwords in an address are cut out.
"""

from __future__ import annotations

import re

from stoker.domain.errors import Retry, Stalled
from stoker.domain.reasons import Reason
from stoker.domain.refs import RepoUrl, without_userinfo

MAX_MESSAGE = 400


class RefNotFound(Stalled):
    default_reason = Reason.REF_NOT_FOUND


class SourceAuthFailed(Stalled):
    default_reason = Reason.SOURCE_AUTH_FAILED


class SourceUnreachable(Retry):
    default_reason = Reason.SOURCE_UNREACHABLE


class GitFailed(Retry):
    default_reason = Reason.GIT_FAILED


GitError = RefNotFound | SourceAuthFailed | SourceUnreachable | GitFailed

_REDIRECT = re.compile(r"returned error: 30\d|unable to update url base from redirection", re.I)
_REF = re.compile(
    r"couldn't find remote ref|not our ref|unadvertised object|no such remote ref|does not allow request",
    re.I,
)
_AUTH = re.compile(
    r"authentication failed|could not read (?:username|password)|access denied|permission denied"
    r"|returned error: 40[13]|terminal prompts disabled|host key verification failed",
    re.I,
)
_UNREACHABLE = re.compile(
    r"could not resolve host|couldn't resolve|connection (?:refused|reset|timed out|closed)|timed out"
    r"|failed to connect|couldn't connect|no route to host|network is unreachable|unable to access"
    r"|returned error: [45]\d\d|rpc failed|early eof|hung up|unexpected disconnect|protocol error"
    r"|bad line length|repository .*not found|not appear to be a git repository|remote error"
    r"|could not read from remote|is this a git repository|ssl|gnutls|certificate|invalid server response"
    r"|bad pack header|pack has bad object|index-pack failed|not allowed|dubious ownership",
    re.I,
)
_HERE = re.compile(r"no space left|read-only file system|quota exceeded|unable to create|\.lock'", re.I)


def error_for(said: str, url: RepoUrl | None) -> GitError:
    """The error that fits what git said; `url` is the repository it talked to, if it talked to one."""
    words = one_line(said)
    if url is None:
        return GitFailed(f"git failed on the local mirror: {words}")
    place = without_userinfo(url)
    if _HERE.search(said):
        return GitFailed(f"git failed on the mirror of {place}: {words}")
    if _REDIRECT.search(said):
        return SourceUnreachable(
            f"repository {place} answers with a redirect, which is not followed because credentials "
            f"would go with it; use the address that it leads to: {words}"
        )
    if _REF.search(said):
        return RefNotFound(f"repository {place} does not give out what was asked for: {words}")
    if _AUTH.search(said):
        return SourceAuthFailed(f"repository {place} does not let us in: {words}")
    if _UNREACHABLE.search(said):
        return SourceUnreachable(f"repository {place} cannot be read: {words}")
    return GitFailed(f"git failed on repository {place}: {words}")


def one_line(said: str) -> str:
    """git's complaint as one bounded printable line."""
    lines = (line.strip() for line in without_userinfo(said).splitlines())
    joined = " ".join(line for line in lines if line)
    text = "".join(c if c.isprintable() else "?" for c in joined) or "it gave no reason"
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"

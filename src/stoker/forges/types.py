"""The forge-independent interface: pull requests, and find, create, update and state on a `Forge`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.policies import ForgeKind
from stoker.domain.refs import CommitId
from stoker.domain.text import truncate

MAX_TITLE = 250  # GitLab and Gitea allow 255, GitHub 256
MAX_BODY = 60_000  # GitHub allows 65,536
MAX_URL = 2048
_CUT = "\n\n… The rest was cut: a description may not be longer."


class PullRequestState(StrEnum):
    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request as the forge reports it."""

    number: int
    url: str
    """The web page; empty if the forge returned no URL that is safe to show."""
    state: PullRequestState
    branch: str
    """The branch with the changes."""
    base: str
    """The branch to merge into."""
    title: str = ""
    head: CommitId | None = None
    merged_commit: CommitId | None = None
    """The merge, squash or fast-forwarded commit, if the request is merged and the forge reports it."""
    warning: str = ""
    """Set if the request exists but something beside it failed, such as setting its labels."""


@dataclass(frozen=True, slots=True)
class PullRequestDraft:
    """A pull request to create; a title or body beyond the forges' limits is cut when it is sent."""

    branch: str
    base: str
    title: str
    body: str = ""
    labels: tuple[str, ...] = ()


class Forge(Protocol):
    """The pull requests of one repository on its forge."""

    @property
    def kind(self) -> ForgeKind: ...

    @property
    def host(self) -> str:
        """The host name, for messages."""

    async def find(self, branch: str, base: str = "") -> PullRequest | None:
        """Return the open request of a branch, else the newest merged or closed one.

        Requests from forks are excluded, even if their branch has the same name. With `base` only requests
        into that branch count.
        """

    async def create(self, draft: PullRequestDraft) -> PullRequest:
        """Open a request; if one is open already for these branches, update that instead."""

    async def update(
        self, number: int, *, title: str, body: str, labels: tuple[str, ...] = ()
    ) -> PullRequest:
        """Replace title and body; labels are added, and labels that people have set stay."""

    async def state(self, number: int) -> PullRequest: ...


def short_title(title: str) -> str:
    """The title on one line, within the limits of all forges."""
    return truncate(" ".join(title.split()), MAX_TITLE)


def short_body(body: str) -> str:
    return body if len(body) <= MAX_BODY else body[: MAX_BODY - len(_CUT)] + _CUT


def choose_request(found: Iterable[PullRequest]) -> PullRequest | None:
    """Return the open request, else the newest; forges number requests in ascending order."""
    return max(found, key=lambda one: (one.state is PullRequestState.OPEN, one.number), default=None)


def displayable_url(text: str | None) -> str:
    """Return a URL from a forge if it is safe to show in a status, else an empty string."""
    if text is None or len(text) > MAX_URL or not text.isprintable() or " " in text:
        return ""
    return text if text.startswith(("https://", "http://")) else ""


def commit_or_none(text: str | None) -> CommitId | None:
    try:
        return CommitId(text) if text else None
    except InvalidValue:
        return None

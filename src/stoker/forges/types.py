"""What the rest of the house knows of a forge: requests to pull, and four things to do with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.policies import ForgeKind
from stoker.domain.refs import CommitId
from stoker.domain.text import truncate

MAX_TITLE = 250  # GitLab and Gitea end at 255, GitHub at 256
MAX_BODY = 60_000  # GitHub ends at 65,536
MAX_URL = 2048
_CUT = "\n\n… The rest was cut: a description may not be longer."


class PullRequestState(StrEnum):
    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """One request as the forge knows it."""

    number: int
    url: str
    """For people; empty where the forge gave none that could be shown."""
    state: PullRequestState
    branch: str
    """The branch that it brings in."""
    base: str
    """The branch that it goes to."""
    title: str = ""
    head: CommitId | None = None
    merged_commit: CommitId | None = None
    """The merge, squash or fast-forwarded commit, where it is merged and the forge told it."""
    warning: str = ""
    """The request is there, but something beside it could not be done, such as its labels."""


@dataclass(frozen=True, slots=True)
class PullRequestDraft:
    """A request that is to be; what is longer than forges take is cut when it is sent."""

    branch: str
    base: str
    title: str
    body: str = ""
    labels: tuple[str, ...] = ()


class Forge(Protocol):
    """Where the pull requests of one repository are."""

    @property
    def kind(self) -> ForgeKind: ...

    @property
    def host(self) -> str:
        """As it stands in messages."""

    async def find(self, branch: str, base: str = "") -> PullRequest | None:
        """The open request of a branch, else the newest that was merged or closed.

        A request from a fork is never ours, whatever its branch is called. With `base`
        only requests into that branch count.
        """

    async def create(self, draft: PullRequestDraft) -> PullRequest:
        """Open it; one that is open already for these branches is updated in its place."""

    async def update(
        self, number: int, *, title: str, body: str, labels: tuple[str, ...] = ()
    ) -> PullRequest:
        """Say it anew; labels are added, and those that people have set stay."""

    async def state(self, number: int) -> PullRequest: ...


def short_title(title: str) -> str:
    """One line within the limits of all forges."""
    return truncate(" ".join(title.split()), MAX_TITLE)


def short_body(body: str) -> str:
    return body if len(body) <= MAX_BODY else body[: MAX_BODY - len(_CUT)] + _CUT


def choose_request(found: Iterable[PullRequest]) -> PullRequest | None:
    """The open one, else the newest; numbers grow."""
    return max(found, key=lambda one: (one.state is PullRequestState.OPEN, one.number), default=None)


def displayable_url(text: str | None) -> str:
    """An address from a forge, if a status may show it."""
    if text is None or len(text) > MAX_URL or not text.isprintable() or " " in text:
        return ""
    return text if text.startswith(("https://", "http://")) else ""


def commit_or_none(text: str | None) -> CommitId | None:
    try:
        return CommitId(text) if text else None
    except InvalidValue:
        return None

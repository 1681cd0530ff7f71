"""What is asked of a resource beside its spec: annotations that people and webhooks write.

They are kept as they were said. Whether a request is still current, or an
approval newer than what it shall release, is decided by the controller, which
knows when it saw them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from stoker.domain.refs import GitRef

APPROVAL_CLOCK_TOLERANCE = timedelta(minutes=5)
"""How far the clock of whoever approves may be ahead of ours."""


@dataclass(frozen=True, slots=True)
class RefRequest:
    """Another ref than the spec's, until the spec's own ref changes after it (C-053)."""

    ref: GitRef
    at: datetime | None = None
    by: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalGrant:
    """Somebody agreed, at a time; to one ref where it is named (C-125)."""

    by: str
    at: datetime
    ref: GitRef | None = None


class PlanApproval(NamedTuple):
    """The approval of one plan. It counts once: what was used is remembered in the ledger."""

    digest: str
    given: str = ""
    """What tells it from another approval of the same plan: where it was given, and when or for which commit.

    Empty: it was given to this process for its next sync alone, and is never stored.
    """

    @property
    def text(self) -> str:
        """As the ledger has it."""
        return f"{self.digest} {self.given}"


@dataclass(frozen=True, slots=True)
class ResourceRequests:
    """Everything that is asked at the moment."""

    ref: RefRequest | None = None
    approval: ApprovalGrant | None = None
    approved_plans: tuple[str, ...] = ()
    released_commits: tuple[str, ...] = ()
    """Commits that may be tried again where they were taken back."""

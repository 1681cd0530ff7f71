"""Requests to a resource beside its spec: annotations that people and webhooks write.

The values are kept as they were written. The controller decides whether a request is
still current, and whether an approval is newer than the change it releases, because the
controller knows when it first saw them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from stoker.domain.refs import GitRef

APPROVAL_CLOCK_TOLERANCE = timedelta(minutes=5)
"""How far the clock of the approving user's machine may be ahead of ours."""


@dataclass(frozen=True, slots=True)
class RefRequest:
    """A ref that overrides the spec's, until the spec's own ref changes after it."""

    ref: GitRef
    at: datetime | None = None
    by: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalGrant:
    """An approval by a user, at a time; limited to a ref if it names one."""

    by: str
    at: datetime
    ref: GitRef | None = None


class PlanApproval(NamedTuple):
    """The approval of one plan. It counts once: the ledger records used approvals."""

    digest: str
    given: str = ""
    """Distinguishes it from another approval of the same plan: its origin, and its time or commit.

    Empty: the approval was given to this process for its next sync alone, and is never stored.
    """

    @property
    def text(self) -> str:
        """The form in which the ledger stores it."""
        return f"{self.digest} {self.given}"


@dataclass(frozen=True, slots=True)
class ResourceRequests:
    """All current requests of a resource."""

    ref: RefRequest | None = None
    approval: ApprovalGrant | None = None
    approved_plans: tuple[str, ...] = ()
    released_commits: tuple[str, ...] = ()
    """Commits that were rolled back and may be tried again."""

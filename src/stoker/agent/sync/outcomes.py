"""The result of a sync as one word, shared by metrics, log lines and exit codes."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from stoker.domain.reasons import Reason


class SyncResult(StrEnum):
    DONE = "done"
    HELD = "held"
    """Applied except for held paths, such as a resource that is open in a Designer; they follow when free."""
    WAITING = "waiting"
    """Planned and not applied: no maintenance window is open."""
    PARTIAL = "partial"
    UNVERIFIED = "unverified"
    STALLED = "stalled"
    FAILED = "failed"


class SyncWait(NamedTuple):
    """Why a change is not made yet."""

    reason: Reason
    until: datetime | None = None
    """When it can be made; None if unknown."""

    @property
    def when(self) -> str:
        """`until` as an RFC 3339 string for a status; empty if unknown."""
        from stoker.domain.clock import rfc3339  # noqa: PLC0415 - few syncs wait

        return rfc3339(self.until) if self.until is not None else ""

    @property
    def message(self) -> str:
        when = f"opens at {self.when}" if self.until is not None else "is not scheduled"
        return f"no maintenance window is open; the next one {when}"

    def as_json(self) -> dict[str, object]:
        return {"reason": self.reason.value, "until": self.when or None, "message": self.message}

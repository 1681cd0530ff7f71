"""How a pass ended, as one word: for metrics, log lines and exit codes alike."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from stoker.domain.reasons import Reason


class SyncResult(StrEnum):
    DONE = "done"
    HELD = "held"
    """Done, but for places in which somebody works; they follow when they are free."""
    WAITING = "waiting"
    """Planned, and nothing of it done before its time has come."""
    PARTIAL = "partial"
    UNVERIFIED = "unverified"
    STALLED = "stalled"
    FAILED = "failed"


class SyncWait(NamedTuple):
    """Why a change is not made yet."""

    reason: Reason
    until: datetime | None = None
    """When it can be; None where nobody knows."""

    @property
    def when(self) -> str:
        """As in a status; empty where nobody knows."""
        from stoker.domain.clock import rfc3339  # noqa: PLC0415 - few wait

        return rfc3339(self.until) if self.until is not None else ""

    @property
    def message(self) -> str:
        when = f"opens at {self.when}" if self.until is not None else "is not in sight"
        return f"no maintenance window is open; the next one {when}"

    def as_json(self) -> dict[str, object]:
        return {"reason": self.reason.value, "until": self.when or None, "message": self.message}

"""How a pass ended, as one word: for metrics, log lines and exit codes alike."""

from __future__ import annotations

from enum import StrEnum


class Result(StrEnum):
    DONE = "done"
    HELD = "held"
    """Done, but for places in which somebody works; they follow when they are free."""
    PARTIAL = "partial"
    UNVERIFIED = "unverified"
    STALLED = "stalled"
    FAILED = "failed"

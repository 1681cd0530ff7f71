"""Exit codes, the same for every verb."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    DONE = 0
    PARTIAL = 1
    WRONG_INPUT = 2
    STALLED = 3
    UNREACHABLE = 4
    UNVERIFIED = 5
    DIFFERENT = 10

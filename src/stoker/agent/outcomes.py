"""How a pass ended, as one word: for metrics, log lines and exit codes alike."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from stoker.engine.objects import Note

if TYPE_CHECKING:
    from stoker.agent.reporting import SyncReport


class Result(StrEnum):
    DONE = "done"
    PARTIAL = "partial"
    UNVERIFIED = "unverified"
    STALLED = "stalled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A pass, and what of it the gateway did not verify."""

    report: SyncReport
    unverified: tuple[Note, ...] = ()

    @property
    def result(self) -> Result:
        if self.report.stalled is not None:
            return Result.STALLED
        if self.report.partial:
            return Result.PARTIAL
        return Result.UNVERIFIED if self.unverified else Result.DONE

    @property
    def files_changed(self) -> int:
        done = self.report.done
        return len(done.added) + len(done.modified) + len(done.deleted)

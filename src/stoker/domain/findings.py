"""Findings of the checks of `stoker doctor`.

Each part of the product that can be examined (a gateway, a cluster, a repository) has a
list of checks, and each check returns one finding. The first finding that is wrong ends
the list, because later checks would only repeat the same failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from stoker.domain.reasons import Reason


class FindingStatus(StrEnum):
    WELL = "ok"
    NOTE = "note"
    """Nothing is wrong, but the user should know it."""
    UNTRIED = "untried"
    WRONG = "WRONG"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, printed as one line."""

    check: str
    mark: FindingStatus
    said: str
    fix: str = ""
    """How to fix it, for an engineer who knows the plant and not this program."""
    reason: Reason | None = None
    of_input: bool = False
    """The cause is an input of this command, such as an option."""

    def lines(self) -> Iterator[str]:
        reason = f"{self.reason}: " if self.reason is not None else ""
        yield f"{self.mark:<8}{self.check:<12}{reason}{self.said}"
        if self.fix:
            yield f"{'':<8}{'':<12}-> {self.fix}"

    def as_json(self) -> dict[str, object]:
        said = {"check": self.check, "mark": self.mark.value.lower(), "message": self.said}
        more = {"fix": self.fix, "reason": self.reason.value if self.reason is not None else ""}
        return {**said, **{name: value for name, value in more.items() if value}}

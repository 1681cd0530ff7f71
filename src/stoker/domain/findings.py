"""What a check of `stoker doctor` found, whatever it looked at.

Each part of the product that can be looked at (a gateway, a cluster, a repository)
has a list of checks; each check makes one finding, and the first that is wrong ends
the list, because what comes after it would only repeat it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from stoker.domain.reasons import Reason


class FindingStatus(StrEnum):
    WELL = "ok"
    NOTE = "note"
    """Nothing is wrong, and somebody should know it all the same."""
    UNTRIED = "untried"
    WRONG = "WRONG"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination."""

    check: str
    mark: FindingStatus
    said: str
    mend: str = ""
    """What to do about it, for somebody who knows the plant and not this program."""
    reason: Reason | None = None
    of_input: bool = False
    """What is wrong is what this command was given."""

    def lines(self) -> Iterator[str]:
        reason = f"{self.reason}: " if self.reason is not None else ""
        yield f"{self.mark:<8}{self.check:<12}{reason}{self.said}"
        if self.mend:
            yield f"{'':<8}{'':<12}-> {self.mend}"

    def as_json(self) -> dict[str, object]:
        said = {"check": self.check, "mark": self.mark.value.lower(), "message": self.said}
        more = {"mend": self.mend, "reason": self.reason.value if self.reason is not None else ""}
        return {**said, **{name: value for name, value in more.items() if value}}

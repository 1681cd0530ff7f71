"""What passes between the parts of the way back, as values."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.domain.clock import Clock


@dataclass(frozen=True, slots=True)
class OutboxAddress:
    """Under which name a gateway sends."""

    gateway: str
    key: str


@dataclass(frozen=True, slots=True)
class OutgoingChangeSet:
    """A set that is ready to go."""

    id: str
    chunks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class CaptureStep:
    """What came of a look."""

    done: bool = True
    """False: it was too early to look."""
    parcel: OutgoingChangeSet | None = None
    again: bool = False
    """Something could not be read or compared just now."""


def next_id(clock: Clock, last: str) -> str:
    """By the time; a second one within the same second, or after the clock was set back, is numbered."""
    now = clock.now().strftime("%Y%m%d-%H%M%S")
    if now > last[:15]:
        return now
    number = int(last[16:] or "0") + 1
    return f"{last[:15]}-{number}"

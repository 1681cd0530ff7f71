"""Values that the modules of bidirectional sync exchange."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.domain.clock import Clock


@dataclass(frozen=True, slots=True)
class OutboxAddress:
    """The gateway's name and key in the outbox."""

    gateway: str
    key: str


@dataclass(frozen=True, slots=True)
class OutgoingChangeSet:
    """A packed change set, ready to send."""

    id: str
    chunks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class CaptureStep:
    """The result of one step."""

    done: bool = True
    """False if the gateway was not ready for a look."""
    parcel: OutgoingChangeSet | None = None
    again: bool = False
    """Whether a file could not be read or compared this time."""


def next_id(clock: Clock, last: str) -> str:
    """Return an id from the time; numbered if the second is the same or the clock was set back."""
    now = clock.now().strftime("%Y%m%d-%H%M%S")
    if now > last[:15]:
        return now
    number = int(last[16:] or "0") + 1
    return f"{last[:15]}-{number}"

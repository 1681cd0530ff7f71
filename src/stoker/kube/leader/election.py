"""Who leads: the decision of one candidate, without any I/O.

`Election` is told what was seen and what was written, and at which moment of its
own monotonic clock; it answers what to do next. `stoker.kube.leader.elector` does it.

    candidate ──claim accepted──► leader ──renewal accepted──► leader
        ▲                           │
        └── deadline passed, or the lease is gone or another's ──┘

Why two candidates never lead at the same moment, whatever their wall clocks say,
whatever is delayed or lost, and however long one of them is stopped:

- A leader counts its time from the moment *before* it sent the write that was
  accepted: deadline = start of that request + duration - margin.
- A candidate counts from the moment *after* it first saw a version of the lease,
  which cannot lie before the request that made this version. It claims only when
  that version has stood for the whole duration.
- The claim is accepted by the server only if the version is still that one, so
  a renewal in between defeats it.

It must never look at the times written in the lease. A lease that was deleted by
hand is waited out like one that is held, by all who had seen its holder; only a
candidate that starts after the deletion cannot know, and the leader then finds
out at its next renewal.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from stoker.kube.leader.lease import Lease, LeaseTerms

NEVER: Final = float("-inf")


class LeaseAction(Enum):
    """What is to be sent now."""

    LOOK = "look"
    CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class ElectionPause:
    """Nothing to do for so many seconds."""

    seconds: float


class Election:
    """What one candidate knows about one lease."""

    # random.random decides nothing but how renewals spread over time
    def __init__(self, terms: LeaseTerms, jitter: Callable[[], float] = random.random) -> None:
        self._terms = terms
        self._jitter = jitter
        self._lease: Lease | None = None
        self._seen = False  # whether `_lease` was ever filled, with a lease or with its absence
        self._current = False  # whether, for all we know, `_lease` is what the server holds
        self._free_at = NEVER
        self._next_move_at = NEVER
        self._deadline = NEVER
        self._may_hold = False

    @property
    def lease(self) -> Lease | None:
        """The lease as last seen or written."""
        return self._lease

    @property
    def leading(self) -> bool:
        return self._deadline != NEVER

    @property
    def deadline(self) -> float:
        """Until when this candidate may act; NEVER while it may not."""
        return self._deadline

    @property
    def may_hold(self) -> bool:
        """Whether the lease may stand in our name, be it by a claim whose answer never came."""
        return self._may_hold

    def next(self, now: float) -> LeaseAction | ElectionPause:
        """What to do at this moment."""
        if self.leading and now >= self._deadline:
            self._step_down(now)
        if now < self._next_move_at:
            wake = min(self._next_move_at, self._deadline) if self.leading else self._next_move_at
            return ElectionPause(wake - now)
        if self._current and (self.leading or now >= self._free_at):
            self._may_hold = True
            return LeaseAction.CLAIM
        return LeaseAction.LOOK

    def saw(self, lease: Lease | None, at: float) -> None:
        """The lease was read, or found missing; `at` is the moment after the answer came."""
        moved = not self._seen or _version(lease) != _version(self._lease)
        if moved:
            self._free_at = at + self._stands_for(lease)
        # A claim was turned down although nobody else has written: what does it again will do it without end.
        contradicted = not moved and not self._current
        self._lease, self._seen, self._current = lease, True, True
        ours = lease is not None and lease.holder == self._terms.identity
        self._may_hold = ours
        if self.leading and not ours:
            self._step_down(at)
        next_look = at + self._terms.poll * (1 - self._jitter() / 4)
        if contradicted:
            self._next_move_at = next_look
        else:
            self._next_move_at = at if self.leading else min(next_look, self._free_at)

    def wrote(self, lease: Lease, started: float) -> None:
        """Our claim was accepted; `started` is the moment before it was sent."""
        self._lease, self._seen, self._current, self._may_hold = lease, True, True, True
        self._free_at = NEVER
        self._deadline = started + self._terms.duration - self._terms.margin
        self._next_move_at = started + self._terms.renew * (1 - self._jitter() / 10)

    def overtaken(self) -> None:
        """The server holds another version than the one we wrote against: look before the next claim."""
        self._current = False
        self._next_move_at = NEVER

    def failed(self, started: float, now: float) -> None:
        """No answer, or none about the lease. What has been waited for long is tried again at once."""
        pause = self._terms.renew / 2 if self.leading else self._terms.poll
        self._next_move_at = max(now, started + pause * (1 - self._jitter() / 4))

    def stopped(self) -> None:
        """We gave the lease back, or tried to."""
        self._deadline = NEVER
        self._current = self._may_hold = False
        self._next_move_at = NEVER

    def _step_down(self, now: float) -> None:
        self._deadline = NEVER
        self._next_move_at = now

    def _stands_for(self, lease: Lease | None) -> float:
        """How long a lease that we see like this for the first time is to be respected."""
        # A lease that vanished was somebody's until a moment ago, and nobody told them.
        held = lease if lease is not None else self._lease
        if held is None or held.holder in {"", self._terms.identity}:
            return 0.0
        # The longer of both: the holder may run on other terms, and somebody may have edited them by hand.
        return float(max(held.spec.lease_duration_seconds or 0, self._terms.duration))


def _version(lease: Lease | None) -> str | None:
    return None if lease is None else lease.version

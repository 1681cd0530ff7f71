"""Leader election: the decisions of one candidate, without any I/O.

`stoker.kube.leader.elector` passes `Election` what it read and wrote, with the time of its own monotonic
clock; `Election` returns what to do next, and the elector does it.

    candidate ──claim accepted──► leader ──renewal accepted──► leader
        ▲                           │
        └── deadline passed, or the lease is gone or another's ──┘

Two candidates never lead at the same time, whatever their wall clocks show, whatever is delayed or lost, and
however long one of them is paused, because:

- A leader counts its time from the moment *before* it sent the write that was accepted: deadline = start of
  that request + duration - margin.
- A candidate counts from the moment *after* it first saw a version of the lease, which cannot be earlier than
  the request that made this version. It claims only when that version was unchanged for the whole duration.
- The server accepts the claim only if the version is still that one, so a renewal in between defeats it.

It must never use the times written in the lease. Every candidate that had seen the holder waits out a lease
that was deleted by hand as if it were still held. Only a candidate that starts after the deletion cannot know
of it, and the leader then notices at its next renewal.
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
    """The request to send now."""

    LOOK = "look"
    CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class ElectionPause:
    """Nothing to do for so many seconds."""

    seconds: float


class Election:
    """The state of one candidate for one lease."""

    # random.random only spreads renewals over time
    def __init__(self, terms: LeaseTerms, jitter: Callable[[], float] = random.random) -> None:
        self._terms = terms
        self._jitter = jitter
        self._lease: Lease | None = None
        self._seen = False  # whether `_lease` was ever set, to a lease or to its absence
        self._current = False  # whether, as far as we know, `_lease` is what the server has
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
        """Whether we may hold the lease, also after a claim without a response."""
        return self._may_hold

    def next(self, now: float) -> LeaseAction | ElectionPause:
        """Return what to do at this moment."""
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
        """Record that the lease was read, or is missing; `at` is the time after the response."""
        moved = not self._seen or _version(lease) != _version(self._lease)
        if moved:
            self._free_at = at + self._stands_for(lease)
        # A claim was refused although no other candidate has written: an immediate retry would repeat
        # endlessly.
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
        """Record that our claim was accepted; `started` is the time before it was sent."""
        self._lease, self._seen, self._current, self._may_hold = lease, True, True, True
        self._free_at = NEVER
        self._deadline = started + self._terms.duration - self._terms.margin
        self._next_move_at = started + self._terms.renew * (1 - self._jitter() / 10)

    def overtaken(self) -> None:
        """Record a conflict: the server has another version, so read it before the next claim."""
        self._current = False
        self._next_move_at = NEVER

    def failed(self, started: float, now: float) -> None:
        """Record a request without a usable response; after a long wait the retry is immediate."""
        pause = self._terms.renew / 2 if self.leading else self._terms.poll
        self._next_move_at = max(now, started + pause * (1 - self._jitter() / 4))

    def stopped(self) -> None:
        """Record that we released the lease, or tried to."""
        self._deadline = NEVER
        self._current = self._may_hold = False
        self._next_move_at = NEVER

    def _step_down(self, now: float) -> None:
        self._deadline = NEVER
        self._next_move_at = now

    def _stands_for(self, lease: Lease | None) -> float:
        """Return how long to respect a lease that we see in this version for the first time."""
        # A lease that disappeared was held until a moment ago, and its holder does not know yet.
        held = lease if lease is not None else self._lease
        if held is None or held.holder in {"", self._terms.identity}:
            return 0.0
        # The longer of both: the holder may use other terms, and a person may have edited the lease.
        return float(max(held.spec.lease_duration_seconds or 0, self._terms.duration))


def _version(lease: Lease | None) -> str | None:
    return None if lease is None else lease.version

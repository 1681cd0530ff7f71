"""Coalesces equal sync requests into one write, without losing any.

Redeliveries, several webhooks of one repository and floods repeat the same request many times. Requests
for one resource are written one after another, in the order of their arrival. A request that equals the
previous request within a second shares its write. If they name no commit, the later request may mean a later
commit: one more write follows at the end of the second, for all requests since the first write was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from stoker.domain.clock import Clock
from stoker.domain.intent.intent import ResourceIdentity
from stoker.webhooks.receiver.decide import WebhookSyncRequest

WINDOW_SECONDS = 1.0
_MANY = 256


@dataclass(slots=True, eq=False)
class _CoalescedWrite:
    """One write: pending, in progress, or finished a moment ago."""

    wish: WebhookSyncRequest
    sent_at: float | None = None
    task: asyncio.Task[None] = field(init=False)


class RequestCoalescer:
    """Passes requests to `write`, which raises if it fails."""

    def __init__(
        self,
        write: Callable[[ResourceIdentity, WebhookSyncRequest], Awaitable[None]],
        clock: Clock,
        window: float = WINDOW_SECONDS,
    ) -> None:
        self._write = write
        self._clock = clock
        self._window = window
        self._turns: dict[ResourceIdentity, _CoalescedWrite] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, who: ResourceIdentity, wish: WebhookSyncRequest) -> None:
        """Return when the request is written; cancelling one caller does not cancel the write for others."""
        turn = self._turns.get(who)
        if turn is None or not self._shares(turn, wish):
            turn = self._begin(who, wish, turn)
        await asyncio.shield(turn.task)

    async def close(self) -> None:
        """Cancel all writes that are not finished."""
        tasks = list(self._tasks)
        self._turns.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _shares(self, turn: _CoalescedWrite, wish: WebhookSyncRequest) -> bool:
        if turn.wish != wish:
            return False
        return turn.sent_at is None or (bool(wish.commit) and self._is_fresh(turn))

    def _is_fresh(self, turn: _CoalescedWrite) -> bool:
        return turn.sent_at is None or self._clock.monotonic() - turn.sent_at < self._window

    def _begin(
        self, who: ResourceIdentity, wish: WebhookSyncRequest, before: _CoalescedWrite | None
    ) -> _CoalescedWrite:
        if len(self._turns) >= _MANY:
            over = [one for one, turn in self._turns.items() if turn.task.done() and not self._is_fresh(turn)]
            for one in over:
                del self._turns[one]
        turn = self._turns[who] = _CoalescedWrite(wish)
        turn.task = asyncio.create_task(self._run(who, turn, before), name=f"wish {who.name}")
        self._tasks.add(turn.task)
        turn.task.add_done_callback(lambda task: self._ended(who, turn, task))
        return turn

    async def _run(
        self, who: ResourceIdentity, turn: _CoalescedWrite, before: _CoalescedWrite | None
    ) -> None:
        if before is not None:
            await asyncio.wait([before.task])
            if before.wish == turn.wish and before.sent_at is not None and not _has_failed(before.task):
                await self._clock.sleep(max(0.0, before.sent_at + self._window - self._clock.monotonic()))
        turn.sent_at = self._clock.monotonic()
        await self._write(who, turn.wish)

    def _ended(self, who: ResourceIdentity, turn: _CoalescedWrite, task: asyncio.Task[None]) -> None:
        """Forget a failed write, so that later requests do not share it."""
        self._tasks.discard(task)
        if _has_failed(task) and self._turns.get(who) is turn:
            del self._turns[who]


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.cancelled() or (task.done() and task.exception() is not None)

"""A limit on how long something may take, measured by the injected clock.

`asyncio.timeout` reads the event loop's own time, which tests cannot move. This
is the same scope with the `Clock` as its source: cancellation and its undoing
stay with the standard library, but for one case in which not every version gets
them right (`timeout_scope`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from stoker.domain.clock import Clock


@asynccontextmanager
async def timeout_scope(scope: asyncio.Timeout) -> AsyncIterator[None]:
    """`async with scope`, right also in a task that was cancelled before and is finishing something.

    Python 3.11.2, which is Debian 12's, takes that earlier cancellation for the cause
    and raises CancelledError in place of TimeoutError.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        async with scope:
            yield
    except asyncio.CancelledError:
        if scope.expired() and task is not None and task.cancelling() <= before:
            raise TimeoutError from None
        raise


@asynccontextmanager
async def deadline(clock: Clock, seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """Cancel the block after so many seconds and raise TimeoutError; `expired()` tells it from others."""
    loop = asyncio.get_running_loop()

    async def ring() -> None:
        await clock.sleep(seconds)
        scope.reschedule(loop.time())

    scope = asyncio.timeout(None)
    async with timeout_scope(scope):
        timer = loop.create_task(ring())
        try:
            yield scope
        finally:
            timer.cancel()


async def wait_for_end(
    task: asyncio.Task[None], clock: Clock, grace: float, giving_up: Callable[[], None]
) -> None:
    """Wait for a task that was told to end; after `grace` seconds that is told, and it is cut off."""
    try:
        async with deadline(clock, grace):
            await asyncio.wait([task])
    except TimeoutError:
        giving_up()
        task.cancel()
        await asyncio.wait([task])

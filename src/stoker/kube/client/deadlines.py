"""Timeouts that are measured by the injected clock.

`asyncio.timeout` uses the event loop's own time, which tests cannot control. This is the same scope with the
`Clock` as its source. The standard library still does the cancelling and uncancelling, except for one case
that some Python versions get wrong (`timeout_scope`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from stoker.domain.clock import Clock


@asynccontextmanager
async def timeout_scope(scope: asyncio.Timeout) -> AsyncIterator[None]:
    """`async with scope`, correct also in a task that was cancelled before and is cleaning up.

    Python 3.11.2, the version of Debian 12, attributes the timeout to that earlier cancellation and raises
    CancelledError instead of TimeoutError.
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
    """Cancel the block after so many seconds and raise TimeoutError.

    `expired()` of the scope distinguishes it from other TimeoutErrors.
    """
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
    """Wait for a task that was asked to stop; after `grace` seconds call `giving_up` and cancel it."""
    try:
        async with deadline(clock, grace):
            await asyncio.wait([task])
    except TimeoutError:
        giving_up()
        task.cancel()
        await asyncio.wait([task])

"""Timeouts that are measured by the injected clock, and waits for the first of several events.

`asyncio.timeout` uses the event loop's own time, which tests cannot control. This is the same scope with the
`Clock` as its source. The standard library still does the cancelling and uncancelling, except for one case
that some Python versions get wrong (`timeout_scope`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

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


async def wait_for_event(event: asyncio.Event, clock: Clock, seconds: float) -> bool:
    """Wait until the event is set, at most so many seconds, `math.inf` for ever; return whether it is set."""
    if seconds == math.inf:
        return await event.wait()
    with suppress(TimeoutError):
        async with deadline(clock, seconds):
            await event.wait()
    return event.is_set()


async def wait_for_first(*works: Awaitable[object]) -> int:
    """Wait until one of these ends; cancel the others and wait for them; return the position of the first.

    The error of a work is not raised: a caller that needs it passes a task and looks at the task's result.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(position for position, task in enumerate(tasks) if task.done())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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

"""A limit on how long something may take, measured by the injected clock.

`asyncio.timeout` reads the event loop's own time, which tests cannot move. This
is the same scope with the `Clock` as its source: cancellation and its undoing
stay with the standard library, which gets them right.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stoker.domain.clock import Clock


@asynccontextmanager
async def deadline(clock: Clock, seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """Cancel the block after so many seconds and raise TimeoutError; `expired()` tells it from others."""
    loop = asyncio.get_running_loop()

    async def ring() -> None:
        await clock.sleep(seconds)
        scope.reschedule(loop.time())

    async with asyncio.timeout(None) as scope:
        timer = loop.create_task(ring())
        try:
            yield scope
        finally:
            timer.cancel()

"""Waits for the first of several awaitables: a pause or an event, work or a signal to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def first_of(*works: Awaitable[object]) -> None:
    """Return when one of them is done, and cancel the others; errors and results are dropped."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""Waits for a condition, with a deadline.

Used where a test would otherwise sleep and hope: the wait ends as soon as the condition holds, and a
condition that never holds ends in an error that names it. Real time only; code that takes a `Clock` is tested
with `stoker_testkit.manual_clock.ManualClock` and needs no waiting.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

BUSY = 5.0
"""Factor for all timeouts: callers give the time that a quiet machine needs, and a busy one needs longer.
A deadline only detects what never happens; it measures nothing."""
INTERVAL = 0.02
"""Seconds between two checks: short enough not to delay a test, long enough to leave the cores to others."""


class ConditionTimeout(TimeoutError):
    """The deadline passed and the condition had not held once."""


def eventually(
    condition: Callable[[], T],
    timeout: float = 10.0,
    message: str | Callable[[], str] = "the condition",
    *,
    interval: float = INTERVAL,
) -> T:
    """Return the first truthy value of `condition`; exceptions that it raises are passed on at once."""
    timeout *= BUSY
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise _never(timeout, message)
        time.sleep(interval)


@overload
async def eventually_async(
    condition: Callable[[], Awaitable[T]],
    timeout: float = ...,
    message: str | Callable[[], str] = ...,
    *,
    interval: float = ...,
) -> T: ...
@overload
async def eventually_async(
    condition: Callable[[], T],
    timeout: float = ...,
    message: str | Callable[[], str] = ...,
    *,
    interval: float = ...,
) -> T: ...
async def eventually_async(
    condition: Callable[[], T | Awaitable[T]],
    timeout: float = 10.0,
    message: str | Callable[[], str] = "the condition",
    *,
    interval: float = INTERVAL,
) -> T:
    """The same without blocking the event loop; the condition may be a coroutine function."""
    timeout *= BUSY
    deadline = time.monotonic() + timeout
    while True:
        outcome = condition()
        value: T = await outcome if inspect.isawaitable(outcome) else outcome
        if value:
            return value
        if time.monotonic() >= deadline:
            raise _never(timeout, message)
        await asyncio.sleep(interval)


def _never(timeout: float, message: str | Callable[[], str]) -> ConditionTimeout:
    text = message if isinstance(message, str) else message()
    return ConditionTimeout(f"timed out after {timeout:g} s waiting for: {text}")

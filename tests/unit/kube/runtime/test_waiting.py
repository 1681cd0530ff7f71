"""Waiting for the first of several awaitables."""

from __future__ import annotations

import asyncio

from stoker.kube.runtime.waiting import first_of


async def test_the_first_that_is_done_ends_the_wait_and_cancels_the_others() -> None:
    cancelled = asyncio.Event()

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await first_of(asyncio.sleep(0), never())
    assert cancelled.is_set()


async def test_an_error_ends_the_wait_and_is_dropped() -> None:
    async def fails() -> None:
        raise RuntimeError("no matter")

    await first_of(fails(), asyncio.Event().wait())


async def test_a_cancelled_wait_cancels_what_it_waited_for() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.ensure_future(first_of(work()))
    await began.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert ended.is_set()

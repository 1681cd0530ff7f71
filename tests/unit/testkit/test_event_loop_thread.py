"""A loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from stoker_testkit.event_loop_thread import LoopThread


def test_runs_work_elsewhere_and_hands_back_results_and_errors() -> None:
    thread = LoopThread("elsewhere")

    async def work() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert thread.run(work()) == "elsewhere"
    assert thread.call(max, 3, 4) == 4
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 / 0)
    thread.stop()


def test_stopping_cancels_what_still_runs_and_lets_it_clean_up() -> None:
    thread = LoopThread("elsewhere")
    cleaned: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(forever())
        await asyncio.sleep(0)
        return task

    task = thread.run(begin())
    thread.stop()
    assert task.cancelled()
    assert cleaned == ["up"]

"""A limit on time that tests can move."""

from __future__ import annotations

import asyncio

import pytest

from stoker.kube.client.deadlines import deadline
from stoker_testkit.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def hang(clock: ManualClock, seconds: float) -> None:
    async with deadline(clock, seconds):
        await asyncio.Event().wait()


async def test_what_takes_too_long_is_cancelled_at_the_deadline(clock: ManualClock) -> None:
    task = asyncio.create_task(hang(clock, 10.0))
    await clock.advance(9.9)
    assert not task.done()
    await clock.advance(0.2)
    with pytest.raises(TimeoutError):
        await task


async def test_what_ends_in_time_leaves_no_timer_behind(clock: ManualClock) -> None:
    async with deadline(clock, 10.0) as scope:
        await asyncio.sleep(0)
        assert len(clock.alarms) == 1
    await asyncio.sleep(0)
    assert len(clock.alarms) == 0
    assert not scope.expired()


async def test_another_time_out_inside_can_be_distinguished(clock: ManualClock) -> None:
    with pytest.raises(TimeoutError):
        async with deadline(clock, 10.0) as scope:
            raise TimeoutError
    assert not scope.expired()


async def test_a_cancellation_from_outside_stays_one(clock: ManualClock) -> None:
    task = asyncio.create_task(hang(clock, 10.0))
    await clock.advance(1.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_inner_of_two_deadlines_does_not_set_off_the_outer(clock: ManualClock) -> None:
    async def both() -> str:
        async with deadline(clock, 20.0):
            with pytest.raises(TimeoutError):
                await hang(clock, 10.0)
            return "went on"

    task = asyncio.create_task(both())
    await clock.advance(10.0)
    assert await task == "went on"

"""A limit on time that tests can move."""

from __future__ import annotations

import asyncio
import math

import pytest

from stoker.kube.client.deadlines import deadline, wait_for_event, wait_for_first
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


async def test_a_wait_for_the_first_ends_with_it_and_leaves_no_timer_behind(clock: ManualClock) -> None:
    told = asyncio.Event()
    waiting = asyncio.create_task(wait_for_first(clock.sleep(10.0), told.wait()))
    await clock.advance(9.9)
    assert not waiting.done()
    told.set()
    assert await waiting == 1
    assert len(clock.alarms) == 0


async def test_of_several_that_ended_the_first_in_the_list_counts(clock: ManualClock) -> None:
    told = asyncio.Event()
    told.set()
    assert await wait_for_first(asyncio.Event().wait(), told.wait(), told.wait()) == 1


async def test_a_wait_for_the_first_waits_for_the_cleanup_of_the_others() -> None:
    cleaned = False

    async def work() -> None:
        nonlocal cleaned
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned = True

    assert await wait_for_first(work(), asyncio.sleep(0)) == 1
    assert cleaned


async def test_a_cancelled_wait_for_the_first_cancels_all() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    waiting = asyncio.create_task(wait_for_first(task, asyncio.Event().wait()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert task.cancelled()


async def test_an_error_ends_the_wait_and_stays_with_its_task() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    task = asyncio.create_task(fail())
    assert await wait_for_first(task, asyncio.Event().wait()) == 0
    with pytest.raises(ValueError, match="broken"):
        task.result()


async def test_a_wait_for_an_event_ends_with_it_or_with_the_time(clock: ManualClock) -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(wait_for_event(event, clock, 10.0))
    await clock.advance(10.1)
    assert await waiting is False
    waiting = asyncio.create_task(wait_for_event(event, clock, 10.0))
    await clock.advance(1.0)
    event.set()
    assert await waiting is True
    assert await wait_for_event(event, clock, 0.0) is True


async def test_a_wait_for_an_event_without_end_needs_no_timer(clock: ManualClock) -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(wait_for_event(event, clock, math.inf))
    await asyncio.sleep(0)
    assert len(clock.alarms) == 0
    event.set()
    assert await waiting is True

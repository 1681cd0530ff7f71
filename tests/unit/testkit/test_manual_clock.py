"""Time moved by hand."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from stoker.domain.clock import Clock
from stoker_testkit.manual_clock import START, ManualClock
from stoker_testkit.wait_until import ConditionTimeout


async def test_does_not_move_until_it_is_advanced() -> None:
    clock: Clock = ManualClock()
    assert (clock.now(), clock.monotonic()) == (START, 0.0)
    assert (clock.now(), clock.monotonic()) == (START, 0.0)


async def test_sleepers_wake_in_order_each_at_its_own_moment() -> None:
    clock = ManualClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("late", 9.0), ("early", 1.0), ("middle", 5.0), ("also early", 1.0)):
            group.create_task(sleeper(name, seconds))
        await clock.advance(4.0)
        assert woken == [("early", 1.0), ("also early", 1.0)]
        await clock.advance(5.0)
    assert woken[2:] == [("middle", 5.0), ("late", 9.0)]
    assert clock.now() - START == timedelta(seconds=9)


async def test_a_loop_that_sleeps_again_runs_as_often_as_it_would() -> None:
    clock = ManualClock()
    ticks: list[float] = []

    async def loop() -> None:
        while True:
            await clock.sleep(60)
            ticks.append(clock.monotonic())

    task = asyncio.create_task(loop())
    await clock.advance(600)
    task.cancel()
    assert ticks == [60.0 * count for count in range(1, 11)]


async def test_a_cancelled_sleeper_leaves_nothing_behind() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.sleeping()
    assert list(clock.alarms) == [5.0]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert list(clock.alarms) == []


async def test_the_wall_clock_jumps_alone() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.sleeping()
    clock.jump(-365 * 24 * 3600)
    assert clock.now() < START
    assert clock.monotonic() == 0.0
    assert not task.done()
    await clock.advance(5)
    assert task.done()


async def test_no_time_to_sleep_is_no_sleep() -> None:
    clock = ManualClock()
    await clock.sleep(0)
    await clock.sleep(-1)
    assert clock.monotonic() == 0.0


async def test_waiting_for_sleepers_that_do_not_come_says_how_many_there_are() -> None:
    with pytest.raises(ConditionTimeout, match="2 sleepers on the clock, where there are 0"):
        await ManualClock().sleeping(2, timeout=0.02)

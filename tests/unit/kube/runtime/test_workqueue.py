"""The work queue: one key at a time, in order, with delays and back-off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from stoker.kube.runtime.backoff import Backoff
from stoker.kube.runtime.workqueue import QueueClosed, WorkQueue
from stoker_testkit.manual_clock import ManualClock

Queue = WorkQueue[str]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def queue(clock: ManualClock) -> AsyncIterator[Queue]:
    queue: Queue = WorkQueue(clock=clock, backoff=Backoff(base=0.5, ceiling=300.0, jitter=0.0))
    yield queue
    queue.close()


def drain(queue: Queue) -> list[str]:
    """Everything that is ready now, worked on one after the other."""
    keys = []
    while (key := queue.take()) is not None:
        keys.append(key)
        queue.done(key)
    return keys


async def test_keys_come_in_the_order_in_which_they_were_added(queue: Queue) -> None:
    for key in "abc":
        queue.add(key)
    assert drain(queue) == ["a", "b", "c"]


async def test_many_adds_of_a_waiting_key_are_one_visit(queue: Queue) -> None:
    for _ in range(1000):
        queue.add("a")
    assert drain(queue) == ["a"]
    assert queue.snapshot().adds_total == 1


async def test_a_key_is_not_handed_out_again_before_it_is_done(queue: Queue) -> None:
    queue.add("a")
    assert queue.take() == "a"
    queue.add("a")
    assert queue.take() is None
    queue.done("a")
    assert queue.take() == "a"


async def test_adds_during_the_work_bring_the_key_back_once(queue: Queue) -> None:
    queue.add("a")
    queue.take()
    queue.add("a")
    queue.add("a")
    queue.done("a")
    assert drain(queue) == ["a"]


async def test_a_key_that_is_added_all_the_time_does_not_starve_the_others(queue: Queue) -> None:
    for key in ("busy", "a", "b"):
        queue.add(key)
    seen = []
    for _ in range(4):
        seen.append(await queue.get())
        queue.add("busy")
        queue.done(seen[-1])
    assert seen == ["busy", "a", "b", "busy"]


async def test_giving_back_a_key_that_is_not_held_is_an_error(queue: Queue) -> None:
    with pytest.raises(KeyError):
        queue.done("a")


async def test_a_delayed_key_comes_when_its_time_has_come(queue: Queue, clock: ManualClock) -> None:
    queue.add_after("a", 10.0)
    await clock.advance(9.9)
    assert queue.take() is None
    await clock.advance(0.2)
    assert queue.take() == "a"


async def test_a_waiting_getter_is_woken_when_a_delay_ends(queue: Queue, clock: ManualClock) -> None:
    getter = asyncio.create_task(queue.get())
    queue.add_after("late", 60.0)
    queue.add_after("soon", 5.0)
    await clock.advance(5.0)
    assert await getter == "soon"


async def test_delayed_keys_join_the_end_of_the_line_in_the_order_of_their_time(
    queue: Queue, clock: ManualClock
) -> None:
    queue.add_after("third", 3.0)
    queue.add_after("second", 2.0)
    queue.add("first")
    await clock.advance(5.0)
    queue.add("fourth")
    assert drain(queue) == ["first", "second", "third", "fourth"]


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("-inf")])
async def test_a_delay_that_is_none_is_an_add(queue: Queue, seconds: float) -> None:
    queue.add_after("a", seconds)
    assert queue.take() == "a"


async def test_an_enormous_delay_is_harmless(queue: Queue, clock: ManualClock) -> None:
    queue.add_after("never", 1e30)
    queue.add_after("a", 7200.0)
    await clock.advance(7200.0)
    assert drain(queue) == ["a"]


async def test_an_add_ends_a_delay(queue: Queue, clock: ManualClock) -> None:
    queue.add_after("a", 10.0)
    queue.add("a")
    assert drain(queue) == ["a"]
    await clock.advance(20.0)
    assert queue.take() is None


async def test_the_earlier_of_two_delays_wins_in_whatever_order_they_came(
    queue: Queue, clock: ManualClock
) -> None:
    for key, delays in {"a": (10.0, 5.0), "b": (5.0, 10.0)}.items():
        for delay in delays:
            queue.add_after(key, delay)
    await clock.advance(5.0)
    assert drain(queue) == ["a", "b"]
    await clock.advance(10.0)
    assert queue.take() is None


async def test_a_delay_that_ends_during_the_work_brings_the_key_back_after_it(
    queue: Queue, clock: ManualClock
) -> None:
    queue.add("a")
    queue.take()
    queue.add_after("a", 5.0)
    await clock.advance(6.0)
    assert queue.take() is None
    queue.done("a")
    assert queue.take() == "a"


async def test_a_delay_for_a_key_that_comes_back_anyway_is_not_needed(
    queue: Queue, clock: ManualClock
) -> None:
    queue.add("a")
    queue.take()
    queue.add("a")
    queue.add_after("a", 5.0)
    queue.done("a")
    assert drain(queue) == ["a"]
    await clock.advance(5.0)
    assert queue.take() is None


async def test_pauses_double_with_every_failure_and_end_at_five_minutes(
    queue: Queue, clock: ManualClock
) -> None:
    queue.add("a")
    pauses = []
    for _ in range(12):
        assert queue.take() == "a"
        pauses.append(queue.retry("a"))
        queue.done("a")
        assert queue.take() is None
        await clock.advance(pauses[-1])
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0, 300.0]
    assert queue.snapshot().retries_total == 12


async def test_a_pause_is_never_shorter_than_the_server_asked_for(queue: Queue) -> None:
    assert queue.retry("a", at_least=30.0) == 30.0
    assert [queue.retry("b", at_least=1.0) for _ in range(3)] == [1.0, 1.0, 2.0]


async def test_a_key_that_is_well_again_begins_with_a_short_pause(queue: Queue) -> None:
    for _ in range(5):
        queue.retry("a")
    assert queue.failures("a") == 5
    queue.forget("a")
    queue.forget("never-failed")
    assert queue.failures("a") == 0
    assert queue.retry("a") == 0.5


async def test_failures_of_one_key_do_not_slow_another(queue: Queue) -> None:
    for _ in range(5):
        queue.retry("a")
    assert queue.retry("b") == 0.5


async def test_a_failed_key_need_not_wait_when_its_cause_is_over_and_a_waiting_one_goes_on_waiting(
    queue: Queue, clock: ManualClock
) -> None:
    queue.add("running")
    assert queue.take() == "running"
    for _ in range(9):
        for key in ("failed", "running"):
            queue.retry(key)
    queue.add_after("patient", 60.0)
    queue.hurry()
    assert drain(queue) == ["failed"]
    queue.done("running")
    assert drain(queue) == ["running"]
    assert queue.failures("failed") == 9, "only a pass that goes well ends the row"
    await clock.advance(60.0)
    assert drain(queue) == ["patient"]


async def test_a_getter_waits_for_a_key(queue: Queue) -> None:
    getter = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not getter.done()
    queue.add("a")
    assert await getter == "a"


async def test_done_wakes_a_getter_for_the_key_that_comes_back(queue: Queue) -> None:
    queue.add("a")
    queue.take()
    queue.add("a")
    getter = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.done("a")
    assert await getter == "a"


async def test_a_getter_that_gives_up_leaves_its_turn_to_the_next(queue: Queue) -> None:
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")  # wakes the first
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second == "a"


async def test_getters_that_gave_up_take_no_key(queue: Queue) -> None:
    quitters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    for quitter in quitters:
        quitter.cancel()
    queue.add("a")  # before the quitters have run
    await asyncio.wait(quitters)
    assert all(quitter.cancelled() for quitter in quitters)
    assert await queue.get() == "a"


async def test_close_wakes_every_getter(queue: Queue) -> None:
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    ended = await asyncio.gather(*getters, return_exceptions=True)
    assert [type(each) for each in ended] == [QueueClosed] * 3


async def test_close_hands_out_what_was_ready_and_nothing_that_comes_later(
    queue: Queue, clock: ManualClock
) -> None:
    queue.add("a")
    queue.add_after("delayed", 1.0)
    queue.close()
    queue.add("b")
    queue.add_after("c", 1.0)
    queue.retry("d")
    await clock.advance(10.0)
    assert await queue.get() == "a"
    with pytest.raises(QueueClosed):
        await queue.get()
    assert clock.alarms == ()


async def test_a_snapshot_shows_depth_age_and_slowness(queue: Queue, clock: ManualClock) -> None:
    queue.add("slow")
    queue.take()
    await clock.advance(2.0)
    queue.add("a")
    queue.add("b")
    queue.add_after("c", 100.0)
    await clock.advance(3.0)
    depth = queue.snapshot()
    assert (depth.ready, depth.in_flight, depth.delayed) == (2, 1, 1)
    assert depth.oldest_seconds == 3.0
    assert depth.longest_running_seconds == 5.0
    assert depth.adds_total == 3


async def test_an_empty_queue_has_no_age(queue: Queue) -> None:
    depth = queue.snapshot()
    assert (depth.ready, depth.oldest_seconds, depth.longest_running_seconds) == (0, 0.0, 0.0)


async def test_delays_that_were_overtaken_do_not_pile_up(queue: Queue) -> None:
    for _ in range(10_000):
        queue.add_after("a", 300.0)
        queue.add("a")
        assert drain(queue) == ["a"]
    assert len(queue._heap) < 200


async def test_one_timer_serves_all_delays(queue: Queue, clock: ManualClock) -> None:
    for number in range(100):
        queue.add_after(str(number), 100.0 - number)
    await clock.advance(0.5)
    assert clock.alarms == (1.0,)


async def test_the_queue_keeps_up_with_twenty_thousand_events_a_second() -> None:
    queue: WorkQueue[int] = WorkQueue()
    began = time.process_time()
    for number in range(100_000):
        queue.add(number % 5000)
        if number % 20 == 19:
            queue.done(await queue.get())
    assert time.process_time() - began < 1.0  # five seconds worth of events

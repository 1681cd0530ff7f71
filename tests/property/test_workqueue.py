"""Laws of the work queue, against a model that is too simple to be wrong, and with real workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stoker.kube.runtime.backoff import Backoff
from stoker.kube.runtime.workqueue import QueueClosed, WorkQueue
from stoker_testkit.manual_clock import ManualClock

T = TypeVar("T")

KEYS = st.sampled_from("abcdef")
DELAYS = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0, 3.0, 60.0, 7200.0])
JITTER = 0.2


class QueueAgainstModel(RuleBasedStateMachine):
    """The model: a list for the line, and one appointment per key."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.queue: WorkQueue[str] = WorkQueue(clock=self.clock, backoff=Backoff(0.5, 300.0, JITTER))
        self.line: list[str] = []
        self.flying: list[str] = []
        self.again: list[str] = []
        self.appointments: dict[str, float] = {}
        self.failures: dict[str, int] = {}

    def teardown(self) -> None:
        """Nothing is lost: whatever was asked for is handed out in the end."""
        for key in list(self.flying):
            self.finish(key)
        self.advance(1e6)
        expected = list(self.line)
        assert [self.queue.take() for _ in expected] == expected
        assert self.queue.take() is None
        self.queue.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def in_loop(self, action: Callable[[], T]) -> T:
        async def act() -> T:
            return action()

        return self.loop.run_until_complete(act())

    def model_add(self, key: str) -> None:
        self.appointments.pop(key, None)
        if key in self.flying:
            if key not in self.again:
                self.again.append(key)
        elif key not in self.line:
            self.line.append(key)

    def model_add_after(self, key: str, delay: float) -> None:
        due = self.clock.monotonic() + delay
        if delay <= 0:
            self.model_add(key)
        elif (
            key not in self.line and key not in self.again and due < self.appointments.get(key, float("inf"))
        ):
            self.appointments.pop(key, None)  # of two that are due together the one made first comes first
            self.appointments[key] = due

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.in_loop(lambda: self.queue.add(key))
        self.model_add(key)

    @rule(key=KEYS, delay=DELAYS)
    def add_after(self, key: str, delay: float) -> None:
        self.in_loop(lambda: self.queue.add_after(key, delay))
        self.model_add_after(key, delay)

    @rule(key=KEYS, at_least=st.none() | st.floats(0.0, 1000.0))
    def retry(self, key: str, at_least: float | None) -> None:
        pause = self.in_loop(lambda: self.queue.retry(key, at_least))
        failures = self.failures[key] = self.failures.get(key, 0) + 1
        longest = min(300.0, 0.5 * 2 ** (failures - 1))
        least = at_least or 0.0
        assert max(least, longest * (1 - JITTER)) <= pause <= max(least, longest)
        self.model_add_after(key, pause)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 59.0, 400.0, 8000.0]))
    def advance(self, seconds: float) -> None:
        self.loop.run_until_complete(self.clock.advance(seconds))
        due = [key for key, moment in self.appointments.items() if moment <= self.clock.monotonic()]
        for key in sorted(due, key=self.appointments.__getitem__):
            self.model_add(key)

    @rule()
    def take(self) -> None:
        key = self.in_loop(self.queue.take)
        assert key == (self.line.pop(0) if self.line else None)
        if key is not None:
            assert key not in self.flying
            self.flying.append(key)

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        self.finish(data.draw(st.sampled_from(self.flying)))

    def finish(self, key: str) -> None:
        self.in_loop(lambda: self.queue.done(key))
        self.flying.remove(key)
        if key in self.again:
            self.again.remove(key)
            self.line.append(key)

    @invariant()
    def counts_agree(self) -> None:
        depth = self.queue.snapshot()
        assert (depth.ready, depth.in_flight, depth.delayed) == (
            len(self.line),
            len(self.flying),
            len(self.appointments),
        )


TestQueueAgainstModel = QueueAgainstModel.TestCase
TestQueueAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@settings(max_examples=60, deadline=None)
@given(
    adds=st.lists(st.tuples(KEYS, st.integers(0, 3)), max_size=60),
    holds=st.lists(st.integers(0, 4), min_size=1, max_size=10),
    quits=st.lists(st.integers(0, 40), max_size=5),
)
def test_every_add_is_followed_by_a_visit_and_no_two_visits_of_a_key_overlap(
    adds: list[tuple[str, int]], holds: list[int], quits: list[int]
) -> None:
    crowd = Crowd(holds)
    asyncio.run(crowd.run(adds, quits))
    assert all(crowd.visited.get(key, 0) > moment for key, moment in crowd.added.items())
    depth = crowd.queue.snapshot()
    assert (depth.ready, depth.in_flight) == (0, 0)


class Crowd:
    """Three workers, one who adds, and getters that give up at any moment."""

    def __init__(self, holds: list[int]) -> None:
        self.queue: WorkQueue[str] = WorkQueue(clock=ManualClock())
        self.holds = holds
        self.held: set[str] = set()
        self.step = 0
        self.added: dict[str, int] = {}
        self.visited: dict[str, int] = {}

    async def run(self, adds: list[tuple[str, int]], quits: list[int]) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(self.work())
            for after in quits:
                group.create_task(self.take_once_or_quit(after))
            for key, pause in adds:
                self.step += 1
                self.added[key] = self.step
                self.queue.add(key)
                await turns(pause)
            await turns(100)
            self.queue.close()

    async def work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            await self.visit(key)

    async def take_once_or_quit(self, after: int) -> None:
        getter = asyncio.create_task(self.queue.get())
        await turns(after)
        getter.cancel()
        outcome = (await asyncio.gather(getter, return_exceptions=True))[0]
        if isinstance(outcome, str):
            await self.visit(outcome)

    async def visit(self, key: str) -> None:
        assert key not in self.held
        self.held.add(key)
        self.step += 1
        self.visited[key] = self.step
        await turns(self.holds[self.step % len(self.holds)])
        self.held.remove(key)
        self.queue.done(key)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)

"""Requests share the memory of a port: never more than there is, and nothing is lost on the way."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.http_server.memory_budget import MemoryBudget


async def test_requests_wait_in_the_order_of_arrival() -> None:
    budget = MemoryBudget(10)
    entered: list[str] = []
    leave = {name: asyncio.Event() for name in "abcd"}

    async def request(name: str, size: int) -> None:
        async with budget.hold(size):
            entered.append(name)
            await leave[name].wait()

    tasks = {}
    for name, size in (("a", 6), ("b", 8), ("c", 2), ("d", 2)):
        tasks[name] = asyncio.create_task(request(name, size))
        await asyncio.sleep(0)
    assert entered == ["a"], "a small one does not overtake a large one for ever"
    tasks["b"].cancel()
    await asyncio.wait([tasks["b"]])
    await asyncio.sleep(0)
    assert entered == ["a", "c", "d"]
    for event in leave.values():
        event.set()
    await asyncio.gather(*(tasks[name] for name in "acd"))
    assert budget.taken == 0


async def test_more_than_there_is_cannot_be_held() -> None:
    with pytest.raises(ValueError, match="more than the whole budget"):
        await MemoryBudget(10).hold(11).__aenter__()


@given(
    st.lists(st.tuples(st.integers(0, 10), st.integers(0, 5), st.one_of(st.none(), st.integers(0, 6)))),
)
def test_whichever_requests_come_and_go_the_budget_holds_and_ends_empty(
    requests: list[tuple[int, int, int | None]],
) -> None:
    async def play() -> None:
        budget = MemoryBudget(10)
        done: list[int] = []

        async def request(size: int, turns: int) -> None:
            async with budget.hold(size):
                assert budget.taken <= 10
                for _ in range(turns):
                    await asyncio.sleep(0)
                done.append(size)

        async def cancelled(task: asyncio.Task[None], turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()

        tasks = [asyncio.create_task(request(size, turns)) for size, turns, _ in requests]
        cancelling = [
            cancelled(task, after)
            for task, (_, _, after) in zip(tasks, requests, strict=True)
            if after is not None
        ]
        await asyncio.gather(*cancelling)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
        assert budget.taken == 0
        assert len(done) >= sum(after is None for _, _, after in requests)

    asyncio.run(play())

"""The number of workers that push at a time."""

from __future__ import annotations

import asyncio

from stoker.reverser.destinations import BranchKey
from stoker.reverser.writer.worker import PushSlots


async def test_no_more_workers_push_at_once_than_may() -> None:
    slots = PushSlots(asyncio.Semaphore(3), per_repository=2)
    busy: dict[str, int] = {"a": 0, "b": 0}
    most: dict[str, int] = {"a": 0, "b": 0, "all": 0}

    async def push(repository: str, branch: int) -> None:
        async with slots.turn(BranchKey(repository, f"b{branch}")):
            busy[repository] += 1
            most[repository] = max(most[repository], busy[repository])
            most["all"] = max(most["all"], sum(busy.values()))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            busy[repository] -= 1

    await asyncio.gather(*(push(repository, branch) for branch in range(6) for repository in ("a", "b")))
    assert most == {"a": 2, "b": 2, "all": 3}

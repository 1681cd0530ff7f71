"""Places for a few: who is in a hurry goes first, and no place is lost."""

from __future__ import annotations

import asyncio

from stoker.controller.priority_semaphore import PrioritySemaphore


class Crowd:
    """People who want a place, and when they got one."""

    def __init__(self, turns: PrioritySemaphore) -> None:
        self._turns = turns
        self.served: list[str] = []
        self.go = asyncio.Event()

    def send(self, name: str, *, hurried: bool = False) -> asyncio.Task[None]:
        return asyncio.create_task(self._stay(name, hurried))

    async def _stay(self, name: str, hurried: bool) -> None:
        async with self._turns.turn(hurried=hurried):
            self.served.append(name)
            await self.go.wait()


async def _step() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_urgent_waiter_overtakes_other_waiters_and_no_holder() -> None:
    crowd = Crowd(PrioritySemaphore(2))
    tasks = [crowd.send(name) for name in ("a", "b", "c", "d")]
    await _step()
    tasks += [crowd.send("x", hurried=True), crowd.send("y", hurried=True)]
    await _step()
    assert crowd.served == ["a", "b"]
    crowd.go.set()
    await asyncio.gather(*tasks)
    assert crowd.served == ["a", "b", "x", "y", "c", "d"]


async def test_who_gives_up_leaves_the_line_and_takes_no_place_along() -> None:
    turns = PrioritySemaphore(1)
    crowd = Crowd(turns)
    first, second, third = crowd.send("a"), crowd.send("b"), crowd.send("c")
    await _step()
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    crowd.go.set()
    await asyncio.gather(first, third)
    assert crowd.served == ["a", "c"]


async def test_who_gives_up_in_the_moment_of_being_called_hands_the_place_on() -> None:
    turns = PrioritySemaphore(1)
    crowd = Crowd(turns)
    first, second = crowd.send("a"), crowd.send("b")
    await _step()
    first.cancel()  # its place goes to the second in the same moment in which that is cancelled, too
    second.cancel()
    third = crowd.send("c")
    ended = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
    crowd.go.set()
    await asyncio.wait_for(third, 5)
    assert crowd.served == ["a", "c"]
    async with asyncio.timeout(5), turns.turn():
        crowd.served.append("d")

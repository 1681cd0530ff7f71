"""A bound on how fast we ask."""

from __future__ import annotations

import asyncio

import pytest

from stoker.kube.client.token_bucket import RequestRate, TokenBucket
from stoker_testkit.manual_clock import ManualClock


async def test_a_burst_passes_at_once_and_the_rest_at_the_rate() -> None:
    clock = ManualClock()
    bucket = TokenBucket(RequestRate(qps=5, burst=10), clock)
    passed: list[tuple[int, float]] = []

    async def ask(index: int) -> None:
        await bucket.take()
        passed.append((index, round(clock.monotonic(), 6)))

    async with asyncio.TaskGroup() as group:
        for index in range(15):
            group.create_task(ask(index))
        await clock.advance(10)
    assert [moment for _, moment in passed] == [0.0] * 10 + [0.2, 0.4, 0.6, 0.8, 1.0]
    assert [index for index, _ in passed] == list(range(15))


async def test_a_pause_earns_no_more_than_one_burst() -> None:
    clock = ManualClock()
    bucket = TokenBucket(RequestRate(qps=1, burst=2), clock)
    await clock.advance(1000)
    for _ in range(2):
        await bucket.take()
    late = asyncio.create_task(bucket.take())
    await clock.advance(0.9)
    assert not late.done()
    await clock.advance(0.1)
    await late


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_rate_of_zero_is_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="lets nothing pass"):
        RequestRate(qps, burst)

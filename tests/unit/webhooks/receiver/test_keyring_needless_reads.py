"""Keys that need no read at the moment: those no resource names any more, and those that just failed."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from stoker.domain.errors import Retry
from stoker.domain.intent.source import SecretKey
from stoker.domain.secrets import Secret
from stoker.webhooks.receiver.keyring import CallerKeyring
from stoker_testkit.manual_clock import ManualClock

PLACE = ("site1", SecretKey("hook", "hmac-key"))


async def test_a_key_that_is_dropped_before_it_was_read_is_not_read() -> None:
    reads: list[tuple[str, SecretKey]] = []

    async def read(namespace: str, key: SecretKey) -> Secret:
        reads.append((namespace, key))
        return Secret("k3y")

    clock = ManualClock()
    ring = CallerKeyring(read, clock)
    ring.follow({PLACE})
    ring.follow(())
    running = asyncio.create_task(ring.run())
    await clock.advance(60)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert reads == []


async def test_a_key_that_is_dropped_before_it_was_read_does_not_keep_the_receiver_closed() -> None:
    async def read(namespace: str, key: SecretKey) -> Secret:
        raise AssertionError(f"{namespace}/{key.name} is not due")

    ring = CallerKeyring(read, ManualClock())
    ring.follow({PLACE})
    assert not ring.is_read
    ring.follow(())
    assert ring.is_read


async def test_a_key_that_cannot_be_read_is_not_read_again_before_its_pause_is_over() -> None:
    reads = 0

    async def read(namespace: str, key: SecretKey) -> Secret:
        nonlocal reads
        reads += 1
        raise Retry(f"{namespace}/{key.name}: the API server is away")

    clock = ManualClock()
    ring = CallerKeyring(read, clock)
    ring.follow({PLACE})
    running = asyncio.create_task(ring.run())
    for _ in range(20):
        await clock.advance(0)
    assert reads == 1
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_a_key_that_cannot_be_read_does_not_make_the_others_be_read_again() -> None:
    other = ("site2", PLACE[1])
    reads: list[str] = []

    async def read(namespace: str, key: SecretKey) -> Secret:
        reads.append(namespace)
        if namespace == PLACE[0]:
            raise Retry(f"{namespace}/{key.name}: the API server is away")
        return Secret("k3y")

    clock = ManualClock()
    ring = CallerKeyring(read, clock)
    ring.follow({PLACE, other})
    running = asyncio.create_task(ring.run())
    await clock.advance(120)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert reads.count("site1") > 1
    assert reads.count("site2") == 1

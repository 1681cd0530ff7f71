"""Keys in memory: read when they are named, again when they change, forgotten when they are unused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest_asyncio

from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.intent.source import SecretKey
from stoker.domain.secrets import Secret
from stoker.webhooks.receiver.keyring import CallerKeyring
from stoker_testkit.manual_clock import ManualClock

KEY = SecretKey("hook", "hmac-key")
PLACE = ("site1", KEY)


@dataclass
class KeyringEnvironment:
    """A ring, and the Secrets it reads."""

    clock: ManualClock = field(default_factory=ManualClock)
    secrets: dict[tuple[str, SecretKey], Secret | StokerError] = field(default_factory=dict)
    reads: int = 0

    def __post_init__(self) -> None:
        self.ring = CallerKeyring(self.read, self.clock)

    async def read(self, namespace: str, key: SecretKey) -> Secret:
        self.reads += 1
        found = self.secrets.get((namespace, key), Stalled("there is none"))
        if isinstance(found, StokerError):
            raise found
        return found

    def held(self) -> str | None:
        value = self.ring.value(*PLACE)
        return None if value is None else value.reveal()


@pytest_asyncio.fixture
async def environment() -> AsyncIterator[KeyringEnvironment]:
    made = KeyringEnvironment()
    running = asyncio.create_task(made.ring.run())
    yield made
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_what_is_named_is_read_once_and_held(environment: KeyringEnvironment) -> None:
    environment.secrets[PLACE] = Secret("k3y")
    environment.ring.follow({PLACE})
    assert not environment.ring.is_read
    await environment.clock.advance(0)
    environment.ring.follow({PLACE})
    await environment.clock.advance(60)
    assert (environment.held(), environment.reads, environment.ring.is_read) == ("k3y", 1, True)


async def test_a_rotated_key_counts_when_its_secret_changed(environment: KeyringEnvironment) -> None:
    environment.secrets[PLACE] = Secret("k3y")
    environment.ring.follow({PLACE})
    await environment.clock.advance(0)
    environment.secrets[PLACE] = Secret("rotated")
    environment.ring.changed("site1", "another")
    environment.ring.changed("site2", "hook")
    await environment.clock.advance(0)
    assert environment.held() == "k3y"
    environment.ring.changed("site1", "hook")
    await environment.clock.advance(0)
    assert (environment.held(), environment.reads) == ("rotated", 2)


async def test_a_missing_secret_is_named_until_it_is_there(environment: KeyringEnvironment) -> None:
    environment.ring.follow({PLACE})
    await environment.clock.advance(600)
    assert (environment.held(), environment.reads) == (None, 1)
    assert environment.ring.missing("site1", [KEY]) == (KEY,)
    environment.secrets[PLACE] = Secret("k3y")
    environment.ring.changed("site1", "hook")
    await environment.clock.advance(0)
    assert environment.held() == "k3y"
    assert environment.ring.missing("site1", [KEY]) == ()


async def test_a_secret_that_was_deleted_opens_nothing_any_more(environment: KeyringEnvironment) -> None:
    environment.secrets[PLACE] = Secret("k3y")
    environment.ring.follow({PLACE})
    await environment.clock.advance(0)
    del environment.secrets[PLACE]
    environment.ring.changed("site1", "hook")
    await environment.clock.advance(0)
    assert environment.held() is None


async def test_while_the_api_server_is_away_the_old_key_counts_and_reading_goes_on(
    environment: KeyringEnvironment,
) -> None:
    environment.secrets[PLACE] = Secret("k3y")
    environment.ring.follow({PLACE})
    await environment.clock.advance(0)
    environment.secrets[PLACE] = Retry("away")
    environment.ring.changed("site1", "hook")
    await environment.clock.advance(120)
    assert environment.held() == "k3y"
    assert 4 < environment.reads < 20
    environment.secrets[PLACE] = Secret("rotated")
    await environment.clock.advance(31)
    assert environment.held() == "rotated"


async def test_an_unused_key_is_forgotten(environment: KeyringEnvironment) -> None:
    environment.secrets[PLACE] = Secret("k3y")
    environment.ring.follow({PLACE})
    await environment.clock.advance(0)
    environment.ring.follow(set())
    assert environment.held() is None
    environment.ring.changed("site1", "hook")
    await environment.clock.advance(0)
    assert environment.reads == 1


async def test_once_it_is_filled_no_caller_waits_for_a_key_any_more(environment: KeyringEnvironment) -> None:
    other = ("site2", KEY)
    environment.secrets |= {PLACE: Secret("k3y"), other: Retry("away")}
    environment.ring.follow({PLACE})
    assert not environment.ring.is_read
    await environment.clock.advance(0)
    assert environment.ring.is_read
    environment.ring.follow({PLACE, other})
    environment.ring.changed("site1", "hook")
    assert environment.ring.is_read


async def test_a_key_that_cannot_be_read_does_not_keep_the_receiver_closed(
    environment: KeyringEnvironment,
) -> None:
    environment.secrets[PLACE] = Retry("away")
    environment.ring.follow({PLACE})
    await environment.clock.advance(0)
    assert environment.ring.is_read
    assert environment.held() is None


async def test_a_key_that_cannot_be_read_does_not_hold_up_another_that_changed(
    environment: KeyringEnvironment,
) -> None:
    other = ("site2", KEY)
    environment.secrets |= {PLACE: Secret("k3y"), other: Retry("away")}
    environment.ring.follow({PLACE, other})
    await environment.clock.advance(300)
    environment.secrets[PLACE] = Secret("rotated")
    environment.ring.changed("site1", "hook")
    await environment.clock.advance(0.1)
    assert environment.held() == "rotated"

"""Keys in memory: read when they are named, again when they change, forgotten when nobody names them."""

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
class Stage:
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
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    running = asyncio.create_task(made.ring.run())
    yield made
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_what_is_named_is_read_once_and_held(stage: Stage) -> None:
    stage.secrets[PLACE] = Secret("k3y")
    stage.ring.follow({PLACE})
    assert not stage.ring.is_read
    await stage.clock.advance(0)
    stage.ring.follow({PLACE})
    await stage.clock.advance(60)
    assert (stage.held(), stage.reads, stage.ring.is_read) == ("k3y", 1, True)


async def test_a_rotated_key_counts_when_its_secret_changed(stage: Stage) -> None:
    stage.secrets[PLACE] = Secret("k3y")
    stage.ring.follow({PLACE})
    await stage.clock.advance(0)
    stage.secrets[PLACE] = Secret("rotated")
    stage.ring.changed("site1", "another")
    stage.ring.changed("site2", "hook")
    await stage.clock.advance(0)
    assert stage.held() == "k3y"
    stage.ring.changed("site1", "hook")
    await stage.clock.advance(0)
    assert (stage.held(), stage.reads) == ("rotated", 2)


async def test_a_missing_secret_is_named_until_it_is_there(stage: Stage) -> None:
    stage.ring.follow({PLACE})
    await stage.clock.advance(600)
    assert (stage.held(), stage.reads) == (None, 1)
    assert stage.ring.missing("site1", [KEY]) == (KEY,)
    stage.secrets[PLACE] = Secret("k3y")
    stage.ring.changed("site1", "hook")
    await stage.clock.advance(0)
    assert stage.held() == "k3y"
    assert stage.ring.missing("site1", [KEY]) == ()


async def test_a_secret_that_was_deleted_opens_nothing_any_more(stage: Stage) -> None:
    stage.secrets[PLACE] = Secret("k3y")
    stage.ring.follow({PLACE})
    await stage.clock.advance(0)
    del stage.secrets[PLACE]
    stage.ring.changed("site1", "hook")
    await stage.clock.advance(0)
    assert stage.held() is None


async def test_while_the_api_server_is_away_the_old_key_counts_and_reading_goes_on(stage: Stage) -> None:
    stage.secrets[PLACE] = Secret("k3y")
    stage.ring.follow({PLACE})
    await stage.clock.advance(0)
    stage.secrets[PLACE] = Retry("away")
    stage.ring.changed("site1", "hook")
    await stage.clock.advance(120)
    assert stage.held() == "k3y"
    assert 4 < stage.reads < 20
    stage.secrets[PLACE] = Secret("rotated")
    await stage.clock.advance(31)
    assert stage.held() == "rotated"


async def test_an_unused_key_is_forgotten(stage: Stage) -> None:
    stage.secrets[PLACE] = Secret("k3y")
    stage.ring.follow({PLACE})
    await stage.clock.advance(0)
    stage.ring.follow(set())
    assert stage.held() is None
    stage.ring.changed("site1", "hook")
    await stage.clock.advance(0)
    assert stage.reads == 1


async def test_once_it_is_filled_no_caller_waits_for_a_key_any_more(stage: Stage) -> None:
    other = ("site2", KEY)
    stage.secrets |= {PLACE: Secret("k3y"), other: Retry("away")}
    stage.ring.follow({PLACE})
    assert not stage.ring.is_read
    await stage.clock.advance(0)
    assert stage.ring.is_read
    stage.ring.follow({PLACE, other})
    stage.ring.changed("site1", "hook")
    assert stage.ring.is_read


async def test_a_key_that_cannot_be_read_does_not_keep_the_receiver_closed(stage: Stage) -> None:
    stage.secrets[PLACE] = Retry("away")
    stage.ring.follow({PLACE})
    await stage.clock.advance(0)
    assert stage.ring.is_read
    assert stage.held() is None


async def test_a_key_that_cannot_be_read_does_not_hold_up_another_that_changed(stage: Stage) -> None:
    other = ("site2", KEY)
    stage.secrets |= {PLACE: Secret("k3y"), other: Retry("away")}
    stage.ring.follow({PLACE, other})
    await stage.clock.advance(300)
    stage.secrets[PLACE] = Secret("rotated")
    stage.ring.changed("site1", "hook")
    await stage.clock.advance(0.1)
    assert stage.held() == "rotated"

"""Many equal requests become one write, and none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from stoker.domain.errors import Retry
from stoker.domain.intent.intent import ResourceIdentity, SyncResourceKind
from stoker.domain.refs import GitRef
from stoker.webhooks.receiver.coalesce import RequestCoalescer
from stoker.webhooks.receiver.decide import WebhookSyncRequest
from stoker.webhooks.receiver.payloads import WebhookCaller
from stoker_testkit.manual_clock import ManualClock

PLANT = ResourceIdentity(SyncResourceKind.STOKER, "site1", "plant")
OTHER = ResourceIdentity(SyncResourceKind.IGNITION_SYNC, "site1", "plant")


def at(commit: str) -> WebhookSyncRequest:
    return WebhookSyncRequest(WebhookCaller.GITHUB, None, commit)


LOOK = WebhookSyncRequest(WebhookCaller.GENERIC, GitRef("main"))


@dataclass
class Writer:
    """Writes that take a second each, and fail when a test wants it."""

    clock: ManualClock = field(default_factory=ManualClock)
    begun: list[tuple[ResourceIdentity, WebhookSyncRequest]] = field(default_factory=list)
    failures: int = 0
    seconds: float = 0.1

    def __post_init__(self) -> None:
        self.coalescer = RequestCoalescer(self.write, self.clock)
        self.asked: list[asyncio.Task[None]] = []

    async def write(self, who: ResourceIdentity, request: WebhookSyncRequest) -> None:
        self.begun.append((who, request))
        await self.clock.sleep(self.seconds)
        if self.failures:
            self.failures -= 1
            raise Retry("not now")

    async def ask(
        self, request: WebhookSyncRequest, who: ResourceIdentity = PLANT, *, then: float = 0.0
    ) -> None:
        self.asked.append(asyncio.create_task(self.coalescer.ask(who, request)))
        await self.clock.advance(then)

    @property
    def written(self) -> list[WebhookSyncRequest]:
        return [request for _, request in self.begun]


@pytest_asyncio.fixture
async def writer() -> AsyncIterator[Writer]:
    made = Writer()
    yield made
    await made.coalescer.close()
    await asyncio.gather(*made.asked, return_exceptions=True)


async def test_the_same_commit_many_times_within_a_second_is_one_write(writer: Writer) -> None:
    for _ in range(90):
        await writer.ask(at("a"), then=0.01)
    await writer.clock.advance(5)
    assert writer.written == [at("a")]
    assert all(task.done() and task.exception() is None for task in writer.asked)


async def test_a_second_later_it_is_written_again(writer: Writer) -> None:
    await writer.ask(at("a"), then=1.1)
    await writer.ask(at("a"), then=1.1)
    assert writer.written == [at("a"), at("a")]


async def test_a_request_without_a_commit_that_came_after_the_write_is_written_once_more(
    writer: Writer,
) -> None:
    for _ in range(50):
        await writer.ask(LOOK, then=0.01)
    assert writer.written == [LOOK]
    await writer.clock.advance(5)
    assert writer.written == [LOOK, LOOK]
    assert all(task.done() and task.exception() is None for task in writer.asked)


async def test_there_and_back_again_is_three_writes_in_order(writer: Writer) -> None:
    for commit in "aba":
        await writer.ask(at(commit))
    await writer.clock.advance(5)
    assert writer.written == [at("a"), at("b"), at("a")]


async def test_an_older_request_never_lands_after_a_newer_one(writer: Writer) -> None:
    writer.seconds = 2.0
    await writer.ask(at("a"), then=0.1)
    await writer.ask(at("b"), then=0.1)
    assert writer.written == [at("a")]
    await writer.clock.advance(2)
    assert writer.written == [at("a"), at("b")]


async def test_resources_do_not_wait_for_each_other(writer: Writer) -> None:
    await writer.ask(at("a"))
    await writer.ask(at("a"), OTHER)
    await writer.clock.advance(0)
    assert writer.begun == [(PLANT, at("a")), (OTHER, at("a"))]


async def test_a_failure_is_returned_to_all_callers_that_shared_it_and_the_next_tries_anew(
    writer: Writer,
) -> None:
    writer.failures = 1
    await writer.ask(at("a"))
    await writer.ask(at("a"), then=0.2)
    assert [type(task.exception()) for task in writer.asked] == [Retry, Retry]
    await writer.ask(at("a"), then=0.2)
    assert writer.asked[-1].exception() is None
    assert len(writer.begun) == 2


async def test_a_caller_that_hangs_up_takes_nothing_from_the_others(writer: Writer) -> None:
    await writer.ask(at("a"))
    await writer.ask(at("a"))
    await asyncio.sleep(0)
    writer.asked[0].cancel()
    await writer.clock.advance(1)
    assert writer.asked[0].cancelled()
    assert writer.asked[1].done()
    assert writer.asked[1].exception() is None


async def test_what_was_written_long_ago_is_forgotten(writer: Writer) -> None:
    for number in range(600):
        await writer.ask(at("a"), ResourceIdentity(SyncResourceKind.STOKER, "site1", f"plant-{number}"))
        if number % 100 == 99:
            await writer.clock.advance(5)
    assert len(writer.coalescer._turns) < 300


async def test_closing_gives_up_what_waits(writer: Writer) -> None:
    await writer.ask(at("a"))
    await writer.ask(at("b"))
    await writer.clock.advance(0)
    await writer.coalescer.close()
    assert writer.written == [at("a")]
    with pytest.raises(asyncio.CancelledError):
        await writer.asked[1]

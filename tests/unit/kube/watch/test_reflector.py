"""The loop around the protocol: when it asks, what it reports, how it ends.

The real API server is the source in `tests/integration/kube/test_reflector_faults.py`;
here a script plays it, so that hours can pass on a clock that is moved by hand.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pytest

from stoker.domain.errors import StokerError
from stoker.kube.client.client import KubeClient, ListPage
from stoker.kube.client.errors import ApiServerUnreachable, Forbidden, Gone, NotFound, TooManyRequests
from stoker.kube.client.resources import CONFIG_MAPS, ApiResource
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.watch.list_watch import SPREAD, STANDSTILLS
from stoker.kube.watch.reflector import IDLE_TIMEOUT, ListWatchSource, Reflector
from stoker.kube.watch.store import ObjectChange, ObjectKey
from stoker_testkit.manual_clock import ManualClock


def item(name: str, version: str) -> bytes:
    metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "resourceVersion": version}
    return msgspec.json.encode({"metadata": metadata})


def event(kind: str, name: str, version: str) -> bytes:
    return b'{"type":"%s","object":%s}' % (kind.encode(), item(name, version))


def page(version: str, *items: bytes) -> ListPage:
    return ListPage(items=items, resource_version=version, continue_token="", remaining=None)


@dataclass(frozen=True)
class Pass:
    """So many seconds pass in the stream."""

    seconds: float


Answer = ListPage | bytes | Pass | StokerError
FOREVER = Pass(1e9)


@dataclass
class Script:
    """Plays the API server: one entry of `lists` or `streams` per request, the last one again and again."""

    clock: ManualClock
    lists: list[Sequence[Answer]]
    streams: list[Sequence[Answer]] = field(default_factory=lambda: [[FOREVER]])
    asked: list[tuple[str, float]] = field(default_factory=list)
    timeouts: list[tuple[int, float | None]] = field(default_factory=list)
    open_streams: int = 0

    async def pages(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = 500,
        metadata_only: bool = False,
    ) -> AsyncIterator[ListPage]:
        self.asked.append(("list", self.clock.monotonic()))
        for answer in self._next(self.lists):
            await asyncio.sleep(0)
            if isinstance(answer, StokerError):
                raise answer
            assert isinstance(answer, ListPage)
            yield answer

    @asynccontextmanager
    async def watch(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str | None = None,
        fields: str | None = None,
        timeout_seconds: int,
        idle_timeout: float | None = None,
        metadata_only: bool = False,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append((f"watch {resource_version}", self.clock.monotonic()))
        self.timeouts.append((timeout_seconds, idle_timeout))
        answers = self._next(self.streams)
        if answers and isinstance(answers[0], StokerError):
            raise answers[0]
        self.open_streams += 1
        try:
            yield self._lines(answers)
        finally:
            self.open_streams -= 1

    async def _lines(self, answers: Sequence[Answer]) -> AsyncIterator[bytes]:
        for answer in answers:
            if isinstance(answer, StokerError):
                raise answer
            if isinstance(answer, Pass):
                await self.clock.sleep(answer.seconds)
            elif isinstance(answer, bytes):
                yield answer

    def _next(self, script: list[Sequence[Answer]]) -> Sequence[Answer]:
        return script.pop(0) if len(script) > 1 else script[0]


class ReflectorEnvironment:
    """A reflector at work on a script."""

    def __init__(
        self,
        lists: list[Sequence[Answer]],
        streams: list[Sequence[Answer]] | None = None,
        *,
        idle_timeout: float | None = IDLE_TIMEOUT,
        resync_every: float | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.script = Script(self.clock, lists, streams or [[FOREVER]])
        self.errors: list[StokerError] = []
        self.delivered: list[str] = []
        self.recovered: list[float] = []
        self.reflector: Reflector[str] = Reflector(
            self.script,
            CONFIG_MAPS,
            namespace="shop",
            keep=bytes.decode,
            on_change=lambda change: self.delivered.append(described(change)),
            on_error=self.errors.append,
            on_recovered=lambda: self.recovered.append(self.clock.monotonic()),
            clock=self.clock,
            idle_timeout=idle_timeout,
            resync_every=resync_every,
            backoff=Backoff(base=0.5, ceiling=30.0, jitter=0.0),
            slow_backoff=Backoff(base=5.0, ceiling=60.0, jitter=0.0),
            random=lambda: 0.5,
        )
        self.task = asyncio.get_running_loop().create_task(self.reflector.run())

    async def pass_time(self, seconds: float = 0.0) -> None:
        await self.clock.advance(seconds)

    @property
    def asked(self) -> list[tuple[str, float]]:
        return self.script.asked

    async def end(self) -> None:
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


def described(change: ObjectChange[str]) -> str:
    sign = "+" if change.added else "-" if change.deleted else "~"
    return f"{sign}{change.key.name}@{change.resource_version}"


def test_the_client_is_a_source() -> None:
    source: type[ListWatchSource] = KubeClient
    assert source is KubeClient


async def test_the_first_list_is_delivered_before_the_sync_is_signalled() -> None:
    environment = ReflectorEnvironment([[page("10", item("a", "3")), page("10", item("b", "7"))]])
    waiting = asyncio.get_running_loop().create_task(environment.reflector.synced())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert not environment.reflector.health.synced
    await waiting
    assert environment.delivered == ["+a@3", "+b@7"]
    await environment.pass_time()
    assert environment.asked == [("list", 0.0), ("watch 10", 0.0)]
    assert environment.reflector.health.synced
    await environment.end()


async def test_changes_reach_the_listeners_when_the_store_has_them() -> None:
    environment = ReflectorEnvironment(
        [[page("10")]], [[event("ADDED", "a", "11"), event("DELETED", "a", "12"), FOREVER]]
    )
    seen: list[tuple[str, bool]] = []
    environment.reflector.listen(
        lambda change: seen.append((described(change), ObjectKey("shop", "a") in environment.reflector.store))
    )
    await environment.pass_time()
    assert seen == [("+a@11", True), ("-a@12", False)]
    await environment.end()


async def test_a_late_listener_gets_what_is_there_and_a_removed_one_gets_nothing() -> None:
    environment = ReflectorEnvironment(
        [[page("10", item("a", "3"))]], [[Pass(5.0), event("ADDED", "b", "11"), FOREVER]]
    )
    await environment.pass_time()
    stays: list[str] = []
    leaves: list[str] = []
    environment.reflector.listen(lambda change: stays.append(described(change)))
    leave = environment.reflector.listen(lambda change: leaves.append(described(change)))
    leave()
    await environment.pass_time(5.0)
    assert stays == ["+a@3", "+b@11"]
    assert leaves == ["+a@3"]
    assert environment.delivered == ["+a@3", "+b@11"]
    await environment.end()


async def test_a_broken_stream_is_resumed_from_the_last_event_after_a_pause() -> None:
    environment = ReflectorEnvironment(
        [[page("10")]], [[event("ADDED", "a", "11"), ApiServerUnreachable("reset")], [FOREVER]]
    )
    await environment.pass_time(10.0)
    assert environment.asked == [("list", 0.0), ("watch 10", 0.0), ("watch 11", 0.5)]
    assert environment.reflector.broken_streams == 1
    assert [error.message for error in environment.errors] == ["reset"]
    assert environment.reflector.health.error is None, "the watch is open again"
    await environment.end()


async def test_a_waiter_learns_that_the_server_is_back() -> None:
    environment = ReflectorEnvironment(
        [[page("10")]],
        [
            [Pass(60.0), ApiServerUnreachable("reset")],
            [ApiServerUnreachable("refused")],
            [Forbidden("no", status=403)],
            [FOREVER],
        ],
    )
    await environment.pass_time(60.4)
    assert environment.recovered == [], "neither at the beginning nor while it fails"
    await environment.pass_time(10.0)
    assert environment.recovered == [pytest.approx(62.0)]
    await environment.end()


async def test_an_expired_version_is_listed_again_and_only_the_difference_is_delivered() -> None:
    environment = ReflectorEnvironment(
        [[page("10", item("a", "3"), item("b", "7"))], [page("90", item("a", "3"), item("c", "80"))]],
        [[Gone("too old", status=410)], [FOREVER]],
    )
    await environment.pass_time(10.0)
    assert environment.asked == [("list", 0.0), ("watch 10", 0.0), ("list", 0.5), ("watch 90", 0.5)]
    assert environment.delivered == ["+a@3", "+b@7", "-b@90", "+c@80"]
    assert (environment.reflector.lists, environment.reflector.relists, environment.reflector.watches) == (
        2,
        1,
        2,
    )
    await environment.end()


async def test_a_list_that_breaks_off_delivers_nothing() -> None:
    environment = ReflectorEnvironment(
        [[page("10", item("a", "3")), ApiServerUnreachable("reset")], [page("20", item("b", "15"))]]
    )
    await environment.pass_time(0.4)
    assert environment.delivered == []
    assert not environment.reflector.health.synced
    await environment.pass_time(0.1)
    assert environment.delivered == ["+b@15"]
    assert environment.reflector.relists == 0
    await environment.end()


@pytest.mark.parametrize(
    "error", [Forbidden("not allowed", status=403), NotFound("no such kind", status=404)]
)
async def test_a_denied_or_missing_kind_is_reported_and_tried_slowly(error: StokerError) -> None:
    environment = ReflectorEnvironment([[error], [error], [error], [page("10")]])
    await environment.pass_time(14.0)
    health = environment.reflector.health
    assert (health.error, health.failing_since, health.failures) == (error, 0.0, 2)
    assert (environment.reflector._last_contact, health.synced) == (None, False)
    assert [moment for _, moment in environment.asked] == [0.0, 5.0]
    await environment.pass_time(30.0)
    assert [moment for _, moment in environment.asked] == [0.0, 5.0, 15.0, 35.0, 35.0]
    assert environment.errors == [error] * 3
    health = environment.reflector.health
    assert (health.error, health.failing_since, health.synced) == (None, None, True)
    await environment.end()


async def test_the_time_to_stay_away_is_kept() -> None:
    environment = ReflectorEnvironment([[TooManyRequests("busy", status=429, after=20.0)], [page("10")]])
    await environment.pass_time(20.4)
    assert len(environment.asked) == 1
    await environment.pass_time(0.1)
    assert environment.asked[1] == ("list", 20.5)
    await environment.end()


async def test_a_watch_asks_for_a_time_in_between_and_for_an_end_of_silence() -> None:
    for draw, seconds in [(0.0, 240), (0.5, 360), (0.999999, 480)]:
        clock = ManualClock()
        script = Script(clock, [[page("10")]])
        reflector: Reflector[bytes] = Reflector(
            script, CONFIG_MAPS, keep=bytes, clock=clock, idle_timeout=90.0, random=partial(float, draw)
        )
        task = asyncio.get_running_loop().create_task(reflector.run())
        await clock.advance(0.0)
        assert script.timeouts == [(seconds, 90.0)]
        task.cancel()


async def test_streams_that_end_together_do_not_come_back_together() -> None:
    clock = ManualClock()
    chance = random.Random(7)  # noqa: S311 - it spreads requests, it hides nothing
    scripts = [Script(clock, [[page("10")]], [[Pass(100.0)], [FOREVER]]) for _ in range(300)]
    tasks = [
        asyncio.get_running_loop().create_task(
            Reflector(script, CONFIG_MAPS, keep=bytes, clock=clock, random=chance.random).run()
        )
        for script in scripts
    ]
    await clock.advance(100.0 + SPREAD)
    returns = [script.asked[-1][1] for script in scripts]
    assert all(len(script.asked) == 3 for script in scripts)
    assert len(set(returns)) > 290
    busiest = max(sum(start <= each < start + 0.05 for each in returns) for start in returns)
    assert busiest < 60, "a tenth of the spread brings about a tenth of them"
    for task in tasks:
        task.cancel()


async def test_silence_is_no_error_but_is_noticed_and_ends_in_a_list() -> None:
    silence: Sequence[Answer] = [Pass(90.0), ApiServerUnreachable("did not answer within 90 s")]
    environment = ReflectorEnvironment(
        [[page("10")]], [silence] * STANDSTILLS + [[FOREVER]], idle_timeout=90.0
    )
    await environment.pass_time(300.0)
    words = [word for word, _ in environment.asked]
    assert words == ["list", "watch 10", "watch 10", "watch 10", "list", "watch 10"]
    assert environment.asked[2][1] == 90.0 + SPREAD / 2
    assert environment.reflector.silences == STANDSTILLS
    assert environment.errors == []
    assert environment.reflector.health.failures == 0
    await environment.end()


async def test_a_stream_that_breaks_before_the_silence_is_over_is_an_error() -> None:
    environment = ReflectorEnvironment(
        [[page("10")]], [[Pass(40.0), ApiServerUnreachable("reset")], [FOREVER]], idle_timeout=90.0
    )
    await environment.pass_time(60.0)
    assert environment.reflector.silences == 0
    assert len(environment.errors) == 1
    await environment.end()


async def test_the_last_contact_is_the_last_line() -> None:
    environment = ReflectorEnvironment([[page("10")]], [[Pass(60.0), event("ADDED", "a", "11"), FOREVER]])
    await environment.pass_time(59.0)
    assert environment.reflector._last_contact == 0.0
    await environment.pass_time(50.0)
    assert environment.reflector._last_contact == 60.0
    await environment.end()


async def test_a_resync_lists_in_time_and_delivers_only_what_was_missed() -> None:
    environment = ReflectorEnvironment(
        [[page("10", item("a", "3"))], [page("20", item("a", "3"), item("b", "15"))]],
        [[Pass(100.0)], [FOREVER]],
        resync_every=100.0,
    )
    await environment.pass_time(150.0)
    assert environment.script.timeouts[0][0] == 100
    assert [word for word, _ in environment.asked] == ["list", "watch 10", "list", "watch 20"]
    assert environment.delivered == ["+a@3", "+b@15"]
    await environment.end()


async def test_an_overdue_resync_waits_for_the_pause_after_an_error_and_for_one_short_watch() -> None:
    environment = ReflectorEnvironment(
        [[page("10")]],
        [[Pass(150.0), TooManyRequests("busy", status=429, after=30.0)], [Pass(1.0)], [FOREVER]],
        resync_every=100.0,
    )
    await environment.pass_time(200.0)
    assert environment.asked[:3] == [("list", 0.0), ("watch 10", 0.0), ("watch 10", 180.5)]
    assert environment.asked[3] == ("list", 181.5)
    assert [seconds for seconds, _ in environment.script.timeouts] == [100, 1, 100]
    await environment.end()


async def test_an_object_that_cannot_be_kept_is_counted_and_the_others_flow() -> None:
    clock = ManualClock()
    refused: list[str] = []

    def keep(raw: bytes) -> int:
        return len(raw) if b'"bad"' not in raw else int("bad")

    reflector = Reflector(
        Script(clock, [[page("10", item("bad", "3"), item("good", "4"))]]),
        CONFIG_MAPS,
        keep=keep,
        on_refused=lambda key, error: refused.append(f"{key}: {type(error).__name__}"),
        clock=clock,
    )
    task = asyncio.get_running_loop().create_task(reflector.run())
    await reflector.synced()
    assert refused == ["shop/bad: ValueError"]
    assert (reflector.store.refused, reflector.store.keys()) == (1, [ObjectKey("shop", "good")])
    task.cancel()


async def test_repetitions_are_counted() -> None:
    environment = ReflectorEnvironment([[page("10", item("a", "3"))]], [[event("ADDED", "a", "3"), FOREVER]])
    await environment.pass_time()
    assert environment.reflector._watching.duplicates == 1
    assert environment.delivered == ["+a@3"]
    await environment.end()


async def test_cancelling_closes_the_stream_at_once_and_leaves_nothing_behind() -> None:
    before = asyncio.all_tasks()
    environment = ReflectorEnvironment([[page("10")]])
    await environment.pass_time(30.0)
    assert environment.script.open_streams == 1
    await environment.end()
    assert environment.script.open_streams == 0
    assert asyncio.all_tasks() == before


async def test_cancelling_ends_a_pause_at_once() -> None:
    environment = ReflectorEnvironment([[Forbidden("not allowed", status=403)]])
    await environment.pass_time(1.0)
    assert list(environment.clock.alarms) == [5.0]
    await environment.end()
    assert list(environment.clock.alarms) == []


async def test_a_mistake_of_a_listener_is_not_swallowed() -> None:
    def stumble(_: ObjectChange[bytes]) -> None:
        raise RuntimeError("a mistake of ours")

    clock = ManualClock()
    script = Script(clock, [[page("10", item("a", "3"))]])
    reflector = Reflector(script, CONFIG_MAPS, keep=bytes, on_change=stumble, clock=clock)
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        await reflector.run()

"""Asking repositories beside the passes: when a question is put, and who waits for the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from stoker.controller.cache.objects import ResourceKey
from stoker.controller.ref_resolution.lookup import PER_HOST
from stoker.controller.ref_resolution.resolver import (
    ANSWER_WAIT_SECONDS,
    GIT_TIMEOUT,
    RefQuestion,
    RefResolver,
)
from stoker.domain.errors import Stalled, StokerError
from stoker.domain.intent.source import GitAuthKind, GitAuthPolicy, SecretKey, SourceIntent
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl, SourceUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import GitPassword, RepoAccess
from stoker.git.process.runner import GitRunner
from stoker.kube.client.errors import ApiServerUnreachable
from stoker.kube.watch.store import ObjectKey
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.wait_until import eventually_async

KEY = ResourceKey("Stoker", ObjectKey("plant", "line"))
OTHER = ResourceKey("Stoker", ObjectKey("plant", "other"))


class World:
    """A repository, and an access that the test can hold back or spoil."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.plant = Repository.create(folder / "plant.git")
        self.plant.commit({"a": "1"})
        self.source = SourceIntent(RepoUrl(f"file://{self.plant.path}"), GitRef("main"))
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: StokerError | None = None
        self.asked = self.answers = 0
        self.order: list[str] = []
        """The namespaces of those who were asked about."""
        self.found: list[ResourceKey] = []
        self.access = RepoAccess()
        self.resolver = RefResolver(
            GitRunner(folder / "cache"),
            self._access,
            clock,
            enqueue=self.found.append,
            timed=self._answered,
            random=lambda: 0.0,
        )

    def _answered(self, key: ResourceKey, seconds: float) -> None:
        self.answers += 1

    async def _access(self, namespace: str, source: SourceIntent) -> RepoAccess:
        self.asked += 1
        self.order.append(namespace)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.access


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[tuple[World, ManualClock]]:
    clock = ManualClock()
    made = World(folder, clock)
    polling = asyncio.create_task(made.resolver.run())
    try:
        yield made, clock
    finally:
        made.gate.set()
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)


async def test_an_answer_is_good_for_the_polling_interval(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, clock):
        question = RefQuestion(it.source)
        answer = await it.resolver.look(KEY, question, 60.0)
        assert answer is not None
        assert answer.commit == it.plant.tip()
        moved = it.plant.commit({"a": "2"})
        await clock.advance(59)
        await it.resolver.look(KEY, question, 60.0)
        assert it.asked == 1
        await clock.advance(1)
        await eventually_async(lambda: it.found == [KEY], message="the resource is brought back")
        answer = await it.resolver.look(KEY, question, 60.0)
        assert answer is not None
        assert (answer.commit, answer.asked_for, it.asked) == (moved, False, 2)


async def test_while_nothing_moves_no_resource_is_enqueued(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, clock):
        await it.resolver.look(KEY, RefQuestion(it.source), 60.0)
        for times in (2, 3):
            await clock.advance(60)
            await eventually_async(lambda times=times: it.answers == times)  # type: ignore[misc]
        it.error = Stalled("Secret 'x' does not exist", reason=Reason.SECRET_NOT_FOUND)
        await clock.advance(60)
        await eventually_async(lambda: it.found == [KEY], message="an error enqueues the resource")
        await clock.advance(15)
        await eventually_async(lambda: it.answers == 5)
        assert it.found == [KEY], "once"


async def test_another_interval_counts_from_the_last_answer(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, clock):
        question = RefQuestion(it.source)
        await it.resolver.look(KEY, question, 3600.0)
        await clock.advance(10)
        await it.resolver.look(KEY, question, 30.0)
        assert it.asked == 1
        await clock.advance(20)
        await eventually_async(lambda: it.asked == 2)


async def test_who_rests_is_not_asked_about_and_at_once_when_he_is_back(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, clock):
        question = RefQuestion(it.source)
        await it.resolver.look(KEY, question, 60.0)
        await it.resolver.look(ResourceKey("Stoker", ObjectKey("awake", "line")), question, 60.0)
        it.resolver.rest(KEY)
        await clock.advance(60)
        await eventually_async(lambda: it.answers == 3, message="who does not rest is asked about")
        assert it.order == ["plant", "awake", "awake"]
        await it.resolver.look(KEY, question, 60.0)
        assert it.order == ["plant", "awake", "awake", "plant"]


async def test_a_turn_that_came_while_he_rested_is_not_the_last_one(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, clock):
        question = RefQuestion(it.source)
        await it.resolver.look(KEY, question, 30.0)
        await it.resolver.look(KEY, question, 300.0)  # the turn of the shorter interval still comes
        it.resolver.rest(KEY)
        await clock.advance(60)
        await it.resolver.look(KEY, question, 300.0)
        assert it.asked == 1
        await clock.advance(240)
        await eventually_async(lambda: it.asked == 2, message="it is asked about when it is time")


async def test_who_queues_for_a_host_has_all_the_time_when_his_turn_comes(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, clock):
        it.gate.clear()
        keys = [ResourceKey("Stoker", ObjectKey(f"plant-{n}", "line")) for n in range(PER_HOST + 1)]
        looks = [asyncio.create_task(it.resolver.look(key, RefQuestion(it.source), 60.0)) for key in keys]
        await eventually_async(lambda: it.asked == PER_HOST)
        await clock.advance(GIT_TIMEOUT)
        await eventually_async(lambda: it.asked == PER_HOST + 1, message="the last one has its turn")
        assert [*await asyncio.gather(*looks)] == [None] * len(keys), "no reconcile waits so long"
        it.gate.set()
        await eventually_async(lambda: it.answers == PER_HOST + 1)
        answer = await it.resolver.look(keys[-1], RefQuestion(it.source), 60.0)
        assert answer is not None
        assert answer.commit == it.plant.tip()


async def test_a_change_is_asked_about_before_the_polls_that_wait(tmp_path: Path) -> None:
    """The places of a host are taken by polls, and more wait."""
    async with world(tmp_path) as (it, _):
        key = ResourceKey("Stoker", ObjectKey("urgent", "line"))
        await it.resolver.look(key, RefQuestion(it.source), None)
        it.gate.clear()
        others = [
            ResourceKey("Stoker", ObjectKey("plant", f"line-{number}")) for number in range(3 * PER_HOST)
        ]
        polls = [asyncio.create_task(it.resolver.look(one, RefQuestion(it.source), 60.0)) for one in others]
        await eventually_async(lambda: it.asked == 1 + PER_HOST)
        nudge = RefQuestion(it.source, request=("now",))
        waiting = asyncio.create_task(it.resolver.look(key, nudge, None))
        await asyncio.sleep(0)
        it.gate.set()
        await asyncio.gather(waiting, *polls)
        assert it.order[1 + PER_HOST] == "urgent", "the next that gets a place is the one that changed"


async def test_buckets_of_one_endpoint_share_its_places(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, _):
        it.gate.clear()
        it.error = Stalled("no")
        sources = [
            it.source._replace(url=SourceUrl(f"s3://plant-{number}?endpoint=http://127.0.0.1:1"))
            for number in range(PER_HOST + 2)
        ]
        looks = [
            asyncio.create_task(
                it.resolver.look(
                    ResourceKey("Stoker", ObjectKey("plant", source.url)), RefQuestion(source), None
                )
            )
            for source in sources
        ]
        await eventually_async(lambda: it.asked >= PER_HOST)
        for _ in range(10):
            await asyncio.sleep(0)
        assert it.asked == PER_HOST
        it.gate.set()
        await asyncio.gather(*looks)


async def test_another_question_is_put_at_once(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, _):
        it.plant.tag("v1", it.plant.tip())
        question = RefQuestion(it.source)
        await it.resolver.look(KEY, question, None)
        for other in (
            replace(question, source=it.source._replace(ref=GitRef("v1"))),
            replace(question, secrets=("2",)),
        ):
            before = it.asked
            answer = await it.resolver.look(KEY, other, None)
            assert answer is not None
            assert it.asked > before
            assert not answer.asked_for
        nudged = await it.resolver.look(KEY, replace(question, request=("", "now", "webhook", "")), None)
        assert nudged is not None
        assert nudged.asked_for, "a request was the reason"


async def test_a_slow_repository_lets_the_pass_go_on_and_comes_back_by_itself(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, clock):
        it.gate.clear()
        looking = asyncio.create_task(it.resolver.look(KEY, RefQuestion(it.source), 60.0))
        await eventually_async(lambda: it.asked == 1)
        await clock.advance(ANSWER_WAIT_SECONDS)
        assert await looking is None
        it.gate.set()
        await eventually_async(lambda: it.found == [KEY], message="the resource is brought back")
        answer = await it.resolver.look(KEY, RefQuestion(it.source), 60.0)
        assert answer is not None
        assert (answer.commit, it.asked) == (it.plant.tip(), 1)


async def test_a_late_answer_enqueues_only_the_resource_that_waits_for_it(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, clock):
        await it.resolver.look(OTHER, RefQuestion(it.source), 60.0)
        it.gate.clear()
        looking = asyncio.create_task(it.resolver.look(KEY, RefQuestion(it.source), 60.0))
        await eventually_async(lambda: it.asked == 2)
        await clock.advance(60)  # the poll of the other resource waits for its login, too
        await eventually_async(lambda: it.asked == 3)
        assert await looking is None
        it.gate.set()
        await eventually_async(lambda: it.answers == 3)
        assert it.found == [KEY], "the other resource has the same answer as before"


async def test_while_it_is_asked_again_the_last_answer_counts(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, clock):
        question = RefQuestion(it.source)
        first = await it.resolver.look(KEY, question, 60.0)
        it.gate.clear()
        await clock.advance(60)
        looking = asyncio.create_task(it.resolver.look(KEY, question, 60.0))
        await eventually_async(lambda: it.asked == 2)
        await clock.advance(ANSWER_WAIT_SECONDS)
        assert await looking == first


async def test_after_a_failure_the_pauses_grow_and_a_new_secret_ends_them(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, clock):
        it.error = Stalled("Secret 'x' does not exist", reason=Reason.SECRET_NOT_FOUND)
        question = RefQuestion(it.source)
        answer = await it.resolver.look(KEY, question, 60.0)
        assert answer is not None
        assert answer.error is it.error
        for number, pause in enumerate((15, 30, 60, 60), start=1):
            await clock.advance(pause - 1)
            assert it.asked == number
            await clock.advance(1)
            await eventually_async(lambda number=number: it.answers == number + 1)  # type: ignore[misc]
        it.error = None
        answer = await it.resolver.look(KEY, replace(question, secrets=("new",)), 60.0)
        assert answer is not None
        assert answer.commit == it.plant.tip()


async def test_a_login_that_the_api_server_did_not_hand_out_is_asked_for_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as (it, clock):
        await it.resolver.look(KEY, RefQuestion(it.source), 60.0)
        it.error = ApiServerUnreachable("get secrets plant/git: refused")
        await it.resolver.look(OTHER, RefQuestion(it.source), 60.0)
        await clock.advance(60)
        await eventually_async(lambda: KEY in it.found)
        it.error = None
        before = it.asked
        it.resolver.hurry()
        await eventually_async(lambda: it.asked == before + 2)
        await eventually_async(lambda: OTHER in it.found)
        answer = await it.resolver.look(OTHER, RefQuestion(it.source), 60.0)
        assert answer is not None
        assert answer.commit == it.plant.tip()
        it.resolver.hurry()
        await clock.advance(0)
        assert it.asked == before + 2, "who has an answer waits for its time"


async def test_what_takes_too_long_is_an_error(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, clock):
        it.gate.clear()
        looking = asyncio.create_task(it.resolver.look(KEY, RefQuestion(it.source), 60.0))
        await eventually_async(lambda: it.asked == 1)
        await clock.advance(ANSWER_WAIT_SECONDS)
        await looking
        await clock.advance(120)
        await eventually_async(lambda: it.found == [KEY])
        answer = await it.resolver.look(KEY, RefQuestion(it.source), 60.0)
        assert answer is not None
        assert answer.error is not None
        assert answer.error.reason is Reason.SOURCE_UNREACHABLE
        assert "120 s" in answer.error.message


async def test_an_apps_token_is_handed_on_with_the_answer(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, _):
        it.access = RepoAccess(GitPassword("x-access-token", Secret("minted")))
        auth = GitAuthPolicy(GitAuthKind.GITHUB_APP, SecretKey("app", "pem"), app_id=1, installation_id=2)
        answer = await it.resolver.look(KEY, RefQuestion(it.source._replace(auth=auth)), 60.0)
        assert answer is not None
        assert answer.token == Secret("minted")
        plain = await it.resolver.look(OTHER, RefQuestion(it.source), 60.0)
        assert plain is not None
        assert plain.token is None, "other logins are not passed on"


async def test_what_is_forgotten_is_not_waited_for(tmp_path: Path) -> None:
    async with world(tmp_path) as (it, clock):
        it.gate.clear()
        looking = asyncio.create_task(it.resolver.look(KEY, RefQuestion(it.source), 60.0))
        await eventually_async(lambda: it.asked == 1)
        it.resolver.forget(KEY)
        await clock.advance(ANSWER_WAIT_SECONDS)
        assert await looking is None
        assert it.found == []

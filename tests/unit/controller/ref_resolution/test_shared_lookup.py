"""One lookup of a repository for all equal callers, and for no others."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stoker.controller.cache.objects import ResourceKey
from stoker.controller.priority_semaphore import HostLimiter
from stoker.controller.ref_resolution.lookup import MAX_CONCURRENT_LOOKUPS, PER_HOST, RefLookupResult
from stoker.controller.ref_resolution.resolver import RefQuestion, RefResolver
from stoker.controller.ref_resolution.shared_lookup import (
    MAX_NAMES,
    MAX_WAIT_SECONDS,
    SharedLookupRequest,
    SharedLookupResult,
    SharedLookups,
    lookup_key,
)
from stoker.domain.errors import Retry, StokerError
from stoker.domain.intent.source import GitAuthKind, GitAuthPolicy, SecretKey, SourceIntent
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import GitPassword, GitSshKey, RepoAccess
from stoker.git.process.runner import GitRunner
from stoker.kube.watch.store import ObjectKey
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.wait_until import eventually_async

URL = RepoUrl("https://git.example/plant.git")
MAIN = ("refs/heads/main", "refs/tags/main")
COMMIT = CommitId("a" * 40)


def key(name: str, namespace: str = "plant") -> ResourceKey:
    return ResourceKey("Stoker", ObjectKey(namespace, name))


def login(name: str, password: str) -> RepoAccess:
    return RepoAccess(GitPassword(name, Secret(password)))


class Plant:
    """A repository behind a server that counts who looks, and a resolver."""

    def __init__(self, server: GitHttpServer, folder: Path, clock: ManualClock) -> None:
        self.repository = Repository.create(server.root / "plant.git")
        self.server = server
        self.repository.commit({"a": "1"})
        self.source = SourceIntent(RepoUrl(server.url("plant.git")), GitRef("main"))
        self.access: dict[str, RepoAccess] = {}
        self.error: StokerError | None = None
        self.answers = 0
        self.found: list[ResourceKey] = []
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
        if self.error is not None:
            raise self.error
        return self.access.get(namespace, RepoAccess())

    def looks(self) -> Counter[str | None]:
        """How often git asked for the list of refs, by who was let in."""
        asked = [one for one in self.server.requests if "/info/refs" in one.path and one.status == 200]
        return Counter(one.user for one in asked)

    async def ask(
        self, who: ResourceKey, ref: str = "main", interval: float = 60.0, nudge: str = ""
    ) -> RefLookupResult:
        question = RefQuestion(self.source._replace(ref=GitRef(ref)), request=(nudge,) if nudge else ())
        answer = await self.resolver.look(who, question, interval)
        assert answer is not None
        return answer


@pytest.fixture
async def plant(git_http: GitHttpServer, tmp_path: Path) -> AsyncIterator[tuple[Plant, ManualClock]]:
    clock = ManualClock()
    made = Plant(git_http, tmp_path, clock)
    polling = asyncio.create_task(made.resolver.run())
    yield made, clock
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)


class TestPolls:
    async def test_of_one_repository_with_one_login_are_one_look(
        self, plant: tuple[Plant, ManualClock]
    ) -> None:
        it, clock = plant
        everybody = [key(f"line-{number}", f"site-{number % 3}") for number in range(12)]
        for one in everybody:
            await it.ask(one)
            await clock.advance(1)  # each has a minute of its own
        before = it.looks().total()
        moved = it.repository.commit({"a": "2"})
        await clock.advance(60)
        await eventually_async(lambda: len(it.found) == len(everybody), message="all are enqueued")
        assert it.looks().total() - before <= 2
        for one in everybody:
            assert (await it.ask(one)).commit == moved

    async def test_of_several_branches_are_one_look_too(self, plant: tuple[Plant, ManualClock]) -> None:
        it, clock = plant
        it.repository.commit({"a": "side"}, branch="side")
        for tag in ("v1", "main"):
            it.repository.tag(tag, it.repository.tip())
        refs = {"main": "line", "side": "press", "v1": "filler", "refs/heads/main": "capper"}
        for ref, name in refs.items():
            await it.ask(key(name), ref)
        before = it.looks().total()
        moved = {ref: it.repository.commit({"a": f"{ref} 2"}, branch=ref) for ref in ("main", "side")}
        await clock.advance(60)
        await eventually_async(lambda: len(it.found) == 3, message="those that moved are enqueued")
        await eventually_async(lambda: it.answers == 2 * len(refs))
        assert it.looks().total() - before == 1
        assert (await it.ask(key("line"), "main")).commit == moved["main"]
        assert (await it.ask(key("press"), "side")).commit == moved["side"]
        assert (await it.ask(key("capper"), "refs/heads/main")).commit == moved["main"]

    async def test_with_different_logins_never_share(self, plant: tuple[Plant, ManualClock]) -> None:
        """The second may not see the repository, whatever the first got a moment ago."""
        it, clock = plant
        it.server.users.update(anna="a", ben="b")
        it.access = {"a": login("anna", "a"), "b": login("ben", "b"), "c": login("anna", "wrong")}
        for namespace in it.access:
            await it.ask(key("line", namespace))
        await clock.advance(60)
        await eventually_async(lambda: it.looks() == {"anna": 2, "ben": 2})
        refused = await it.ask(key("line", "c"))
        assert refused.commit is None
        assert refused.error is not None
        assert refused.error.reason is Reason.SOURCE_AUTH_FAILED

    async def test_a_login_that_changed_is_not_answered_by_what_the_old_one_saw(
        self, plant: tuple[Plant, ManualClock]
    ) -> None:
        it, clock = plant
        it.server.users.update(anna="a")
        it.access = {"a": login("anna", "a"), "b": login("anna", "a")}
        await it.ask(key("line", "a"))
        await it.ask(key("line", "b"))
        it.access["b"] = login("anna", "revoked")
        await clock.advance(60)
        await eventually_async(
            lambda: it.found == [key("line", "b")], message="the error enqueues the resource"
        )
        assert (await it.ask(key("line", "b"))).error is not None
        assert (await it.ask(key("line", "a"))).error is None

    async def test_keep_their_own_period(self, plant: tuple[Plant, ManualClock]) -> None:
        """No result is older than the interval, whichever caller has looked."""
        it, clock = plant
        await it.ask(key("slow"), interval=60.0)
        await it.ask(key("quick"), interval=10.0)
        moved = it.repository.commit({"a": "2"})
        await clock.advance(10)
        await eventually_async(lambda: it.found == [key("quick")], message="the quick one sees it first")
        for answers in range(4, 8):
            await clock.advance(10)
            await eventually_async(lambda answers=answers: it.answers == answers)  # type: ignore[misc]
        assert it.found == [key("quick")]
        await clock.advance(10)
        await eventually_async(lambda: key("slow") in it.found, message="a minute after its last answer")
        assert (await it.ask(key("slow"), interval=60.0)).commit == moved

    async def test_count_from_the_look_that_answered_them(self, plant: tuple[Plant, ManualClock]) -> None:
        it, clock = plant
        await it.ask(key("first"))
        await clock.advance(40)
        await it.ask(key("second"))
        moved = it.repository.commit({"a": "2"})
        await clock.advance(20)  # the first takes what the second has found
        await eventually_async(lambda: it.answers == 3)
        assert (it.looks().total(), it.found) == (2, [])
        await clock.advance(40)
        await eventually_async(lambda: len(it.found) == 2, message="a minute after that look, both see it")
        assert (await it.ask(key("first"))).commit == moved

    async def test_a_login_that_was_refused_is_read_once_more(self, plant: tuple[Plant, ManualClock]) -> None:
        """A GitHub App's token can end before its time."""
        it, _ = plant
        it.server.users.update(anna="new")

        def renew() -> None:
            it.access["plant"] = login("anna", "new")

        it.access = {"plant": dataclasses.replace(login("anna", "old"), refused=renew)}
        assert (await it.ask(key("line"))).commit == it.repository.tip()
        refused = [one for one in it.server.requests if one.status == 401 and one.user is None]
        assert len(refused) <= 3, "git asks without a login first"


class TestNudges:
    async def test_are_never_answered_from_before(self, plant: tuple[Plant, ManualClock]) -> None:
        it, _ = plant
        await it.ask(key("line"))
        await it.ask(key("press"))
        for number in range(3):
            moved = it.repository.commit({"a": f"{number} 2"})
            looks = it.looks().total()
            assert (await it.ask(key("line"), nudge=f"{number}")).commit == moved
            assert (await it.ask(key("press"), nudge=f"{number}")).commit == moved
            assert it.looks().total() == looks + 2
        assert (await it.ask(key("new"))).commit == moved, "who comes anew is as curious"

    async def test_who_comes_back_from_a_rest_looks_anew(self, plant: tuple[Plant, ManualClock]) -> None:
        it, clock = plant
        await it.ask(key("line"))
        it.resolver.rest(key("line"))
        await clock.advance(55)
        await it.ask(key("press"))
        moved = it.repository.commit({"a": "2"})
        await clock.advance(10)
        assert (await it.ask(key("line"))).commit == moved


def let_in_as_an_app(it: Plant) -> SourceIntent:
    """The plant's repository, opened with the token that an App was given."""
    it.access = {"plant": login("x-access-token", "minted")}
    auth = GitAuthPolicy(GitAuthKind.GITHUB_APP, SecretKey("app", "pem"), app_id=1, installation_id=2)
    return it.source._replace(auth=auth)


async def test_a_pinned_commit_of_an_app_brings_the_token_for_its_gateways(
    plant: tuple[Plant, ManualClock],
) -> None:
    it, _ = plant
    it.source = let_in_as_an_app(it)
    answer = await it.ask(key("line"), str(it.repository.tip()))
    assert (answer.commit, answer.token) == (it.repository.tip(), Secret("minted"))
    assert not it.looks()


async def test_the_login_of_an_app_is_renewed_without_polling_and_the_ref_stays(
    plant: tuple[Plant, ManualClock],
) -> None:
    it, clock = plant
    question = RefQuestion(let_in_as_an_app(it))
    first = await it.resolver.look(key("line"), question, 240.0, follows=False)
    it.repository.commit({"a": "2"})
    it.access = {"plant": login("x-access-token", "renewed")}
    await clock.advance(240)
    await eventually_async(lambda: it.found == [key("line")])
    second = await it.resolver.look(key("line"), question, 240.0, follows=False)
    assert first is not None
    assert second == dataclasses.replace(first, token=Secret("renewed"))


async def test_a_renewal_that_failed_once_does_not_follow_the_ref_either(
    plant: tuple[Plant, ManualClock],
) -> None:
    it, clock = plant
    question = RefQuestion(let_in_as_an_app(it))
    first = await it.resolver.look(key("line"), question, 240.0, follows=False)
    it.repository.commit({"a": "2"})
    it.error = Retry("GitHub is away", reason=Reason.SERVICE_UNREACHABLE)
    await clock.advance(240)
    await eventually_async(lambda: it.found == [key("line")], message="the failure enqueues the resource")
    it.error, it.access = None, {"plant": login("x-access-token", "renewed")}
    await clock.advance(60)
    await eventually_async(lambda: it.found == [key("line")] * 2)
    second = await it.resolver.look(key("line"), question, 240.0, follows=False)
    assert first is not None
    assert second == dataclasses.replace(first, token=Secret("renewed"))


class CountedTurns(HostLimiter):
    """Records for each place that was requested whether it was urgent."""

    def __init__(self, places: int, per_host: int) -> None:
        super().__init__(places, per_host)
        self.turns: list[bool] = []

    @asynccontextmanager
    async def turn(self, host: str, *, hurried: bool = False) -> AsyncIterator[None]:
        self.turns.append(hurried)
        async with super().turn(host, hurried=hurried):
            yield


class Looking:
    """Looks that end when the test says so."""

    def __init__(self, clock: ManualClock) -> None:
        self.asked: list[frozenset[str]] = []
        self.gates: list[asyncio.Event] = []
        self.cancelled = 0
        self.hosts = CountedTurns(MAX_CONCURRENT_LOOKUPS, PER_HOST)
        self.looks = SharedLookups(self._look, self.hosts, clock)
        self._clock = clock

    async def _look(self, url: RepoUrl, access: RepoAccess, names: Collection[str]) -> Mapping[str, CommitId]:
        self.asked.append(frozenset(names))
        gate = asyncio.Event()
        self.gates.append(gate)
        try:
            await gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return dict.fromkeys(names, COMMIT)

    def send(
        self, *names: str, hurried: bool = False, age: float = 0.0, access: RepoAccess | None = None
    ) -> asyncio.Task[SharedLookupResult]:
        wanted = SharedLookupRequest(names or MAIN, self._clock.monotonic() - age, hurried, again_in=60.0)
        return asyncio.create_task(self.looks.ask(URL, access or RepoAccess(), wanted))

    async def under_way(self, count: int) -> None:
        await eventually_async(lambda: len(self.gates) == count)


@pytest.fixture
async def looking() -> tuple[Looking, ManualClock]:
    clock = ManualClock()
    return Looking(clock), clock


async def _settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class TestLooks:
    async def test_those_who_come_during_a_look_wait_for_the_next_together(
        self, looking: tuple[Looking, ManualClock]
    ) -> None:
        it, _ = looking
        first = it.send()
        await it.under_way(1)
        others = [it.send(f"refs/heads/{number}") for number in range(20)]
        await _settled()
        assert len(it.gates) == 1
        it.gates[0].set()
        await first
        await it.under_way(2)
        it.gates[1].set()
        found = await asyncio.gather(*others)
        assert len({id(one) for one in found}) == 1
        assert it.asked[1] == {*MAIN, *(f"refs/heads/{number}" for number in range(20))}

    async def test_one_that_hangs_holds_up_the_next_for_a_moment_only(
        self, looking: tuple[Looking, ManualClock]
    ) -> None:
        it, clock = looking
        stuck = it.send()
        await it.under_way(1)
        nudge = it.send(hurried=True)
        await _settled()
        await clock.advance(MAX_WAIT_SECONDS)
        await it.under_way(2)
        it.gates[1].set()
        assert (await nudge).refs[MAIN[0]] == COMMIT
        assert not stuck.done()
        it.gates[0].set()
        await stuck

    async def test_a_cancelled_caller_takes_the_lookup_from_no_other(
        self, looking: tuple[Looking, ManualClock]
    ) -> None:
        it, _ = looking
        first, second = it.send(), it.send()
        await it.under_way(1)
        first.cancel()
        await _settled()
        assert not it.cancelled
        it.gates[0].set()
        assert (await second).error is None

    async def test_ends_when_no_caller_waits_for_it_any_more(
        self, looking: tuple[Looking, ManualClock]
    ) -> None:
        it, _ = looking
        one = it.send()
        await it.under_way(1)
        one.cancel()
        late = it.send(age=30.0)  # in the same moment, before the look has noticed
        await it.under_way(2)
        assert it.cancelled == 1
        it.gates[1].set()
        assert (await late).error is None

    async def test_a_failure_is_shared_with_those_who_waited_and_with_polls(
        self, looking: tuple[Looking, ManualClock]
    ) -> None:
        clock = ManualClock()
        asked = 0

        async def failing(url: RepoUrl, access: RepoAccess, names: Collection[str]) -> Mapping[str, CommitId]:
            nonlocal asked
            asked += 1
            raise Retry("no route", reason=Reason.SOURCE_UNREACHABLE)

        it = Looking(clock)
        it.looks = SharedLookups(failing, it.hosts, clock)
        found = await asyncio.gather(*(it.send() for _ in range(5)))
        assert {str(one.error) for one in found} == {"no route"}
        await clock.advance(5)
        await it.send(age=10.0)
        assert asked == 1
        await it.send()
        assert asked == 2

    async def test_what_is_known_already_takes_no_place_at_the_host(
        self, looking: tuple[Looking, ManualClock]
    ) -> None:
        it, clock = looking
        first = it.send()
        await it.under_way(1)
        it.gates[0].set()
        found = await first
        await clock.advance(5)
        assert await it.send(age=10.0) is found
        assert len(it.hosts.turns) == 1

    async def test_an_urgent_caller_does_not_wait_in_the_ordinary_queue(
        self, looking: tuple[Looking, ManualClock]
    ) -> None:
        it, _ = looking
        first = it.send()
        await it.under_way(1)
        patient = it.send()
        await _settled()
        hurried = it.send(hurried=True)
        it.gates[0].set()
        await first
        await _settled()
        assert True in it.hosts.turns
        for gate in it.gates:
            gate.set()
        await asyncio.gather(patient, hurried)

    async def test_no_look_asks_for_more_names_than_git_should_compare(
        self, looking: tuple[Looking, ManualClock]
    ) -> None:
        it, _ = looking
        sent = [it.send(f"refs/heads/{number}") for number in range(3 * MAX_NAMES)]
        await _settled()
        while not all(one.done() for one in sent):
            for gate in it.gates:
                gate.set()
            await _settled()
        assert max(map(len, it.asked)) <= MAX_NAMES
        assert len(it.asked) <= 6

    async def test_a_ref_without_callers_is_no_longer_looked_up(
        self, looking: tuple[Looking, ManualClock]
    ) -> None:
        it, clock = looking
        for number, name in enumerate(("refs/heads/old", "refs/heads/new")):
            one = it.send(name)
            await it.under_way(number + 1)
            it.gates[number].set()
            await one
            await clock.advance(121)
        assert it.asked == [{"refs/heads/old"}, {"refs/heads/new"}]

    async def test_what_is_no_branch_and_no_tag_is_looked_for_by_itself(
        self, looking: tuple[Looking, ManualClock]
    ) -> None:
        it, _ = looking
        tasks = [it.send(), it.send("HEAD"), it.send("refs/pull/7/head")]
        await it.under_way(3)
        for gate in it.gates:
            gate.set()
        await asyncio.gather(*tasks)
        assert {frozenset(MAIN), frozenset({"HEAD"}), frozenset({"refs/pull/7/head"})} == set(it.asked)


def test_everything_that_an_access_says_tells_it_apart() -> None:
    """Also fields that are added later: a field that is missing here would be shared wrongly."""
    plain = login("anna", "a")
    others = {
        "login": [
            login("anna", "b"),
            login("ben", "a"),
            RepoAccess(GitSshKey(Secret("a"))),
            RepoAccess(GitSshKey(Secret("b"))),
            RepoAccess(GitSshKey(Secret("a"), b"host key")),
            RepoAccess(GitSshKey(Secret("a"), b"")),
            RepoAccess(),
        ],
        "ca": [dataclasses.replace(plain, ca=b"pem"), dataclasses.replace(plain, ca=b"")],
        "proxy": [dataclasses.replace(plain, proxy="http://proxy:3128")],
        "subject": [dataclasses.replace(plain, subject="app/1/2")],
        "require_known_hosts": [dataclasses.replace(plain, require_known_hosts=True)],
    }
    assert set(others) == {one.name for one in dataclasses.fields(RepoAccess) if one.compare}
    every = [plain, *(each for kind in others.values() for each in kind)]
    names = {lookup_key(b"key", URL, each) for each in every}
    assert len(names) == len(every)
    assert lookup_key(b"key", URL, login("anna", "a")) in names
    assert lookup_key(b"key", RepoUrl("https://git.example/other.git"), plain) not in names
    assert lookup_key(b"another", URL, plain) not in names

"""The lease: its object, the decision of one candidate, the fence, and the loop that ties work to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from stoker.api.meta import ObjectMeta
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Misconfigured, Retry, Stalled
from stoker.domain.reasons import Reason
from stoker.kube.electing import Elector
from stoker.kube.election import Election, Move, Pause
from stoker.kube.fencing import FencedClient, Leadership, LeadershipLost
from stoker.kube.lease import Lease, LeaseSpec, Terms, claimed, released, unique_identity
from stoker.kube.objects import Header
from stoker.kube.resources import CONFIG_MAPS, LEASES
from stoker.telemetry.metrics import Metrics
from stoker.telemetry.runtime import RuntimeMetrics
from stoker.testing.clock import ManualClock
from stoker.testing.simulated_leases import Fate, MachineClock, SimulatedClient, SimulatedServer
from stoker.testing.virtual_time import run

NOW = datetime(2031, 2, 3, 4, 5, 6, 789_012, tzinfo=UTC)
STAMP = "2031-02-03T04:05:06.789012Z"
NAME, NAMESPACE = "stoker-controller-0", "stoker-system"
PATH = LEASES.path(NAMESPACE, NAME)
ME = Terms("me", 15, 5)


def lease(holder: str, version: str, duration: int = 15, transitions: int = 0) -> Lease:
    return Lease(
        metadata=ObjectMeta(name=NAME, namespace=NAMESPACE, resource_version=version),
        spec=LeaseSpec(
            holder_identity=holder, lease_duration_seconds=duration, lease_transitions=transitions
        ),
    )


# The object.


def test_a_lease_made_anew_says_who_holds_it_since_when_and_how_long() -> None:
    made = msgspec.json.decode(msgspec.json.encode(claimed(None, ME, NAME, NAMESPACE, NOW)))
    assert made == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": STAMP,
            "renewTime": STAMP,
            "leaseTransitions": 0,
        },
    }


def test_a_renewal_moves_only_the_time_of_renewal() -> None:
    first = claimed(None, ME, NAME, NAMESPACE, NOW)
    again = claimed(first, ME, NAME, NAMESPACE, NOW + timedelta(seconds=5))
    assert again.spec.acquire_time == STAMP
    assert again.spec.renew_time == "2031-02-03T04:05:11.789012Z"
    assert again.transitions == 0


def test_taking_it_from_another_counts_a_transition_and_begins_a_new_time() -> None:
    old = claimed(lease("other", "7", transitions=3), ME, NAME, NAMESPACE, NOW)
    assert (old.holder, old.transitions, old.spec.acquire_time) == ("me", 4, STAMP)
    assert old.version == "7"


def test_a_release_leaves_a_lease_that_anybody_may_take_at_once() -> None:
    free = released(claimed(lease("other", "7"), ME, NAME, NAMESPACE, NOW), NOW)
    encoded = msgspec.json.decode(msgspec.json.encode(free))
    assert encoded["spec"]["holderIdentity"] == ""
    assert encoded["spec"]["leaseDurationSeconds"] == 1
    assert encoded["spec"]["leaseTransitions"] == 1


def test_what_others_added_to_the_object_is_kept() -> None:
    theirs = b"""{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"x","namespace":"y",
        "uid":"u","resourceVersion":"9","labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["e/f"],
        "ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"p"}]},
        "spec":{"holderIdentity":"other","strategy":"OldestEmulationVersion","preferredHolder":"z"}}"""
    mine = claimed(msgspec.json.decode(theirs, type=Lease), ME, "x", "y", NOW)
    kept, had = msgspec.json.decode(msgspec.json.encode(mine)), msgspec.json.decode(theirs)
    assert kept["metadata"] == had["metadata"]
    assert kept["spec"]["strategy"] == "OldestEmulationVersion"
    assert kept["spec"]["preferredHolder"] == "z"


@pytest.mark.parametrize(
    ("identity", "duration", "renew"),
    [("", 15, 5), ("me", 0, 1), ("me", 15, 0), ("me", 15, 7), ("me", 1, 0.5)],
)
def test_terms_on_which_nobody_could_keep_a_lease_are_refused(
    identity: str, duration: int, renew: float
) -> None:
    with pytest.raises(Misconfigured):
        Terms(identity, duration, renew)


@pytest.mark.parametrize(("duration", "renew"), [(15, 5), (24, 8), (3, 1)])
def test_a_dead_holder_is_noticed_within_the_duration_and_two_seconds(duration: int, renew: float) -> None:
    terms = Terms("me", duration, renew)
    assert terms.poll < 2
    assert terms.renew + terms.poll < terms.duration - terms.margin


def test_no_two_processes_have_the_same_identity() -> None:
    assert len({unique_identity() for _ in range(100)}) == 100


# The decision.


def fresh() -> Election:
    return Election(ME, jitter=lambda: 0.0)


def pause(election: Election, now: float) -> float:
    move = election.next(now)
    assert isinstance(move, Pause)
    return move.seconds


def test_a_candidate_looks_before_it_does_anything() -> None:
    assert fresh().next(100.0) is Move.LOOK


@pytest.mark.parametrize("found", [None, lease("", "7"), lease("me", "7")])
def test_what_is_missing_free_or_already_ours_is_claimed_at_once(found: Lease | None) -> None:
    election = fresh()
    election.saw(found, 100.0)
    assert election.next(100.0) is Move.CLAIM
    assert not election.leading


def test_what_another_holds_is_looked_at_again_and_again_and_claimed_when_it_has_stood_still() -> None:
    election = fresh()
    election.saw(lease("other", "7"), 100.0)
    assert election.next(100.0) == Pause(1.5)
    for moment in (101.5, 103.0, 114.9):
        assert election.next(moment) is Move.LOOK
        election.saw(lease("other", "7"), moment)
    assert pause(election, 114.9) == pytest.approx(0.1)
    assert election.next(115.0) is Move.CLAIM


def test_any_change_of_the_lease_begins_the_wait_anew() -> None:
    election = fresh()
    election.saw(lease("other", "7"), 100.0)
    election.saw(lease("other", "8"), 114.0)
    assert election.next(115.5) is Move.LOOK
    election.saw(lease("other", "8"), 115.5)
    assert election.next(128.9) is not Move.CLAIM
    assert election.next(129.0) is Move.CLAIM


@pytest.mark.parametrize(("theirs", "waits"), [(60, 60.0), (1, 15.0), (15, 15.0)])
def test_the_longer_of_both_durations_is_respected(theirs: int, waits: float) -> None:
    election = fresh()
    election.saw(lease("other", "7", duration=theirs), 0.0)
    assert election.next(waits - 0.1) is not Move.CLAIM
    assert election.next(waits) is Move.CLAIM


def test_a_holder_that_wrote_no_duration_gets_ours() -> None:
    election = fresh()
    election.saw(Lease(spec=LeaseSpec(holder_identity="other")), 0.0)
    assert election.next(14.9) is not Move.CLAIM
    assert election.next(15.0) is Move.CLAIM


def test_a_lease_deleted_under_its_holder_is_waited_out() -> None:
    election = fresh()
    election.saw(lease("other", "7"), 100.0)
    election.saw(None, 101.0)
    assert election.next(115.9) is not Move.CLAIM
    assert election.next(116.0) is Move.CLAIM


def test_a_leader_counts_its_time_from_before_the_request() -> None:
    election = fresh()
    election.saw(None, 100.0)
    election.wrote(lease("me", "1"), started=100.0)
    assert election.leading
    assert election.deadline == 100.0 + 15 - 1.5
    assert election.next(102.0) == Pause(3.0)
    assert election.next(105.0) is Move.CLAIM
    election.wrote(lease("me", "2"), started=105.0)
    assert election.deadline == 118.5


def test_a_leader_that_cannot_renew_tries_until_its_deadline_and_then_steps_down() -> None:
    election = fresh()
    election.wrote(lease("me", "1"), started=0.0)
    election.failed(started=5.0, now=5.1)
    assert pause(election, 5.1) == pytest.approx(2.4)
    assert election.next(7.5) is Move.CLAIM
    election.failed(started=7.5, now=12.5)  # it waited long enough
    assert election.next(12.5) is Move.CLAIM
    election.failed(started=12.5, now=12.6)
    assert pause(election, 12.6) == pytest.approx(0.9)
    assert election.leading
    election.next(13.5)
    assert not election.leading


def test_an_answer_that_took_longer_than_the_lease_makes_no_leader() -> None:
    election = fresh()
    election.saw(None, 0.0)
    election.wrote(lease("me", "1"), started=0.0)
    assert election.next(20.0) is Move.CLAIM
    assert not election.leading


def test_a_leader_whose_renewal_was_overtaken_looks_and_goes_on_if_it_is_still_the_holder() -> None:
    election = fresh()
    election.wrote(lease("me", "1"), started=0.0)
    election.overtaken()
    assert election.next(5.0) is Move.LOOK
    election.saw(lease("me", "2"), 5.1)
    assert election.leading
    assert election.next(5.1) is Move.CLAIM


@pytest.mark.parametrize("found", [None, lease("thief", "2"), lease("", "2")])
def test_a_leader_stops_when_the_lease_is_gone_stolen_or_emptied(found: Lease | None) -> None:
    election = fresh()
    election.wrote(lease("me", "1"), started=0.0)
    election.overtaken()
    election.saw(found, 5.0)
    assert not election.leading


def test_whether_the_lease_may_be_ours_is_remembered_from_the_claim_to_the_next_look() -> None:
    election = fresh()
    assert not election.may_hold
    election.saw(None, 0.0)
    assert not election.may_hold
    assert election.next(0.0) is Move.CLAIM
    election.failed(0.0, 5.0)
    assert election.may_hold
    election.saw(lease("other", "9"), 6.0)
    assert not election.may_hold


def test_renewals_and_looks_spread_but_never_come_later() -> None:
    late, early = Election(ME, jitter=lambda: 0.0), Election(ME, jitter=lambda: 0.999)
    for election in (late, early):
        election.wrote(lease("me", "1"), started=0.0)
    first, last = early.next(0.0), late.next(0.0)
    assert isinstance(first, Pause)
    assert last == Pause(5.0)
    assert 4.5 <= first.seconds < 5.0


# The fence.


def test_a_leader_may_act_until_its_deadline_and_not_at_it() -> None:
    clock = ManualClock()
    leadership = Leadership(NAME, "me", clock, deadline=10.0)
    leadership.check()
    asyncio.run(clock.advance(9.9))
    leadership.check()
    assert leadership.remaining == pytest.approx(0.1)
    asyncio.run(clock.advance(0.1))
    with pytest.raises(LeadershipLost, match=f"me no longer leads: lease {NAME}") as caught:
        leadership.check()
    assert caught.value.reason is Reason.LEADERSHIP_LOST
    assert isinstance(caught.value, Retry)
    leadership.prolong(20.0)
    leadership.check()


def test_a_term_that_is_over_never_comes_back() -> None:
    leadership = Leadership(NAME, "me", ManualClock(), deadline=10.0)
    leadership.end()
    leadership.prolong(1000.0)
    with pytest.raises(LeadershipLost):
        leadership.check()


def simulated(story: Coroutine[object, object, None]) -> None:
    run(story)


BODY = {"metadata": {"name": "a", "namespace": "n", "resourceVersion": "1"}}


def writes(client: SimulatedClient | FencedClient) -> Iterator[Coroutine[object, object, object]]:
    yield client.create(CONFIG_MAPS, {"metadata": {"name": "b"}}, "n", into=Header)
    yield client.replace(CONFIG_MAPS, BODY, "a", "n", into=Header)
    yield client.patch(CONFIG_MAPS, BODY, "a", "n", into=Header)
    yield client.apply(CONFIG_MAPS, BODY, "a", "n", manager="m", into=Header)
    yield client.delete(CONFIG_MAPS, "a", "n")
    yield client.raw("PUT", CONFIG_MAPS.path("n", "a"), body=b"{}")


def test_the_fenced_client_reads_at_any_time_and_writes_only_while_leading() -> None:
    async def story() -> None:
        server, clock = SimulatedServer(), MachineClock()
        server.put(CONFIG_MAPS.path("n", "a"), {"metadata": {"name": "a"}})
        leadership = Leadership(NAME, "me", clock, deadline=10.0)
        async with FencedClient(SimulatedClient(server, clock), leadership) as client:
            await client.replace(CONFIG_MAPS, BODY, "a", "n", into=Header)
            assert len(server.history) == 2
            leadership.end()
            for write in writes(client):
                with pytest.raises(LeadershipLost):
                    await write
            assert len(server.history) == 2
            await client.get(CONFIG_MAPS, "a", "n", into=Header)
            await client.raw("GET", CONFIG_MAPS.path("n", "a"))

    simulated(story())


def test_a_write_that_waits_past_the_deadline_is_given_up() -> None:
    async def story() -> None:
        server, clock = SimulatedServer(), MachineClock()
        network = SimulatedClient(server, clock, lambda: Fate(lost_there=True))
        client = FencedClient(network, Leadership(NAME, "me", clock, deadline=10.0))
        with pytest.raises(LeadershipLost, match="given up"):
            await client.replace(CONFIG_MAPS, BODY, "a", "n", into=Header)
        assert asyncio.get_running_loop().time() == pytest.approx(10.0)

    simulated(story())


def test_the_machines_own_clock_counts_while_the_machine_sleeps() -> None:
    clock: Clock = SystemClock()
    before = clock.monotonic()
    assert before <= clock.monotonic() < before + 60


# The loop.


class Story:
    """One server, and candidates that run until the story ends."""

    def __init__(self) -> None:
        self.server = SimulatedServer()
        self.calls: list[str] = []
        self.terms: dict[str, list[Leadership]] = {}
        self.electors: dict[str, Elector] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.fates: dict[str, Fate] = {}

    def candidate(self, identity: str, clock: MachineClock | None = None) -> Elector:
        clock = clock or MachineClock()
        client = SimulatedClient(self.server, clock, lambda: self.fates.get(identity, Fate()))
        self.electors[identity] = Elector(
            client,
            NAME,
            NAMESPACE,
            Terms(identity, 15, 5),
            clock=clock,
            on_started=lambda _: self.calls.append(f"{identity} started"),
            on_stopped=lambda: self.calls.append(f"{identity} stopped"),
            jitter=lambda: 0.0,
        )
        return self.electors[identity]

    def start(self, identity: str, clock: MachineClock | None = None) -> None:
        elector = self.candidate(identity, clock)

        async def work(leadership: Leadership) -> None:
            self.terms.setdefault(identity, []).append(leadership)
            await asyncio.Event().wait()

        self.tasks[identity] = asyncio.create_task(elector.run(work))

    async def stop(self, identity: str) -> None:
        task = self.tasks.pop(identity)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def kill(self, identity: str) -> None:
        """As SIGKILL does: nothing more reaches the server."""
        self.fates[identity] = Fate(lost_there=True)

    def acting(self) -> list[str]:
        return [name for name, terms in self.terms.items() if any(term.remaining for term in terms)]

    async def change(self) -> None:
        """The next moment in which somebody begins or stops acting."""
        before = self.acting()
        for _ in range(100_000):
            await asyncio.sleep(0.01)
            if self.acting() != before:
                return
        raise AssertionError(f"{before} acted for ever")

    @property
    def holder(self) -> str:
        return str(self.server.objects[PATH]["spec"]["holderIdentity"])

    async def end(self) -> None:
        for identity in list(self.tasks):
            await self.stop(identity)


def test_the_first_leads_and_the_second_waits() -> None:
    async def story() -> None:
        it = Story()
        it.start("a")
        await asyncio.sleep(1)
        it.start("b")
        await asyncio.sleep(120)
        assert it.acting() == ["a"]
        assert it.electors["a"].standing.leading
        assert not it.electors["b"].standing.leading
        assert it.electors["b"].standing.holder == "a"
        assert it.calls == ["a started"]
        await it.end()

    simulated(story())


def test_a_killed_leader_is_replaced_within_the_duration_and_two_seconds() -> None:
    async def story() -> None:
        it = Story()
        it.start("a")
        await asyncio.sleep(1)
        it.start("b")
        await asyncio.sleep(28.9)  # right after a renewal: the longest wait
        it.kill("a")
        await asyncio.sleep(17)
        assert it.holder == "b"
        assert it.acting() == ["b"]
        assert it.server.objects[PATH]["spec"]["leaseTransitions"] == 1
        await it.end()

    simulated(story())


def test_a_look_that_was_long_on_its_way_counts_from_its_answer() -> None:
    async def story() -> None:
        it = Story()
        it.server.put(PATH, {"metadata": {"name": NAME}, "spec": {"holderIdentity": "other"}})
        it.fates["a"] = Fate(there=2, back=2)  # the lease may have been renewed one second after it was sent
        it.start("a")
        await asyncio.sleep(4.1)
        it.fates["a"] = Fate()
        await asyncio.sleep(14.8)
        assert it.holder == "other"
        await asyncio.sleep(0.2)
        assert it.holder == "a"
        await it.end()

    simulated(story())


def test_a_leader_that_is_cut_off_has_stopped_before_another_begins() -> None:
    async def story() -> None:
        it = Story()
        it.start("a")
        await asyncio.sleep(1)
        it.start("b")
        await asyncio.sleep(20)
        it.fates["a"] = Fate(lost_there=True)
        await it.change()
        assert it.acting() == []
        assert it.electors["a"].standing.error is not None
        await asyncio.sleep(0.1)
        assert it.calls == ["a started", "a stopped"]
        await it.change()
        assert it.acting() == ["b"]
        it.fates["a"] = Fate()
        await asyncio.sleep(60)
        assert it.acting() == ["b"]
        await it.end()

    simulated(story())


def test_a_short_outage_costs_nothing() -> None:
    async def story() -> None:
        it = Story()
        it.start("a")
        await asyncio.sleep(6)
        for fate in (Fate(lost_there=True), Fate(lost_back=True), Fate(error=500), Fate(error=403)):
            it.fates["a"] = fate
            await asyncio.sleep(6)
            it.fates["a"] = Fate()
            await asyncio.sleep(10)
            assert it.acting() == ["a"]
        assert it.calls == ["a started"]
        assert it.server.objects[PATH]["spec"]["leaseTransitions"] == 0
        await it.end()

    simulated(story())


def test_a_stopped_process_finds_its_time_over_when_it_wakes() -> None:
    async def story() -> None:
        it = Story()
        it.start("a", MachineClock(pauses=[(20.0, 60.0)]))
        await asyncio.sleep(1)
        it.start("b")
        await asyncio.sleep(58)
        assert it.acting() == ["b"]
        await asyncio.sleep(1.5)  # it is awake again
        assert it.acting() == ["b"]
        assert it.calls == ["a started", "b started", "a stopped"]
        await asyncio.sleep(60)
        assert it.acting() == ["b"]
        await it.end()

    simulated(story())


def test_a_graceful_stop_hands_the_lease_over_at_once() -> None:
    async def story() -> None:
        it = Story()
        it.start("a")
        await asyncio.sleep(1)
        it.start("b")
        await asyncio.sleep(20)
        await it.stop("a")
        assert it.holder == ""
        assert it.server.objects[PATH]["spec"]["leaseDurationSeconds"] == 1
        await asyncio.sleep(2)
        assert it.holder == "b"
        assert it.calls == ["a started", "a stopped", "b started"]
        await it.end()

    simulated(story())


def test_the_work_may_finish_under_a_lease_that_is_still_renewed() -> None:
    async def story() -> None:
        it, checked = Story(), []

        async def thorough(leadership: Leadership) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(100)
                leadership.check()
                checked.append(it.holder)

        task = asyncio.create_task(it.candidate("a").run(thorough))
        await asyncio.sleep(10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert checked == ["a"]
        assert it.holder == ""

    simulated(story())


def test_while_the_work_refuses_to_end_the_lease_is_neither_given_back_nor_won_again() -> None:
    async def story() -> None:
        it, release = Story(), asyncio.Event()
        begun: list[Leadership] = []

        async def stubborn(leadership: Leadership) -> None:
            begun.append(leadership)
            while not release.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await release.wait()

        task = asyncio.create_task(it.candidate("a").run(stubborn))
        await asyncio.sleep(1)
        it.fates["a"] = Fate(lost_there=True)
        await asyncio.sleep(60)
        it.fates["a"] = Fate()
        await asyncio.sleep(60)
        assert len(begun) == 1
        assert not begun[0].remaining
        task.cancel()
        await asyncio.sleep(60)
        assert it.holder == "a"
        assert len(it.server.history) < 10
        release.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    simulated(story())


@pytest.mark.parametrize("theft", ["deleted", "stolen", "emptied"])
def test_a_lease_that_is_touched_by_hand_stops_its_leader(theft: str) -> None:
    async def story() -> None:
        it = Story()
        it.start("a")
        await asyncio.sleep(7)
        spec = dict(it.server.objects[PATH]["spec"])
        if theft == "deleted":
            it.server.delete(PATH)
        else:
            spec["holderIdentity"] = {"stolen": "thief", "emptied": ""}[theft]
            it.server.put(PATH, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})
        first = it.terms["a"][0]
        await asyncio.sleep(5.5)
        assert not first.remaining
        assert it.calls[:2] == ["a started", "a stopped"]
        await asyncio.sleep(20)  # nobody else wanted it: a new term, begun anew
        assert it.acting() == ["a"]
        assert len(it.terms["a"]) == 2
        await it.end()

    simulated(story())


def test_deleting_the_lease_does_not_let_a_waiting_candidate_overtake_its_leader() -> None:
    async def story() -> None:
        it = Story()
        it.start("a")
        await asyncio.sleep(1)
        it.start("b")
        await asyncio.sleep(20)
        it.server.delete(PATH)
        for _ in range(2000):
            await asyncio.sleep(0.01)
            assert len(it.acting()) <= 1
        await it.end()

    simulated(story())


def test_work_that_ends_gives_the_lease_back_and_ends_the_run() -> None:
    async def story() -> None:
        it = Story()

        async def brief(leadership: Leadership) -> None:
            leadership.check()

        await it.candidate("a").run(brief)
        assert it.holder == ""
        assert it.calls == ["a started", "a stopped"]

    simulated(story())


def test_an_error_of_the_work_gives_the_lease_back_and_is_raised() -> None:
    async def story() -> None:
        it = Story()

        async def broken(leadership: Leadership) -> None:
            raise Stalled("the source is gone")

        with pytest.raises(Stalled, match="the source is gone"):
            await it.candidate("a").run(broken)
        assert it.holder == ""

    simulated(story())


def test_work_that_met_the_fence_first_is_begun_anew() -> None:
    async def story() -> None:
        it, begun = Story(), []

        async def work(leadership: Leadership) -> None:
            begun.append(leadership)
            if len(begun) == 1:
                raise LeadershipLost("one moment before the loop noticed")

        await it.candidate("a").run(work)
        assert len(begun) == 2
        assert begun[0] is not begun[1]

    simulated(story())


def test_an_error_while_the_work_is_stopped_does_not_end_the_candidacy() -> None:
    async def story() -> None:
        it, begun = Story(), []

        async def clumsy(leadership: Leadership) -> None:
            begun.append(leadership)
            try:
                await asyncio.Event().wait()
            finally:
                raise RuntimeError("while cleaning up")

        task = asyncio.create_task(it.candidate("a").run(clumsy))
        await asyncio.sleep(1)
        it.fates["a"] = Fate(lost_there=True)
        await asyncio.sleep(30)
        it.fates["a"] = Fate()
        await asyncio.sleep(30)
        assert len(begun) == 2
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    simulated(story())


def test_a_candidate_that_never_led_leaves_the_lease_alone_when_it_stops() -> None:
    async def story() -> None:
        it = Story()
        it.start("a")
        await asyncio.sleep(1)
        it.start("b")
        await asyncio.sleep(10)
        before = len(it.server.history)
        await it.stop("b")
        assert len(it.server.history) == before
        assert it.holder == "a"
        await it.end()

    simulated(story())


def test_a_claim_whose_answer_never_came_is_given_back_too() -> None:
    async def story() -> None:
        it = Story()
        it.start("a")
        await asyncio.sleep(0.007)  # its first look is on the way back; the claim follows
        it.fates["a"] = Fate(lost_back=True)
        await asyncio.sleep(1)
        assert it.holder == "a"
        assert it.acting() == []
        it.fates["a"] = Fate()
        await it.stop("a")
        assert it.holder == ""

    simulated(story())


def test_giving_back_outlasts_a_late_renewal_of_our_own() -> None:
    async def story() -> None:
        it = Story()
        it.start("a")
        await asyncio.sleep(4.9)
        it.fates["a"] = Fate(
            there=0.25
        )  # the renewal at 5.0 arrives after the next look and before the release
        await asyncio.sleep(0.15)
        it.fates["a"] = Fate(there=0.1, back=0.1)
        await it.stop("a")
        await asyncio.sleep(1)
        assert it.holder == ""

    simulated(story())


def test_giving_back_gives_up_when_the_server_does_not_answer() -> None:
    async def story() -> None:
        it = Story()
        it.start("a")
        await asyncio.sleep(1)
        it.kill("a")
        await it.stop("a")
        assert asyncio.get_running_loop().time() < 10
        assert it.holder == "a"

    simulated(story())


def test_giving_back_what_is_no_longer_there_is_no_error() -> None:
    async def story() -> None:
        it = Story()
        it.start("a")
        await asyncio.sleep(1)
        it.server.delete(PATH)
        await it.stop("a")
        assert PATH not in it.server.objects

    simulated(story())


def test_a_missing_namespace_is_reported_and_tried_again() -> None:
    async def story() -> None:
        it = Story()
        it.fates["a"] = Fate(error=404)
        it.start("a")
        await asyncio.sleep(10)
        error = it.electors["a"].standing.error
        assert error is not None
        assert error.reason is Reason.NOT_FOUND
        it.fates["a"] = Fate()
        await asyncio.sleep(2)
        assert it.acting() == ["a"]
        assert it.electors["a"].standing.error is None
        await it.end()

    simulated(story())


def test_metrics_tell_whether_this_process_leads() -> None:
    async def story() -> None:
        metrics, server, clock = Metrics(), SimulatedServer(), MachineClock()
        elector = Elector(
            SimulatedClient(server, clock),
            NAME,
            NAMESPACE,
            ME,
            clock=clock,
            metrics=RuntimeMetrics(metrics),
        )
        held = f'ignition_sync_lease_held{{controller="{NAME}"}}'
        pages = [metrics.page([]).decode()]

        async def work(leadership: Leadership) -> None:
            pages.append(metrics.page([]).decode())

        await elector.run(work)
        pages.append(metrics.page([]).decode())
        assert [
            f"{held} {value}" in page for page, value in zip(pages, ("0.0", "1.0", "0.0"), strict=True)
        ] == [True] * 3
        assert f'ignition_sync_lease_terms_total{{controller="{NAME}"}} 1.0' in pages[-1]

    simulated(story())

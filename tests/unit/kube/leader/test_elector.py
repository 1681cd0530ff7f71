"""Leader election: which process leads, and when another takes over."""

from __future__ import annotations

import pytest

from stoker.domain.reasons import Reason
from stoker.kube.leader.elector import LeaderElector
from stoker.kube.leader.fencing import Leadership
from stoker.kube.leader.lease import LeaseTerms
from stoker.telemetry.metrics import Metrics
from stoker.telemetry.runtime import RuntimeMetrics
from stoker_testkit.cluster.leader_election_simulation import (
    LEASE,
    LEASE_PATH,
    NAMESPACE,
    Candidates,
    MachineClock,
    RequestOutcome,
    SimulatedClient,
    SimulatedServer,
)
from stoker_testkit.virtual_time_loop import in_virtual_time, pass_time


@in_virtual_time
async def test_the_first_leads_and_the_second_waits() -> None:
    it = Candidates()
    it.start("a")
    await pass_time(1)
    it.start("b")
    await pass_time(120)
    assert it.acting() == ["a"]
    assert it.electors["a"].standing.leading
    assert not it.electors["b"].standing.leading
    assert it.electors["b"].standing.holder == "a"
    assert it.calls == ["a started"]
    await it.end()


@in_virtual_time
async def test_a_killed_leader_is_replaced_within_the_duration_and_two_seconds() -> None:
    it = Candidates()
    it.start("a")
    await pass_time(1)
    it.start("b")
    await pass_time(28.9)  # right after a renewal: the longest wait
    it.kill("a")
    await pass_time(17)
    assert it.holder == "b"
    assert it.acting() == ["b"]
    assert it.server.objects[LEASE_PATH]["spec"]["leaseTransitions"] == 1
    await it.end()


@in_virtual_time
async def test_a_read_that_took_long_counts_from_its_answer() -> None:
    it = Candidates()
    it.server.put(LEASE_PATH, {"metadata": {"name": LEASE}, "spec": {"holderIdentity": "other"}})
    it.fates["a"] = RequestOutcome(
        there=2, back=2
    )  # the lease may have been renewed one second after it was sent
    it.start("a")
    await pass_time(4.1)
    it.fates["a"] = RequestOutcome()
    await pass_time(14.8)
    assert it.holder == "other"
    await pass_time(0.2)
    assert it.holder == "a"
    await it.end()


@in_virtual_time
async def test_a_leader_that_is_cut_off_has_stopped_before_another_begins() -> None:
    it = Candidates()
    it.start("a")
    await pass_time(1)
    it.start("b")
    await pass_time(20)
    it.fates["a"] = RequestOutcome(lost_there=True)
    await it.change()
    assert it.acting() == []
    assert it.electors["a"].standing.error is not None
    await pass_time(0.1)
    assert it.calls == ["a started", "a stopped"]
    await it.change()
    assert it.acting() == ["b"]
    it.fates["a"] = RequestOutcome()
    await pass_time(60)
    assert it.acting() == ["b"]
    await it.end()


@in_virtual_time
async def test_a_short_outage_costs_nothing() -> None:
    it = Candidates()
    it.start("a")
    await pass_time(6)
    for fate in (
        RequestOutcome(lost_there=True),
        RequestOutcome(lost_back=True),
        RequestOutcome(error=500),
        RequestOutcome(error=403),
    ):
        it.fates["a"] = fate
        await pass_time(6)
        it.fates["a"] = RequestOutcome()
        await pass_time(10)
        assert it.acting() == ["a"]
    assert it.calls == ["a started"]
    assert it.server.objects[LEASE_PATH]["spec"]["leaseTransitions"] == 0
    await it.end()


@in_virtual_time
async def test_a_stopped_process_finds_its_time_over_when_it_wakes() -> None:
    it = Candidates()
    it.start("a", MachineClock(pauses=[(20.0, 60.0)]))
    await pass_time(1)
    it.start("b")
    await pass_time(58)
    assert it.acting() == ["b"]
    await pass_time(1.5)  # it is awake again
    assert it.acting() == ["b"]
    assert it.calls == ["a started", "b started", "a stopped"]
    await pass_time(60)
    assert it.acting() == ["b"]
    await it.end()


@pytest.mark.parametrize("theft", ["deleted", "stolen", "emptied"])
@in_virtual_time
async def test_a_lease_that_is_touched_by_hand_stops_its_leader(theft: str) -> None:
    it = Candidates()
    it.start("a")
    await pass_time(7)
    spec = dict(it.server.objects[LEASE_PATH]["spec"])
    if theft == "deleted":
        it.server.delete(LEASE_PATH)
    else:
        spec["holderIdentity"] = {"stolen": "thief", "emptied": ""}[theft]
        it.server.put(LEASE_PATH, {"metadata": {"name": LEASE, "namespace": NAMESPACE}, "spec": spec})
    first = it.terms["a"][0]
    await pass_time(5.5)
    assert not first.remaining
    assert it.calls[:2] == ["a started", "a stopped"]
    await pass_time(20)  # no other process wanted it: a new term, begun anew
    assert it.acting() == ["a"]
    assert len(it.terms["a"]) == 2
    await it.end()


@in_virtual_time
async def test_deleting_the_lease_does_not_let_a_waiting_candidate_overtake_its_leader() -> None:
    it = Candidates()
    it.start("a")
    await pass_time(1)
    it.start("b")
    await pass_time(20)
    it.server.delete(LEASE_PATH)
    for _ in range(2000):
        await pass_time(0.01)
        assert len(it.acting()) <= 1
    await it.end()


@in_virtual_time
async def test_a_missing_namespace_is_reported_and_tried_again() -> None:
    it = Candidates()
    it.fates["a"] = RequestOutcome(error=404)
    it.start("a")
    await pass_time(10)
    error = it.electors["a"].standing.error
    assert error is not None
    assert error.reason is Reason.NOT_FOUND
    it.fates["a"] = RequestOutcome()
    await pass_time(2)
    assert it.acting() == ["a"]
    assert it.electors["a"].standing.error is None
    await it.end()


@in_virtual_time
async def test_metrics_show_whether_this_process_leads() -> None:
    metrics, server, clock = Metrics(), SimulatedServer(), MachineClock()
    elector = LeaderElector(
        SimulatedClient(server, clock),
        LEASE,
        NAMESPACE,
        LeaseTerms("me", 15, 5),
        clock=clock,
        metrics=RuntimeMetrics(metrics),
    )
    held = f'ignition_sync_lease_held{{controller="{LEASE}"}}'
    pages = [metrics.page([]).decode()]

    async def work(leadership: Leadership) -> None:
        pages.append(metrics.page([]).decode())

    await elector.run(work)
    pages.append(metrics.page([]).decode())
    assert [f"{held} {value}" in page for page, value in zip(pages, ("0.0", "1.0", "0.0"), strict=True)] == [
        True
    ] * 3
    assert f'ignition_sync_lease_terms_total{{controller="{LEASE}"}} 1.0' in pages[-1]

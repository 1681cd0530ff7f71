"""The work is tied to the lease: begun with it, ended with it, and the lease given back after it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from stoker.domain.errors import Stalled
from stoker.kube.leader.fencing import Leadership, LeadershipLost
from stoker_testkit.cluster.leader_election_simulation import (
    LEASE,
    LEASE_PATH,
    Candidates,
    RequestOutcome,
)
from stoker_testkit.virtual_time_loop import in_virtual_time, pass_time


@in_virtual_time
async def test_a_graceful_stop_hands_the_lease_over_at_once() -> None:
    it = Candidates()
    it.start("a")
    await pass_time(1)
    it.start("b")
    await pass_time(20)
    await it.stop("a")
    assert it.holder == ""
    assert it.server.objects[LEASE_PATH]["spec"]["leaseDurationSeconds"] == 1
    await pass_time(2)
    assert it.holder == "b"
    assert it.calls == ["a started", "a stopped", "b started"]
    await it.end()


@in_virtual_time
async def test_the_work_may_finish_under_a_lease_that_is_still_renewed() -> None:
    it, checked = Candidates(), []

    async def thorough(leadership: Leadership) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await pass_time(100)
            leadership.check()
            checked.append(it.holder)

    task = asyncio.create_task(it.candidate("a").run(thorough))
    await pass_time(10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert checked == ["a"]
    assert it.holder == ""


@in_virtual_time
async def test_while_the_work_refuses_to_end_the_lease_is_neither_given_back_nor_won_again() -> None:
    it, release = Candidates(), asyncio.Event()
    begun: list[Leadership] = []

    async def stubborn(leadership: Leadership) -> None:
        begun.append(leadership)
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    task = asyncio.create_task(it.candidate("a").run(stubborn))
    await pass_time(1)
    it.fates["a"] = RequestOutcome(lost_there=True)
    await pass_time(60)
    it.fates["a"] = RequestOutcome()
    await pass_time(60)
    assert len(begun) == 1
    assert not begun[0].remaining
    task.cancel()
    await pass_time(60)
    assert it.holder == "a"
    assert len(it.server.history) < 10
    release.set()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@in_virtual_time
async def test_work_that_ends_gives_the_lease_back_and_ends_the_run() -> None:
    it = Candidates()

    async def brief(leadership: Leadership) -> None:
        leadership.check()

    await it.candidate("a").run(brief)
    assert it.holder == ""
    assert it.calls == ["a started", "a stopped"]


@in_virtual_time
async def test_an_error_of_the_work_gives_the_lease_back_and_is_raised() -> None:
    it = Candidates()

    async def broken(leadership: Leadership) -> None:
        raise Stalled("the source is gone")

    with pytest.raises(Stalled, match="the source is gone"):
        await it.candidate("a").run(broken)
    assert it.holder == ""


@in_virtual_time
async def test_work_that_met_the_fence_first_is_begun_anew() -> None:
    it, begun = Candidates(), []

    async def work(leadership: Leadership) -> None:
        begun.append(leadership)
        if len(begun) == 1:
            raise LeadershipLost("one moment before the loop noticed")

    await it.candidate("a").run(work)
    assert len(begun) == 2
    assert begun[0] is not begun[1]


@in_virtual_time
async def test_an_error_while_the_work_is_stopped_does_not_end_the_candidacy() -> None:
    it, begun = Candidates(), []

    async def clumsy(leadership: Leadership) -> None:
        begun.append(leadership)
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("while cleaning up")

    task = asyncio.create_task(it.candidate("a").run(clumsy))
    await pass_time(1)
    it.fates["a"] = RequestOutcome(lost_there=True)
    await pass_time(30)
    it.fates["a"] = RequestOutcome()
    await pass_time(30)
    assert len(begun) == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@in_virtual_time
async def test_a_candidate_that_never_led_leaves_the_lease_alone_when_it_stops() -> None:
    it = Candidates()
    it.start("a")
    await pass_time(1)
    it.start("b")
    await pass_time(10)
    before = len(it.server.history)
    await it.stop("b")
    assert len(it.server.history) == before
    assert it.holder == "a"
    await it.end()


@in_virtual_time
async def test_a_claim_whose_answer_never_came_is_given_back_too() -> None:
    it = Candidates()
    it.start("a")
    await pass_time(0.007)  # the response to its first read is on its way; the claim follows
    it.fates["a"] = RequestOutcome(lost_back=True)
    await pass_time(1)
    assert it.holder == "a"
    assert it.acting() == []
    it.fates["a"] = RequestOutcome()
    await it.stop("a")
    assert it.holder == ""


@in_virtual_time
async def test_giving_back_outlasts_a_late_renewal_of_our_own() -> None:
    it = Candidates()
    it.start("a")
    await pass_time(4.9)
    it.fates["a"] = RequestOutcome(
        there=0.25
    )  # the renewal at 5.0 arrives after the next look and before the release
    await pass_time(0.15)
    it.fates["a"] = RequestOutcome(there=0.1, back=0.1)
    await it.stop("a")
    await pass_time(1)
    assert it.holder == ""


@in_virtual_time
async def test_giving_back_gives_up_when_the_server_does_not_answer() -> None:
    it = Candidates()
    it.start("a")
    await pass_time(1)
    it.kill("a")
    await it.stop("a")
    assert asyncio.get_running_loop().time() < 10
    assert it.holder == "a"


@in_virtual_time
async def test_giving_back_what_is_no_longer_there_is_no_error() -> None:
    it = Candidates()
    it.start("a")
    await pass_time(1)
    it.server.delete(LEASE_PATH)
    await it.stop("a")
    assert LEASE_PATH not in it.server.objects


@in_virtual_time
async def test_a_leader_knows_the_lease_as_it_was_before_its_own_claim() -> None:
    it = Candidates()
    metadata = {"name": LEASE, "annotations": {"stoker.io/shards": "2"}}
    it.server.put(LEASE_PATH, {"metadata": metadata, "spec": {"holderIdentity": ""}})
    it.fates["a"] = RequestOutcome(lost_back=True)  # the claim arrives, and its response is lost
    it.start("a")
    await pass_time(4)
    it.fates["a"] = RequestOutcome()
    await pass_time(20)
    found = it.terms["a"][-1].found
    assert found is not None
    assert (found.holder, found.metadata.annotations) == ("", {"stoker.io/shards": "2"})
    await it.end()

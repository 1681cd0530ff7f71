"""The right to act ends by itself, and without it nothing is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from datetime import datetime

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.kube.config.config import ClusterConfig
from stoker.kube.leader.fencing import FencedClient, Leadership, LeadershipLost
from stoker_testkit.cluster.leader_election_simulation import (
    MachineClock,
    RequestOutcome,
    SimulatedClient,
    SimulatedServer,
)
from stoker_testkit.manual_clock import START, ManualClock
from stoker_testkit.virtual_time_loop import in_virtual_time, pass_time

NAME = "stoker-controller-0"


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


BODY = {"metadata": {"name": "a", "namespace": "n", "resourceVersion": "1"}}


def writes(client: SimulatedClient | FencedClient) -> Iterator[Coroutine[object, object, object]]:
    yield client.create(CONFIG_MAPS, {"metadata": {"name": "b"}}, "n", into=ObjectHeader)
    yield client.replace(CONFIG_MAPS, BODY, "a", "n", into=ObjectHeader)
    yield client.patch(CONFIG_MAPS, BODY, "a", "n", into=ObjectHeader)
    yield client.apply(CONFIG_MAPS, BODY, "a", "n", manager="m", into=ObjectHeader)
    yield client.delete(CONFIG_MAPS, "a", "n")
    yield client.raw("PUT", CONFIG_MAPS.path("n", "a"), body=b"{}")


@in_virtual_time
async def test_the_fenced_client_reads_at_any_time_and_writes_only_while_leading() -> None:
    server, clock = SimulatedServer(), MachineClock()
    server.put(CONFIG_MAPS.path("n", "a"), {"metadata": {"name": "a"}})
    leadership = Leadership(NAME, "me", clock, deadline=10.0)
    async with FencedClient(SimulatedClient(server, clock), leadership) as client:
        await client.replace(CONFIG_MAPS, BODY, "a", "n", into=ObjectHeader)
        assert len(server.history) == 2
        leadership.end()
        for write in writes(client):
            with pytest.raises(LeadershipLost):
                await write
        assert len(server.history) == 2
        await client.get(CONFIG_MAPS, "a", "n", into=ObjectHeader)
        await client.raw("GET", CONFIG_MAPS.path("n", "a"))


@in_virtual_time
async def test_a_write_that_waits_past_the_deadline_is_given_up() -> None:
    server, clock = SimulatedServer(), MachineClock()
    network = SimulatedClient(server, clock, lambda: RequestOutcome(lost_there=True))
    client = FencedClient(network, Leadership(NAME, "me", clock, deadline=10.0))
    with pytest.raises(LeadershipLost, match="while it was acting"):
        await client.replace(CONFIG_MAPS, BODY, "a", "n", into=ObjectHeader)
    assert asyncio.get_running_loop().time() == pytest.approx(10.0)


class SuspendedClock:
    """The clock of a machine that is suspended for an hour in each sleep; no timer counts that hour."""

    def __init__(self) -> None:
        self._slept = 0.0

    def now(self) -> datetime:
        return START

    def monotonic(self) -> float:
        return self._slept

    async def sleep(self, seconds: float) -> None:
        self._slept += 3600.0


async def test_a_write_is_not_repeated_by_a_leader_whose_machine_was_suspended_meanwhile() -> None:
    arrived = []

    async def busy(request: web.Request) -> web.Response:
        arrived.append(request.method)
        return web.Response(status=429, headers={"Retry-After": "1"})

    app, clock = web.Application(), SuspendedClock()
    app.router.add_put("/{path:.*}", busy)
    async with (
        TestServer(app) as server,
        KubeClient(ClusterConfig(str(server.make_url("/")).rstrip("/")), clock=clock) as client,
    ):
        fenced = FencedClient(client, Leadership(NAME, "me", clock, deadline=10.0))
        with pytest.raises(LeadershipLost):
            await fenced.replace(CONFIG_MAPS, BODY, "a", "n", into=ObjectHeader)
    assert arrived == ["PUT"]


@in_virtual_time
async def test_what_takes_longer_than_one_period_goes_on_under_a_renewed_lease() -> None:
    leadership = Leadership(NAME, "me", MachineClock(), deadline=10.0)
    asyncio.get_running_loop().call_at(9.0, leadership.prolong, 25.0)
    async with leadership.acting():
        await pass_time(20)
    with pytest.raises(LeadershipLost):
        async with leadership.acting():
            await pass_time(20)
    assert asyncio.get_running_loop().time() == pytest.approx(25.0)


@in_virtual_time
async def test_what_is_being_done_is_cut_short_when_the_lease_is_lost() -> None:
    leadership = Leadership(NAME, "me", MachineClock(), deadline=10.0)
    asyncio.get_running_loop().call_at(3.0, leadership.end)
    asyncio.get_running_loop().call_at(3.0, leadership.end)
    with pytest.raises(LeadershipLost):
        async with leadership.acting():
            await pass_time(8)
    assert asyncio.get_running_loop().time() == pytest.approx(3.0)


@in_virtual_time
async def test_a_time_out_of_another_kind_is_not_taken_for_a_lost_lease() -> None:
    leadership = Leadership(NAME, "me", MachineClock(), deadline=10.0)
    with pytest.raises(TimeoutError, match="git took too long"):
        async with leadership.acting():
            raise TimeoutError("git took too long")

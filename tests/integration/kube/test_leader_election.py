"""Real candidates, each a process of its own, on the real API server.

What they wrote is judged by the server's own order of events: versions of the
Lease and of the ConfigMap come from one counter, so for every accepted write it
is known who held the lease in that very moment.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.domain.clock import SystemClock
from stoker.kube.client.client import KubeClient
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import CONFIG_MAPS, LEASES, ApiResource
from stoker.kube.config import config
from stoker.kube.leader.fencing import FencedClient, Leadership, LeadershipLost
from stoker.kube.leader.lease import Lease
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.faults.stream_faults import Direction, Fault, FaultKind
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.processes import Process
from stoker_testkit.wait_until import eventually_async

SCRIPT = Path(__file__).with_name("lease_candidate.py")
LEASE, COUNTER = "election", "counter"
DURATION, RENEW = 3, 1.0
PATIENCE = 30.0
CLOCK = SystemClock()


@dataclass
class History:
    """Every version of the lease and of the counter, in the server's order: version, holder or writer."""

    holders: list[tuple[int, str]] = field(default_factory=list)
    writes: list[tuple[int, str]] = field(default_factory=list)

    def holder_at(self, version: int) -> str:
        return next((holder for at, holder in reversed(self.holders) if at < version), "")

    def intruders(self) -> list[tuple[int, str, str]]:
        """Accepted writes of a process that did not hold the lease at that moment."""
        found = [(version, writer, self.holder_at(version)) for version, writer in self.writes]
        return [each for each in found if each[1] != each[2]]

    def writers(self) -> list[str]:
        """Who wrote, in turns."""
        turns: list[str] = []
        for _, writer in self.writes:
            if not turns or turns[-1] != writer:
                turns.append(writer)
        return turns


async def follow(
    client: KubeClient, resource: ApiResource, namespace: str, since: str, take: Callable[[Any], None]
) -> None:
    async with client.watch(resource, namespace, resource_version=since, timeout_seconds=300) as lines:
        async for line in lines:
            event = msgspec.json.decode(line)
            if event["type"] in {"ADDED", "MODIFIED"}:
                take(event["object"])


@dataclass
class ElectionEnvironment:
    """One namespace with a counter and the candidates that fight over it."""

    plane: ClusterAccess
    namespace: str
    folder: Path
    client: KubeClient
    history: History
    stack: ExitStack
    processes: dict[str, Process] = field(default_factory=dict)

    def start(self, identity: str, server: str = "", manner: str = "obedient") -> None:
        kubeconfig = self.plane.kubeconfig("admin", namespace=self.namespace, server=server)
        argv = [sys.executable, SCRIPT, kubeconfig, identity, DURATION, RENEW, self.journal(identity), manner]
        process = Process.start(identity, [str(each) for each in argv], log=self.folder / f"{identity}.log")
        self.processes[identity] = self.stack.enter_context(process)

    def signal(self, identity: str, number: signal.Signals) -> float:
        """Send it; the moment before."""
        moment = CLOCK.monotonic()
        os.kill(self.processes[identity].pid, number)
        return moment

    def journal(self, identity: str) -> Path:
        return self.folder / f"{identity}.journal"

    def attempts(self, identity: str) -> list[float]:
        """The moments in which it believed it might write."""
        path = self.journal(identity)
        return [float(line) for line in path.read_text().splitlines()] if path.exists() else []

    async def writes_of(self, identity: str, at_least: int = 1) -> float:
        """Wait until it has written so often from now on; the moment in which that was seen."""
        before = len(self.history.writes)

        def written() -> bool:
            return sum(writer == identity for _, writer in self.history.writes[before:]) >= at_least

        await eventually_async(written, PATIENCE, f"{identity} writes", interval=0.01)
        return CLOCK.monotonic()

    async def says(self, identity: str, event: str) -> None:
        """Wait until this event is in its log."""
        log = self.processes[identity].log
        await eventually_async(lambda: event in log.read_text(), PATIENCE, f"{identity} says {event}")

    async def lease(self) -> Lease:
        return await self.client.get(LEASES, LEASE, self.namespace, into=Lease)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
async def election(
    control_plane: ClusterAccess, namespace: str, admin_kubeconfig: Path, tmp_path: Path, stack: ExitStack
) -> AsyncIterator[ElectionEnvironment]:
    async with KubeClient(config.load_config(admin_kubeconfig)) as client:
        counter = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": COUNTER},
            "data": {"count": "0"},
        }
        made = await client.create(CONFIG_MAPS, counter, namespace, into=ObjectHeader)
        since, history = made.metadata.resource_version, History()

        def version(obj: Any) -> int:
            return int(obj["metadata"]["resourceVersion"])

        def take_lease(obj: Any) -> None:
            history.holders.append((version(obj), obj["spec"].get("holderIdentity", "")))

        def take_write(obj: Any) -> None:
            history.writes.append((version(obj), obj["data"]["writer"]))

        followers = [
            asyncio.create_task(follow(client, LEASES, namespace, since, take_lease)),
            asyncio.create_task(follow(client, CONFIG_MAPS, namespace, since, take_write)),
        ]
        yield ElectionEnvironment(control_plane, namespace, tmp_path, client, history, stack)
        for follower in followers:
            assert not follower.done()
            follower.cancel()


async def settled(election: ElectionEnvironment) -> None:
    """Wait until everything that the server has accepted so far has been seen."""
    now = await election.client.get(CONFIG_MAPS, COUNTER, election.namespace, into=ObjectHeader)
    lease = await election.lease()
    last = int(now.metadata.resource_version), int(lease.version)

    def seen() -> bool:
        writes, holders = election.history.writes, election.history.holders
        return bool(writes and holders) and writes[-1][0] >= last[0] and holders[-1][0] >= last[1]

    await eventually_async(seen, PATIENCE, "the watches have caught up")


async def test_a_killed_leader_is_replaced_when_its_lease_has_expired(election: ElectionEnvironment) -> None:
    election.start("a")
    await election.writes_of("a")
    election.start("b")
    await election.says("b", "lease.held_elsewhere")
    election.signal("a", signal.SIGKILL)
    await election.writes_of("b")
    await settled(election)
    assert election.history.intruders() == []
    assert election.history.writers() == ["a", "b"]
    lease = await election.lease()
    assert (lease.holder, lease.transitions, lease.spec.lease_duration_seconds) == ("b", 1, DURATION)
    assert lease.spec.acquire_time is not None
    assert lease.spec.renew_time is not None
    assert lease.spec.acquire_time <= lease.spec.renew_time


@pytest.mark.parametrize("manner", ["obedient", "deaf"])
async def test_a_leader_that_was_paused_writes_nothing_after_it_wakes(
    election: ElectionEnvironment, manner: str
) -> None:
    election.start("a", manner=manner)
    await election.writes_of("a")
    election.start("b")
    await election.says("b", "lease.held_elsewhere")
    election.signal("a", signal.SIGSTOP)
    await election.writes_of("b")
    resumed = election.signal("a", signal.SIGCONT)
    await election.says("a", "lease.term_over")
    await election.writes_of("b", at_least=100)
    assert [at for at in election.attempts("a") if at > resumed] == []
    election.signal("b", signal.SIGKILL)
    await election.writes_of("a")  # it was not broken: it wins again, in order
    await settled(election)
    assert election.history.intruders() == []
    assert election.history.writers() == ["a", "b", "a"]


async def test_a_graceful_stop_releases_the_lease(election: ElectionEnvironment) -> None:
    election.start("a")
    await election.writes_of("a")
    election.start("b")
    await election.says("b", "lease.held_elsewhere")
    election.signal("a", signal.SIGTERM)
    await election.writes_of("b")
    assert election.processes["a"].wait(PATIENCE)
    assert election.processes["a"].returncode == 0
    await settled(election)
    assert election.history.intruders() == []
    assert election.history.writers() == ["a", "b"]
    assert [holder for _, holder in election.history.holders if holder == ""] == [""]


async def test_a_leader_that_is_cut_off_stops_before_another_begins(
    election: ElectionEnvironment, stack: ExitStack
) -> None:
    proxy = stack.enter_context(FaultProxy.start(election.plane.url))
    election.start("a", server=f"https://{proxy.address}", manner="deaf")
    await election.writes_of("a")
    election.start("b")
    await election.says("b", "lease.held_elsewhere")
    for direction in Direction:
        proxy.inject(Fault(FaultKind.STALL, direction))
    proxy.arm(Fault(FaultKind.STALL, Direction.TO_SERVER), None)
    await election.writes_of("b")
    last, first = election.attempts("a")[-1], election.attempts("b")[0]
    assert last < first
    proxy.lift()  # what a had sent arrives now
    await election.writes_of("b", at_least=100)
    await settled(election)
    assert election.history.intruders() == []
    assert election.history.writers() == ["a", "b"]


async def test_a_lease_that_is_deleted_by_hand_is_made_anew_by_its_leader(
    election: ElectionEnvironment,
) -> None:
    election.start("a")
    await election.writes_of("a")
    election.start("b")
    await election.says("b", "lease.held_elsewhere")
    await election.client.delete(LEASES, LEASE, election.namespace)
    await election.says("a", "lease.term_over")
    await election.writes_of("a")
    assert election.history.writers() == ["a"]
    assert (await election.lease()).holder == "a"


async def test_behind_the_fence_one_can_read_and_watch_but_not_write(election: ElectionEnvironment) -> None:
    over = Leadership(LEASE, "a", CLOCK, deadline=CLOCK.monotonic())
    fenced = FencedClient(election.client, over)
    found = await fenced.get(CONFIG_MAPS, COUNTER, election.namespace, into=ObjectHeader)
    since = found.metadata.resource_version
    async with fenced.watch(
        CONFIG_MAPS, election.namespace, resource_version=since, timeout_seconds=30
    ) as lines:
        patch = {"data": {"writer": "admin", "count": "1"}}
        with pytest.raises(LeadershipLost):
            await fenced.patch(CONFIG_MAPS, patch, COUNTER, election.namespace, into=ObjectHeader)
        await election.client.patch(CONFIG_MAPS, patch, COUNTER, election.namespace, into=ObjectHeader)
        async with asyncio.timeout(PATIENCE):
            assert msgspec.json.decode(await anext(aiter(lines)))["object"]["data"]["writer"] == "admin"

"""The status publisher: when and how often an agent's report is written, and what happens on errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from stoker.agent.config_maps import MAX_MANAGER_LENGTH, ConfigMapKeys, manager_for
from stoker.agent.desired_state import ReportAddress
from stoker.agent.identity import AgentIdentity
from stoker.agent.status.status_report import HEARTBEAT, SYNCING_AFTER, AddressedReport, StatusPublisher
from stoker.domain.protocol import GatewayReport, SyncState
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import load_config
from stoker.telemetry.logs import configure_logging
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.agent_pod import ResourceMaps
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async

HOME = ReportAddress("stoker-status-plant", "filler")
SYNCED = GatewayReport("filler", sync_status=SyncState.SYNCED, synced_commit="1" * 40)


class PublisherEnvironment:
    """A publisher that runs beside a clock which the test moves."""

    def __init__(self, cluster: ClusterAccess, namespace: str, client: KubeClient) -> None:
        self.maps = ResourceMaps(cluster, namespace)
        self.clock = ManualClock()
        identity = AgentIdentity("gateway-0", namespace, "plant", gateway="filler")
        self.publisher = StatusPublisher(
            ConfigMapKeys(client, namespace, manager_for(identity.pod)),
            identity,
            self.clock,
            random=lambda: 0.0,
        )
        self.task = asyncio.ensure_future(self.publisher.run())

    def offer(self, report: GatewayReport, address: ReportAddress = HOME, *, may_create: bool = True) -> None:
        self.publisher.offer(AddressedReport(address, report, may_create))

    async def written(self, **wanted: object) -> GatewayReport:
        def fits() -> list[GatewayReport]:
            found = self.maps.report()
            return [found] if found and all(getattr(found, k) == v for k, v in wanted.items()) else []

        return (await eventually_async(fits, 20.0, lambda: f"{wanted}, not {self.maps.report()}"))[0]

    async def at_rest(self) -> None:
        """Until everything that was offered is written and it sleeps until the next sign of life."""
        await eventually_async(
            lambda: any(moment > self.clock.monotonic() + 60 for moment in self.clock.alarms),
            20.0,
            "it rests",
        )


@pytest.fixture
async def environment(control_plane: ClusterAccess, namespace: str) -> AsyncIterator[PublisherEnvironment]:
    async with KubeClient(load_config(control_plane.kubeconfig("admin", namespace=namespace))) as client:
        made = PublisherEnvironment(control_plane, namespace, client)
        yield made
        made.task.cancel()
        with suppress(asyncio.CancelledError):
            await made.task


async def test_nothing_is_written_twice_but_for_a_sign_of_life(environment: PublisherEnvironment) -> None:
    environment.offer(SYNCED)
    first = await environment.written(sync_status=SyncState.SYNCED)
    await environment.at_rest()
    for _ in range(5):
        environment.offer(replace(SYNCED))
    await environment.clock.advance(HEARTBEAT - 1)
    assert environment.maps.report() == first
    await environment.clock.advance(1)
    later = await environment.written(heartbeat_at="2026-01-01T00:05:00Z")
    assert later.without_heartbeat() == first.without_heartbeat()


async def test_a_short_sync_is_not_reported_while_it_runs_and_a_long_one_is(
    environment: PublisherEnvironment,
) -> None:
    environment.offer(SYNCED)
    await environment.written(sync_status=SyncState.SYNCED)
    await environment.at_rest()
    environment.offer(replace(SYNCED, sync_status=SyncState.SYNCING))
    await environment.clock.advance(SYNCING_AFTER / 2)
    environment.offer(replace(SYNCED, sync_status=SyncState.SYNCING))
    assert (await environment.written()).sync_status is SyncState.SYNCED
    await environment.clock.advance(SYNCING_AFTER)
    await environment.written(sync_status=SyncState.SYNCING)
    environment.offer(replace(SYNCED, synced_commit="2" * 40))
    await environment.written(synced_commit="2" * 40)


async def test_a_map_is_not_made_for_a_resource_that_may_be_gone(environment: PublisherEnvironment) -> None:
    environment.maps.prepare_status()
    environment.offer(replace(SYNCED, reason="Terminating", terminating_ack=True), may_create=False)
    await environment.written(terminating_ack=True)
    environment.maps.withdraw_status()
    environment.offer(replace(SYNCED, reason="MetadataNotFound"), may_create=False)
    await environment.publisher.stop()
    await environment.task
    assert environment.maps.status() is None


async def test_the_last_report_is_written_on_the_way_out(environment: PublisherEnvironment) -> None:
    environment.offer(SYNCED)
    await environment.written(sync_status=SyncState.SYNCED)
    environment.clock.jump(60)
    await environment.publisher.stop()
    await environment.task
    assert (await environment.written()).heartbeat_at == "2026-01-01T00:01:00Z"


def may_patch(cluster: ClusterAccess, namespace: str) -> bool:
    asked = ("auth", "can-i", "patch", "configmaps", "-n", namespace)
    return cluster.kubectl(*asked, user="dave", check=False).stdout.strip() == "yes"


@pytest.fixture
def logged_events(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], list[str]]]:
    """The events that were logged since it was last asked."""
    configure_logging(level="info", log_format="json")
    yield lambda: [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    configure_logging(level="warning")


async def test_a_server_that_is_away_is_asked_again_and_gets_the_newest(
    control_plane: ClusterAccess, namespace: str, logged_events: Callable[[], list[str]]
) -> None:
    async with KubeClient(load_config(control_plane.kubeconfig("dave", namespace=namespace))) as client:
        environment = PublisherEnvironment(control_plane, namespace, client)  # who may do nothing yet
        environment.offer(SYNCED)
        await eventually_async(lambda: "status.unwritten" in logged_events(), 20.0, "it was refused")
        environment.offer(replace(SYNCED, synced_commit="2" * 40))
        environment.maps.cluster.kubectl(
            "-n", namespace, "create", "rolebinding", "d", "--clusterrole=edit", "--user=dave"
        )
        rules = ["--verb=create,patch,get", "--resource=configmaps"]
        environment.maps.cluster.kubectl("-n", namespace, "create", "role", "maps", *rules)
        environment.maps.cluster.kubectl(
            "-n", namespace, "create", "rolebinding", "maps", "--role=maps", "--user=dave"
        )

        await eventually_async(
            lambda: may_patch(environment.maps.cluster, namespace),
            20.0,
            "the API server knows the new rights",
        )
        await environment.clock.sleeping()
        assert environment.maps.report() is None, "a new report does not knock again at once"
        # To the end of the pause and no further: the request's own deadline is on this clock too.
        await environment.clock.advance(environment.clock.alarms[0] - environment.clock.monotonic())
        await environment.written(synced_commit="2" * 40)
        await eventually_async(
            lambda: "status.written" in logged_events(), 20.0, "the end of a problem is reported too"
        )
        environment.task.cancel()
        with suppress(asyncio.CancelledError):
            await environment.task


async def test_a_server_that_is_back_is_not_kept_waiting_for_the_report(
    control_plane: ClusterAccess, namespace: str, logged_events: Callable[[], list[str]]
) -> None:
    async with KubeClient(load_config(control_plane.kubeconfig("dave", namespace=namespace))) as client:
        environment = PublisherEnvironment(control_plane, namespace, client)
        environment.offer(SYNCED)
        await eventually_async(lambda: "status.unwritten" in logged_events(), 20.0, "it was refused")
        rules = ["--verb=create,patch,get", "--resource=configmaps"]
        environment.maps.cluster.kubectl("-n", namespace, "create", "role", "maps", *rules)
        environment.maps.cluster.kubectl(
            "-n", namespace, "create", "rolebinding", "maps", "--role=maps", "--user=dave"
        )

        def hurried() -> bool:
            environment.publisher.hurry()  # as the watch does that is open again; no time passes
            return environment.maps.report() is not None

        await eventually_async(hurried, 20.0, "it is written", interval=0.2)
        environment.task.cancel()
        with suppress(asyncio.CancelledError):
            await environment.task


def test_a_manager_is_short_and_of_one_pod() -> None:
    long = "p" * 250
    assert manager_for("gateway-0") == "stoker-agent-gateway-0"
    assert len(manager_for(long)) <= MAX_MANAGER_LENGTH
    assert manager_for(long) != manager_for(long + "q")

"""Events on the real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from structlog.testing import capture_logs

from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.objects import ObjectHeader, ObjectHeaderMeta
from stoker.kube.client.resources import CONFIG_MAPS, EVENTS, NAMESPACES
from stoker.kube.config import config
from stoker.kube.events.recorder import EventRecorder
from stoker.kube.events.series import ObjectRef
from stoker.kube.runtime.backoff import Backoff
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.faults.stream_faults import Direction, Fault, FaultKind
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async


class Event(msgspec.Struct, rename="camel"):
    metadata: ObjectHeaderMeta
    involved_object: dict[str, str]
    type: str
    reason: str
    message: str
    count: int
    first_timestamp: str
    last_timestamp: str
    reporting_component: str
    reporting_instance: str


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def admin(control_plane: ClusterAccess) -> AsyncIterator[KubeClient]:
    async with KubeClient(config.load_config(control_plane.kubeconfig("admin"))) as client:
        yield client


@pytest.fixture
def proxy(control_plane: ClusterAccess) -> Iterator[FaultProxy]:
    with FaultProxy.start(control_plane.url) as proxy:
        yield proxy


@pytest.fixture
async def through_proxy(control_plane: ClusterAccess, proxy: FaultProxy) -> AsyncIterator[KubeClient]:
    path = control_plane.kubeconfig("admin", server=f"https://{proxy.address}")
    async with KubeClient(config.load_config(path)) as client:
        yield client


@asynccontextmanager
async def recording(client: KubeClient, clock: ManualClock) -> AsyncIterator[EventRecorder]:
    """A recorder whose clock does not move by itself: only what the test lets pass is due."""
    recorder = EventRecorder(
        client,
        component="stoker-test",
        instance="pod-1",
        backoff=Backoff(base=1.0, ceiling=60.0, jitter=0.0),
        clock=clock,
    )
    writer = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        await recorder.stop()
        await writer


async def written(recorder: EventRecorder, writes: int) -> None:
    await eventually_async(
        lambda: recorder.snapshot().written == writes, 20.0, lambda: f"{writes} writes: {recorder.snapshot()}"
    )


async def config_map(client: KubeClient, namespace: str, name: str) -> ObjectRef:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    made = await client.create(CONFIG_MAPS, body, namespace, into=ObjectHeader)
    return ObjectRef("v1", "ConfigMap", name, namespace, made.metadata.uid)


async def events_of(client: KubeClient, about: ObjectRef) -> list[Event]:
    namespace = about.namespace or "default"
    return await client.list(EVENTS, namespace, into=Event, fields=f"involvedObject.uid={about.uid}")


async def test_people_see_the_event_where_they_look_for_it(
    control_plane: ClusterAccess, admin: KubeClient, namespace: str, clock: ManualClock
) -> None:
    about = await config_map(admin, namespace, "prices")
    async with recording(admin, clock) as recorder:
        recorder.warning(about, Reason.REF_NOT_FOUND, "The branch release/7 does not exist.")
        await written(recorder, 1)
    [event] = await events_of(admin, about)
    assert (event.type, event.reason, event.count) == ("Warning", "RefNotFound", 1)
    assert (event.reporting_component, event.reporting_instance) == ("stoker-test", "pod-1")
    assert event.first_timestamp == event.last_timestamp == "2026-01-01T00:00:00Z"
    described = control_plane.kubectl("describe", "configmap", "prices", "-n", namespace).stdout
    assert "RefNotFound" in described
    assert "The branch release/7 does not exist." in described


async def test_a_thousand_equal_reports_are_one_event_with_the_right_count_and_few_writes(
    admin: KubeClient, namespace: str, clock: ManualClock
) -> None:
    about = await config_map(admin, namespace, "prices")
    async with recording(admin, clock) as recorder:
        recorder.warning(about, Reason.SOURCE_UNREACHABLE, "no route to the forge")
        await written(recorder, 1)
        for _ in range(999):
            recorder.warning(about, Reason.SOURCE_UNREACHABLE, "no route to the forge")
            await clock.advance(0.02)
        await clock.advance(30.0)
        await written(recorder, 2)
        [event] = await events_of(admin, about)
        assert event.count == 1000
        assert event.first_timestamp < event.last_timestamp
        assert recorder.snapshot().pending == 0


async def test_a_stop_writes_the_count_that_is_still_pending(
    admin: KubeClient, namespace: str, clock: ManualClock
) -> None:
    about = await config_map(admin, namespace, "prices")
    async with recording(admin, clock) as recorder:
        recorder.normal(about, Reason.REF_RESOLVED, "synced")
        await written(recorder, 1)
        for _ in range(41):
            recorder.normal(about, Reason.REF_RESOLVED, "synced")
    [event] = await events_of(admin, about)
    assert event.count == 42


async def test_an_event_that_the_server_forgot_is_made_anew(
    admin: KubeClient, namespace: str, clock: ManualClock
) -> None:
    about = await config_map(admin, namespace, "prices")
    async with recording(admin, clock) as recorder:
        recorder.normal(about, Reason.REF_RESOLVED, "synced")
        await written(recorder, 1)
        [event] = await events_of(admin, about)
        await admin.delete(EVENTS, event.metadata.name, namespace)
        recorder.normal(about, Reason.REF_RESOLVED, "synced")
        await clock.advance(30.0)
        await written(recorder, 2)
    [again] = await events_of(admin, about)
    assert again.metadata.name != event.metadata.name
    assert again.count == 2


async def test_an_object_without_a_namespace_has_its_events_in_default(
    admin: KubeClient, namespace: str, clock: ManualClock
) -> None:
    header = await admin.get(NAMESPACES, namespace, into=ObjectHeader)
    about = ObjectRef("v1", "Namespace", namespace, uid=header.metadata.uid)
    async with recording(admin, clock) as recorder:
        recorder.normal(about, Reason.REF_RESOLVED, "watched")
        await written(recorder, 1)
    [event] = await events_of(admin, about)
    assert event.metadata.namespace == "default"


@pytest.mark.parametrize("name", ["system:controller:x", "UPPER_case", "a" * 253, "a..b.-c", "-"])
async def test_the_server_takes_events_about_objects_of_any_name(
    admin: KubeClient, namespace: str, clock: ManualClock, name: str
) -> None:
    about = ObjectRef("example.com/v1", "Thing", name, namespace, "uid-of-a-thing")
    async with recording(admin, clock) as recorder:
        recorder.normal(about, Reason.REF_RESOLVED, "hello")
        await written(recorder, 1)
    [event] = await events_of(admin, about)
    assert event.involved_object["name"] == name


async def test_a_message_is_cut_and_shows_no_credential(
    admin: KubeClient, namespace: str, clock: ManualClock
) -> None:
    about = await config_map(admin, namespace, "prices")
    async with recording(admin, clock) as recorder:
        secret = "https://bot:hunter2@forge.example/x.git "
        recorder.warning(about, Reason.SOURCE_UNREACHABLE, secret + "€" * 5000)
        await written(recorder, 1)
    [event] = await events_of(admin, about)
    assert len(event.message) == 1024
    assert "hunter2" not in event.message


async def test_an_outage_blocks_no_caller_and_loses_nothing(
    admin: KubeClient, through_proxy: KubeClient, proxy: FaultProxy, namespace: str, clock: ManualClock
) -> None:
    about = await config_map(admin, namespace, "prices")
    async with recording(through_proxy, clock) as recorder:
        with proxy.refusing():
            for _ in range(1000):
                recorder.warning(about, Reason.SOURCE_UNREACHABLE, "no route to the forge")
            await clock.sleeping()
            assert (recorder.snapshot().written, recorder.snapshot().pending) == (0, 1)
        await clock.advance(1.0)
        await written(recorder, 1)
    [event] = await events_of(admin, about)
    assert event.count == 1000


async def test_an_event_that_arrived_although_its_answer_did_not_is_not_made_twice(
    admin: KubeClient, through_proxy: KubeClient, proxy: FaultProxy, namespace: str, clock: ManualClock
) -> None:
    about = await config_map(admin, namespace, "prices")
    await through_proxy.get(NAMESPACES, namespace, into=ObjectHeader)  # opens the connection
    proxy.inject(Fault(FaultKind.STALL, Direction.TO_CLIENT))
    async with recording(through_proxy, clock) as recorder:
        recorder.warning(about, Reason.SOURCE_UNREACHABLE, "no route to the forge")
        await eventually_async(lambda: events_of(admin, about), 10.0, "the event has arrived")
        proxy.inject(Fault(FaultKind.RESET, Direction.TO_CLIENT))
        await clock.sleeping()
        recorder.warning(about, Reason.SOURCE_UNREACHABLE, "no route to the forge")
        await clock.advance(1.0)
        await written(recorder, 1)
    [event] = await events_of(admin, about)
    assert event.count == 2


async def test_without_permission_for_events_it_logs_that_and_goes_on(
    control_plane: ClusterAccess, admin: KubeClient, namespace: str, clock: ManualClock
) -> None:
    about = await config_map(admin, namespace, "prices")
    async with KubeClient(config.load_config(control_plane.kubeconfig("alice"))) as alice:
        with capture_logs() as lines:
            async with recording(alice, clock) as recorder:
                recorder.normal(about, Reason.REF_RESOLVED, "first")
                recorder.normal(about, Reason.PAUSED, "second")
                await eventually_async(lambda: recorder.snapshot().lost == 2, 10.0, "both are given up")
    assert await events_of(admin, about) == []
    refused = [line for line in lines if line["event"] == "event.refused"]
    assert [line["error"].reason for line in refused] == [Reason.RBAC_DENIED] * 2

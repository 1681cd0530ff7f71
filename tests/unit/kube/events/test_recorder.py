"""Reporting Events during an outage: it never waits, never raises, and never fills the memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import ClusterConfig
from stoker.kube.events.recorder import REPEAT_SECONDS, EventRecorder, event_name
from stoker.kube.events.series import EventLimits, ObjectRef
from stoker.kube.runtime.backoff import Backoff
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.processes import free_port

OBJECT = ObjectRef("v1", "ConfigMap", "prices", "shop", "uid-1")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def nowhere() -> AsyncIterator[KubeClient]:
    """A client of a server that is not there."""
    async with KubeClient(ClusterConfig(server=f"http://127.0.0.1:{free_port()}")) as client:
        yield client


@pytest.fixture
def recorder(nowhere: KubeClient, clock: ManualClock) -> EventRecorder:
    return EventRecorder(
        nowhere,
        component="stoker-test",
        instance="pod-1",
        limits=EventLimits(capacity=10),
        backoff=Backoff(base=1.0, ceiling=60.0, jitter=0.0),
        clock=clock,
    )


def objects(count: int) -> list[ObjectRef]:
    return [ObjectRef("v1", "ConfigMap", f"map-{number}", "shop") for number in range(count)]


async def test_reports_without_a_writer_are_kept_up_to_the_capacity(recorder: EventRecorder) -> None:
    for about in objects(15):
        recorder.warning(about, Reason.REJECTED, "no")
    for _ in range(985):
        recorder.normal(OBJECT, Reason.REF_RESOLVED, "never kept, there is no room left")
    tally = recorder.snapshot()
    assert (tally.reported, tally.pending, tally.overflowed, tally.written) == (1000, 10, 990, 0)


async def test_an_object_that_floods_is_held_back(nowhere: KubeClient, clock: ManualClock) -> None:
    recorder = EventRecorder(nowhere, component="c", instance="i", limits=EventLimits(burst=3), clock=clock)
    for number in range(10):
        recorder.warning(OBJECT, Reason.REJECTED, f"attempt {number}")
    assert (recorder.snapshot().pending, recorder.snapshot().rate_limited) == (3, 7)


async def test_dropped_events_are_logged_without_filling_the_log(
    nowhere: KubeClient, clock: ManualClock
) -> None:
    recorder = EventRecorder(nowhere, component="c", instance="i", limits=EventLimits(burst=3), clock=clock)
    with capture_logs() as lines:
        for number in range(10):
            recorder.warning(OBJECT, Reason.REJECTED, f"attempt {number}")
        await clock.advance(REPEAT_SECONDS)
        for number in range(10, 20):
            recorder.warning(OBJECT, Reason.REJECTED, f"attempt {number}")
    messages = [(line["about"], line["reason"], line["rate_limited"], line["overflowed"]) for line in lines]
    assert {line["event"] for line in lines} == {"events.dropped"}
    # Ten minutes have brought the credit for two more.
    assert messages == [(OBJECT, Reason.REJECTED, 1, 0), (OBJECT, Reason.REJECTED, 8, 0)]


async def test_while_the_server_is_away_attempts_grow_rare_and_nothing_is_given_up(
    recorder: EventRecorder, clock: ManualClock
) -> None:
    writer = asyncio.create_task(recorder.run())
    recorder.warning(OBJECT, Reason.REJECTED, "no")
    alarms = []
    for _ in range(8):
        await clock.sleeping()
        alarms.append(clock.alarms[0] - clock.monotonic())
        await clock.advance(alarms[-1])
    assert alarms == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert (recorder.snapshot().pending, recorder.snapshot().lost) == (1, 0)
    await recorder.stop()
    await writer


async def test_reports_during_an_outage_do_not_hasten_the_next_attempt(
    recorder: EventRecorder, clock: ManualClock
) -> None:
    writer = asyncio.create_task(recorder.run())
    recorder.warning(OBJECT, Reason.REJECTED, "no")
    await clock.sleeping()
    for about in objects(5):
        recorder.warning(about, Reason.REJECTED, "no")
    await clock.advance(0.5)
    assert clock.alarms == (1.0,)
    await recorder.stop()
    await writer


async def test_a_stop_tries_once_more_and_counts_what_is_lost(
    recorder: EventRecorder, clock: ManualClock
) -> None:
    writer = asyncio.create_task(recorder.run())
    for about in objects(4):
        recorder.warning(about, Reason.REJECTED, "no")
    await clock.sleeping()
    await recorder.stop()
    await writer
    assert (recorder.snapshot().lost, recorder.snapshot().pending) == (4, 0)
    recorder.normal(OBJECT, Reason.REF_RESOLVED, "too late")
    assert recorder.snapshot().overflowed == 1


async def test_a_stop_does_not_wait_longer_than_its_grace(clock: ManualClock) -> None:
    """A server that takes the connection and never answers."""
    silence = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silence.wait()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, KubeClient(ClusterConfig(server=f"http://127.0.0.1:{port}")) as client:
        recorder = EventRecorder(client, component="c", instance="i", clock=clock)
        writer = asyncio.create_task(recorder.run())
        recorder.normal(OBJECT, Reason.REF_RESOLVED, "hello")
        stopping = asyncio.create_task(recorder.stop(grace=5.0))
        await clock.sleeping()
        with capture_logs() as lines:
            await clock.advance(5.0)
            await stopping
        assert writer.cancelled()
        silence.set()
    assert recorder.snapshot().lost == 1
    assert [line["event"] for line in lines] == ["events.given_up"]


async def test_stopping_a_recorder_that_never_ran_is_no_error(recorder: EventRecorder) -> None:
    await recorder.stop()
    assert recorder.snapshot().lost == 0


async def test_a_mistake_in_a_report_costs_that_report_only(clock: ManualClock, nowhere: KubeClient) -> None:
    recorder = EventRecorder(nowhere, component="c", instance="i", clock=clock)
    writer = asyncio.create_task(recorder.run())
    with capture_logs() as lines:
        recorder.normal(ObjectRef("v1", "ConfigMap", "x", "no/such/namespace"), Reason.REF_RESOLVED, "hello")
        recorder.normal(OBJECT, Reason.REF_RESOLVED, "hello")
        await clock.sleeping()
    # Whether the other one was tried already, and postponed because nothing listens there, does not matter.
    assert [line["event"] for line in lines if line["event"] != "events.postponed"] == ["event.refused"]
    assert (recorder.snapshot().lost, recorder.snapshot().pending) == (1, 1)
    await recorder.stop()
    await writer


DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@given(st.text(max_size=400))
def test_an_event_has_a_valid_name_whatever_its_object_is_called(about: str) -> None:
    name = event_name(about)
    assert DNS_SUBDOMAIN.fullmatch(name)
    assert len(name) <= 253


def test_event_names_are_unique_and_begin_with_that_of_the_object() -> None:
    names = {event_name("prices") for _ in range(1000)}
    assert len(names) == 1000
    assert all(name.startswith("prices.") for name in names)

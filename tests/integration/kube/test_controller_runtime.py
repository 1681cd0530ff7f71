"""A small controller on the real API server: reflector, queue, workers, steps, status, stop.

Its objects are ConfigMaps. It doubles the number under `number` into an
annotation; what is not a number needs a human's fix, and `wait` makes a reconcile
last until the test lets it end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from stoker.domain.errors import InvalidValue
from stoker.kube.client.client import KubeClient
from stoker.kube.client.objects import ObjectHeader, ObjectHeaderMeta
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.kube.config import config
from stoker.kube.runtime.controller import Controller, ReconcileRecord, ReconcileResult
from stoker.kube.runtime.process import ProcessGroup, ProcessPart
from stoker.kube.runtime.result import Consequence
from stoker.kube.runtime.steps import ReconcilePass, ReconcileStep, StepsOutcome
from stoker.kube.runtime.workqueue import WorkQueue
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectKey
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.faults.stream_faults import Fault, FaultKind
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.wait_until import eventually_async

STATUS = "example.com/status"


class ConfigMap(msgspec.Struct, frozen=True):
    metadata: ObjectHeaderMeta
    data: dict[str, str] = {}

    @property
    def status(self) -> str:
        return self.metadata.annotations.get(STATUS, "")


@dataclass(frozen=True, slots=True)
class Context:
    found: ConfigMap
    doubled: int | None = None


@dataclass
class Doubler:
    """The controller with everything it needs, in one namespace."""

    client: KubeClient
    namespace: str
    release: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: list[str] = field(default_factory=list)
    records: list[ReconcileRecord[ObjectKey]] = field(default_factory=list)
    writes: int = 0

    def __post_init__(self) -> None:
        self.queue: WorkQueue[ObjectKey] = WorkQueue()
        self.reflector: Reflector[ConfigMap] = Reflector(
            self.client,
            CONFIG_MAPS,
            namespace=self.namespace,
            keep=msgspec.json.Decoder(ConfigMap).decode,
            on_change=lambda change: self.queue.add(change.key),
        )
        self.controller = Controller("doubler", self.queue, self.reconcile, on_pass=self.records.append)
        self.steps = ReconcilePass(
            steps=[ReconcileStep("wait", self.wait), ReconcileStep("double", self.double)],
            observed=lambda context: context.found.status,
            summarize=self.summarize,
            write=self.write,
        )

    def unit(self) -> ProcessGroup:
        return ProcessGroup(
            [
                ProcessPart("reflector", self.reflector.run),
                ProcessPart("controller", self.controller.run, self.controller.stop),
            ]
        )

    async def reconcile(self, key: ObjectKey) -> ReconcileResult:
        found = self.reflector.store.get(key)
        if found is not None:
            await self.steps.run(Context(found))
        return ReconcileResult()

    async def wait(self, context: Context) -> Context:
        if "wait" in context.found.data and not context.found.status:
            self.waiting.append(context.found.metadata.name)
            await self.release.wait()
        return context

    async def double(self, context: Context) -> Context:
        text = context.found.data.get("number")
        if text is None:
            return context
        if text == "crash":
            raise ZeroDivisionError
        if not text.isdecimal():
            raise InvalidValue(f"{text!r} is not a number")
        return replace(context, doubled=2 * int(text))

    def summarize(self, context: Context, outcome: StepsOutcome) -> str:
        if outcome.error is not None:
            return f"{outcome.error.reason}: {outcome.error.message}"
        return str(context.doubled) if context.doubled is not None else context.found.status

    async def write(self, context: Context, status: str) -> None:
        self.writes += 1
        body = {"metadata": {"annotations": {STATUS: status}}}
        await self.client.patch(
            CONFIG_MAPS, body, context.found.metadata.name, self.namespace, into=ObjectHeader
        )

    async def create(self, name: str, **data: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        await self.client.create(CONFIG_MAPS, body, self.namespace, into=ObjectHeader)

    async def set_number(self, name: str, number: str) -> None:
        await self.client.patch(
            CONFIG_MAPS, {"data": {"number": number}}, name, self.namespace, into=ObjectHeader
        )

    async def statuses(self) -> dict[str, str]:
        """What the server says, past the reflector."""
        found = await self.client.list(CONFIG_MAPS, self.namespace, into=ConfigMap)
        return {each.metadata.name: each.status for each in found if each.data.get("number")}

    async def reaches(self, **expected: str) -> None:
        async def reached() -> bool:
            return await self.statuses() == expected

        await eventually_async(reached, 20.0, f"the statuses {expected}")

    async def is_quiet(self) -> None:
        """Nothing waits and nothing runs, and the events of the last write have come back."""

        def quiet() -> bool:
            depth = self.queue.snapshot()
            known = {key.name: found.status for key, found in self.reflector.store.items()}
            return depth.ready == depth.in_flight == 0 and all(known[key] for key in known if key[0] == "n")

        await eventually_async(quiet, 20.0, "the controller is quiet")


@pytest.fixture
async def client(control_plane: ClusterAccess) -> AsyncIterator[KubeClient]:
    async with KubeClient(config.load_config(control_plane.kubeconfig("admin"))) as client:
        yield client


@asynccontextmanager
async def running(doubler: Doubler) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(doubler.unit().run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_it_converges_on_what_was_there_and_on_what_comes_and_changes(
    client: KubeClient, namespace: str
) -> None:
    doubler = Doubler(client, namespace)
    for number in range(20):
        await doubler.create(f"n{number}", number=str(number))
    async with running(doubler):
        await doubler.reaches(**{f"n{number}": str(2 * number) for number in range(20)})
        await doubler.create("n20", number="20")
        await doubler.set_number("n0", "100")
        wanted = {f"n{number}": str(2 * number) for number in range(21)} | {"n0": "200"}
        await doubler.reaches(**wanted)
    assert {record.consequence for record in doubler.records} == {Consequence.DONE}


async def test_it_writes_nothing_once_nothing_changes(client: KubeClient, namespace: str) -> None:
    doubler = Doubler(client, namespace)
    for number in range(5):
        await doubler.create(f"n{number}", number=str(number))
    async with running(doubler):
        await doubler.reaches(**{f"n{number}": str(2 * number) for number in range(5)})
        await doubler.is_quiet()
        writes, passes = doubler.writes, len(doubler.records)
        for key in doubler.reflector.store.keys():  # noqa: SIM118 - a store is no mapping
            doubler.queue.add(key)
        await eventually_async(lambda: len(doubler.records) >= passes + 5, 10.0, "five more passes")
        assert doubler.writes == writes == 5


async def test_one_bad_object_gets_its_error_while_the_others_go_on(
    client: KubeClient, namespace: str
) -> None:
    doubler = Doubler(client, namespace)
    await doubler.create("bad", number="many")
    await doubler.create("crashing", number="crash")
    for number in range(10):
        await doubler.create(f"n{number}", number=str(number))
    good = {f"n{number}": str(2 * number) for number in range(10)}
    async with running(doubler):
        await doubler.reaches(
            bad="InvalidValue: 'many' is not a number",
            crashing="InternalError: an unforeseen ZeroDivisionError; the log has its traceback",
            **good,
        )
        ends = {(record.key.name, record.consequence) for record in doubler.records}
        assert {("bad", Consequence.STALLED), ("crashing", Consequence.ERROR)} <= ends
        await doubler.set_number("bad", "4")
        await doubler.set_number("crashing", "5")
        await doubler.reaches(bad="8", crashing="10", **good)


async def test_a_stop_lets_the_running_reconcile_write_its_status(client: KubeClient, namespace: str) -> None:
    doubler = Doubler(client, namespace)
    await doubler.create("slow", number="21", wait="yes")
    async with running(doubler) as task:
        await eventually_async(lambda: doubler.waiting == ["slow"], 20.0, "the pass is under way")
        task.cancel()
        await doubler.create("late", number="1")
        await eventually_async(
            lambda: ObjectKey(namespace, "late") in doubler.reflector.store, 20.0, "it is seen"
        )
        assert not task.done()
        doubler.release.set()
        await asyncio.wait([task], timeout=20.0)
        assert task.cancelled()
    assert await doubler.statuses() == {"slow": "42", "late": ""}


async def test_it_recovers_from_an_api_server_that_went_away(
    control_plane: ClusterAccess, client: KubeClient, namespace: str
) -> None:
    with FaultProxy.start(control_plane.url) as proxy:
        path = control_plane.kubeconfig("admin", server=f"https://{proxy.address}")
        async with KubeClient(config.load_config(path)) as flaky:
            doubler, outside = Doubler(flaky, namespace), Doubler(client, namespace)
            await outside.create("n1", number="1")
            async with running(doubler):
                await outside.reaches(n1="2")
                proxy.inject(Fault(FaultKind.RESET))
                with proxy.refusing():
                    await outside.create("n2", number="2")
                    await outside.set_number("n1", "10")
                    doubler.queue.add(ObjectKey(namespace, "n1"))
                    await eventually_async(
                        lambda: doubler.reflector.health.failures > 0, 20.0, "the reflector has noticed"
                    )
                await outside.reaches(n1="20", n2="4")

"""Random histories against the real API server, through a network that fails all the time.

Each seed is one history: ConfigMaps are created, changed, deleted and made again
while the reflector's connections are reset, stalled and cut in the middle of a
line, and while it gets 410, 429 and 500 as responses and in the stream. However
it went: in the end the store is what a fresh list says, and for no object was
anything delivered twice, out of order or after its end.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from stoker.domain.errors import StokerError
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import Gone
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.kube.config import config
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectChange, ObjectKey
from stoker_testkit.certificates import KeyPair
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.faults.http_fault_proxy import AnsweredFault, HttpFaultProxy
from stoker_testkit.faults.stream_faults import Fault, FaultKind
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.wait_until import eventually_async

SEEDS = 50
SAMPLE = 12
STEPS = 40
NAMES = [f"map-{number}" for number in range(8)]
PAGE_SIZE = 3
IDLE_TIMEOUT = 0.5
WATCHES = r"watch=true"
LISTS = r"configmaps\?(?!.*watch=true)"


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str


class ConfigMap(msgspec.Struct, frozen=True):
    metadata: Meta
    data: dict[str, str] = {}


@dataclass(frozen=True)
class Network:
    """Two proxies on the way: the outer one breaks connections, the inner one the requests in them."""

    outer: FaultProxy
    inner: HttpFaultProxy

    @property
    def url(self) -> str:
        return f"https://{self.outer.address}"

    def reset(self) -> None:
        self.outer.inject(Fault(FaultKind.RESET))

    def stall(self) -> None:
        self.outer.inject(Fault(FaultKind.STALL))

    def lift(self) -> None:
        self.inner.lift()
        self.outer.lift()

    async def clear(self) -> None:
        """Close the connections of clients that still wait for a TLS shutdown over a stalled line."""
        self.lift()
        self.reset()
        await eventually_async(lambda: self.outer.open_connections == 0, message="no connection is left")


@contextmanager
def network_to(plane: ClusterAccess) -> Iterator[Network]:
    certificate = KeyPair(plane.folder / "apiserver.crt", plane.folder / "apiserver.key")
    with (
        HttpFaultProxy.start(plane.url, ca_file=plane.ca_file, tls=certificate) as inner,
        FaultProxy.start(inner.url) as outer,
    ):
        yield Network(outer, inner)


@pytest.fixture
def network(control_plane: ClusterAccess) -> Iterator[Network]:
    with network_to(control_plane) as network:
        yield network


@pytest.fixture
async def admin(admin_kubeconfig: Path) -> AsyncIterator[KubeClient]:
    """A client that goes past all faults."""
    async with KubeClient(config.load_config(admin_kubeconfig)) as client:
        yield client


class Watcher:
    """A reflector behind the network, and everything it has delivered."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        chance: random.Random,
        idle_timeout: float,
        longest_pause: float,
    ) -> None:
        self.delivered: list[ObjectChange[ConfigMap]] = []
        self.errors: list[StokerError] = []
        self.reflector = Reflector(
            client,
            CONFIG_MAPS,
            namespace=namespace,
            keep=msgspec.json.Decoder(ConfigMap).decode,
            on_change=self.delivered.append,
            on_error=self.errors.append,
            idle_timeout=idle_timeout,
            page_size=PAGE_SIZE,
            backoff=Backoff(base=longest_pause / 10, ceiling=longest_pause, random=chance.random),
            slow_backoff=Backoff(base=0.05, ceiling=0.2, random=chance.random),
            random=lambda: 0.1 * chance.random(),
        )

    def known(self) -> dict[str, ConfigMap]:
        return {key.name: value for key, value in self.reflector.store.items()}

    def check_order(self) -> None:
        """Per uid: one beginning, versions that grow, one end, and nothing after it."""
        latest: dict[str, int] = {}
        ended: set[str] = set()
        living: dict[ObjectKey, str] = {}
        for change in self.delivered:
            assert change.uid not in ended, f"{change} was delivered after the end"
            version = int(change.resource_version)
            assert version > latest.get(change.uid, 0), f"{change} was delivered after {latest[change.uid]}"
            latest[change.uid] = version
            assert change.added == (change.key not in living), f"{change} does not fit {living}"
            assert living.setdefault(change.key, change.uid) == change.uid, f"{change} is of another object"
            if change.deleted:
                ended.add(change.uid)
                del living[change.key]


@asynccontextmanager
async def watcher(
    plane: ClusterAccess,
    network: Network,
    namespace: str,
    seed: int = 0,
    *,
    idle_timeout: float = IDLE_TIMEOUT,
    longest_pause: float = 0.2,
) -> AsyncIterator[Watcher]:
    chance = random.Random(seed)  # noqa: S311 - a history must be the same each time
    kubeconfig = plane.kubeconfig("admin", namespace=namespace, server=network.url)
    async with KubeClient(config.load_config(kubeconfig)) as client, asyncio.TaskGroup() as group:
        watcher = Watcher(client, namespace, chance, idle_timeout, longest_pause)
        running = group.create_task(watcher.reflector.run())
        yield watcher
        running.cancel()
    await network.clear()


def status(code: int, reason: str) -> bytes:
    return msgspec.json.encode(
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    )


def error_line(code: int, reason: str) -> bytes:
    return b'{"type":"ERROR","object":%s}\n' % status(code, reason)


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class History:
    """One seed's worth of events and mishaps."""

    def __init__(
        self, seed: int, admin: KubeClient, namespace: str, network: Network, watcher: Watcher
    ) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - the same each time
        self._admin = admin
        self._namespace = namespace
        self._network = network
        self._watcher = watcher
        self._exists: set[str] = set()
        self._counter = 0

    async def play(self) -> None:
        writes = [self.create, self.create, self.update, self.update, self.delete]
        faults = [
            self.reset,
            self.recreate_while_disconnected,
            self.cut_in_the_middle,
            self.answer_the_watch_with_an_error,
            self.put_an_error_into_the_stream,
            self.break_the_list,
        ]
        for step in range(STEPS):
            await self._chance.choice(writes)()
            if step % 4 == 3:
                requests = self._requests()
                await self._chance.choice(faults)()
                for _ in range(self._chance.randrange(4)):
                    await self._chance.choice(writes)()
                if self._chance.random() < 0.8:  # else the next fault comes on top of this one
                    await self._felt(requests)
            if step % 20 == 19:
                await self._chance.choice([self.stall, self.settle])()
        await self.settle()

    async def _felt(self, before: int) -> None:
        """The reflector has come back for more than it had asked by then."""
        await eventually_async(lambda: self._requests() > before, message="the fault was felt")

    def _requests(self) -> int:
        return self._watcher.reflector.watches + self._watcher.reflector.lists

    async def settle(self) -> None:
        """Without faults the store comes to be what a fresh list says."""
        self._network.lift()
        listed = await self._admin.list(CONFIG_MAPS, self._namespace, into=ConfigMap)
        truth = {each.metadata.name: each for each in listed}
        await eventually_async(
            lambda: self._watcher.known() == truth,
            timeout=20.0,
            message=lambda: f"the store is {self._watcher.known()}, the cluster is {truth}",
        )

    async def create(self) -> None:
        missing = sorted(set(NAMES) - self._exists)
        if missing:
            name = self._chance.choice(missing)
            await self._admin.create(CONFIG_MAPS, self._body(name), self._namespace, into=ConfigMap)
            self._exists.add(name)

    async def update(self) -> None:
        if self._exists:
            name = self._chance.choice(sorted(self._exists))
            await self._admin.patch(CONFIG_MAPS, self._body(name), name, self._namespace, into=ConfigMap)

    async def delete(self) -> None:
        if self._exists:
            name = self._chance.choice(sorted(self._exists))
            await self._admin.delete(CONFIG_MAPS, name, self._namespace)
            self._exists.discard(name)

    async def recreate_while_disconnected(self) -> None:
        """The same name, another uid."""
        self._network.reset()
        if self._exists:
            name = self._chance.choice(sorted(self._exists))
            await self._admin.delete(CONFIG_MAPS, name, self._namespace)
            await self._admin.create(CONFIG_MAPS, self._body(name), self._namespace, into=ConfigMap)

    async def reset(self) -> None:
        self._network.reset()

    async def cut_in_the_middle(self) -> None:
        """The open stream, or the next one, ends within the next line or the one after."""
        cut = Fault(FaultKind.TRUNCATE, after=self._chance.randrange(1, 800))
        if self._chance.random() < 0.5:
            self._network.inner.inject(cut)
            for _ in range(3):
                await self.create()
                await self.update()
        else:
            self._network.inner.arm(cut, WATCHES)
            self._network.reset()

    async def answer_the_watch_with_an_error(self) -> None:
        code, reason, headers = self._chance.choice(
            [
                (410, "Expired", {}),
                (410, "Gone", {}),
                (429, "TooManyRequests", {}),
                (429, "TooManyRequests", {"Retry-After": "1"}),
                (500, "InternalError", {}),
                (403, "Forbidden", {}),
            ]
        )
        self._network.inner.arm(AnsweredFault(code, status(code, reason), headers), WATCHES)
        self._network.reset()

    async def put_an_error_into_the_stream(self) -> None:
        line = self._chance.choice(
            [
                error_line(410, "Expired"),
                error_line(410, "Gone"),
                error_line(429, "TooManyRequests"),
                error_line(500, "InternalError"),
                b'{"type":"ADDED","object":{"metadata":{"name":"gho\n',
                b"<html>\n",
            ]
        )
        # Often enough in a row to make the reflector give the stream up.
        times = self._chance.choice([1, 1, 2, 4])
        self._network.inner.arm(AnsweredFault(200, line), WATCHES, times=times)
        self._network.reset()

    async def break_the_list(self) -> None:
        """The version expires, and the list after that breaks: at its start, within, or between two pages."""
        broken: list[tuple[Fault | AnsweredFault, str]] = [
            (AnsweredFault(500, status(500, "InternalError")), LISTS),
            (AnsweredFault(410, status(410, "Expired")), r"continue="),
            (Fault(FaultKind.RESET, after=self._chance.randrange(500)), LISTS),
            (Fault(FaultKind.TRUNCATE, after=self._chance.randrange(500)), r"continue="),
        ]
        fault, path = self._chance.choice(broken)
        self._network.inner.arm(AnsweredFault(410, status(410, "Expired")), WATCHES)
        self._network.inner.arm(fault, path)
        self._network.reset()

    async def stall(self) -> None:
        """All connections fall silent for good; the reflector has to notice."""
        await self.settle()
        await eventually_async(lambda: self._watcher.reflector.health.watching, message="the watch is open")
        self._network.stall()
        await self.create()
        await self.update()
        listed = await self._admin.list(CONFIG_MAPS, self._namespace, into=ConfigMap)
        truth = {each.metadata.name: each for each in listed}
        await eventually_async(
            lambda: self._watcher.known() == truth,
            timeout=10 * IDLE_TIMEOUT,
            message="the reflector has noticed that its connection is dead",
        )

    def _body(self, name: str) -> dict[str, object]:
        self._counter += 1
        return config_map(name, count=str(self._counter), filling="x" * self._chance.randrange(300))


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.long] if seed >= SAMPLE else []) for seed in range(SEEDS)]
)
async def test_every_history_ends_as_a_fresh_list_and_in_order(
    seed: int, control_plane: ClusterAccess, network: Network, admin: KubeClient, namespace: str
) -> None:
    async with watcher(control_plane, network, namespace, seed) as watched:
        await History(seed, admin, namespace, network, watched).play()
    watched.check_order()
    assert watched.reflector.broken_streams > 0, "this history had no fault in it"
    assert watched.reflector.store.refused == 0


@pytest.mark.parametrize(
    "answer",
    [AnsweredFault(410, status(410, "Expired")), AnsweredFault(200, error_line(410, "Expired"))],
    ids=["as an answer", "in the stream"],
)
async def test_an_expired_version_is_followed_by_a_list_that_finds_the_deletion(
    answer: AnsweredFault, control_plane: ClusterAccess, network: Network, admin: KubeClient, namespace: str
) -> None:
    for name in NAMES:
        await admin.create(CONFIG_MAPS, config_map(name), namespace, into=ConfigMap)
    async with watcher(control_plane, network, namespace) as watched:
        await eventually_async(lambda: watched.reflector.health.watching, message="the watch is open")
        with network.outer.refusing():
            network.reset()
            await admin.delete(CONFIG_MAPS, NAMES[0], namespace)
            network.inner.arm(answer, WATCHES)
            asked_before = len(network.inner.requests)
        await eventually_async(lambda: NAMES[0] not in watched.known(), message="the deletion is known")
        await eventually_async(lambda: watched.reflector.health.watching, message="the watch is open again")
    asked = [request.path for request in network.inner.requests[asked_before:]]
    assert ["watch" if "watch=true" in path else "list" for path in asked] == [
        "watch",
        *["list"] * 3,  # pages
        "watch",
    ]
    assert [(change.key.name, change.deleted) for change in watched.delivered[len(NAMES) :]] == [
        (NAMES[0], True)
    ]
    watched.check_order()


async def test_a_silent_connection_is_noticed_by_the_idle_timeout(
    control_plane: ClusterAccess, network: Network, admin: KubeClient, namespace: str
) -> None:
    async with watcher(control_plane, network, namespace, idle_timeout=1.0) as watched:
        await eventually_async(lambda: watched.reflector.health.watching, message="the watch is open")
        network.stall()
        await admin.create(CONFIG_MAPS, config_map("probe"), namespace, into=ConfigMap)
        await eventually_async(lambda: "probe" in watched.known(), message="the object behind the silence")
        assert watched.reflector.silences == 1
    watched.check_order()


async def test_cancelling_while_the_connection_is_silent_ends_at_once(
    control_plane: ClusterAccess, network: Network, namespace: str
) -> None:
    async with watcher(control_plane, network, namespace, idle_timeout=3600.0) as watched:
        await eventually_async(lambda: watched.reflector.health.watching, message="the watch is open")
        network.stall()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.cluster
async def test_a_server_that_has_forgotten_what_we_missed_is_listed_and_compared(tmp_path: Path) -> None:
    """The real 410: cut off from a server that restarts, and with it loses the history in its memory."""
    with ControlPlane.start(tmp_path / "plane") as plane, network_to(plane) as network:
        plane.create_namespace("shop")
        async with (
            KubeClient(config.load_config(plane.kubeconfig("admin"))) as admin,
            # Patient enough not to have given up resuming by the time the server is back.
            watcher(plane, network, "shop", longest_pause=3.0) as watched,
        ):
            for name in NAMES:
                await admin.create(CONFIG_MAPS, config_map(name, text="before"), "shop", into=ConfigMap)
            await eventually_async(lambda: len(watched.known()) == len(NAMES), message="all maps are known")
            delivered_before = len(watched.delivered)
            with network.outer.refusing():
                network.reset()
                await admin.delete(CONFIG_MAPS, NAMES[0], "shop")
                await admin.delete(CONFIG_MAPS, NAMES[1], "shop")
                await admin.create(CONFIG_MAPS, config_map(NAMES[1], text="again"), "shop", into=ConfigMap)
                await admin.patch(
                    CONFIG_MAPS, config_map(NAMES[2], text="after"), NAMES[2], "shop", into=ConfigMap
                )
                await asyncio.to_thread(plane.restart_apiserver)
            await eventually_async(
                lambda: NAMES[0] not in watched.known(), message="the deletion during the outage"
            )
            signs = sorted(
                f"{'+' if change.added else '-' if change.deleted else '~'}{change.key.name}"
                for change in watched.delivered[delivered_before:]
            )
            assert signs == sorted([f"-{NAMES[0]}", f"-{NAMES[1]}", f"+{NAMES[1]}", f"~{NAMES[2]}"])
            assert watched.reflector.relists == 1
            assert isinstance(watched.errors[-1], Gone)
    watched.check_order()

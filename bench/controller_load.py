"""What the controller is measured with: many resources, pods that are objects, agents of one process.

The agents do to the API server what real ones do: they follow the metadata maps and write
their reports under their own keys, by apply, and a sign of life every five minutes. One
process plays all of them, so that what they cost can be told from what the controller costs.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stoker.agent.config_maps import manager_for
from stoker.agent.status.status_report import HEARTBEAT
from stoker.domain.clock import SystemClock, rfc3339
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol import (
    CR_NAME_LABEL,
    AgentMetadata,
    GatewayReport,
    HistoryEntryReport,
    SyncState,
    metadata_map_name,
    status_map_name,
)
from stoker.kube.client.client import KubeClient
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, ApiResource
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectChange
from stoker_testkit.cluster import audit_log
from stoker_testkit.environments.stub_gateway_pods import agent_is, gateway_pod, report_map
from stoker_testkit.repositories.bare_repository import Repository

STOKERS = ApiResource("stoker.io", "v1alpha1", "stokers", "Stoker", namespaced=True)
ACCOUNT = "stoker-controller"
PER_NAMESPACE = 10
GATEWAYS = 2
AT_ONCE = 16
KEY, TOKEN = "k3y-of-the-hook", "t0ken-of-the-forge"
"""What all of them use."""
PROJECTS = tuple(f"project-{number}" for number in range(8))


class Place(NamedTuple):
    """One resource; it follows a branch of its own name in the repository of its namespace."""

    namespace: str
    name: str
    gateways: int = GATEWAYS

    @property
    def pods(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(self.gateways)]


def places(count: int, gateways: int = GATEWAYS) -> list[Place]:
    """So many resources, each with so many gateways."""
    return [
        Place(f"plant-{number // PER_NAMESPACE:03}", f"line-{number % PER_NAMESPACE}", gateways)
        for number in range(count)
    ]


def repositories(folder: Path, wanted: Iterable[Place]) -> dict[str, Repository]:
    """One for each namespace, all alike."""
    folder.mkdir(parents=True, exist_ok=True)
    first = Repository.create(folder / "first.git")
    commit = first.commit({"services/site/projects/site/project.json": "{}"})
    for number in range(PER_NAMESPACE):
        first.set_branch(f"line-{number}", commit)
    found: dict[str, Repository] = {}
    for namespace in dict.fromkeys(one.namespace for one in wanted):
        shutil.copytree(first.path, folder / f"{namespace}.git")
        found[namespace] = Repository(folder / f"{namespace}.git")
    return found


async def furnish(client: KubeClient, wanted: Collection[Place], git_url: str) -> None:
    """Namespaces, Secrets, resources and pods, as people and the injector leave them."""
    namespaces = list(dict.fromkeys(one.namespace for one in wanted))
    await _each(
        namespaces, lambda one: client.create(NAMESPACES, {"metadata": {"name": one}}, into=ObjectHeader)
    )
    secrets = {"forge": {"token": TOKEN}, "gateway": {"apiKey": "name:secret"}, "hook": {"hmac": KEY}}
    bodies = [
        (namespace, {"metadata": {"name": name, "namespace": namespace}, "stringData": data})
        for namespace in namespaces
        for name, data in secrets.items()
    ]
    await _each(bodies, lambda one: client.create(SECRETS, one[1], one[0], into=ObjectHeader))
    await _each(
        wanted, lambda one: client.create(STOKERS, _stoker(one, git_url), one.namespace, into=ObjectHeader)
    )
    await _each([(one, pod) for one in wanted for pod in one.pods], lambda one: _pod(client, *one))


async def _pod(client: KubeClient, place: Place, name: str) -> None:
    namespace, resource, _ = place
    body = gateway_pod(name, namespace, resource, gateway=name)
    await client.create(PODS, body, namespace, into=ObjectHeader)
    await client.patch(PODS, agent_is(True), name, namespace, into=ObjectHeader, subresource="status")


def _stoker(place: Place, git_url: str) -> dict[str, Any]:
    login = {"token": {"secretRef": {"name": "forge", "key": "token"}}}
    return {
        "apiVersion": STOKERS.api_version,
        "kind": STOKERS.kind,
        "metadata": {"name": place.name, "namespace": place.namespace},
        "spec": {
            "git": {"repo": f"{git_url}/{place.namespace}.git", "ref": place.name, "auth": login},
            "gateway": {"apiKeySecretRef": {"name": "gateway", "key": "apiKey"}},
            "webhook": {"secretRef": {"name": "hook", "key": "hmac"}, "allowedRefs": ["v*"]},
        },
    }


async def _each(things: Collection[Any], work: Callable[[Any], Awaitable[object]]) -> None:
    left: Iterator[Any] = iter(things)

    async def worker() -> None:
        for one in left:
            await work(one)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())


class _Map(msgspec.Struct):
    data: dict[str, str] | None = None


class _Condition(msgspec.Struct):
    type: str
    reason: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    last_sync_commit: str = ""


class _Resource(msgspec.Struct):
    status: _Status = _Status()


@dataclass
class Agents:
    """All agents, and what the API server shows."""

    client: KubeClient
    wanted: Collection[Place]
    told: dict[Place, tuple[str, float]] = field(default_factory=dict)
    """The commit of each metadata map, and when the watch showed it."""
    synced: dict[Place, str] = field(default_factory=dict)
    """The commit at which a resource says that all its gateways are."""
    _known: dict[tuple[str, str], Place] = field(init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _queue: asyncio.Queue[tuple[Place, str]] = field(default_factory=asyncio.Queue)
    _clock: SystemClock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self._known = {(one.namespace, one.name): one for one in self.wanted}

    async def run(self) -> None:
        """Watch and report until cancelled."""
        maps = Reflector(
            self.client,
            CONFIG_MAPS,
            labels=CR_NAME_LABEL,
            keep=msgspec.json.Decoder(_Map).decode,
            on_change=self._on_map,
        )
        resources = Reflector(
            self.client,
            STOKERS,
            keep=msgspec.json.Decoder(_Resource).decode,
            on_change=self._on_resource,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(maps.run())
            group.create_task(resources.run())
            for _ in range(AT_ONCE):
                group.create_task(self._report())

    async def until(self, done: Callable[[], bool], seconds: float, what: str) -> None:
        async with asyncio.timeout(seconds):
            while not done():
                self._changed.clear()
                try:
                    await asyncio.wait_for(self._changed.wait(), 5)
                except TimeoutError:
                    print(f"  {what}: {len(self.told)} told, {len(self.synced)} synced", flush=True)

    def all_synced(self) -> bool:
        return all(one in self.synced for one in self.wanted)

    async def live(self, seconds: float) -> None:
        """Give signs of life, evenly over time, as so many agents do."""
        everybody = [(one, pod) for one in self.wanted for pod in one.pods]
        pause, begun = HEARTBEAT / len(everybody), time.monotonic()
        for number, (place, pod) in enumerate(everybody):
            ahead = begun + number * pause - time.monotonic()
            if begun + seconds < time.monotonic() + max(ahead, 0):
                break
            await asyncio.sleep(max(ahead, 0))
            await self._apply(place, pod, self.told[place][0])
        await asyncio.sleep(max(0.0, begun + seconds - time.monotonic()))

    def _on_map(self, change: ObjectChange[_Map]) -> None:
        place = self._known.get((change.key.namespace, change.key.name.removeprefix("stoker-metadata-")))
        if place is None or change.new is None:
            return
        if change.key.name != metadata_map_name(SyncResourceKind.STOKER, place.name):
            return
        commit = str(AgentMetadata.parse(change.new.data or {}).commit or "")
        if commit and commit != self.told.get(place, ("", 0.0))[0]:
            self.told[place] = commit, time.monotonic()
            self._queue.put_nowait((place, commit))
            self._changed.set()

    def _on_resource(self, change: ObjectChange[_Resource]) -> None:
        place = self._known[change.key]
        status = change.new.status if change.new is not None else _Status()
        if any(
            (one.type, one.reason) == ("AllGatewaysSynced", "GatewaysSynced") for one in status.conditions
        ):
            self.synced[place] = status.last_sync_commit
        else:
            self.synced.pop(place, None)
        self._changed.set()

    async def _report(self) -> None:
        while True:
            place, commit = await self._queue.get()
            for pod in place.pods:
                await self._apply(place, pod, commit)

    async def _apply(self, place: Place, pod: str, commit: str) -> None:
        name = status_map_name(SyncResourceKind.STOKER, place.name, 0)
        text = self._said(place, pod, commit).json()
        body = report_map(SyncResourceKind.STOKER, place.name, place.namespace, name, pod, text)
        manager = manager_for(pod)
        await self.client.apply(CONFIG_MAPS, body, name, place.namespace, manager=manager, into=ObjectHeader)

    def _said(self, place: Place, pod: str, commit: str) -> GatewayReport:
        now = rfc3339(self._clock.now())
        at = rfc3339(datetime.fromtimestamp(int(commit[:8], 16), tz=self._clock.now().tzinfo))
        past = HistoryEntryReport(at, commit, place.name, 3, PROJECTS, "1.2s", "Synced")
        return GatewayReport(
            gateway=pod,
            pod_name=pod,
            namespace=place.namespace,
            agent_version="1.0.0",
            sync_status=SyncState.SYNCED,
            synced_at=at,
            commit=commit,
            ref=place.name,
            synced_ref=place.name,
            synced_commit=commit,
            files_changed=3,
            projects_synced=PROJECTS,
            duration="1.2s",
            verified=True,
            history=(past,) * 3,
            heartbeat_at=now,
        )


class Requests(NamedTuple):
    """What the controller asked in a time, by verb and kind; `page` is one more of a list."""

    counts: Counter[str]

    @classmethod
    def between(cls, folder: Path, since: float, until: float) -> Requests:
        """Times are by the wall clock."""
        asked = (one for one in audit_log.asked(folder, ACCOUNT) if since <= one.at < until)
        return cls(Counter(f"{'page' if one.is_further_page else one.verb} {one.resource}" for one in asked))

    @property
    def total(self) -> int:
        return self.counts.total()

    def of(self, *verbs: str) -> Counter[str]:
        return Counter({key: count for key, count in self.counts.items() if key.partition(" ")[0] in verbs})

    @property
    def writes(self) -> Counter[str]:
        """But for the lease, which is the heartbeat of the election."""
        found = self.of("create", "update", "patch", "delete", "deletecollection")
        return Counter({key: count for key, count in found.items() if key != "update leases"})

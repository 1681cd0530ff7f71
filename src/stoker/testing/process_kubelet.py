"""A node without containers: runs the pods that are bound to it as processes of this machine.

The API server is real, and so is everything that a pod consists of for the programs in it:
volumes with the files of Secrets, tokens and the downward API, kept up to date by moving a
link; variables; probes at real ports; a status that says what the probes say. The agent runs
with the token of its pod's own account and with nothing else. What a pod asks for and this
kubelet does not do is refused by name (`kubelet_pods`), never passed over.

    images = {"stoker:1": Program(), "ignition:8.3": GatewayImage()}
    with ProcessKubelet.start(cluster, folder, images) as kubelet:
        kubelet.schedule("site1")

It cannot isolate anything: all pods share this machine's user, files and ports. `schedule`
therefore gives each gateway a port of its own before it binds the pod.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec

from stoker.domain.clock import SystemClock, rfc3339
from stoker.kube.client import Client
from stoker.kube.config import load
from stoker.kube.errors import AlreadyExists, Conflict, NotFound
from stoker.kube.reflector import Reflector
from stoker.kube.resources import CONFIG_MAPS, LEASES, PODS, SECRETS, Resource
from stoker.kube.store import Change, ObjectKey
from stoker.testing.cluster_access import ClusterAccess
from stoker.testing.kubelet_containers import GATEWAY_PORT, Image
from stoker.testing.kubelet_life import Node, PodLife, refused
from stoker.testing.kubelet_pods import Pod, Refused, Token, read_pod
from stoker.testing.kubelet_probing import Prober
from stoker.testing.kubelet_volumes import Volumes, decoded
from stoker.testing.loop_thread import LoopThread
from stoker.testing.processes import free_port
from stoker.testing.stopping import Stopped

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
ROOT_CA = "kube-root-ca.crt"
HASTE = 20.0
HEARTBEAT_SECONDS = 8.0


class _Data(msgspec.Struct):
    data: dict[str, str] | None = None


class ProcessKubelet(Stopped):
    """Runs pods; all of its methods may be called from any thread."""

    def __init__(
        self, cluster: ClusterAccess, folder: Path, images: Mapping[str, Image], *, node: str, haste: float
    ) -> None:
        self.node = node
        self._cluster = cluster
        self._folder = folder
        self._images = images
        self._haste = haste
        self._scheduled: set[str] = set()
        self._lives: dict[str, PodLife] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[ObjectKey, str] = {}
        self._loop = LoopThread("process-kubelet")
        self._running: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._secrets: Reflector[_Data]
        self._maps: Reflector[_Data]
        self._unbound: Reflector[bytes]
        self._client: Client
        self._shared: Node

    @classmethod
    def start(
        cls,
        cluster: ClusterAccess,
        folder: Path,
        images: Mapping[str, Image],
        *,
        node: str = "node-1",
        haste: float = HASTE,
    ) -> Self:
        """Register the node and return when pods can be bound to it."""
        kubelet = cls(cluster, folder, images, node=node, haste=haste)
        kubelet._loop.run(kubelet._begin())
        return kubelet

    def schedule(self, namespace: str) -> None:
        """Bind every pod of a namespace to this node, those of now and those to come."""
        self._loop.call(self._take_over, namespace)

    def trouble(self) -> dict[str, str]:
        """Pods that are not run, and why."""
        lives = {f"{key.namespace}/{key.name}": why for key, why in self._refused.items()}
        for life in list(self._lives.values()):
            if life.trouble:
                lives[f"{life.pod.metadata.namespace}/{life.pod.metadata.name}"] = life.trouble
        return lives

    def life(self, namespace: str, name: str) -> PodLife | None:
        """A pod that is bound to this node; None where there is none (any more)."""
        for life in list(self._lives.values()):
            if (life.pod.metadata.namespace, life.pod.metadata.name) == (namespace, name):
                return life
        return None

    def log(self, namespace: str, name: str, container: str = "stoker-agent") -> str:
        """What a container has said."""
        life = self.life(namespace, name)
        path = None if life is None else life.folder / f"{container}.log"
        return path.read_text(errors="replace") if path is not None and path.exists() else ""

    def stop(self) -> None:
        """End all processes; the pods stay what they are to the API server."""
        self._loop.run(self._finish())
        self._loop.stop()

    async def _begin(self) -> None:
        self._running = asyncio.create_task(self._run())
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._running, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            await self._running

    async def _finish(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        server = urlsplit(self._cluster.url)
        config = load(self._cluster.kubeconfig("admin"))
        async with Client(config, user_agent="process-kubelet") as client, aiohttp.ClientSession() as session:
            self._client = client
            address = (server.hostname or "", server.port or 443)
            prober = Prober(session, self._haste)
            self._shared = Node(self._images, prober, self._haste, address, self._tell, self._remove)
            self._secrets = Reflector(client, SECRETS, keep=_data, on_change=self._object_changed)
            self._maps = Reflector(
                client,
                CONFIG_MAPS,
                fields=f"metadata.name={ROOT_CA}",
                keep=_data,
                on_change=self._object_changed,
            )
            self._unbound = Reflector(
                client, PODS, fields="spec.nodeName=", keep=bytes, on_change=self._unbound_changed
            )
            pods = Reflector(
                client, PODS, fields=f"spec.nodeName={self.node}", keep=bytes, on_change=self._pod_changed
            )
            await self._register()
            reflectors = (self._secrets, self._maps, self._unbound, pods)
            async with asyncio.TaskGroup() as group:
                for one in reflectors:
                    group.create_task(one.run())
                for one in (self._secrets, self._maps):
                    await one.synced()
                group.create_task(self._beat())
                self._ready.set()

    # The node.

    async def _register(self) -> None:
        """Without a node that lives its pods would be collected, or marked as lost."""
        with suppress(AlreadyExists):
            await self._client.create(NODES, {"metadata": {"name": self.node}}, into=msgspec.Raw)
        lease = {"metadata": {"name": self.node}, "spec": {"holderIdentity": self.node}}
        with suppress(AlreadyExists):
            await self._client.create(LEASES, lease, "kube-node-lease", into=msgspec.Raw)
        await self._renew()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self._renew()

    async def _renew(self) -> None:
        now = rfc3339(SystemClock().now())
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": now,
        }
        body = {"status": {"conditions": [condition]}}
        await self._client.patch(NODES, body, self.node, into=msgspec.Raw, subresource="status")
        spec = {"spec": {"renewTime": now.replace("Z", ".000000Z"), "leaseDurationSeconds": 40}}
        await self._client.patch(LEASES, spec, self.node, "kube-node-lease", into=msgspec.Raw)

    # Binding.

    def _take_over(self, namespace: str) -> None:
        self._scheduled.add(namespace)
        for change in self._unbound.store.additions():
            self._unbound_changed(change)

    def _unbound_changed(self, change: Change[bytes]) -> None:
        if change.new is None or change.key.namespace not in self._scheduled:
            return
        found = msgspec.json.decode(change.new)
        key = f"bind {change.uid}"
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._bind(change.key, found["metadata"]))

    async def _bind(self, key: ObjectKey, metadata: dict[str, Any]) -> None:
        annotations = metadata.get("annotations", {})
        if "stoker.io/inject" in annotations and GATEWAY_PORT not in annotations:
            port = {"metadata": {"annotations": {GATEWAY_PORT: str(free_port())}}}
            await self._client.patch(PODS, port, key.name, key.namespace, into=msgspec.Raw)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.node},
        }
        with suppress(Conflict, NotFound):
            await self._client.raw(
                "POST",
                PODS.path(key.namespace, key.name, "binding"),
                body=msgspec.json.encode(binding),
                headers={"Content-Type": "application/json"},
            )

    # Pods.

    def _pod_changed(self, change: Change[bytes]) -> None:
        if change.new is None:
            self._refused.pop(change.key, None)
            life = self._lives.get(change.uid)
            if life is not None:
                life.update(msgspec.structs.replace(life.pod, metadata=_gone(life.pod)))
            return
        try:
            pod = read_pod(change.new)
        except Refused as why:
            if change.key not in self._refused:
                self._refused[change.key] = why.message
                name = f"refuse {change.uid}"
                self._tasks[name] = asyncio.create_task(self._refuse(change.key, why))
            return
        life = self._lives.get(change.uid)
        if life is not None:
            life.update(pod)
        elif not pod.metadata.deletion_timestamp:
            self._tasks[change.uid] = asyncio.create_task(self._run_pod(pod))
        else:
            self._tasks[change.uid] = asyncio.create_task(self._remove(pod))

    async def _run_pod(self, pod: Pod) -> None:
        folder = self._folder / f"{pod.metadata.namespace}-{pod.metadata.name}-{pod.metadata.uid[:8]}"
        folder.mkdir(parents=True)
        volumes = Volumes(folder, self._folder / "claims", self, self._request_token)
        life = PodLife(pod, folder, volumes, self._shared)
        self._lives[pod.metadata.uid] = life
        try:
            await life.run()
            for used in ("root", "volumes"):
                shutil.rmtree(folder / used, ignore_errors=True)
        finally:
            del self._lives[pod.metadata.uid]

    async def _refuse(self, key: ObjectKey, why: Refused) -> None:
        body = {"status": refused(why)}
        with suppress(NotFound):
            await self._client.patch(
                PODS, body, key.name, key.namespace, into=msgspec.Raw, subresource="status"
            )

    async def _tell(self, pod: Pod, status: dict[str, Any]) -> None:
        meta = pod.metadata
        body = {"metadata": {"uid": meta.uid}, "status": status}
        with suppress(NotFound, Conflict):
            await self._client.patch(
                PODS, body, meta.name, meta.namespace, into=msgspec.Raw, subresource="status"
            )

    async def _remove(self, pod: Pod) -> None:
        meta = pod.metadata
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": meta.uid},
        }
        with suppress(NotFound, Conflict):
            await self._client.raw(
                "DELETE",
                PODS.path(meta.namespace, meta.name),
                body=msgspec.json.encode(options),
                headers={"Content-Type": "application/json"},
            )

    # What volumes are made of.

    def secret(self, namespace: str, name: str) -> dict[str, bytes] | None:
        found = self._secrets.store.get(ObjectKey(namespace, name))
        return None if found is None else decoded(found.data)

    def config_map(self, namespace: str, name: str) -> dict[str, bytes] | None:
        if name != ROOT_CA:
            raise Refused(f"ConfigMap {name}: this kubelet mounts no other than {ROOT_CA}")
        found = self._maps.store.get(ObjectKey(namespace, name))
        return None if found is None else {key: text.encode() for key, text in (found.data or {}).items()}

    async def _request_token(self, pod: Pod, wanted: Token) -> str:
        """A token of the pod's own account, good for as long as the pod lives."""
        meta = pod.metadata
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": wanted.expiration_seconds, "boundObjectRef": bound},
        }
        answer = await self._client.raw(
            "POST",
            ACCOUNTS.path(meta.namespace, pod.spec.service_account_name, "token"),
            body=msgspec.json.encode(body),
            headers={"Content-Type": "application/json"},
        )
        return str(msgspec.json.decode(answer.body)["status"]["token"])

    def _object_changed(self, change: Change[_Data]) -> None:
        for life in self._lives.values():
            if life.pod.metadata.namespace == change.key.namespace:
                life.look_again()


def _data(raw: bytes) -> _Data:
    return msgspec.json.decode(raw, type=_Data)


def _gone(pod: Pod) -> Any:
    """The metadata of a pod that somebody has taken away at once."""
    return msgspec.structs.replace(pod.metadata, deletion_timestamp="now", deletion_grace_period_seconds=0)

"""A node without containers: runs the pods that are bound to it as processes of this machine.

The API server is real, and so is everything that a pod consists of for the programs in it:
volumes with the files of Secrets, tokens and the downward API, kept up to date by moving a
link; variables; probes at real ports; a status that says what the probes say. The agent runs
with the token of its pod's own account and with nothing else. What a pod asks for and this
kubelet does not do is refused by name (`pod_spec`), never passed over.

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
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec

from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import CONFIG_MAPS, PODS, SECRETS
from stoker.kube.config.config import load_config
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectChange, ObjectKey
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.event_loop_thread import LoopThread
from stoker_testkit.kubelet.api_server_client import KubeletApi
from stoker_testkit.kubelet.pod_lifecycle import Node, PodLife, refused
from stoker_testkit.kubelet.pod_spec import Pod, PodRefused, read_pod
from stoker_testkit.kubelet.prober import Prober
from stoker_testkit.kubelet.process_containers import Image
from stoker_testkit.kubelet.volumes import Volumes, decoded
from stoker_testkit.stoppable import Stoppable

ROOT_CA = "kube-root-ca.crt"
HASTE = 20.0


class _Data(msgspec.Struct):
    data: dict[str, str] | None = None


class ProcessKubelet(Stoppable):
    """Runs pods; all of its methods may be called from any thread."""

    def __init__(
        self, cluster: ClusterAccess, folder: Path, images: Mapping[str, Image], *, node: str, haste: float
    ) -> None:
        self.node = node
        self._cluster = cluster
        self._folder = folder
        self._images = images
        self._haste = haste
        self._any_user = False
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
        self._api: KubeletApi
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
        any_user: bool = False,
    ) -> Self:
        """Register the node and return when pods can be bound to it."""
        kubelet = cls(cluster, folder, images, node=node, haste=haste)
        kubelet._any_user = any_user
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
        """The log of a container."""
        life = self.life(namespace, name)
        path = None if life is None else life.folder / f"{container}.log"
        return path.read_text(errors="replace") if path is not None and path.exists() else ""

    def kill(self, namespace: str, name: str, container: str = "stoker-agent") -> None:
        """End a container at once; it is started again as after a crash."""
        life = self.life(namespace, name)
        running = None if life is None else life.seen[container].running
        if running is not None:
            self._loop.run(running.stop(0.0))

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
        config = load_config(self._cluster.kubeconfig("admin"))
        async with (
            KubeClient(config, user_agent="process-kubelet") as client,
            aiohttp.ClientSession() as session,
        ):
            self._api = KubeletApi(client, self.node)
            address = (server.hostname or "", server.port or 443)
            prober = Prober(session, self._haste)
            self._shared = Node(
                self._images, prober, self._haste, address, self._api.write_status, self._api.remove
            )
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
            await self._api.register()
            reflectors = (self._secrets, self._maps, self._unbound, pods)
            async with asyncio.TaskGroup() as group:
                for one in reflectors:
                    group.create_task(one.run())
                for one in (self._secrets, self._maps):
                    await one.synced()
                group.create_task(self._api.beat())
                self._ready.set()

    # Binding.

    def _take_over(self, namespace: str) -> None:
        self._scheduled.add(namespace)
        for change in self._unbound.store.additions():
            self._unbound_changed(change)

    def _unbound_changed(self, change: ObjectChange[bytes]) -> None:
        if change.new is None or change.key.namespace not in self._scheduled:
            return
        found = msgspec.json.decode(change.new)
        key = f"bind {change.uid}"
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(
                self._api.bind(change.key, found["metadata"].get("annotations", {}))
            )

    # Pods.

    def _pod_changed(self, change: ObjectChange[bytes]) -> None:
        if change.new is None:
            self._refused.pop(change.key, None)
            life = self._lives.get(change.uid)
            if life is not None:
                life.update(msgspec.structs.replace(life.pod, metadata=_gone(life.pod)))
            return
        try:
            pod = read_pod(change.new, any_user=self._any_user)
        except PodRefused as why:
            if change.key not in self._refused:
                self._refused[change.key] = why.message
                name = f"refuse {change.uid}"
                self._tasks[name] = asyncio.create_task(
                    self._api.write_status_of(change.key, refused(why), {})
                )
            return
        life = self._lives.get(change.uid)
        if life is not None:
            life.update(pod)
        elif not pod.metadata.deletion_timestamp:
            self._tasks[change.uid] = asyncio.create_task(self._run_pod(pod))
        else:
            self._tasks[change.uid] = asyncio.create_task(self._api.remove(pod))

    async def _run_pod(self, pod: Pod) -> None:
        folder = self._folder / f"{pod.metadata.namespace}-{pod.metadata.name}-{pod.metadata.uid[:8]}"
        folder.mkdir(parents=True)
        volumes = Volumes(folder, self._folder / "claims", self, self._api.request_token)
        life = PodLife(pod, folder, volumes, self._shared)
        self._lives[pod.metadata.uid] = life
        try:
            await life.run()
            for used in ("root", "volumes"):
                shutil.rmtree(folder / used, ignore_errors=True)
        finally:
            del self._lives[pod.metadata.uid]

    # What volumes are made of.

    def secret(self, namespace: str, name: str) -> dict[str, bytes] | None:
        found = self._secrets.store.get(ObjectKey(namespace, name))
        return None if found is None else decoded(found.data)

    def config_map(self, namespace: str, name: str) -> dict[str, bytes] | None:
        if name != ROOT_CA:
            raise PodRefused(f"ConfigMap {name}: this kubelet mounts no other than {ROOT_CA}")
        found = self._maps.store.get(ObjectKey(namespace, name))
        return None if found is None else {key: text.encode() for key, text in (found.data or {}).items()}

    def _object_changed(self, change: ObjectChange[_Data]) -> None:
        for life in self._lives.values():
            if life.pod.metadata.namespace == change.key.namespace:
                life.look_again()


def _data(raw: bytes) -> _Data:
    return msgspec.json.decode(raw, type=_Data)


def _gone(pod: Pod) -> Any:
    """The metadata of a pod that was deleted without a grace period."""
    return msgspec.structs.replace(pod.metadata, deletion_timestamp="now", deletion_grace_period_seconds=0)

"""The life of one pod on a `ProcessKubelet`: volumes, containers in their order, status, and the end.

Init containers run one after another; one that is restarted always goes on running, and the
next waits only for its startup probe. Then all others start. What ends is started again,
after a pause that grows. When the pod is deleted, ordinary containers end first and sidecars last.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.domain.errors import StokerError
from stoker_testkit.kubelet.pod_spec import Container, Pod, PodRefused
from stoker_testkit.kubelet.prober import ContainerObservation, Prober
from stoker_testkit.kubelet.process_containers import ContainerPlace, Image, ImagePullFailed, RunningContainer
from stoker_testkit.kubelet.volumes import MissingVolumeSource, Volumes
from stoker_testkit.wait_until import eventually_async

LOOK_SECONDS = 0.1
TOKENS_SECONDS = 30.0
BACKOFF, LONGEST_BACKOFF = 10.0, 300.0


@dataclass(frozen=True)
class Node:
    """The shared parts of all pods of a kubelet."""

    images: Mapping[str, Image]
    prober: Prober
    haste: float
    api_server: tuple[str, int]
    write_status: Callable[[Pod, dict[str, Any]], Awaitable[None]]
    """Write a pod's status."""
    remove: Callable[[Pod], Awaitable[None]]
    """Take a pod that has ended out of the API server."""


@dataclass
class PodLife:
    """One pod, from its being bound to its being gone."""

    pod: Pod
    folder: Path
    volumes: Volumes
    node: Node
    trouble: str = ""
    """Why it is not run."""
    seen: dict[str, ContainerObservation] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _leaving: asyncio.Event = field(default_factory=asyncio.Event)

    def update(self, pod: Pod) -> None:
        """The API server has something new about it."""
        self.pod = pod
        self._changed.set()
        if pod.metadata.deletion_timestamp:
            self._leaving.set()

    def look_again(self) -> None:
        """An object that it may have mounted has changed."""
        self._changed.set()

    async def run(self) -> None:
        for one in self.pod.all_containers():
            self.seen[one.name] = ContainerObservation(one)
        living = asyncio.create_task(self._live())
        try:
            await self._leaving.wait()
        finally:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
            await self._end()
        await self.node.remove(self.pod)

    async def _live(self) -> None:
        telling = asyncio.create_task(self._write_status())
        try:
            await self._mounted()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_volumes())
                group.create_task(self._keep_tokens())
                for one in self.pod.spec.init_containers:
                    await self._initialize(one, group)
                for one in self.pod.spec.containers:
                    group.create_task(self._keep(self.seen[one.name], asyncio.Event()))
                await asyncio.Event().wait()
        except* (StokerError, OSError) as errors:
            self.trouble = "; ".join(str(one) for one in errors.exceptions)
            for seen in self.seen.values():
                seen.waiting, seen.message = "CreateContainerConfigError", self.trouble
            await self._end()
        finally:
            if not self.trouble:
                telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def _initialize(self, container: Container, group: asyncio.TaskGroup) -> None:
        seen = self.seen[container.name]
        if container.restart_policy == "Always":
            started = asyncio.Event()
            group.create_task(self._keep(seen, started))
            await started.wait()
            return
        while True:
            seen.running = running = await self._start(container)
            seen.waiting = "CrashLoopBackOff"
            await _ended(running)
            seen.running = None
            if running.exit_code == 0:
                seen.exit_code, seen.started = 0, False
                return
            await self._pause(seen)

    async def _keep(self, seen: ContainerObservation, started: asyncio.Event) -> None:
        """Have the container running for ever."""
        while True:
            seen.running = running = await self._start(seen.container)
            if await self.node.prober.started(seen):
                seen.started = True
                started.set()
                await self.node.prober.look(seen)
            await running.stop(30.0)
            seen.running, seen.started, seen.ready = None, False, False
            seen.waiting, seen.message = "CrashLoopBackOff", running.tail()[-500:]
            await self._pause(seen)

    async def _pause(self, seen: ContainerObservation) -> None:
        await asyncio.sleep(min(BACKOFF * 2**seen.restarts, LONGEST_BACKOFF) / self.node.haste)
        seen.restarts += 1

    async def _start(self, container: Container) -> RunningContainer:
        image = self.node.images.get(container.image)
        if image is None:
            raise ImagePullFailed(f"there is no image {container.image} for container {container.name!r}")
        if not container.command:  # its arguments name the folders
            self.volumes.mount(self.pod, container)
        mounts = {one.mount_path: self.volumes.mounted(self.pod, one) for one in container.volume_mounts}
        place = ContainerPlace(
            self.volumes.root, self.folder / f"{container.name}.log", mounts, self.node.api_server
        )
        return await image.start(self.pod, container, place)

    async def _mounted(self) -> None:
        """Wait until everything that the pod mounts is there."""
        while True:
            self._changed.clear()
            try:
                await self.volumes.refresh(self.pod)
            except MissingVolumeSource as why:
                for seen in self.seen.values():
                    seen.message = str(why)
                await self._changed.wait()
            else:
                return

    async def _keep_volumes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            with suppress(MissingVolumeSource):  # what was mounted stays
                await self.volumes.refresh(self.pod)

    async def _keep_tokens(self) -> None:
        while True:
            await asyncio.sleep(TOKENS_SECONDS)
            self._changed.set()

    async def _write_status(self) -> None:
        written: dict[str, Any] = {}
        while True:
            status = self._status()
            if status != written:
                await self.node.write_status(self.pod, status)
                written = status
            await asyncio.sleep(LOOK_SECONDS)

    async def _end(self) -> None:
        """All containers, sidecars last and in the opposite order."""
        grace = float(self.pod.metadata.deletion_grace_period_seconds)
        ordinary = [self.seen[one.name] for one in self.pod.spec.containers]
        await asyncio.gather(*(one.running.stop(grace) for one in ordinary if one.running is not None))
        for container in reversed(self.pod.spec.init_containers):
            running = self.seen[container.name].running
            if running is not None:
                await running.stop(grace)
        for seen in self.seen.values():
            seen.running, seen.ready, seen.started = None, False, False

    def _status(self) -> dict[str, Any]:
        init = [self.seen[one.name] for one in self.pod.spec.init_containers]
        ordinary = [self.seen[one.name] for one in self.pod.spec.containers]
        initialized = all(one.started or one.exit_code == 0 for one in init)
        ready = initialized and all(one.ready for one in (*ordinary, *init) if one.exit_code is None)
        conditions = {
            "PodScheduled": True,
            "Initialized": initialized,
            "ContainersReady": ready,
            "Ready": ready,
        }
        return {
            "phase": "Running" if any(one.running for one in ordinary) else "Pending",
            "conditions": [
                {"type": name, "status": "True" if holds else "False"} for name, holds in conditions.items()
            ],
            "initContainerStatuses": [one.status() for one in init],
            "containerStatuses": [one.status() for one in ordinary],
        }


async def _ended(running: RunningContainer) -> None:
    await eventually_async(lambda: running.exit_code is not None, math.inf, interval=LOOK_SECONDS)


def refused(why: PodRefused) -> dict[str, Any]:
    """The status of a pod that is not run at all."""
    return {"phase": "Pending", "reason": "Refused", "message": why.message}

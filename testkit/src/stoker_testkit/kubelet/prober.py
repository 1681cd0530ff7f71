"""Probes of a container, really asked at its ports, and what its status says by them.

The kubelet looks as often as the pod says; a test has no time for that, so all periods are
divided by `haste`. How long a container may fail stays as the pod says.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import aiohttp

from stoker_testkit.kubelet.pod_spec import Container, PodRefused, Probe
from stoker_testkit.kubelet.process_containers import RunningContainer


@dataclass
class ContainerObservation:
    """The probe state of one container."""

    container: Container
    running: RunningContainer | None = None
    started: bool = False
    ready: bool = False
    restarts: int = 0
    waiting: str = "ContainerCreating"
    message: str = ""
    exit_code: int | None = None
    """Of a container that has ended for good."""

    def status(self) -> dict[str, Any]:
        """As a pod's status tells it."""
        if self.exit_code is not None:
            state: dict[str, Any] = {"terminated": {"exitCode": self.exit_code, "reason": "Completed"}}
        elif self.running is not None:
            state = {"running": {}}
        else:
            state = {"waiting": {"reason": self.waiting, "message": self.message}}
        return {
            "name": self.container.name,
            "image": self.container.image,
            "imageID": "",
            "ready": self.ready or self.exit_code == 0,
            "started": self.started,
            "restartCount": self.restarts,
            "state": state,
        }


class Prober:
    """Asks the probes of containers."""

    def __init__(self, session: aiohttp.ClientSession, haste: float) -> None:
        self._session = session
        self._haste = haste

    async def passes(self, container: Container, probe: Probe, running: RunningContainer) -> bool:
        """One look."""
        get = probe.http_get
        if get.scheme != "HTTP":
            raise PodRefused(f"container {container.name!r} has a probe over {get.scheme}")
        url = f"http://127.0.0.1:{running.port(_number(container, get.port))}{get.path}"
        limit = aiohttp.ClientTimeout(total=probe.timeout_seconds)
        try:
            async with self._session.get(url, timeout=limit) as answer:
                return 200 <= answer.status < 400
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def started(self, seen: ContainerObservation) -> bool:
        """Wait for the startup probe; whether it passed before the container ended or ran out of time."""
        probe, running = seen.container.startup_probe, seen.running
        if probe is None or running is None:
            return running is not None
        deadline = time.monotonic() + probe.period_seconds * probe.failure_threshold
        while running.exit_code is None and time.monotonic() < deadline:
            if await self.passes(seen.container, probe, running):
                return True
            await asyncio.sleep(probe.period_seconds / self._haste)
        return False

    async def look(self, seen: ContainerObservation) -> None:
        """Ask for readiness until cancelled or the container ends; liveness is asked with it."""
        readiness, liveness, running = (
            seen.container.readiness_probe,
            seen.container.liveness_probe,
            seen.running,
        )
        failing_since: float | None = None
        while running is not None and running.exit_code is None:
            if readiness is not None:
                seen.ready = await self.passes(seen.container, readiness, running)
            else:
                seen.ready = True
            if liveness is not None and not await self.passes(seen.container, liveness, running):
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since > liveness.period_seconds * liveness.failure_threshold:
                    await running.stop(30.0)
                    return
            else:
                failing_since = None
            period = readiness.period_seconds if readiness is not None else 10
            await asyncio.sleep(period / self._haste)


def _number(container: Container, port: int | str) -> int:
    if isinstance(port, int):
        return port
    for one in container.ports:
        if one.name == port:
            return one.container_port
    raise PodRefused(f"container {container.name!r} has a probe at port {port!r}, which it does not name")

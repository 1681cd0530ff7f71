"""Images of a kubelet without containers: a program on this machine, or a test gateway.

`Program` takes the place of the product's own image: its entry point with the container's arguments,
its root a folder, its variables the container's and nothing of ours. All pods share this
machine's ports, so each port of a container is another one here, and probes find it.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from stoker.domain.errors import StokerError
from stoker_testkit.gateway.simulated_gateway import SimulatedGateway
from stoker_testkit.kubelet.pod_spec import Container, Pod, PodRefused, Variable
from stoker_testkit.processes import Process, free_ports

GATEWAY_PORT = "stoker.io/gateway-port"
"""The annotation with the port at which the agent finds the gateway of its pod."""


@dataclass(frozen=True, slots=True)
class ContainerPlace:
    """The folders of a container."""

    root: Path
    log: Path
    mounts: Mapping[str, Path]
    """The folder behind each mount, by where it is mounted."""
    api_server: tuple[str, int]


class RunningContainer(Protocol):
    """A container that was started."""

    @property
    def exit_code(self) -> int | None: ...
    def port(self, declared: int) -> int: ...
    async def stop(self, grace: float) -> None: ...
    def tail(self) -> str: ...


class Image(Protocol):
    """Starts containers."""

    async def start(self, pod: Pod, container: Container, place: ContainerPlace) -> RunningContainer: ...


@dataclass
class _Child:
    process: Process
    ports: Mapping[int, int]

    @property
    def exit_code(self) -> int | None:
        return self.process.returncode

    def port(self, declared: int) -> int:
        return self.ports[declared]

    async def stop(self, grace: float) -> None:
        await asyncio.to_thread(self.process.stop, grace)

    def tail(self) -> str:
        return self.process.tail()


@dataclass(frozen=True)
class Program:
    """The product's image; only its agent and its fetcher have options for every folder."""

    command: Sequence[str] = (sys.executable, "-m", "stoker")

    async def start(self, pod: Pod, container: Container, place: ContainerPlace) -> RunningContainer:
        words = (*container.command, *container.args)
        if words[:1] not in (("agent",), ("fetcher",)):
            raise PodRefused(f"container {container.name!r} runs {words}, and neither an agent nor a fetcher")
        declared = [one.container_port for one in container.ports]
        ports = dict(zip(declared, free_ports(len(declared)), strict=True))
        argv = [*self.command, *container.args, f"--root={place.root}", "--log-format=json"]
        for flag, port in (("--health-address", 8082), ("--metrics-address", 8083)):
            argv.append(f"{flag}=127.0.0.1:{ports[port]}" if port in ports else f"{flag}=0")
        env = environment(pod, container, place)
        return _Child(
            Process.start(f"{pod.metadata.name}/{container.name}", argv, log=place.log, env=env), ports
        )


@dataclass
class _Served:
    gateway: SimulatedGateway
    exit_code: int | None = None

    def port(self, declared: int) -> int:
        return int(self.gateway.url.rpartition(":")[2])

    async def stop(self, grace: float) -> None:
        await asyncio.to_thread(self.gateway.stop)
        self.exit_code = 0

    def tail(self) -> str:
        return f"{self.gateway.state} at {self.gateway.url}"


@dataclass
class GatewayImage:
    """A test gateway over the volume that its container mounts at `data`, or a command of the image."""

    data: str = "/usr/local/bin/ignition/data"
    how: Mapping[str, Any] = field(default_factory=lambda: {"scan_seconds": 0.0})
    """The arguments of `SimulatedGateway.start`."""
    started: dict[tuple[str, str], SimulatedGateway] = field(default_factory=dict)
    """The gateways, by namespace and name of their pod."""

    async def start(self, pod: Pod, container: Container, place: ContainerPlace) -> RunningContainer:
        if container.command:
            return self._command(pod, container, place)
        port = int(pod.metadata.annotations.get(GATEWAY_PORT, "0"))
        if self.data not in place.mounts:
            raise PodRefused(f"container {container.name!r} mounts nothing at {self.data}")
        gateway = await asyncio.to_thread(
            SimulatedGateway.start, place.mounts[self.data], port=port, **self.how
        )
        self.started[pod.metadata.namespace, pod.metadata.name] = gateway
        return _Served(gateway)

    def _command(self, pod: Pod, container: Container, place: ContainerPlace) -> RunningContainer:
        """Run what an init container runs; the image's own data is a file that every gateway has."""
        files = place.log.with_suffix(".image")
        files.mkdir(exist_ok=True)
        (files / "gateway.xml_clean").touch()
        folders = {self.data: files, **place.mounts}
        places = re.compile("|".join(re.escape(one) for one in sorted(folders, key=len, reverse=True)))
        argv = [
            places.sub(lambda found: str(folders[found[0]]), one)
            for one in (*container.command, *container.args)
        ]
        name, env = f"{pod.metadata.name}/{container.name}", environment(pod, container, place)
        return _Child(Process.start(name, argv, log=place.log, env=env), {})


def environment(pod: Pod, container: Container, place: ContainerPlace) -> dict[str, str]:
    """The variables of a container; of this process only those that its image would set."""
    image = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "LANG", "LC_ALL") or name.startswith(("COVERAGE_", "PYTHON"))
    }
    host, port = place.api_server
    cluster = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}
    own = {one.name: _value(pod, one, place) for one in container.env}
    return {**image, **cluster, **own}


def _value(pod: Pod, variable: Variable, place: ContainerPlace) -> str:
    if variable.value_from is not None:
        return pod.field(variable.value_from.field_ref.field_path)
    value = variable.value.replace("$$", "\0")
    if "$(" in value:
        raise PodRefused(f"variable {variable.name} refers to another one")
    # What is a place in the container is one below its root here.
    if variable.value in place.mounts:
        return str(place.root / variable.value.lstrip("/"))
    return value.replace("\0", "$")


class ImagePullFailed(StokerError):
    """There is no such image."""

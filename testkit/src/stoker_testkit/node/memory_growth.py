"""Growth of the memory of containers: what the kernel counts for each, and the line through it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker_testkit.node.preflight import CGROUPS, CONTAINER_CGROUPS
from stoker_testkit.node.real_node import RealNode

MIB = 1 << 20
HOUR = 3600.0


@dataclass
class Series:
    """One container from its start on; a container that was started anew is another one."""

    name: str
    samples: list[tuple[float, int]] = field(default_factory=list)
    """Seconds and bytes."""

    @property
    def latest(self) -> float:
        """MiB."""
        return self.samples[-1][1] / MIB

    def since(self, moment: float) -> Series:
        return Series(self.name, [one for one in self.samples if one[0] >= moment])

    def slope(self) -> float:
        """MiB in an hour, by least squares."""
        return slope(self.samples) * HOUR / MIB

    def growth(self) -> float:
        """MiB from the first sample to the last, by the line through all of them."""
        return slope(self.samples) * (self.samples[-1][0] - self.samples[0][0]) / MIB


class MemoryLog:
    """Samples of all containers of some namespaces."""

    def __init__(self, node: RealNode) -> None:
        self._node = node
        self.series: dict[str, Series] = {}
        """By the container's id."""

    def sample(self, now: float, namespaces: Iterable[str]) -> None:
        for namespace in namespaces:
            found: Any = self._node.plane.request("GET", f"/api/v1/namespaces/{namespace}/pods").json()
            for pod in found["items"]:
                status = pod["status"]
                for one in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
                    identity = str(one.get("containerID", "")).rpartition("/")[2]
                    used = self._used(identity) if identity else None
                    if used is not None:
                        name = f"{pod['metadata']['name']}/{one['name']}"
                        self.series.setdefault(identity, Series(name)).samples.append((now, used))

    @staticmethod
    def _used(container: str) -> int | None:
        """Private anonymous memory in bytes; None where the container has ended."""
        place = Path(CONTAINER_CGROUPS, container, "memory.stat")
        for root, key in ((CGROUPS / "memory", "total_rss"), (CGROUPS, "anon")):
            try:
                lines = (root / place).read_text().splitlines()
            except OSError:
                continue
            return next((int(line.split()[1]) for line in lines if line.split()[0] == key), None)
        return None


def slope(samples: Sequence[tuple[float, int]]) -> float:
    """Of the line that fits best; 0 where there is none."""
    count = len(samples)
    if count < 2:
        return 0.0
    middle = sum(x for x, _ in samples) / count
    mean = sum(y for _, y in samples) / count
    spread = sum((x - middle) ** 2 for x, _ in samples)
    return sum((x - middle) * (y - mean) for x, y in samples) / spread if spread else 0.0

"""Requests and limits of a container, and a cgroup that holds a process of this machine to them.

A kubelet would do the same: `cpu.max` and `memory.max`, or their names in the first
version of cgroups. What is held counts with all its children. Where no cgroup can be made
nothing is held, and the figures can only be compared.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path("/sys/fs/cgroup")
PERIOD = 100_000
_SIZES = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


@dataclass(frozen=True, slots=True)
class Limits:
    """Cores and bytes that a container asks for and may use at most."""

    request_cores: float
    request_bytes: int
    cores: float
    bytes: int

    @classmethod
    def of(cls, resources: Mapping[str, Mapping[str, Any]]) -> Limits:
        asked, most = resources["requests"], resources["limits"]
        return cls(_cores(asked["cpu"]), _bytes(asked["memory"]), _cores(most["cpu"]), _bytes(most["memory"]))

    def __str__(self) -> str:
        return (
            f"requests {self.request_cores * 1000:.0f}m and {self.request_bytes >> 20}Mi,"
            f" limits {self.cores * 1000:.0f}m and {self.bytes >> 20}Mi"
        )


def _cores(text: object) -> float:
    word = str(text)
    return int(word[:-1]) / 1000 if word.endswith("m") else float(word)


def _bytes(text: str) -> int:
    return int(text[:-2]) * _SIZES[text[-2:]]


@dataclass
class Held:
    """A process within limits, or beside them."""

    folders: list[Path] = field(default_factory=list)

    @classmethod
    def to(cls, limits: Limits, pid: int) -> Held:
        """Hold a process, and the children that it has from now on."""
        name = f"stoker-bench-{pid}"
        quota = int(limits.cores * PERIOD)
        held = cls()
        try:
            if (ROOT / "cgroup.controllers").exists():
                made = held._make(ROOT / name)
                (made / "cpu.max").write_text(f"{quota} {PERIOD}")
                (made / "memory.max").write_text(str(limits.bytes))
            else:
                made = held._make(ROOT / "cpu" / name)
                (made / "cpu.cfs_period_us").write_text(str(PERIOD))
                (made / "cpu.cfs_quota_us").write_text(str(quota))
                made = held._make(ROOT / "memory" / name)
                (made / "memory.limit_in_bytes").write_text(str(limits.bytes))
            for folder in held.folders:
                (folder / "cgroup.procs").write_text(str(pid))
        except OSError:
            held.release()
            return cls()
        return held

    @property
    def for_real(self) -> bool:
        return bool(self.folders)

    def throttled_seconds(self) -> float:
        """How long its threads had to wait because the quota was used up."""
        for folder in self.folders:
            with suppress(OSError):
                told = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
                if "throttled_usec" in told:
                    return int(told["throttled_usec"]) / 1e6
                if "throttled_time" in told:
                    return int(told["throttled_time"]) / 1e9
        return 0.0

    def release(self) -> None:
        """To be called when the process has ended; what it left behind may take a moment to go."""
        for folder in self.folders:
            for _ in range(50):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.1)
        self.folders = []

    def _make(self, folder: Path) -> Path:
        folder.mkdir()
        self.folders.append(folder)
        return folder

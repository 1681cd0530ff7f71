"""Two test gateways as a redundant pair: a master and its backup, each with a data folder of its own.

What is assumed of a real pair, where no report says it exactly:

- After each scan of the master that was asked for, `projects/` and `config/resources/core`
  are carried to the backup, which takes them up at once; what the master does not have is
  deleted there. Nothing else is carried.
- The role (`redundancyRole`) is a setting and does not change with a failover; who works
  is the activity: `RedundancyStatus` of gwinfo and `redundancy.activityLevel` of
  `overview` say `Active` or `Warm`.
- A backup that is not active refuses scans and scan locks with 200 and `success:false`
  (`scan_routes`). An active one accepts them, or a failover could not be synced.
- When the master comes back it works again, and what it has replaces what the backup had.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from stoker_testkit.gateway.atomic_write import put_file, read_file
from stoker_testkit.gateway.resource_reader import MANIFEST
from stoker_testkit.gateway.settings import GatewaySettings, Role
from stoker_testkit.gateway.simulated_gateway import SimulatedGateway
from stoker_testkit.stoppable import Stoppable

CARRIED = ("projects", "config/resources/core")


class RedundantPair(Stoppable):
    """Both gateways; they share their keys and differ by their role."""

    def __init__(self, master: SimulatedGateway, backup: SimulatedGateway) -> None:
        self.master = master
        self.backup = backup
        self.replications = 0
        """The number of replications to the backup."""
        self._together = True
        self._carrying = threading.Lock()

    @classmethod
    def start(
        cls, master_dir: Path, backup_dir: Path, *, settings: GatewaySettings | None = None, **how: Any
    ) -> Self:
        """Start both; `how` is what `SimulatedGateway.start` takes."""
        given = settings or GatewaySettings()
        master = SimulatedGateway.start(master_dir, settings=replace(given, role=Role.MASTER), **how)
        backup = SimulatedGateway.start(
            backup_dir, settings=replace(given, role=Role.BACKUP, keys=master.settings.keys), **how
        )
        pair = cls(master, backup)
        pair._connect()
        return pair

    def fail_over(self) -> None:
        """The master goes away, and the backup does the work."""
        self._part()
        self.master.go_down()
        self.backup.active = True

    def bring_back(self) -> None:
        """The master works again, and the backup is brought to what it has."""
        self.master.come_up()
        self.backup.active = False
        self._connect()

    def stop(self) -> None:
        self._part()
        self.master.stop()
        self.backup.stop()

    def _connect(self) -> None:
        self._together = True
        self._replicate()
        self.master.after_scan(self._after_scan)

    async def _after_scan(self) -> None:
        await asyncio.to_thread(self._replicate)

    def _part(self) -> None:
        """Wait for what is under way, and carry nothing more."""
        with self._carrying:
            self._together = False

    def _replicate(self) -> None:
        with self._carrying:
            if self._together:
                for root in CARRIED:
                    mirror(self.master.data_dir, self.backup.data_dir, root)
                self.backup.load()
                self.replications += 1


def mirror(source: Path, destination: Path, root: str) -> None:
    """Make `root` the same at the destination: data, then manifests, then deletions, manifests first."""
    wanted = dict(_files(source, root))
    for path in sorted(wanted, key=_manifests_last):
        if read_file(destination / path) != wanted[path]:
            put_file(destination, destination / path, wanted[path])
    gone = [path for path, _ in _files(destination, root) if path not in wanted]
    for path in sorted(gone, key=_manifests_last, reverse=True):
        (destination / path).unlink(missing_ok=True)
    for top, _, _ in os.walk(destination / root, topdown=False):
        if not os.listdir(top):  # noqa: PTH208 - the walk gives strings
            os.rmdir(top)  # noqa: PTH106


def _files(data_dir: Path, root: str) -> Iterator[tuple[str, bytes]]:
    for top, folders, names in os.walk(data_dir / root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(top, name)
            content = read_file(path)
            if content is not None:
                yield str(path.relative_to(data_dir)), content


def _manifests_last(path: str) -> tuple[bool, str]:
    return path.rpartition("/")[2] == MANIFEST, path

"""Reads the Leases of all shards at the beginning of a term, until all use the same count.

`stoker.controller.sharding.division` decides; this loop reads the Leases and reports when there are more
namespaces to reconcile. Nothing is reconciled before the first read. If every shard uses the same count,
which is always the case except in the minutes of a change, it reads once and then only waits for the end of
the term.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from stoker.controller.sharding.division import ShardDivision, lease_name
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.shards import Shard
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import LEASES
from stoker.kube.leader.lease import Lease
from stoker.telemetry.logs import get_logger
from stoker.telemetry.metrics import MetricReading

PAUSE = 2.0
"""Seconds between two reads."""

log = get_logger(__name__)


class ShardPeers:
    """Reads the Leases for one term."""

    def __init__(
        self,
        client: KubeClient,
        home: str,
        division: ShardDivision,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when there may be more namespaces to reconcile; `home` has the Leases."""
        self._client = client
        self._home = home
        self._division = division
        self._clock = clock
        self._changed = changed
        self._others: tuple[str, ...] | None = None
        self.error: StokerError | None = None
        """Why the last read failed; None if it succeeded."""

    @property
    def waits_for(self) -> tuple[str, ...]:
        return self._others or ()

    async def run(self) -> None:
        """Read the Leases until all shards use the same count, then wait until cancelled."""
        while not self._division.settled:
            await self._look()
            if not self._division.settled:
                await self._clock.sleep(PAUSE)
        await asyncio.get_running_loop().create_future()

    async def _look(self) -> None:
        try:
            leases = await self._client.list(LEASES, self._home, into=Lease)
        except StokerError as error:
            if self.error is None or self.error.reason != error.reason:
                log.warning("shards.unseen", reason=error.reason, error=error.message)
            self.error = error
            return
        self.error = None
        self._division.saw(leases, self._clock.monotonic())
        others = self._division.others
        if others != self._others:
            if others or self._others:
                log.info("shards.waited_for", others=list(others))
            self._others = others
            self._changed()


def shard_readings(shard: Shard, resources: int, waits_for: int) -> Iterator[MetricReading]:
    """Readings labelled with the shard's Lease name, as all metrics; there are sixteen shards at most."""
    labels = {"controller": lease_name(shard.index)}
    yield MetricReading(
        "ignition_sync_shard_resources",
        "Resources that this process reconciles as leader of its shard; 0 without the Lease.",
        resources,
        labels,
    )
    yield MetricReading(
        "ignition_sync_shard_waits",
        "Shards of a different shard count that must stop before this shard takes over their resources.",
        waits_for,
        labels,
    )

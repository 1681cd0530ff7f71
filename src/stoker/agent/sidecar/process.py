"""The agent process: builds and runs all parts of the sidecar of one gateway.

    probes ─ informers ─ status publisher ─ file watch ─ sync loop

The parts start in this order and stop in reverse: the running sync finishes first, then the publisher writes
the last report, and the probes answer until the end. This module decides nothing. While nothing happens, only
a check of a few files runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stoker.agent.bidirectional.outbox import OutboxSender
from stoker.agent.config_maps import ConfigMapKeys, manager_for
from stoker.agent.identity import AgentIdentity, AgentPaths
from stoker.agent.loop.loop import SyncLoop
from stoker.agent.loop.metrics import SyncMetrics
from stoker.agent.sidecar.informers import AgentInformers
from stoker.agent.sidecar.memory_release import preload_modules
from stoker.agent.sidecar.next_sync import SyncAssigner
from stoker.agent.sidecar.shutdown_clock import ShutdownClock
from stoker.agent.sidecar.startup import StartupGate
from stoker.agent.status.status_report import StatusPublisher
from stoker.domain.clock import Clock, SystemClock
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import wait_for_first
from stoker.kube.config.config import ClusterConfig
from stoker.kube.runtime.process import ProcessGroup, ProcessPart
from stoker.telemetry.health import ProcessHealth
from stoker.telemetry.logs import get_logger
from stoker.telemetry.metrics import Metrics
from stoker.telemetry.probes import ProbeServer

if TYPE_CHECKING:
    from stoker.agent.audit.audit_export import AuditExport
    from stoker.telemetry.log_shipper import LogShipper

POLL_SECONDS = 2.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Options of an agent from the command line and the environment."""

    config: ClusterConfig
    identity: AgentIdentity
    places: AgentPaths = field(default_factory=AgentPaths)
    health_address: str = ":8082"
    metrics_address: str = ":8083"
    shipper: LogShipper | None = None
    """Sends audit records to a log server."""
    only_initial: bool = False
    """Exit when the gateway may start: for an init container, where native sidecars are not available."""


class AgentProcess:
    """One agent."""

    def __init__(self, settings: AgentOptions, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock if clock is not None else SystemClock()
        self._metrics = Metrics()
        self._health = ProcessHealth()

    async def run(self) -> None:
        """Run the agent until cancelled."""
        settings, clock, identity = self._settings, self._clock, self._settings.identity
        startup = StartupGate(settings.places, clock)
        self._hold_the_gateway(startup)
        probes = ProbeServer(
            self._health,
            self._metrics,
            health_address=settings.health_address,
            metrics_address=settings.metrics_address,
        )
        async with probes, KubeClient(settings.config, clock=clock, user_agent="stoker-agent") as client:
            await preload_modules()
            keys = ConfigMapKeys(client, identity.namespace, manager_for(identity.pod))
            publisher = StatusPublisher(keys, identity, clock)

            def changed(by: str) -> None:
                watcher.nudge(by)  # a changed object ends the loop's pause

            observed = AgentInformers(
                client, identity.namespace, identity.metadata_map, changed, clock, publisher.hurry
            )
            waits = ShutdownClock(clock)
            sender = OutboxSender(client, identity, clock)
            meter = self._meter()
            assigner = SyncAssigner(
                identity,
                settings.places,
                observed,
                publisher,
                startup,
                waits,
                sender,
                meter.scanned,
                self._export(),
            )
            watcher = SyncLoop(assigner.assign, meter=meter, clock=clock)
            self._health.live.add("watcher", watcher.heartbeat.check)
            log.info("agent.started", pod=identity.pod, kind=str(identity.door), resource=identity.resource)
            parts = [
                ProcessPart("observing", observed.run),
                ProcessPart("publishing", publisher.run, publisher.stop),
                ProcessPart("looking", lambda: _watch_mounted_files(assigner, watcher.nudge, clock)),
                ProcessPart("watching", watcher.run, _stop_sync_on_shutdown(watcher, waits)),
            ]
            try:
                await self._live(ProcessGroup(parts, clock=clock), startup)
            finally:
                await assigner.stop()
                if settings.shipper is not None:
                    await asyncio.to_thread(settings.shipper.close)

    async def _live(self, unit: ProcessGroup, startup: StartupGate) -> None:
        if not self._settings.only_initial:
            await unit.run()
            return
        living = asyncio.create_task(unit.run())
        await wait_for_first(living, startup.over())
        if not living.cancelled():
            living.result()

    def _export(self) -> AuditExport | None:
        shipper = self._settings.shipper
        if shipper is None:
            return None
        from stoker.agent.audit.audit_export import exporter_for  # noqa: PLC0415 - most agents send no audit records

        self._metrics.collect_from(shipper.readings)
        return exporter_for(shipper, self._settings.identity.pod)

    def _meter(self) -> SyncMetrics:
        identity = self._settings.identity
        return SyncMetrics(
            self._metrics,
            self._clock,
            namespace=identity.namespace,
            cr=identity.resource,
            gateway=identity.gateway or identity.pod,
        )

    def _hold_the_gateway(self, startup: StartupGate) -> None:
        """Report started and ready only once the gateway may start.

        Registered before the probe server listens: once the kubelet has seen a successful startup probe, it
        starts the gateway.
        """
        self._health.started.add("initial sync", startup.why_not)
        self._health.ready.add("initial sync", startup.why_not)


async def _watch_mounted_files(assigner: SyncAssigner, nudge: Callable[[str], None], clock: Clock) -> None:
    """Trigger a sync when the kubelet updates annotations, labels or Secrets."""
    seen = assigner.stamps()
    while True:
        await clock.sleep(POLL_SECONDS)
        found = assigner.stamps()
        if found != seen:
            seen = found
            nudge("podinfo")


def _stop_sync_on_shutdown(
    watcher: SyncLoop, waits: ShutdownClock
) -> Callable[[], Coroutine[object, object, None]]:
    async def stop() -> None:
        watcher.stop()
        waits.hurry()

    return stop

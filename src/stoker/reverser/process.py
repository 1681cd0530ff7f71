"""The reverser process: run one replica with its client, probes, metrics and supervisor.

    the four kinds ─┐                                 ┌─▶ watches ─▶ outboxes ─┐
                    ├─▶ destination plan, selection ──┤                        ├─▶ workers ─▶ git
    discovery ──────┘                                 └─▶ candidates (Leases) ─┘
                                                              └─▶ statuses, Events

Every replica runs all of these parts. The Lease of a branch decides which replica writes that branch, and a
replica watches only the kinds that its own branches need. The process keeps no state outside of git and the
cluster: a replica that starts lists everything and compares it with the branch.
"""

from __future__ import annotations

import socket

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import StokerError
from stoker.kube.client.client import KubeClient
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import NAMESPACES
from stoker.kube.config.own_account import find_own_account
from stoker.kube.leader.lease import LeaseTerms, unique_identity
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.runtime.process import ProcessGroup
from stoker.reverser.metrics import ReverserMetrics
from stoker.reverser.settings import NAME, ReverserExtensions, ReverserOptions, ReverserRuntime
from stoker.reverser.supervisor import ReverserSupervisor
from stoker.reverser.writer.commit_message import CommitOrigin
from stoker.telemetry.health import ProcessHealth
from stoker.telemetry.logs import get_logger
from stoker.telemetry.metrics import Metrics
from stoker.telemetry.probes import ProbeServer
from stoker.telemetry.runtime import watch_readings

log = get_logger(__name__)

_BACKOFF = Backoff(base=0.5, ceiling=30.0)


__all__ = ["ReverserExtensions", "ReverserOptions", "ReverserProcess", "ReverserRuntime"]


class ReverserProcess:
    """One replica of the reverser."""

    def __init__(
        self, settings: ReverserOptions, seams: ReverserExtensions | None = None, clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._seams = seams if seams is not None else ReverserExtensions()
        self._clock = clock or SystemClock()
        self._metrics = Metrics(settings.metrics_prefix)
        self._meter = ReverserMetrics(self._metrics)
        self._health = ProcessHealth()

    async def run(self) -> None:
        """Serve the probes, watch the cluster and write branches until cancelled."""
        settings = self._settings
        probes = ProbeServer(
            self._health,
            self._metrics,
            health_address=settings.health_address,
            metrics_address=settings.metrics_address,
        )
        async with probes, KubeClient(settings.config, clock=self._clock, user_agent=NAME) as client:
            instance = settings.identity or socket.gethostname()
            origin = CommitOrigin(await self._cluster_uid(client), settings.namespace, NAME, instance)
            terms = LeaseTerms(
                f"{instance}_{unique_identity().rpartition('_')[2]}",
                settings.lease_seconds,
                settings.renew_seconds,
                owner=await find_own_account(client, settings.namespace),
            )
            operated = ReverserSupervisor(
                settings, self._seams, self._clock, client, origin, terms, self._meter
            )
            self._metrics.collect_from(lambda: watch_readings(operated.reflectors))
            self._health.ready.add("listed", operated.why_unready)
            started = ReverserRuntime(
                client, self._clock, self._metrics, self._health, terms.identity, settings.namespace
            )
            parts = [*self._seams.parts(started), *operated.parts]
            await ProcessGroup(parts, clock=self._clock).run()

    async def _cluster_uid(self, client: KubeClient) -> str:
        """Return the uid of namespace kube-system, which identifies this cluster; retry until it is read."""
        failures = 0
        while True:
            try:
                return (await client.get(NAMESPACES, "kube-system", into=ObjectHeader)).metadata.uid
            except StokerError as error:
                failures += 1
                log.warning("cluster.unknown", error=error.message)
            await self._clock.sleep(_BACKOFF.delay(failures))

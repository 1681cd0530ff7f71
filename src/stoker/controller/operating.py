"""The controller as a process: probes always, work only while the lease is held.

    probes ─ lease ─► (leading) Events ─ reflectors ─ workers

The parts behind the lease are built anew for each term, around a client that
refuses to write once the term is over.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stoker.controller.observing import Kept, Observed, ResourceKey
from stoker.controller.reconciling import Reconciler
from stoker.domain.clock import Clock, SystemClock
from stoker.git.runner import GitRunner
from stoker.kube.client import Client
from stoker.kube.config import ClusterConfig
from stoker.kube.controlling import PASS_TIMEOUT, Controller, PassRecord
from stoker.kube.electing import Elector
from stoker.kube.events import EventRecorder
from stoker.kube.fencing import FencedClient, Leadership
from stoker.kube.lease import Terms, unique_identity
from stoker.kube.queue import WorkQueue
from stoker.kube.reflector import Reflector
from stoker.kube.running import Part, Unit
from stoker.telemetry.health import Health
from stoker.telemetry.metrics import Metrics
from stoker.telemetry.probes import ProbeServer
from stoker.telemetry.runtime import RuntimeMetrics

LEASE_SECONDS = 15
RENEW_SECONDS = 5.0
# Secrets and repositories are not watched: what was missing is found by looking again.
STALLED_RECHECK = 15.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What a command line can say about a controller."""

    config: ClusterConfig
    lease_namespace: str
    shard: int = 0
    health_address: str = ":8081"
    metrics_address: str = ":8080"
    namespaces: tuple[str, ...] = ()
    """Namespaces whose resources are worked on; none named means all."""
    workers: int = 5
    require_known_hosts: bool = False
    """Refuse ssh sources whose server nobody vouches for."""


class Operator:
    """One replica."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._metrics = Metrics()
        self._runtime = RuntimeMetrics(self._metrics)
        self._health = Health()
        self._queue = WorkQueue[ResourceKey](clock=self._clock)
        self._reflectors: tuple[Reflector[Kept], ...] = ()
        # Both are made anew for each term as leader, hence read through this object.
        self._runtime.watch_queue("sync", lambda: self._queue.snapshot())  # noqa: PLW0108
        self._runtime.watch_reflectors(lambda: self._reflectors)

    async def run(self) -> None:
        """Serve probes, and work whenever the lease is ours, until cancelled."""
        settings = self._settings
        identity = unique_identity()
        probes = ProbeServer(
            self._health,
            self._metrics,
            health_address=settings.health_address,
            metrics_address=settings.metrics_address,
        )
        async with (
            probes,
            Client(settings.config, clock=self._clock, user_agent="stoker-controller") as client,
        ):
            elector = Elector(
                client,
                f"stoker-controller-{settings.shard}",
                settings.lease_namespace,
                Terms(identity, LEASE_SECONDS, RENEW_SECONDS),
                clock=self._clock,
                metrics=self._runtime,
            )
            self._health.live.add("workers", self._why_stuck)
            self._health.ready.add("lease", lambda: _why_unready(elector))
            with tempfile.TemporaryDirectory(prefix="stoker-git-") as cache:
                work = partial(self._lead, client, GitRunner(Path(cache)), identity)
                await elector.run(work)

    async def _lead(self, client: Client, git: GitRunner, identity: str, leadership: Leadership) -> None:
        """One term as leader."""
        fenced = FencedClient(client, leadership)
        queue = self._queue = WorkQueue(clock=self._clock)
        observed = Observed(fenced, self._settings.namespaces, queue.add, self._clock)
        self._reflectors = observed.reflectors
        events = EventRecorder(fenced, component="stoker-controller", instance=identity, clock=self._clock)
        reconciler = Reconciler(
            observed,
            fenced,
            git,
            events,
            self._clock,
            require_known_hosts=self._settings.require_known_hosts,
        )
        controller = Controller(
            "sync",
            queue,
            reconciler.reconcile,
            workers=self._settings.workers,
            stalled_recheck=STALLED_RECHECK,
            clock=self._clock,
            on_pass=partial(self._count, observed),
        )
        parts = [
            Part("events", events.run, events.stop),
            Part("observing", observed.run),
            Part("working", controller.run, controller.stop),
        ]
        try:
            await Unit(parts, may_finish=lambda: leadership.remaining > 0, clock=self._clock).run()
        finally:
            self._queue, self._reflectors = WorkQueue(clock=self._clock), ()

    def _why_stuck(self) -> str | None:
        """A pass that goes on although it was cut off can only be ended together with the process."""
        seconds = self._queue.snapshot().longest_running_seconds
        return f"a pass has been running for {seconds:.0f} s" if seconds > 2 * PASS_TIMEOUT else None

    def _count(self, observed: Observed, record: PassRecord[ResourceKey]) -> None:
        key = record.key.object
        if observed.find(record.key) is None:  # the last pass over a resource only finds that it is gone
            self._metrics.forget(key.namespace, key.name)
            return
        self._runtime.reconciled(key.namespace, key.name, record.consequence, record.seconds)


def _why_unready(elector: Elector) -> str | None:
    """A replica that waits for the lease is ready; one that cannot even see it is not."""
    error = elector.standing.error
    return error.message if error is not None else None

"""The controller as a process: probes, watches and the receiver always, work only while the lease is held.

    probes ─ watches ─ receiver ─ lease ─► (leading) Events ─ resolver ─ workers

Where there are several shards, each is such a process with replicas of its own: it works
on its namespaces, by its own Lease, and receives webhooks for all.

What is watched is watched on every replica, so that a new leader begins with what it
knows and every replica can answer a webhook. The parts behind the lease are built anew
for each term, around a client that refuses to write once the term is over.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stoker.api.kinds.ignitionsync import IgnitionSyncBaseSpec
from stoker.api.to_intent import NO_DEFAULTS
from stoker.controller.alerting.send import PAGERDUTY
from stoker.controller.cache.handlers import KeySink, SecretReferences, WatchHandlers
from stoker.controller.cache.informers import ControllerInformers, WatchScope
from stoker.controller.cache.objects import ResourceKey
from stoker.controller.finalizer.orphaned import OrphanedFinalizers, finalizer_manager
from stoker.controller.owned.configmaps import FORGET_AFTER
from stoker.controller.owned.metadata import InstallationOptions
from stoker.controller.owned.shared_volume import VolumeFetcher
from stoker.controller.owned.stale_sidecars import SidecarDigest
from stoker.controller.ref_resolution.resolver import GIT_TIMEOUT
from stoker.controller.sharding.division import SHARDS, ShardDivision, lease_name
from stoker.controller.sharding.peers import ShardPeers, shard_readings
from stoker.controller.status.metrics import ControllerMetrics
from stoker.controller.status.status import ReceiverState
from stoker.controller.wiring import LeaderTerm, TermWork, build_work
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.intent.source import SecretKey
from stoker.domain.shards import SINGLE_SHARD, Shard
from stoker.git.process.runner import GitRunner
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import ClusterConfig
from stoker.kube.leader.elector import LeaderElector
from stoker.kube.leader.fencing import FencedClient, Leadership
from stoker.kube.leader.lease import LeaseTerms, unique_identity
from stoker.kube.runtime.controller import RECONCILE_TIMEOUT_SECONDS
from stoker.kube.runtime.process import ProcessGroup, ProcessPart
from stoker.kube.runtime.workqueue import QueueDepth, WorkQueue
from stoker.kube.watch.store import ObjectKey
from stoker.telemetry.health import ProcessHealth
from stoker.telemetry.metrics import MetricReading, Metrics
from stoker.telemetry.probes import ProbeServer
from stoker.telemetry.runtime import RuntimeMetrics

LEASE_SECONDS = 15
RENEW_SECONDS = 5.0
_FOREVER = 10 * 365 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """What a command line can say about a controller."""

    config: ClusterConfig
    lease_namespace: str
    """The operator's own namespace: its Lease, and the map that pauses everything."""
    leader_elect: bool = True
    shard: Shard = SINGLE_SHARD
    health_address: str = ":8081"
    metrics_address: str = ":8080"
    namespaces: tuple[str, ...] = ()
    """Namespaces whose resources are worked on; none named means all."""
    labels: str = ""
    """A selector that resources must fit."""
    finalizers: bool = True
    """Whether resources get a finalizer; not where the controller's rights end with their namespace."""
    workers: int = 5
    git_timeout: float = GIT_TIMEOUT
    require_known_hosts: bool = False
    """Refuse ssh sources whose server nobody vouches for."""
    cluster_name: str = ""
    github_app_namespaces: tuple[str, ...] = ()
    defaults: IgnitionSyncBaseSpec = field(default=NO_DEFAULTS)
    """What resources leave open and the installation decides."""
    forget_after: float = FORGET_AFTER
    """How long the report of a pod that is gone is kept."""
    shared_volumes: bool = False
    """Make volumes for resources that ask for one in `spec.storage`."""
    metadata_key: SecretKey | None = None
    """A Secret's key, in the namespace of each resource, that its metadata map is signed with."""
    pagerduty_url: str = PAGERDUTY
    """Where PagerDuty takes events: its service in the EU has another address."""
    audit_events: bool = False
    """Tell each sync as an Event on its resource."""

    @property
    def lease(self) -> ObjectKey:
        return ObjectKey(self.lease_namespace, lease_name(self.shard.index))

    @property
    def leases(self) -> tuple[ObjectKey, ...]:
        """Those of all shards."""
        return tuple(ObjectKey(self.lease_namespace, lease_name(each)) for each in range(self.shard.count))

    @property
    def manager(self) -> str:
        """As whom finalizers are put on resources: another release, in another home, is another one."""
        return finalizer_manager(self.lease_namespace)

    @property
    def scope(self) -> WatchScope:
        return WatchScope(self.lease_namespace, self.namespaces, self.labels, self.shared_volumes, self.shard)


@dataclass(frozen=True, slots=True)
class ControllerExtensions:
    """What other rooms hand in, because this one may not know them."""

    sidecar: SidecarDigest | None = None
    """The digest of what would be injected into a pod now; None: nobody can tell."""
    listener: ReceiverState | None = None
    """The receiver, as the condition WebhookReady tells of it."""
    receiver: (
        Callable[[KubeClient, ControllerInformers, Metrics], AbstractAsyncContextManager[object]] | None
    ) = None
    """Serves webhooks for as long as the process lives."""
    fetcher: Callable[[ControllerInformers, KubeClient], VolumeFetcher] | None = None
    """Makes what fills shared volumes, for one term and its fenced client."""
    parts: Callable[[KubeClient, Clock, Metrics], Sequence[ProcessPart]] = lambda client, clock, metrics: ()
    """Further parts of the process that wait for no lease, such as the dashboard."""


class ControllerProcess:
    """One replica."""

    def __init__(
        self,
        settings: ControllerOptions,
        seams: ControllerExtensions | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._seams = seams if seams is not None else ControllerExtensions()
        self._clock = clock or SystemClock()
        self._metrics = Metrics()
        self._runtime = RuntimeMetrics(self._metrics)
        self._meter = ControllerMetrics(self._metrics)
        self._health = ProcessHealth()
        self._work: TermWork | None = None
        self._lookout: ShardPeers | None = None
        self._idle = WorkQueue[ResourceKey](clock=self._clock)
        self._idle_profiles = WorkQueue[ObjectKey](clock=self._clock)
        # The queues are made anew for each term as leader, hence read through this object.
        self._runtime.watch_queue("sync", self._queue_depth)
        self._runtime.watch_queue("profiles", self._profiles_depth)

    async def run(self) -> None:
        """Serve probes and webhooks, and work whenever the lease is ours, until cancelled."""
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
            KubeClient(settings.config, clock=self._clock, user_agent="stoker-controller") as client,
        ):
            observed = ControllerInformers(client, settings.scope, self._clock)
            self._metrics.collect_from(partial(self._shard_readings, observed))
            self._runtime.watch_reflectors(lambda: observed.reflectors)
            elector = self._elector(client, identity)
            self._health.live.add("workers", self._why_stuck)
            self._health.ready.add("lease", lambda: _why_unready(elector))
            self._health.ready.add("shards", self._why_blind)
            with tempfile.TemporaryDirectory(prefix="stoker-git-") as cache:
                concerns = WatchHandlers(observed, SecretReferences())
                term = partial(self._lead, client, GitRunner(Path(cache)), observed, concerns, identity)
                lead = elector.run if settings.leader_elect else self._alone
                parts = [
                    ProcessPart("observing", observed.run),
                    *self._seams.parts(client, self._clock, self._metrics),
                    ProcessPart("leading", partial(lead, term)),
                ]
                async with self._receiver(client, observed):
                    await ProcessGroup(parts, clock=self._clock).run()

    def _receiver(
        self, client: KubeClient, observed: ControllerInformers
    ) -> AbstractAsyncContextManager[object]:
        made = self._seams.receiver
        return nullcontext() if made is None else made(client, observed, self._metrics)

    def _elector(self, client: KubeClient, identity: str) -> LeaderElector:
        return LeaderElector(
            client,
            self._settings.lease.name,
            self._settings.lease.namespace,
            LeaseTerms(identity, LEASE_SECONDS, RENEW_SECONDS, ((SHARDS, str(self._settings.shard.count)),)),
            clock=self._clock,
            metrics=self._runtime,
        )

    async def _alone(self, term: Callable[[Leadership], Awaitable[None]]) -> None:
        """Lead without asking anybody, for as long as the process lives."""
        await term(Leadership("none", "alone", self._clock, self._clock.monotonic() + _FOREVER))

    async def _lead(
        self,
        client: KubeClient,
        git: GitRunner,
        observed: ControllerInformers,
        concerns: WatchHandlers,
        identity: str,
        leadership: Leadership,
    ) -> None:
        """One term as leader."""
        await observed.listed.wait()
        settings, fenced = self._settings, FencedClient(client, leadership)
        term = LeaderTerm(
            observed=observed,
            client=fenced,
            git=git,
            identity=identity,
            clock=self._clock,
            references=concerns.references,
            waiting=concerns.waiting,
            unseen=concerns.unseen,
            meter=self._meter,
            runtime=self._runtime,
            installation=InstallationOptions(settings.cluster_name, settings.require_known_hosts),
            workers=settings.workers,
            git_timeout=settings.git_timeout,
            github_app_namespaces=settings.github_app_namespaces,
            defaults=settings.defaults,
            forget_after=settings.forget_after,
            sidecar=self._seams.sidecar,
            listener=self._seams.listener,
            metadata_key=settings.metadata_key,
            shared_volumes=settings.shared_volumes,
            pagerduty_url=settings.pagerduty_url,
            audit_events=settings.audit_events,
            labels=settings.labels,
            finalizers=settings.finalizers,
            manager=settings.manager,
            fetcher=None if self._seams.fetcher is None else self._seams.fetcher(observed, fenced),
        )
        observed.begin_term()
        work = self._work = build_work(term)
        observed.recovered = work.hurry
        sink = KeySink(work.queue.add, work.soon, work.profiles.add)
        division = ShardDivision(settings.shard, leadership.found, LEASE_SECONDS)
        leftovers = self._leftovers(client, observed, concerns)

        told = sink.only(observed.reach.knows)
        if settings.leader_elect:  # or there is nobody to divide with
            told = told.only(division.may)

        def begin() -> None:
            concerns.tell(told)
            leftovers.look()

        observed.reach.lit = begin
        self._lookout = ShardPeers(client, settings.lease_namespace, division, self._clock, begin)
        parts = [ProcessPart("dividing", self._lookout.run), *work.parts]
        if not settings.leader_elect:
            self._lookout, parts = None, work.parts
            begin()
        if settings.labels:  # without any all resources fit
            parts = [ProcessPart("leftovers", leftovers.run), *parts]
        try:
            await ProcessGroup(parts, may_finish=lambda: leadership.remaining > 0, clock=self._clock).run()
        finally:
            concerns.hush()
            observed.at_rest()
            self._work = self._lookout = None
            for key in observed.every():  # who leads now shows how they stand
                self._meter.forget(key)

    def _leftovers(
        self, client: KubeClient, observed: ControllerInformers, concerns: WatchHandlers
    ) -> OrphanedFinalizers:
        return OrphanedFinalizers(
            client,
            self._clock,
            self._settings.manager,
            self._settings.namespaces,
            seen=lambda key: observed.find(key) is not None or not observed.reach.knows(key.object.namespace),
            found=concerns.lost,
        )

    def _shard_readings(self, observed: ControllerInformers) -> Iterator[MetricReading]:
        shard, lookout = self._settings.shard, self._lookout
        mine = (key for key in observed.every() if shard.has(key.object.namespace))
        resources = sum(1 for _ in mine) if self._work is not None else 0
        yield from shard_readings(shard, resources, len(lookout.waits_for) if lookout is not None else 0)

    def _why_blind(self) -> str | None:
        """A shard that waits for others is ready, or an update that needs them gone could not go on."""
        error = self._lookout.error if self._lookout is not None else None
        return error.message if error is not None else None

    def _queue_depth(self) -> QueueDepth:
        return (self._work.queue if self._work is not None else self._idle).snapshot()

    def _profiles_depth(self) -> QueueDepth:
        return (self._work.profiles if self._work is not None else self._idle_profiles).snapshot()

    def _why_stuck(self) -> str | None:
        """A pass that goes on although it was cut off can only be ended together with the process."""
        if self._work is None:
            return None
        seconds = self._work.queue.snapshot().longest_running_seconds
        return (
            f"a pass has been running for {seconds:.0f} s"
            if seconds > 2 * RECONCILE_TIMEOUT_SECONDS
            else None
        )


def _why_unready(elector: LeaderElector) -> str | None:
    """A replica that waits for the lease is ready; one that cannot even see it is not."""
    error = elector.standing.error
    return error.message if error is not None else None

"""The controller process: probes, watches and webhook receiver always, reconciling only as leader.

    probes ─ watches ─ receiver ─ lease ─► (leading) Events ─ resolver ─ workers

With several shards, each shard is a process of this kind with its own replicas and its own Lease. It
reconciles the resources of its own namespaces, and receives webhooks for all namespaces.

Every replica runs every watch. A new leader therefore starts with a full cache, and every replica can answer
a webhook. `stoker.controller.wiring` builds the parts behind the lease anew for each term, around a client
that refuses to write once the term is over. The parts of a term must write through no other client.
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
    """The options that the command line sets."""

    config: ClusterConfig
    lease_namespace: str
    """The operator's own namespace, with its Lease and the ConfigMap that pauses all resources."""
    leader_elect: bool = True
    shard: Shard = SINGLE_SHARD
    health_address: str = ":8081"
    metrics_address: str = ":8080"
    namespaces: tuple[str, ...] = ()
    """Namespaces whose resources are reconciled; empty means all."""
    labels: str = ""
    """A label selector that resources must match."""
    finalizers: bool = True
    """Whether resources get a finalizer. Off where the controller's rights end with their namespace."""
    workers: int = 5
    git_timeout: float = GIT_TIMEOUT
    require_known_hosts: bool = False
    """Refuse SSH sources without a known_hosts entry for their server."""
    cluster_name: str = ""
    github_app_namespaces: tuple[str, ...] = ()
    defaults: IgnitionSyncBaseSpec = field(default=NO_DEFAULTS)
    """Values that the installation sets for fields which resources leave empty."""
    forget_after: float = FORGET_AFTER
    """Seconds for which the report of a deleted pod is kept."""
    shared_volumes: bool = False
    """Create the volumes that resources request in `spec.storage`."""
    metadata_key: SecretKey | None = None
    """Name and key of the Secret, in each resource's namespace, that signs its metadata ConfigMap."""
    pagerduty_url: str = PAGERDUTY
    """Where PagerDuty accepts events; its EU service has another address."""
    audit_events: bool = False
    """Record each sync as an Event on its resource."""

    @property
    def lease(self) -> ObjectKey:
        return ObjectKey(self.lease_namespace, lease_name(self.shard.index))

    @property
    def leases(self) -> tuple[ObjectKey, ...]:
        """The Leases of all shards."""
        return tuple(ObjectKey(self.lease_namespace, lease_name(each)) for each in range(self.shard.count))

    @property
    def manager(self) -> str:
        """The name under which finalizers are set; a release in another namespace has another name."""
        return finalizer_manager(self.lease_namespace)

    @property
    def scope(self) -> WatchScope:
        return WatchScope(self.lease_namespace, self.namespaces, self.labels, self.shared_volumes, self.shard)


@dataclass(frozen=True, slots=True)
class ControllerExtensions:
    """Parts that packages above the controller supply, because the controller may not import them."""

    sidecar: SidecarDigest | None = None
    """The digest of the sidecar that would be injected into a pod now; None if it is unknown."""
    listener: ReceiverState | None = None
    """The state of the webhook receiver, for the condition WebhookReady."""
    receiver: (
        Callable[[KubeClient, ControllerInformers, Metrics], AbstractAsyncContextManager[object]] | None
    ) = None
    """Serves webhooks for as long as the process runs."""
    fetcher: Callable[[ControllerInformers, KubeClient], VolumeFetcher] | None = None
    """Builds the fetcher that fills shared volumes, for one term and its fenced client."""
    parts: Callable[[KubeClient, ControllerInformers, Clock, Metrics], Sequence[ProcessPart]] = (
        lambda client, observed, clock, metrics: ()
    )
    """Further parts of the process that need no lease, such as the dashboard."""


class ControllerProcess:
    """One replica of the controller."""

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
        # Each term as leader makes new queues; the metrics therefore read them through this object.
        self._runtime.watch_queue("sync", self._queue_depth)
        self._runtime.watch_queue("profiles", self._profiles_depth)

    async def run(self) -> None:
        """Serve probes and webhooks, and reconcile whenever this replica holds the lease, until cancelled."""
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
                    *self._seams.parts(client, observed, self._clock, self._metrics),
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
        """Lead without a lease for as long as the process runs (leader election is off)."""
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
        """Run one term as leader: build the parts, enqueue all keys, stop the parts when the term ends."""
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
        if settings.leader_elect:  # without leader election there is no other shard to divide with
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
        if settings.labels:  # without a selector every resource matches
            parts = [ProcessPart("leftovers", leftovers.run), *parts]
        try:
            await ProcessGroup(parts, may_finish=lambda: leadership.remaining > 0, clock=self._clock).run()
        finally:
            concerns.hush()
            observed.at_rest()
            self._work = self._lookout = None
            for key in observed.every():  # the new leader exports their metrics from now on
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
        """Why the shard cannot see its peers' Leases; None if it can.

        A shard that waits for its peers is ready. Otherwise a rolling update, which has to remove the
        peers' old pods, would be blocked.
        """
        error = self._lookout.error if self._lookout is not None else None
        return error.message if error is not None else None

    def _queue_depth(self) -> QueueDepth:
        return (self._work.queue if self._work is not None else self._idle).snapshot()

    def _profiles_depth(self) -> QueueDepth:
        return (self._work.profiles if self._work is not None else self._idle_profiles).snapshot()

    def _why_stuck(self) -> str | None:
        """Why the process must be restarted: a reconcile that ignores its timeout cannot be ended in it."""
        if self._work is None:
            return None
        seconds = self._work.queue.snapshot().longest_running_seconds
        return (
            f"a reconciliation has been running for {seconds:.0f} s"
            if seconds > 2 * RECONCILE_TIMEOUT_SECONDS
            else None
        )


def _why_unready(elector: LeaderElector) -> str | None:
    """A replica that waits for the lease is ready; a replica that cannot read the lease is not."""
    error = elector.standing.error
    return error.message if error is not None else None

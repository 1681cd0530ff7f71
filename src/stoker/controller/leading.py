"""The work of one term as leader: all parts of the passes, put together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stoker.api.kinds.ignitionsync import IgnitionSyncBaseSpec
from stoker.controller.concerning import References, Waiting
from stoker.controller.finalizing import Finalizer
from stoker.controller.granting import Granter
from stoker.controller.instructing import Installation
from stoker.controller.metering import Meter
from stoker.controller.minting import Minter
from stoker.controller.objects import ResourceKey
from stoker.controller.observing import Observed
from stoker.controller.outdating import SidecarOf, outdated_in
from stoker.controller.owning import Writer
from stoker.controller.passing import Parts
from stoker.controller.profiling import ProfileReconciler
from stoker.controller.publishing import Publisher, SigningKey
from stoker.controller.reconciling import Reconciler
from stoker.controller.resolving import Resolver
from stoker.controller.secrets import SecretReader
from stoker.controller.storing import Fetcher, Storekeeper
from stoker.controller.summarizing import Listener, Summarizer
from stoker.controller.understanding import Understanding
from stoker.controller.validating import Validator
from stoker.domain.clock import Clock
from stoker.domain.intent.source import SecretKey, Source
from stoker.domain.secrets import Secret
from stoker.git.access import Access
from stoker.git.github_app import AppTokens
from stoker.git.runner import GitRunner
from stoker.kube.client import Client
from stoker.kube.controlling import Controller, PassRecord
from stoker.kube.events import EventRecorder
from stoker.kube.queue import WorkQueue
from stoker.kube.running import Part
from stoker.kube.store import ObjectKey
from stoker.telemetry.runtime import RuntimeMetrics

# What the watches do not show (storage classes, repositories) is found by looking again.
STALLED_RECHECK = 15.0
SOON = 0.1
"""Seconds over which the reports of a fleet become one visit."""


@dataclass(frozen=True, slots=True)
class Term:
    """Everything that a term is made of."""

    observed: Observed
    client: Client
    """Fenced: it writes only for as long as the term lasts."""
    git: GitRunner
    identity: str
    clock: Clock
    references: References
    waiting: Waiting
    meter: Meter
    runtime: RuntimeMetrics
    installation: Installation
    workers: int
    git_timeout: float
    github_app_namespaces: tuple[str, ...]
    defaults: IgnitionSyncBaseSpec
    forget_after: float
    shared_volumes: bool
    sidecar: SidecarOf | None
    listener: Listener | None
    metadata_key: SecretKey | None
    """In the namespace of each resource: what its metadata map is signed with."""
    fetcher: Fetcher | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What runs, and the queues that feed it."""

    parts: list[Part]
    queue: WorkQueue[ResourceKey]
    profiles: WorkQueue[ObjectKey]

    def soon(self, key: ResourceKey) -> None:
        self.queue.add_after(key, SOON)


def build_work(term: Term) -> Work:
    """All parts of a term."""
    clock, client, observed = term.clock, term.client, term.observed
    queue: WorkQueue[ResourceKey] = WorkQueue(clock=clock)
    profiles: WorkQueue[ObjectKey] = WorkQueue(clock=clock)
    events = EventRecorder(client, component="stoker-controller", instance=term.identity, clock=clock)
    resolver = Resolver(
        term.git,
        _access_reader(term),
        clock,
        found=queue.add,
        timed=term.meter.asked_git,
        timeout=term.git_timeout,
    )
    parts = _parts_of_a_pass(term, resolver)
    reconciler = Reconciler(parts, Summarizer(clock, term.listener), events, term.meter)
    of_profiles = ProfileReconciler(observed, client, parts.publisher.neighbours, events, clock)

    def count(record: PassRecord[ResourceKey]) -> None:
        key = record.key.object
        if observed.find(record.key) is None:  # the last pass over a resource only finds that it is gone
            term.meter.forget(record.key)
        else:
            term.runtime.reconciled(key.namespace, key.name, record.consequence, record.seconds)

    syncing = Controller(
        "sync",
        queue,
        reconciler.reconcile,
        workers=term.workers,
        stalled_recheck=STALLED_RECHECK,
        clock=clock,
        on_pass=count,
    )
    judging = Controller("profiles", profiles, of_profiles.reconcile, workers=1, clock=clock)
    return Work(
        parts=[
            Part("events", events.run, events.stop),
            Part("resolving", resolver.run),
            Part("profiles", judging.run, judging.stop),
            Part("working", syncing.run, syncing.stop),
        ],
        queue=queue,
        profiles=profiles,
    )


def _parts_of_a_pass(term: Term, resolver: Resolver) -> Parts:
    clock, client, observed = term.clock, term.client, term.observed
    writer = Writer(client)
    publisher = Publisher(
        observed, writer, clock, signing_key=_signing_key(term), forget_after=term.forget_after
    )
    return Parts(
        observed=observed,
        client=client,
        clock=clock,
        references=term.references,
        waiting=term.waiting,
        finalizer=Finalizer(observed, client, publisher, clock),
        understanding=Understanding(observed, term.defaults, shared_volumes=term.shared_volumes),
        validator=Validator(observed, client, clock),
        resolver=resolver,
        minter=Minter(observed, client, term.github_app_namespaces),
        storekeeper=Storekeeper(observed, client, writer, term.fetcher),
        granter=Granter(observed, writer),
        publisher=publisher,
        installation=term.installation,
        watched_secrets=(term.metadata_key.name,) if term.metadata_key is not None else (),
        outdated=outdated_in(term.sidecar),
    )


def _access_reader(term: Term) -> Callable[[str, Source], Awaitable[Access]]:
    apps = AppTokens(term.clock)

    async def access(namespace: str, source: Source) -> Access:
        reader = SecretReader(term.client, namespace)
        return await reader.access(source, apps, require_known_hosts=term.installation.require_known_hosts)

    return access


def _signing_key(term: Term) -> SigningKey | None:
    wanted = term.metadata_key
    if wanted is None:
        return None

    async def read(namespace: str) -> Secret | None:
        if term.observed.secrets.get(ObjectKey(namespace, wanted.name)) is None:
            return None
        return await SecretReader(term.client, namespace).value(wanted)

    return read

"""The work of one term as leader: all parts of the passes, put together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stoker.api.kinds.ignitionsync import IgnitionSyncBaseSpec
from stoker.controller.alerting.alerter import Alerter
from stoker.controller.alerting.send import PAGERDUTY, Sender
from stoker.controller.bidirectional.forge_access import forge_reader
from stoker.controller.bidirectional.inbox import Postbox
from stoker.controller.bidirectional.proposal import Carrier
from stoker.controller.bidirectional.step import WayBack
from stoker.controller.bidirectional.worker import Acceptor
from stoker.controller.cache.handlers import References, Waiting
from stoker.controller.cache.informers import Observed
from stoker.controller.cache.objects import ResourceKey, ref_to
from stoker.controller.cache.secrets import SecretReader
from stoker.controller.finalizer.finalizer import Finalizer
from stoker.controller.health_checks_and_notices import Errands
from stoker.controller.owned.apply_objects import Writer
from stoker.controller.owned.configmaps import Publisher, SigningKey
from stoker.controller.owned.github_token import Minter
from stoker.controller.owned.metadata import Installation
from stoker.controller.owned.rbac import Granter
from stoker.controller.owned.shared_volume import Fetcher, Storekeeper
from stoker.controller.owned.stale_sidecars import SidecarOf, outdated_in
from stoker.controller.profile_reconciler import ProfileReconciler
from stoker.controller.reconciler import Reconciler
from stoker.controller.ref_resolution.resolver import Resolver
from stoker.controller.rollout import Checked, CheckUp
from stoker.controller.rollout.callouts import Announcement, Announcer, Examiner, Say
from stoker.controller.rollout.step import Releaser
from stoker.controller.spec.load import Understanding
from stoker.controller.spec.references import Validator
from stoker.controller.status.metrics import Meter
from stoker.controller.status.status import Listener, Summarizer
from stoker.controller.steps import Parts
from stoker.domain.clock import Clock
from stoker.domain.intent.source import SecretKey, Source
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import Access
from stoker.git.auth.github_app import AppTokens, TokenRights
from stoker.git.process.runner import GitRunner
from stoker.kube.client.client import Client
from stoker.kube.events.recorder import EventRecorder
from stoker.kube.events.series import Limits
from stoker.kube.runtime.controller import Controller, PassRecord
from stoker.kube.runtime.process import Part
from stoker.kube.runtime.workqueue import WorkQueue
from stoker.kube.watch.store import ObjectKey
from stoker.telemetry.runtime import RuntimeMetrics

# What the watches do not show (storage classes, repositories) is found by looking again.
STALLED_RECHECK = 15.0
AUDIT = Limits(burst=1000, refill_every=1.0)
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
    unseen: set[ResourceKey]
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
    pagerduty_url: str = PAGERDUTY
    audit_events: bool = False
    labels: str = ""
    finalizers: bool = True
    """A selector that resources must fit."""
    manager: str = ""
    """As whom finalizers are put on them."""


@dataclass(frozen=True, slots=True)
class Work:
    """What runs, and the queues that feed it."""

    parts: list[Part]
    queue: WorkQueue[ResourceKey]
    profiles: WorkQueue[ObjectKey]
    resolver: Resolver

    def hurry(self) -> None:
        """The API server is back: nobody waits any longer for what it did not answer."""
        self.resolver.hurry()
        self.queue.hurry()
        self.profiles.hurry()

    def soon(self, key: ResourceKey) -> None:
        self.queue.add_after(key, SOON)


def build_work(term: Term) -> Work:
    """All parts of a term."""
    clock, client, observed = term.clock, term.client, term.observed
    queue: WorkQueue[ResourceKey] = WorkQueue(clock=clock)
    profiles: WorkQueue[ObjectKey] = WorkQueue(clock=clock)
    events = EventRecorder(client, component="stoker-controller", instance=term.identity, clock=clock)
    audit = _audit(term) if term.audit_events else None
    resolver = Resolver(
        term.git,
        _access_reader(term),
        clock,
        found=queue.add,
        timed=term.meter.asked_git,
        timeout=term.git_timeout,
    )
    postbox = Postbox(observed, client, Writer(client))
    acceptor = _acceptor(term, postbox, queue)
    parts = _parts_of_a_pass(term, resolver, events, queue, postbox, acceptor)
    alerter = Alerter(
        Sender(client, term.pagerduty_url),
        events,
        clock,
        cluster=term.installation.cluster_name,
        counted=term.meter.alerted,
    )
    summarizer = Summarizer(clock, term.listener)
    reconciler = Reconciler(parts, summarizer, events, term.meter, alerter, audit=audit)
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
            *([Part("audit", audit.run, audit.stop)] if audit is not None else []),
            Part("alerts", alerter.run, alerter.stop),
            Part("resolving", resolver.run),
            Part("accepting", acceptor.run),
            Part("checking", parts.releaser.checks.run),
            Part("announcing", parts.releaser.announcements.run),
            Part("profiles", judging.run, judging.stop),
            Part("working", syncing.run, syncing.stop),
        ],
        queue=queue,
        profiles=profiles,
        resolver=resolver,
    )


def _parts_of_a_pass(
    term: Term,
    resolver: Resolver,
    events: EventRecorder,
    queue: WorkQueue[ResourceKey],
    postbox: Postbox,
    acceptor: Acceptor,
) -> Parts:
    clock, client, observed = term.clock, term.client, term.observed
    writer = Writer(client)
    publisher = Publisher(
        observed, writer, clock, signing_key=_signing_key(term), forget_after=term.forget_after
    )
    validator = Validator(observed, client, clock)
    return Parts(
        observed=observed,
        client=client,
        clock=clock,
        references=term.references,
        waiting=term.waiting,
        unseen=term.unseen,
        finalizer=Finalizer(
            observed,
            client,
            publisher,
            clock,
            manager=term.manager,
            labels=term.labels,
            enabled=term.finalizers,
        ),
        understanding=Understanding(observed, term.defaults, shared_volumes=term.shared_volumes),
        validator=validator,
        resolver=resolver,
        minter=Minter(observed, client, term.github_app_namespaces),
        storekeeper=Storekeeper(observed, client, writer, term.fetcher),
        granter=Granter(observed, writer),
        publisher=publisher,
        way_back=WayBack(observed, publisher, validator, postbox, acceptor, term.installation.cluster_name),
        installation=term.installation,
        watched_secrets=(term.metadata_key.name,) if term.metadata_key is not None else (),
        outdated=outdated_in(term.sidecar),
        releaser=Releaser(
            observed,
            publisher,
            clock,
            Errands[CheckUp, Checked](Examiner(clock, _secret_reader(term)).check, queue.add),
            Errands[Announcement, bool](Announcer(clock, _voice(term, events)).tell, queue.add),
        ),
    )


def _audit(term: Term) -> EventRecorder:
    """With a book of its own: a fleet's records must not take the room of the warnings about it."""
    return EventRecorder(
        term.client, component="stoker-audit", instance=term.identity, limits=AUDIT, clock=term.clock
    )


def _voice(term: Term, events: EventRecorder) -> Say:
    """Says something about a resource for as long as it is there."""

    def say(key: ResourceKey, warning: bool, reason: Reason, message: str) -> None:
        kept = term.observed.find(key)
        if kept is not None:
            (events.warning if warning else events.normal)(ref_to(key, kept), reason, message)

    return say


def _acceptor(term: Term, postbox: Postbox, queue: WorkQueue[ResourceKey]) -> Acceptor:
    access = _access_reader(term, TokenRights.PROPOSE)
    carrier = Carrier(
        term.git,
        term.git.cache / "proposals",
        access,
        forge_reader(term.client, access),
        postbox,
        term.clock,
        opened=term.meter.opened_request,
    )
    return Acceptor(carrier, term.clock, found=queue.add)


def _secret_reader(term: Term) -> Callable[[str, SecretKey], Awaitable[Secret]]:
    async def value(namespace: str, wanted: SecretKey) -> Secret:
        return await SecretReader(term.client, namespace).value(wanted)

    return value


def _access_reader(
    term: Term, rights: TokenRights = TokenRights.READ
) -> Callable[[str, Source], Awaitable[Access]]:
    apps = AppTokens(term.clock)

    async def access(namespace: str, source: Source) -> Access:
        reader = SecretReader(term.client, namespace)
        strict = term.installation.require_known_hosts
        return await reader.access(source, apps, rights, require_known_hosts=strict)

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

"""Builds the parts of one term as leader: queues, resolver, reconcilers and background workers.

`stoker.controller.manager` calls `build_work` at the start of a term and runs the parts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stoker.api.kinds.ignitionsync import IgnitionSyncBaseSpec
from stoker.controller.alerting.alerter import Alerter
from stoker.controller.alerting.send import PAGERDUTY, AlertSender
from stoker.controller.bidirectional.forge_access import forge_reader
from stoker.controller.bidirectional.inbox import ChangeSetInbox
from stoker.controller.bidirectional.proposal import ChangeSetProcessor
from stoker.controller.bidirectional.step import BidirectionalSteps
from stoker.controller.bidirectional.worker import BidirectionalWorker
from stoker.controller.cache.handlers import SecretReferences, WaitingResources
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import ResourceKey, object_ref
from stoker.controller.finalizer.finalizer import Finalizer
from stoker.controller.health_checks_and_notices import BackgroundTasks
from stoker.controller.owned.apply_objects import OwnedObjectWriter
from stoker.controller.owned.configmaps import ConfigMapPublisher, MetadataKeyReader
from stoker.controller.owned.github_token import GitHubTokenWriter
from stoker.controller.owned.metadata import InstallationOptions
from stoker.controller.owned.rbac import AgentRbac
from stoker.controller.owned.shared_volume import SharedVolumeClaims, VolumeFetcher
from stoker.controller.owned.stale_sidecars import SidecarDigest, outdated_sidecar_finder
from stoker.controller.profile_reconciler import ProfileReconciler
from stoker.controller.reconciler import SyncReconciler
from stoker.controller.ref_resolution.resolver import RefResolver
from stoker.controller.rollout import StageHealthCheck, StageHealthResult
from stoker.controller.rollout.callouts import (
    ApprovalNotice,
    ApprovalNotifier,
    CalloutReporter,
    StageHealthChecker,
)
from stoker.controller.rollout.step import RolloutStep
from stoker.controller.spec.load import SpecLoader
from stoker.controller.spec.references import ReferenceValidator
from stoker.controller.status.metrics import ControllerMetrics
from stoker.controller.status.status import ReceiverState, StatusSummarizer
from stoker.controller.steps import ReconcilerParts
from stoker.domain.clock import Clock
from stoker.domain.intent.source import SecretKey, SourceIntent
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import RepoAccess
from stoker.git.auth.github_app import GitHubAppTokens, TokenRights
from stoker.git.auth.secret_login import source_access, source_keys
from stoker.git.process.runner import GitRunner
from stoker.kube.client.client import KubeClient
from stoker.kube.client.secret_reader import NamespaceSecretReader
from stoker.kube.events.recorder import EventRecorder
from stoker.kube.events.series import EventLimits
from stoker.kube.runtime.controller import Controller, ReconcileRecord
from stoker.kube.runtime.process import ProcessPart
from stoker.kube.runtime.workqueue import WorkQueue
from stoker.kube.watch.store import ObjectKey
from stoker.telemetry.runtime import RuntimeMetrics

# Storage classes and repositories are not watched, so a stalled resource is checked again.
STALLED_RECHECK = 15.0
AUDIT = EventLimits(burst=1000, refill_every=1.0)
SOON = 0.1
"""Seconds over which the reports of a fleet are coalesced into one reconcile."""


@dataclass(frozen=True, slots=True)
class LeaderTerm:
    """Everything that one term as leader needs."""

    observed: ControllerInformers
    client: KubeClient
    """Fenced: it writes only for as long as the term lasts."""
    git: GitRunner
    identity: str
    clock: Clock
    references: SecretReferences
    waiting: WaitingResources
    unseen: set[ResourceKey]
    meter: ControllerMetrics
    runtime: RuntimeMetrics
    installation: InstallationOptions
    workers: int
    git_timeout: float
    github_app_namespaces: tuple[str, ...]
    defaults: IgnitionSyncBaseSpec
    forget_after: float
    shared_volumes: bool
    sidecar: SidecarDigest | None
    listener: ReceiverState | None
    metadata_key: SecretKey | None
    """Name and key of the Secret, in each resource's namespace, that signs its metadata ConfigMap."""
    fetcher: VolumeFetcher | None = None
    pagerduty_url: str = PAGERDUTY
    audit_events: bool = False
    labels: str = ""
    """A label selector that resources must match."""
    finalizers: bool = True
    """Whether resources get a finalizer."""
    manager: str = ""
    """The name under which finalizers are set."""


@dataclass(frozen=True, slots=True)
class TermWork:
    """The parts of a term that run, and the queues that feed them."""

    parts: list[ProcessPart]
    queue: WorkQueue[ResourceKey]
    profiles: WorkQueue[ObjectKey]
    resolver: RefResolver

    def hurry(self) -> None:
        """Retry at once all work that waits in backoff: the API server can be reached again."""
        self.resolver.hurry()
        self.queue.hurry()
        self.profiles.hurry()

    def soon(self, key: ResourceKey) -> None:
        self.queue.add_after(key, SOON)


def build_work(term: LeaderTerm) -> TermWork:
    clock, client, observed = term.clock, term.client, term.observed
    queue: WorkQueue[ResourceKey] = WorkQueue(clock=clock)
    profiles: WorkQueue[ObjectKey] = WorkQueue(clock=clock)
    events = EventRecorder(client, component="stoker-controller", instance=term.identity, clock=clock)
    audit = _audit_recorder(term) if term.audit_events else None
    resolver = RefResolver(
        term.git,
        _access_reader(term),
        clock,
        enqueue=queue.add,
        timed=term.meter.asked_git,
        timeout=term.git_timeout,
    )
    postbox = ChangeSetInbox(observed, client, OwnedObjectWriter(client))
    acceptor = _acceptor(term, postbox, queue)
    parts = _reconciler_parts(term, resolver, events, queue, postbox, acceptor)
    alerter = Alerter(
        AlertSender(client, term.pagerduty_url),
        events,
        clock,
        cluster=term.installation.cluster_name,
        counted=term.meter.alerted,
    )
    summarizer = StatusSummarizer(clock, term.listener)
    reconciler = SyncReconciler(parts, summarizer, events, term.meter, alerter, audit=audit)
    of_profiles = ProfileReconciler(observed, client, parts.publisher.neighbours, events, clock)

    def count(record: ReconcileRecord[ResourceKey]) -> None:
        key = record.key.object
        if observed.find(record.key) is None:  # the last reconcile only finds that it was deleted
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
    return TermWork(
        parts=[
            ProcessPart("events", events.run, events.stop),
            *([ProcessPart("audit", audit.run, audit.stop)] if audit is not None else []),
            ProcessPart("alerts", alerter.run, alerter.stop),
            ProcessPart("resolving", resolver.run),
            ProcessPart("accepting", acceptor.run),
            ProcessPart("checking", parts.releaser.checks.run),
            ProcessPart("announcing", parts.releaser.announcements.run),
            ProcessPart("profiles", judging.run, judging.stop),
            ProcessPart("working", syncing.run, syncing.stop),
        ],
        queue=queue,
        profiles=profiles,
        resolver=resolver,
    )


def _reconciler_parts(
    term: LeaderTerm,
    resolver: RefResolver,
    events: EventRecorder,
    queue: WorkQueue[ResourceKey],
    postbox: ChangeSetInbox,
    acceptor: BidirectionalWorker,
) -> ReconcilerParts:
    clock, client, observed = term.clock, term.client, term.observed
    writer = OwnedObjectWriter(client)
    publisher = ConfigMapPublisher(
        observed, writer, clock, signing_key=_signing_key(term), forget_after=term.forget_after
    )
    validator = ReferenceValidator(observed, client, clock)
    return ReconcilerParts(
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
        understanding=SpecLoader(observed, term.defaults, shared_volumes=term.shared_volumes),
        validator=validator,
        resolver=resolver,
        minter=GitHubTokenWriter(observed, client, term.github_app_namespaces),
        storekeeper=SharedVolumeClaims(observed, client, writer, term.fetcher),
        granter=AgentRbac(observed, writer),
        publisher=publisher,
        way_back=BidirectionalSteps(
            observed, publisher, validator, postbox, acceptor, term.installation.cluster_name
        ),
        installation=term.installation,
        watched_secrets=(term.metadata_key.name,) if term.metadata_key is not None else (),
        outdated=outdated_sidecar_finder(term.sidecar),
        releaser=RolloutStep(
            observed,
            publisher,
            clock,
            BackgroundTasks[StageHealthCheck, StageHealthResult](
                StageHealthChecker(clock, _secret_reader(term)).check, queue.add
            ),
            BackgroundTasks[ApprovalNotice, bool](
                ApprovalNotifier(clock, _event_sender(term, events)).tell, queue.add
            ),
        ),
    )


def _audit_recorder(term: LeaderTerm) -> EventRecorder:
    """A recorder with its own limits, so that audit events do not use up the limit for warnings."""
    return EventRecorder(
        term.client, component="stoker-audit", instance=term.identity, limits=AUDIT, clock=term.clock
    )


def _event_sender(term: LeaderTerm, events: EventRecorder) -> CalloutReporter:
    """Return a function that emits an Event on a resource, for as long as the resource exists."""

    def say(key: ResourceKey, warning: bool, reason: Reason, message: str) -> None:
        kept = term.observed.find(key)
        if kept is not None:
            (events.warning if warning else events.normal)(object_ref(key, kept), reason, message)

    return say


def _acceptor(
    term: LeaderTerm, postbox: ChangeSetInbox, queue: WorkQueue[ResourceKey]
) -> BidirectionalWorker:
    access = _access_reader(term, TokenRights.PROPOSE)
    carrier = ChangeSetProcessor(
        term.git,
        term.git.cache / "proposals",
        access,
        forge_reader(term.client, access),
        postbox,
        term.clock,
        opened=term.meter.opened_request,
    )
    return BidirectionalWorker(carrier, term.clock, found=queue.add)


def _secret_reader(term: LeaderTerm) -> Callable[[str, SecretKey], Awaitable[Secret]]:
    async def value(namespace: str, wanted: SecretKey) -> Secret:
        return await NamespaceSecretReader(term.client, namespace).value(wanted)

    return value


def _access_reader(
    term: LeaderTerm, rights: TokenRights = TokenRights.READ
) -> Callable[[str, SourceIntent], Awaitable[RepoAccess]]:
    apps = GitHubAppTokens(term.clock)

    async def access(namespace: str, source: SourceIntent) -> RepoAccess:
        values = await NamespaceSecretReader(term.client, namespace).values(source_keys(source))
        strict = term.installation.require_known_hosts
        return await source_access(source, values, apps, rights, require_known_hosts=strict)

    return access


def _signing_key(term: LeaderTerm) -> MetadataKeyReader | None:
    wanted = term.metadata_key
    if wanted is None:
        return None

    async def read(namespace: str) -> Secret | None:
        if term.observed.secrets.get(ObjectKey(namespace, wanted.name)) is None:
            return None
        return await NamespaceSecretReader(term.client, namespace).value(wanted)

    return read

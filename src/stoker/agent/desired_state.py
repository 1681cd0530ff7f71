"""Decides what the agent does next from what it observes, without I/O.

The pod's own facts, the metadata ConfigMap and the profile give one gateway's intent, through the same
adapters as everywhere. The ConfigMap also names the commit and whether it may be applied already. Invalid
input raises, and `stoker.agent.sidecar.next_sync` keeps the files as they are.

The commit is the first of: a requested rollback, the pod's own ref (which the agent resolves itself), the
gateway's target, the resource's commit.

If a change requires an approval, the agent only plans until the controller has released it by a target of
this gateway. No annotation of the pod and no outage of the controller bypasses that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from stoker.agent.gates.maintenance_window import wait_for_window
from stoker.agent.identity import AgentIdentity, AgentPaths
from stoker.agent.sync.jobs import SyncJob, SyncWait
from stoker.api.agent_spec import AgentSpec
from stoker.api.kinds.stoker import SyncProfile
from stoker.api.to_intent import IntentContext, PodFacts, SettledResource, gateway_intent_for, intent_for
from stoker.api.to_intent.annotations.annotation_values import object_name
from stoker.api.to_intent.pod_facts import PodAnnotationKey, gateway_name, status_key
from stoker.domain.errors import Wait
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.delivery import RollbackTrigger, needs_approval
from stoker.domain.intent.intent import GatewayIntent, Notice, ResourceIntent
from stoker.domain.intent.policies import DriftMode, GatewayAccessPolicy, GatewayPolicies
from stoker.domain.intent.source import GitAuthKind, SourceIntent
from stoker.domain.protocol import (
    AgentMetadata,
    ChangeSetReply,
    GatewayTarget,
    RollbackRequest,
    StatusKeyMode,
    SyncMode,
)
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, without_userinfo
from stoker.snapshots.ids import belongs_to

NOT_YET_RETRY_SECONDS = 15.0
"""Seconds until the agent checks again whether the controller has resolved the commit."""


@dataclass(frozen=True, slots=True)
class ReportAddress:
    """The ConfigMap and key of this gateway's report."""

    map: str
    key: str


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The state this gateway should reach, and how."""

    intent: GatewayIntent
    job: SyncJob
    commit: CommitId | None
    """None: the current commit of the pod's own ref."""
    address: ReportAddress
    gate: Reason | None = None
    """Why the agent may only plan: the change waits for approval, or it is a dry run."""
    approved: frozenset[PlanApproval] = frozenset()
    only: str = ""
    """The digest of the only plan that may be applied; empty: any plan for the commit."""
    rollback: RollbackRequest | None = None
    paused: bool = False
    generation: int = 0
    startup_budget: float = 300.0
    require_known_hosts: bool = False
    notices: tuple[Notice, ...] = ()
    auto_rollback: tuple[RollbackTrigger, ...] = ()
    """When the agent rolls a change back on its own."""
    trigger: str = ""
    """The trigger that made the controller resolve the commit."""
    traceparent: str = ""
    """The trace of that resolution."""
    snapshot_name: str = ""
    """The name prefix of this gateway's snapshots."""
    changes: ChangeSetReply | None = None
    """The controller's reply to the changes captured on this gateway."""

    @property
    def pinned_at(self) -> str:
        """The snapshot this gateway should stay at; empty: it follows commits."""
        return self.rollback.to_snapshot if self.rollback is not None else ""

    @property
    def access(self) -> GatewayAccessPolicy:
        return self.intent.policies.access

    def waits(self, now: datetime) -> SyncWait | None:
        """Return the window a change has to wait for; a requested rollback does not wait."""
        if self.rollback is not None:
            return None
        return wait_for_window(self.intent.policies.maintenance_windows, now)

    @property
    def keeper_key(self) -> tuple[object, ...]:
        """The inputs of a `FolderSync`: it stays open as long as they are the same."""
        policies = self.intent.policies
        going_back = policies.snapshots, self.auto_rollback, self.snapshot_name, bool(self.pinned_at)
        gates = policies.validation, self.intent.gateway
        return self.job, self.access, policies.ignition, self.require_known_hosts, *going_back, *gates


def profile_name(pod: PodFacts) -> str:
    """Return the profile that the pod names; empty for none."""
    annotation = pod.annotation(PodAnnotationKey.SYNC_PROFILE)
    return "" if annotation is None else object_name(annotation)


def report_address(identity: AgentIdentity, pod: PodFacts, metadata: AgentMetadata) -> ReportAddress:
    """Return the address with the gateway's key, or the pod's key if several pods share a gateway name."""
    by_pod = metadata.status_key_mode is StatusKeyMode.POD
    key = status_key(pod.name if by_pod else gateway_name(pod))
    return ReportAddress(identity.status_map(metadata.status_shards.get(key, 0)), key)


def build_direction(
    identity: AgentIdentity,
    places: AgentPaths,
    pod: PodFacts,
    metadata: AgentMetadata,
    spec: AgentSpec,
    profile: SyncProfile | None,
) -> DesiredState:
    """Return the desired state; raise for missing or invalid input."""
    settled = SettledResource(spec.resource)
    profiles = {profile.metadata.name: profile} if profile is not None else {}
    around = IntentContext(profiles, spec.cluster_name, spec.alone)
    intent = gateway_intent_for(settled, pod, around)
    target = metadata.targets.get(pod.name) or metadata.targets.get(intent.gateway)
    name = pod.name if metadata.status_key_mode is StatusKeyMode.POD else intent.gateway
    rollback = _rollback_for_gateway(metadata.rollback, name)
    commit = _commit(intent, metadata, target, rollback)
    whole = intent_for(settled)
    return DesiredState(
        intent=intent,
        job=_job(places, intent, _source(intent, metadata)),
        commit=commit,
        address=report_address(identity, pod, metadata),
        gate=_closed_gate(intent, released=_is_released(intent, whole, target, rollback)),
        approved=frozenset((*intent.approved_plans, *_released_plan(target))),
        only=target.plan if target is not None and target.mode is SyncMode.APPLY and rollback is None else "",
        rollback=rollback,
        paused=metadata.paused or intent.paused,
        generation=spec.resource.metadata.generation,
        startup_budget=whole.agent.startup_budget,
        require_known_hosts=spec.require_known_hosts,
        notices=tuple(
            dict.fromkeys(
                (*intent.notices, *_unused_policy_notices(intent.policies), *_untrusted_host_notices(intent))
            )
        ),
        trigger=metadata.trigger,
        traceparent=metadata.traceparent,
        auto_rollback=whole.deployment.auto_rollback,
        snapshot_name=name,
        changes=metadata.changes.get(pod.name) or metadata.changes.get(intent.gateway),
    )


def _rollback_for_gateway(asked: RollbackRequest | None, name: str) -> RollbackRequest | None:
    """Return the request unless it names another gateway's snapshot."""
    if asked is None or not asked.to_snapshot or belongs_to(name, asked.to_snapshot):
        return asked
    return None


def _commit(
    intent: GatewayIntent,
    metadata: AgentMetadata,
    target: GatewayTarget | None,
    rollback: RollbackRequest | None,
) -> CommitId | None:
    if rollback is not None and rollback.to_commit is not None:
        return rollback.to_commit
    if intent.ref_overridden:
        return None
    commit = target.commit if target is not None else metadata.commit
    if commit is None and rollback is None:
        raise Wait(
            "the controller has not published a commit yet",
            after=NOT_YET_RETRY_SECONDS,
            reason=Reason.REF_NOT_RESOLVED,
        )
    return commit


def _source(intent: GatewayIntent, metadata: AgentMetadata) -> SourceIntent:
    """Return the source with the controller's ref, which a webhook may have set instead of the spec's."""
    source = intent.source
    if metadata.ref is not None and not intent.ref_overridden:
        source = source._replace(ref=metadata.ref)
    if metadata.rollback is not None and metadata.rollback.to_commit is not None:
        source = source._replace(allow_rewrite=True)  # a person requested the earlier commit
    return source


def _job(places: AgentPaths, intent: GatewayIntent, source: SourceIntent) -> SyncJob:
    return SyncJob(
        source=source,
        files=intent.files,
        values=intent.values,
        data_dir=places.data,
        # The volume's root belongs to the node; the cache must be in a folder that the agent owns.
        cache_dir=places.repo / "cache",
        hooks=places.hooks,
        owner=None,
        binaries=intent.policies.ignition.binaries,
        module_order=intent.policies.ignition.module_order,
        ignore=intent.policies.drift.ignore,
    )


def _released_plan(target: GatewayTarget | None) -> Iterator[PlanApproval]:
    """Yield the plan that the controller released for this gateway after an approval."""
    if target is not None and target.plan:
        yield PlanApproval(target.plan, f"commit {target.commit}")


def _is_released(
    intent: GatewayIntent,
    whole: ResourceIntent,
    target: GatewayTarget | None,
    rollback: RollbackRequest | None,
) -> bool:
    """Return whether the controller allows this gateway to change.

    If a change requires an approval, a missing target is no release: the controller may be down. A pod's own
    ref is never released, because an approval is for the resource's commit.
    """
    if target is not None and target.mode is SyncMode.PLAN:
        return False
    if rollback is not None or not needs_approval(intent.gateway, whole.approval, whole.deployment):
        return True
    return target is not None and not intent.ref_overridden


def _closed_gate(intent: GatewayIntent, *, released: bool) -> Reason | None:
    if intent.dry_run or intent.policies.validation.dry_run_before:
        return Reason.DRY_RUN
    return None if released else Reason.PLAN_PENDING


def _unused_policy_notices(policies: GatewayPolicies) -> Iterator[Notice]:
    if policies.drift.mode is DriftMode.CAPTURE and not policies.bidirectional.enabled:
        yield Notice(
            Reason.FEATURE_NOT_RUNNING,
            "spec.drift.mode capture only reports drift while spec.bidirectional.enabled is not true",
        )


def _untrusted_host_notices(intent: GatewayIntent) -> Iterator[Notice]:
    auth = intent.source.auth
    if auth.kind is GitAuthKind.SSH and auth.known_hosts is None:
        yield Notice(
            Reason.HOST_KEY_NOT_TRUSTED,
            f"no known_hosts is given for {without_userinfo(intent.source.url)}: any host key is trusted",
        )

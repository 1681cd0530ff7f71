"""From what the agent sees to what it does: one decision, without I/O.

The pod's own facts, the metadata map and the profile give one gateway's intent,
through the same adapters as everywhere; the map says beside it which commit, and
whether it may be applied already. Whatever cannot be understood raises, and whoever
asked stays at what was decided before.

The order in which a commit is chosen: a rollback that is asked for, the pod's own
ref (which the agent resolves by itself), the gateway's target, the resource's commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stoker.agent.identity import AgentIdentity, Places
from stoker.agent.jobs import SyncJob
from stoker.api.adapters import PodFacts, Settled, Surroundings, gateway_intent_for, intent_for
from stoker.api.adapters.annotation_values import object_name
from stoker.api.adapters.pods import Key, gateway_name, status_key
from stoker.api.agent_spec import AgentSpec
from stoker.api.kinds.stoker import SyncProfile
from stoker.domain.errors import Stalled, Wait
from stoker.domain.intent.intents import GatewayIntent, Notice
from stoker.domain.intent.policies import DriftMode, GatewayAccess, GatewayPolicies, IgnitionPolicy
from stoker.domain.intent.source import AuthKind, Source
from stoker.domain.protocol import Metadata, Mode, RollbackRequest, StatusKeyMode, Target
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, without_userinfo

NOT_YET = 15.0
"""Seconds until it is looked again whether the controller has found the commit."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where this gateway's report goes."""

    map: str
    key: str


@dataclass(frozen=True, slots=True)
class Direction:
    """What this gateway is to be at, and how."""

    intent: GatewayIntent
    job: SyncJob
    commit: CommitId | None
    """None: whatever the pod's own ref means now."""
    address: Address
    gate: Reason | None = None
    """Why nothing may be written, only planned: it waits for approval, or is a dry run."""
    approved: frozenset[str] = frozenset()
    rollback: RollbackRequest | None = None
    paused: bool = False
    generation: int = 0
    startup_budget: float = 300.0
    require_known_hosts: bool = False
    notices: tuple[Notice, ...] = ()

    @property
    def access(self) -> GatewayAccess:
        return self.intent.policies.access

    @property
    def keeper_key(self) -> tuple[SyncJob, GatewayAccess, IgnitionPolicy, bool]:
        """What a keeper is made of: as long as it stays the same, so does the keeper."""
        return self.job, self.access, self.intent.policies.ignition, self.require_known_hosts


def profile_named_by(pod: PodFacts) -> str:
    """The profile that the pod asks for; empty for none."""
    annotation = pod.annotation(Key.SYNC_PROFILE)
    return "" if annotation is None else object_name(annotation)


def address_for(identity: AgentIdentity, pod: PodFacts, metadata: Metadata) -> Address:
    """The gateway's own key, or the pod's where several pods are called the same (C-035)."""
    by_pod = metadata.status_key_mode is StatusKeyMode.POD
    key = status_key(pod.name if by_pod else gateway_name(pod))
    return Address(identity.status_map(metadata.status_shards.get(key, 0)), key)


def direct(
    identity: AgentIdentity,
    places: Places,
    pod: PodFacts,
    metadata: Metadata,
    spec: AgentSpec,
    profile: SyncProfile | None,
) -> Direction:
    """The decision; raises for what is missing or cannot be understood."""
    settled = Settled(spec.resource)
    profiles = {profile.metadata.name: profile} if profile is not None else {}
    around = Surroundings(profiles, spec.cluster_name, spec.alone)
    intent = gateway_intent_for(settled, pod, around)
    _refuse_gates(intent.policies)
    target = metadata.targets.get(pod.name) or metadata.targets.get(intent.gateway)
    commit = _commit(intent, metadata, target)
    whole = intent_for(settled)
    return Direction(
        intent=intent,
        job=_job(places, intent, _source(intent, metadata)),
        commit=commit,
        address=address_for(identity, pod, metadata),
        gate=_gate(intent, target),
        approved=frozenset((*intent.approved_plans, *((target.plan,) if target and target.plan else ()))),
        rollback=metadata.rollback,
        paused=metadata.paused or intent.paused,
        generation=spec.resource.metadata.generation,
        startup_budget=whole.agent.startup_budget,
        require_known_hosts=spec.require_known_hosts,
        notices=tuple(dict.fromkeys((*intent.notices, *_without_effect(intent.policies), *_blind(intent)))),
    )


def _commit(intent: GatewayIntent, metadata: Metadata, target: Target | None) -> CommitId | None:
    if metadata.rollback is not None and metadata.rollback.to_commit is not None:
        return metadata.rollback.to_commit
    if intent.ref_overridden:
        return None
    commit = target.commit if target is not None else metadata.commit
    if commit is None:
        raise Wait(
            "the controller has not said yet which commit to take",
            after=NOT_YET,
            reason=Reason.REF_NOT_RESOLVED,
        )
    return commit


def _source(intent: GatewayIntent, metadata: Metadata) -> Source:
    """With the ref that the controller follows, which a webhook may have asked for in place of the spec's."""
    source = intent.source
    if metadata.ref is not None and not intent.ref_overridden:
        source = source._replace(ref=metadata.ref)
    if metadata.rollback is not None and metadata.rollback.to_commit is not None:
        source = source._replace(allow_rewrite=True)  # going back is what somebody asked for
    return source


def _job(places: Places, intent: GatewayIntent, source: Source) -> SyncJob:
    return SyncJob(
        source=source,
        files=intent.files,
        values=intent.values,
        data_dir=places.data,
        cache_dir=places.repo,
        hooks=places.hooks,
        owner=None,
        binaries=intent.policies.ignition.binaries,
        module_order=intent.policies.ignition.module_order,
    )


def _gate(intent: GatewayIntent, target: Target | None) -> Reason | None:
    if intent.dry_run or intent.policies.validation.dry_run_before:
        return Reason.DRY_RUN
    return Reason.PLAN_PENDING if target is not None and target.mode is Mode.PLAN else None


def _refuse_gates(policies: GatewayPolicies) -> None:
    """What stands between a commit and a gateway must not be walked around because nothing serves it yet."""
    asked = {
        "spec.maintenanceWindows": bool(policies.maintenance_windows),
        "spec.validation.webhook.url": bool(policies.validation.webhook_url),
    }
    for field, is_asked in asked.items():
        if is_asked:
            raise Stalled(
                f"{field} holds changes back, and this version does not serve it; nothing was changed",
                reason=Reason.FEATURE_NOT_RUNNING,
            )


def _without_effect(policies: GatewayPolicies) -> Iterator[Notice]:
    asked = {
        "spec.snapshots.enabled": policies.snapshots.enabled,
        "spec.bidirectional.enabled": policies.bidirectional.enabled,
        "spec.drift.ignore": bool(policies.drift.ignore),
        "spec.drift.mode capture": policies.drift.mode is DriftMode.CAPTURE,
    }
    for field, is_asked in asked.items():
        if is_asked:
            yield Notice(Reason.FEATURE_NOT_RUNNING, f"{field} has no effect in this version")


def _blind(intent: GatewayIntent) -> Iterator[Notice]:
    auth = intent.source.auth
    if auth.kind is AuthKind.SSH and auth.known_hosts is None:
        yield Notice(
            Reason.HOST_KEY_NOT_TRUSTED,
            f"no known_hosts is given for {without_userinfo(intent.source.url)}: whoever answers is believed",
        )

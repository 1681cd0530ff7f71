"""Builds the metadata ConfigMap of a resource, which agents follow, as a value. Pure.

Commit and ref change together or not at all. While a ref cannot be resolved, agents keep the last commit, so
an outage of the repository takes nothing from them. Only a new URL makes the old commit meaningless. Trigger
and time describe the commit and change only with it; all other values change with the resource. Equal input
gives equal text, or every reconcile would write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from stoker.api.agent_spec import AgentSpec, encode
from stoker.api.kinds.resource import CustomResource as Model
from stoker.api.meta import SecretKeyRef
from stoker.api.spec.git import GitAuthSpec, TokenAuth
from stoker.api.to_intent.annotations.annotation_requests import (
    APPROVED_AT,
    APPROVED_BY,
    APPROVED_PLAN,
    APPROVED_REF,
    RELEASED,
)
from stoker.controller.cache.gateways import GatewayFleet
from stoker.controller.rollout import RolloutDecision
from stoker.controller.spec.load import LoadedSpec
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.intent import ResourceIntent
from stoker.domain.intent.policies import RollbackTarget
from stoker.domain.intent.source import MINTED_KEY, GitAuthKind, SecretKey
from stoker.domain.pods.injection import minted_secret_name
from stoker.domain.protocol import AgentMetadata, RollbackRequest
from stoker.domain.refs import CommitId, GitRef, RepoUrl

# Annotations that request a sync are left out: only the controller reads them, and each webhook changes them.
_AGENT_ANNOTATIONS = (APPROVED_BY, APPROVED_AT, APPROVED_REF, APPROVED_PLAN, RELEASED)


@dataclass(frozen=True, slots=True)
class InstallationOptions:
    """Options that apply to all resources."""

    cluster_name: str = ""
    require_known_hosts: bool = False


@dataclass(frozen=True, slots=True)
class CommitDelivery:
    """The commit that gateways get, its ref, and the reason for it."""

    commit: CommitId | None = None
    ref: GitRef | None = None
    trigger: str = ""
    triggered_at: str = ""
    traceparent: str = ""


def decide_delivery(
    found: CommitId | None,
    ref: GitRef,
    url: RepoUrl,
    published: AgentMetadata | None,
    *,
    trigger: str,
    now: str,
    traceparent: str = "",
) -> CommitDelivery:
    """Decide the commit that gateways get from now on; `found` is None while the ref is not resolved."""
    before = published if published is not None and published.git_url == url else None
    if found is None:
        if before is None or before.commit is None:
            return CommitDelivery(None, ref)
        return CommitDelivery(
            before.commit, before.ref, before.trigger, before.triggered_at, before.traceparent
        )
    if before is not None and (before.commit, before.ref) == (found, ref):
        return CommitDelivery(found, ref, before.trigger, before.triggered_at, before.traceparent)
    return CommitDelivery(found, ref, trigger, now, traceparent)


def build_metadata(
    understood: LoadedSpec,
    fleet: GatewayFleet,
    what: CommitDelivery,
    release: RolloutDecision,
    shards: Mapping[str, int],
    *,
    paused: bool,
    installation: InstallationOptions,
) -> AgentMetadata:
    """Build all values of the ConfigMap."""
    intent = understood.intent
    resource = understood.settled.resource
    auth, access = agent_login(intent), intent.policies.access
    spec: Any = resource  # every kind among MODELS has a spec
    told = AgentSpec(
        resource=_without_controller_fields(resource, intent),
        cluster_name=installation.cluster_name,
        alone=len(fleet.gateways) <= 1,
        require_known_hosts=installation.require_known_hosts,
    )
    return AgentMetadata(
        commit=what.commit,
        ref=what.ref,
        trigger=what.trigger,
        triggered_at=what.triggered_at,
        traceparent=what.traceparent,
        git_url=intent.source.url,
        auth_type=auth[0],
        auth_secret=auth[1],
        api_key=access.api_key,
        gateway_port=0 if access.files_only else access.port,
        gateway_tls=access.tls,
        exclude_patterns=tuple(spec.spec.exclude_patterns or ()),
        paused=paused,
        agent_spec=encode(told),
        targets=release.targets,
        status_key_mode=fleet.mode,
        status_shards=shards,
        rollback=build_rollback_request(intent.rollback),
    )


def agent_login(intent: ResourceIntent) -> tuple[GitAuthKind, SecretKey | None]:
    """The login for agents. An app's own key stays in the controller; agents get a token made with it."""
    auth = intent.source.auth
    if auth.kind is GitAuthKind.GITHUB_APP:
        minted = minted_secret_name(intent.identity.door, intent.identity.name)
        return GitAuthKind.TOKEN, SecretKey(minted, MINTED_KEY)
    return auth.kind, auth.secret


def build_rollback_request(asked: RollbackTarget) -> RollbackRequest | None:
    """The rollback request for agents, which they execute once for each distinct value."""
    if asked.to_commit is not None:
        return RollbackRequest(str(asked.to_commit), to_commit=asked.to_commit)
    return RollbackRequest(asked.to_snapshot, to_snapshot=asked.to_snapshot) if asked.to_snapshot else None


def parse_metadata(data: Mapping[str, str] | None) -> AgentMetadata | None:
    """Parse a metadata ConfigMap; None if it is missing or invalid."""
    if not data:
        return None
    try:
        return AgentMetadata.parse(data)
    except InvalidValue:
        return None


def _without_controller_fields(resource: Model, intent: ResourceIntent) -> Model:
    known: Any = resource
    asked = resource.metadata.annotations or {}
    kept = {name: value for name, value in asked.items() if name.rpartition("/")[2] in _AGENT_ANNOTATIONS}
    metadata = msgspec.structs.replace(resource.metadata, annotations=kept or None)
    spec = known.spec
    if intent.source.auth.kind is GitAuthKind.GITHUB_APP:
        _, secret = agent_login(intent)
        assert secret is not None  # noqa: S101 - a minted token always has its Secret
        token = TokenAuth(secret_ref=SecretKeyRef(name=secret.name, key=secret.key))
        git = msgspec.structs.replace(spec.git, auth=GitAuthSpec(token=token))
        spec = msgspec.structs.replace(spec, git=git)
    lean: Model = msgspec.structs.replace(known, metadata=metadata, spec=spec)
    return lean

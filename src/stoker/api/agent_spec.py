"""`agentSpec`: the merged resource that the controller sends to the agents, as JSON in one key.

The controller merges a resource with its base and the installation's defaults once, and
every agent gets the result. An agent reads no custom resource; it translates this one into
its gateway's intent with the same adapters as the controller (`stoker.api.to_intent`). Of the
metadata only the fields that agents need are sent: name, generation, our own annotations. If
the key is missing, as with an older controller, the flat keys of the metadata ConfigMap are
enough for a resource without policies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from stoker.api.kinds.resource import CustomResource
from stoker.api.manifests.codec import decode as decode_block
from stoker.api.manifests.codec import explain_error, from_wire
from stoker.api.meta import ObjectMeta
from stoker.api.spec.delivery import DeploymentSpec, DeploymentStageSpec
from stoker.api.spec.policies import ApprovalSpec
from stoker.api.to_intent import MODELS, merge_spec
from stoker.domain.errors import InvalidValue, Wait
from stoker.domain.intent.intent import ResourceIdentity, SyncResourceKind
from stoker.domain.intent.source import GitAuthKind
from stoker.domain.protocol import AgentMetadata
from stoker.domain.reasons import Reason

VERSION = 1
MAX_BYTES = 512 << 10

_ANNOTATION_PREFIXES = ("stoker.io/", "sync.ignition.io/")
# Approvals may be written without a prefix.
_UNPREFIXED_ANNOTATIONS = frozenset({"approved-by", "approved-at", "approved-ref", "approved-plan"})
# Only the controller uses these. An alert may hold an address that is a secret, which no ConfigMap may hold.
_CONTROLLER_ONLY_FIELDS = (
    "alerting",
    "polling",
    "rate_limit",
    "rollback",
    "storage",
    "webhook",
)
_BY_KIND = {model.__name__: model for model in MODELS}


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """The specification that every agent of a resource receives."""

    resource: CustomResource
    """Merged: it inherits nothing any more."""
    cluster_name: str = ""
    alone: bool = True
    """Whether the resource has no second gateway."""
    require_known_hosts: bool = False


class _AgentSpecEnvelope(msgspec.Struct, rename="camel", omit_defaults=True):
    version: int
    resource: msgspec.Raw
    cluster_name: str = ""
    alone: bool = True
    require_known_hosts: bool = False


class _AgentSpecHead(msgspec.Struct):
    kind: str = ""


def encode(spec: AgentSpec) -> str:
    """Return the value of the key."""
    resource = spec.resource
    found = resource.metadata
    annotations = {
        name: value
        for name, value in (found.annotations or {}).items()
        if name.startswith(_ANNOTATION_PREFIXES) or name in _UNPREFIXED_ANNOTATIONS
    }
    told = ObjectMeta(
        name=found.name,
        namespace=found.namespace,
        generation=found.generation,
        annotations=annotations or None,
    )
    known: Any = resource  # every kind among MODELS has a spec
    dropped: dict[str, Any] = dict.fromkeys(
        name for name in _CONTROLLER_ONLY_FIELDS if hasattr(known.spec, name)
    )
    dropped |= {"approval": _approval(known.spec.approval), "deployment": _deployment(known.spec.deployment)}
    lean = msgspec.structs.replace(known.spec, **dropped)
    wire = msgspec.json.encode(msgspec.structs.replace(known, metadata=told, spec=lean, status=None))
    envelope = _AgentSpecEnvelope(
        VERSION, msgspec.Raw(wire), spec.cluster_name, spec.alone, spec.require_known_hosts
    )
    return msgspec.json.encode(envelope).decode()


def _approval(block: ApprovalSpec | None) -> ApprovalSpec | None:
    """Keep only whether agents must wait for an approval, and which teams may give it.

    Agents do not check teams. Where teams are named, an annotation of the pod is no approval for them.
    """
    if block is None or not (block.required or block.teams):
        return None
    return ApprovalSpec(required=block.required or None, teams=block.teams)


def _deployment(block: DeploymentSpec | None) -> DeploymentSpec | None:
    """Keep only the auto-rollback and the gateways that need an approval."""
    if block is None:
        return None
    stages = tuple(
        DeploymentStageSpec(name=stage.name, gateways=stage.gateways, require_approval=True)
        for stage in block.stages or ()
        if stage.require_approval
    )
    if not stages and block.auto_rollback is None:
        return None
    return DeploymentSpec(
        strategy="canary" if stages else None, stages=stages or None, auto_rollback=block.auto_rollback
    )


def decode(text: str) -> AgentSpec:
    """Parse the key; raise `InvalidValue` with the path of the invalid field."""
    if len(text) > MAX_BYTES:
        raise _invalid_agent_spec(f"it is larger than {MAX_BYTES} bytes")
    try:
        envelope = msgspec.json.decode(text, type=_AgentSpecEnvelope)
        kind = msgspec.json.decode(envelope.resource, type=_AgentSpecHead).kind
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise _invalid_agent_spec(explain_error(error)) from None
    if envelope.version > VERSION:
        raise InvalidValue(
            f"metadata key agentSpec is of version {envelope.version} and this agent reads {VERSION}: "
            "the agent's image is older than the controller",
            reason=Reason.PROTOCOL_TOO_NEW,
        )
    model = _BY_KIND.get(kind)
    if model is None:
        raise _invalid_agent_spec(f"kind {kind[:80]!a} is not one of {', '.join(sorted(_BY_KIND))}")
    try:
        resource: CustomResource = decode_block(bytes(envelope.resource), model)
    except InvalidValue as error:
        raise _invalid_agent_spec(error.message) from None
    return AgentSpec(resource, envelope.cluster_name, envelope.alone, envelope.require_known_hosts)


def agent_spec_of(metadata: AgentMetadata, whose: ResourceIdentity) -> AgentSpec:
    """Return the spec from the key or from the flat keys; raise if it belongs to another resource."""
    spec = decode(metadata.agent_spec) if metadata.agent_spec else _from_flat_keys(metadata, whose)
    found = ResourceIdentity(
        SyncResourceKind(type(spec.resource).__name__),
        spec.resource.metadata.namespace,
        spec.resource.metadata.name,
    )
    if found != whose:
        raise _invalid_agent_spec(
            f"it is about {found.door} {found.namespace}/{found.name}, "
            f"and this agent belongs to {whose.door} {whose.namespace}/{whose.name}"
        )
    return spec


def _from_flat_keys(metadata: AgentMetadata, whose: ResourceIdentity) -> AgentSpec:
    if metadata.git_url is None or metadata.ref is None:
        raise Wait(
            "the metadata ConfigMap names no repository and no ref yet",
            after=5.0,
            reason=Reason.REF_NOT_RESOLVED,
        )
    key = metadata.api_key
    gateway: dict[str, object] = {"filesOnly": True}
    if key is not None and metadata.gateway_port:
        gateway = {
            "port": metadata.gateway_port,
            "tls": metadata.gateway_tls,
            "apiKeySecretRef": {"name": key.name, "key": key.key or "apiKey"},
        }
    wire = {
        "metadata": {"name": whose.name, "namespace": whose.namespace},
        "spec": {
            "git": {"repo": str(metadata.git_url), "ref": str(metadata.ref), "auth": _auth(metadata)},
            "gateway": gateway,
            "paused": metadata.paused,
            **({"excludePatterns": metadata.exclude_patterns} if metadata.exclude_patterns else {}),
        },
    }
    return AgentSpec(merge_spec(from_wire(wire, _BY_KIND[whose.door])).resource)


def _auth(metadata: AgentMetadata) -> dict[str, object]:
    secret = metadata.auth_secret
    if secret is None or metadata.auth_type is GitAuthKind.NONE:
        return {}
    if metadata.auth_type is GitAuthKind.SSH:
        return {"sshKey": {"secretRef": {"name": secret.name, "key": secret.key or "ssh-privatekey"}}}
    if metadata.auth_type is GitAuthKind.BASIC:
        return {"basic": {"secretRef": {"name": secret.name}}}
    # The controller creates an app's token, so here it is an ordinary token.
    usual = "token" if metadata.auth_type is GitAuthKind.GITHUB_APP else secret.key or "token"
    return {"token": {"secretRef": {"name": secret.name, "key": usual}}}


def _invalid_agent_spec(why: str) -> InvalidValue:
    return InvalidValue(f"metadata key agentSpec: {why}", reason=Reason.METADATA_INVALID)

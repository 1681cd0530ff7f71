"""`agentSpec`: the settled resource on its way from the controller to the agents, as JSON in one key.

The controller merges a resource with its base and the installation's defaults once,
and every agent gets the outcome: an agent reads no resource of its own, and turns
this one into its gateway's intent with the same adapters as everybody else. Of the
metadata only what agents need goes along: name, generation, our own annotations.
Where the key is missing, as beside an older controller, the flat keys of the map say
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
# Approvals may be written without a prefix (C-125).
_UNPREFIXED_ANNOTATIONS = frozenset({"approved-by", "approved-at", "approved-ref", "approved-plan"})
# The controller's own business. Alarms may name an address that is a secret, which no ConfigMap may hold.
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
    """What every agent of a resource is told."""

    resource: CustomResource
    """Settled: it inherits nothing any more."""
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
    """The value of the key."""
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
    """Whether agents have to wait for a release, and which teams may give one; the rest is the controller's.

    Agents do not check teams. Where teams are named, an annotation of the pod is no approval for them.
    """
    if block is None or not (block.required or block.teams):
        return None
    return ApprovalSpec(required=block.required or None, teams=block.teams)


def _deployment(block: DeploymentSpec | None) -> DeploymentSpec | None:
    """When a change is taken back, and which gateways have to wait for a release."""
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
    """What the key says; raises `InvalidValue` with the path of the field that is wrong."""
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
        raise _invalid_agent_spec(f"kind {kind[:80]!a} is none of {', '.join(sorted(_BY_KIND))}")
    try:
        resource: CustomResource = decode_block(bytes(envelope.resource), model)
    except InvalidValue as error:
        raise _invalid_agent_spec(error.message) from None
    return AgentSpec(resource, envelope.cluster_name, envelope.alone, envelope.require_known_hosts)


def agent_spec_of(metadata: AgentMetadata, whose: ResourceIdentity) -> AgentSpec:
    """The key of a map, or what its flat keys amount to; it has to be of the resource that was expected."""
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
            "the metadata map names no repository and no ref yet", after=5.0, reason=Reason.REF_NOT_RESOLVED
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
    # An app's token is minted by the controller: here it is a token like any other (C-027).
    usual = "token" if metadata.auth_type is GitAuthKind.GITHUB_APP else secret.key or "token"
    return {"token": {"secretRef": {"name": secret.name, "key": usual}}}


def _invalid_agent_spec(why: str) -> InvalidValue:
    return InvalidValue(f"metadata key agentSpec: {why}", reason=Reason.METADATA_INVALID)

"""What the adapters produce: one intent for a resource, one for each of its gateways."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from stoker.domain.intent.annotation_requests import PlanApproval, Requests
from stoker.domain.intent.delivery import (
    AgentPod,
    AlertTarget,
    Approval,
    Deployment,
    Polling,
    RateLimit,
    Receiver,
    SharedVolume,
)
from stoker.domain.intent.files import FilesIntent
from stoker.domain.intent.policies import GatewayPolicies, Rollback
from stoker.domain.intent.source import Source
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason


class FrontDoor(StrEnum):
    """Which kind a resource is, for the names of what belongs to it and nothing else."""

    IGNITION_SYNC = "IgnitionSync"
    STOKER = "Stoker"


@dataclass(frozen=True, slots=True)
class Identity:
    door: FrontDoor
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person should know although nothing is refused: a Warning event and a log line."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class ResourceIntent:
    """What the operator does for one resource."""

    identity: Identity
    source: Source
    policies: GatewayPolicies = field(default_factory=GatewayPolicies)
    polling: Polling = field(default_factory=Polling)
    receiver: Receiver = field(default_factory=Receiver)
    shared_volume: SharedVolume | None = None
    single_gateway: bool = False
    """Its storage can be used by one pod only (C-020)."""
    deployment: Deployment = field(default_factory=Deployment)
    rate_limit: RateLimit | None = None
    """None: as many at once as there are."""
    approval: Approval = field(default_factory=Approval)
    rollback: Rollback = field(default_factory=Rollback)
    alerts: tuple[AlertTarget, ...] = ()
    agent: AgentPod = field(default_factory=AgentPod)
    requests: Requests = field(default_factory=Requests)
    paused: bool = False
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class GatewayIntent:
    """What one gateway's files shall be, and how they may get there.

    With `ref_overridden` the source's ref is the pod's own wish, which the agent
    resolves by itself; otherwise it takes the commit that the controller names.
    """

    resource: Identity
    gateway: str
    source: Source
    files: FilesIntent
    values: TemplateValues
    policies: GatewayPolicies
    sync_period: float = 30.0
    profile: str = ""
    service_path: str = ""
    depends_on: tuple[str, ...] = ()
    ref_overridden: bool = False
    approved_plans: tuple[PlanApproval, ...] = ()
    released_commits: tuple[str, ...] = ()
    dry_run: bool = False
    paused: bool = False
    notices: tuple[Notice, ...] = ()

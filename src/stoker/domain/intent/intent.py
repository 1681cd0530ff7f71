"""The output of the adapters: one intent for a resource, one for each of its gateways."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from stoker.domain.intent.annotation_requests import PlanApproval, ResourceRequests
from stoker.domain.intent.delivery import (
    AgentPodPolicy,
    AlertTarget,
    ApprovalPolicy,
    DeploymentPolicy,
    PollingPolicy,
    RateLimitPolicy,
    ReceiverPolicy,
    SharedVolumePolicy,
)
from stoker.domain.intent.files import FilesIntent
from stoker.domain.intent.policies import GatewayPolicies, RollbackTarget
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason


class SyncResourceKind(StrEnum):
    """The kind of a resource; used only for the names of the objects that belong to it."""

    IGNITION_SYNC = "IgnitionSync"
    STOKER = "Stoker"


@dataclass(frozen=True, slots=True)
class ResourceIdentity:
    door: SyncResourceKind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning although nothing is refused; it becomes a Warning event and a log line."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class ResourceIntent:
    """The operator's work for one resource."""

    identity: ResourceIdentity
    source: SourceIntent
    policies: GatewayPolicies = field(default_factory=GatewayPolicies)
    polling: PollingPolicy = field(default_factory=PollingPolicy)
    receiver: ReceiverPolicy = field(default_factory=ReceiverPolicy)
    shared_volume: SharedVolumePolicy | None = None
    single_gateway: bool = False
    """Its storage can be used by one pod only."""
    deployment: DeploymentPolicy = field(default_factory=DeploymentPolicy)
    rate_limit: RateLimitPolicy | None = None
    """None: all gateways at once."""
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    rollback: RollbackTarget = field(default_factory=RollbackTarget)
    alerts: tuple[AlertTarget, ...] = ()
    agent: AgentPodPolicy = field(default_factory=AgentPodPolicy)
    requests: ResourceRequests = field(default_factory=ResourceRequests)
    paused: bool = False
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class GatewayIntent:
    """The files of one gateway, and the policies under which they may be changed.

    With `ref_overridden` the pod itself chose the source's ref, and the agent resolves it;
    otherwise the agent takes the commit that the controller names.
    """

    resource: ResourceIdentity
    gateway: str
    source: SourceIntent
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

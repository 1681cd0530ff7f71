"""The inputs and the result of a rollout decision, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from stoker.api.spec.status import ApprovalRequest, RolloutStatus
from stoker.api.spec.status import SyncStatus as Status
from stoker.controller.cache.gateways import GatewayFleet, NeighbourGateway
from stoker.domain.errors import Stalled
from stoker.domain.intent.annotation_requests import ResourceRequests
from stoker.domain.intent.delivery import ApprovalPolicy, DeploymentPolicy, RateLimitPolicy, needs_approval
from stoker.domain.intent.policies import GatewayAccessPolicy
from stoker.domain.intent.source import SecretKey
from stoker.domain.protocol import AgentMetadata, GatewayTarget
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId


class StageHealthCheck(NamedTuple):
    """A health check to make; equal values are checked once."""

    stage: str
    commit: str
    since: str
    """When the stage was synced; another time is another attempt."""
    url: str
    number: int = 0
    """The number of the check among those made while the stage waits."""
    last: bool = False
    """The wait time is over, and this check decides."""
    ca: SecretKey | None = None
    """The CA of the gateways, because the URL may be a gateway's."""
    verified: bool = True
    """Whether the server's certificate is verified."""


class StageHealthResult(NamedTuple):
    """The result of a health check."""

    what: StageHealthCheck
    trouble: str = ""
    """Why the check failed; empty if it passed."""


class HeldGateway(NamedTuple):
    """A gateway that waits, and the reason."""

    gateway: str
    why: str
    reason: Reason = Reason.DEPENDENCY_WAITING


@dataclass(frozen=True, slots=True)
class RolloutInputs:
    """Everything that a rollout decision depends on."""

    fleet: GatewayFleet
    commit: CommitId | None
    ref: str = ""
    now: datetime = datetime(2000, 1, 1, tzinfo=UTC)
    deployment: DeploymentPolicy = field(default_factory=DeploymentPolicy)
    rate_limit: RateLimitPolicy | None = None
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    requests: ResourceRequests = field(default_factory=ResourceRequests)
    waits_for: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Every existing profile, and the profiles that it depends on."""
    others: Sequence[NeighbourGateway] = ()
    """Gateways of other resources, on which a profile may depend."""
    published: AgentMetadata | None = None
    """The published metadata; None if there is none, or if it is for another repository."""
    before: Status = field(default_factory=Status)
    gateway: GatewayAccessPolicy = field(default_factory=GatewayAccessPolicy)
    """How gateways are reached; used for the trust in their certificates."""
    asked: str = ""
    """The last request to sync; another text is another request."""
    checked: StageHealthResult | None = None

    @property
    def gated(self) -> bool:
        """Whether a gate other than profile dependencies is configured."""
        deployment = self.deployment
        return bool(
            deployment.stages or deployment.order or self.rate_limit is not None or self.approval.required
        )

    def takes_approval(self, gateway: str) -> bool:
        """Whether changes of this gateway require an approval."""
        return needs_approval(gateway, self.approval, self.deployment)

    @property
    def progress(self) -> RolloutStatus | None:
        """The recorded progress of this commit's rollout."""
        found = self.before.release
        return found if found is not None and found.commit == self.commit else None

    @property
    def request(self) -> ApprovalRequest | None:
        found = self.before.approval
        return found if found is not None and found.commit == self.commit else None


@dataclass(frozen=True, slots=True)
class RolloutDecision:
    """The target of each gateway, and the progress to record."""

    targets: Mapping[str, GatewayTarget] = field(default_factory=dict)
    """Gateways with a commit other than the resource's, or that may only plan it."""
    held: tuple[HeldGateway, ...] = ()
    """Gateways that do not have the commit because a gate holds them."""
    ordered: bool = False
    """Whether any gateway depends on others."""
    staged: bool = False
    progress: RolloutStatus | None = None
    approval: ApprovalRequest | None = None
    trouble: Stalled | None = None
    """Why the rollout cannot continue until a user acts."""
    check_up: StageHealthCheck | None = None
    """A health check that is due."""
    again_in: float | None = None
    """Seconds until the passing of time alone changes the decision."""
    begun: int = 0
    """Gateways that this decision let begin, counted where there is a rate limit."""
    growing: bool = False
    """The queue has not become shorter for longer than `QUEUE_GROWTH_SECONDS`."""

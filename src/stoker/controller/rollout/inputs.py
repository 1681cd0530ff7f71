"""What a release is decided on, and what comes out of it, as values."""

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
    """A health check that is to be made; the same one is made once."""

    stage: str
    commit: str
    since: str
    """When the stage was synced: another time is another attempt."""
    url: str
    number: int = 0
    """Which of those it is that are made while the stage waits."""
    last: bool = False
    """The stage has waited, and this one decides."""
    ca: SecretKey | None = None
    """The authority of the gateways, which may be what is asked."""
    verified: bool = True
    """Whether a certificate has to be one that is believed."""


class StageHealthResult(NamedTuple):
    """What came of a health check."""

    what: StageHealthCheck
    trouble: str = ""
    """Why it counts as failed; empty: it passed."""


class HeldGateway(NamedTuple):
    """A gateway that waits, and for what."""

    gateway: str
    why: str
    reason: Reason = Reason.DEPENDENCY_WAITING


@dataclass(frozen=True, slots=True)
class RolloutInputs:
    """Everything that a release depends on."""

    fleet: GatewayFleet
    commit: CommitId | None
    ref: str = ""
    now: datetime = datetime(2000, 1, 1, tzinfo=UTC)
    deployment: DeploymentPolicy = field(default_factory=DeploymentPolicy)
    rate_limit: RateLimitPolicy | None = None
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    requests: ResourceRequests = field(default_factory=ResourceRequests)
    waits_for: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Every profile that exists, and whom it depends on."""
    others: Sequence[NeighbourGateway] = ()
    """Gateways of other resources, for whom a profile may wait."""
    published: AgentMetadata | None = None
    """What agents are told now; None where that is nothing, or of another repository."""
    before: Status = field(default_factory=Status)
    gateway: GatewayAccessPolicy = field(default_factory=GatewayAccessPolicy)
    """How gateways are reached; of interest is whose certificates are believed."""
    asked: str = ""
    """The last request to sync; another word is another request."""
    checked: StageHealthResult | None = None

    @property
    def gated(self) -> bool:
        """Whether anything but profiles may hold a gateway back."""
        deployment = self.deployment
        return bool(
            deployment.stages or deployment.order or self.rate_limit is not None or self.approval.required
        )

    def takes_approval(self, gateway: str) -> bool:
        """Whether a change of this gateway has to be approved."""
        return needs_approval(gateway, self.approval, self.deployment)

    @property
    def progress(self) -> RolloutStatus | None:
        """How far this commit has come so far."""
        found = self.before.release
        return found if found is not None and found.commit == self.commit else None

    @property
    def request(self) -> ApprovalRequest | None:
        found = self.before.approval
        return found if found is not None and found.commit == self.commit else None


@dataclass(frozen=True, slots=True)
class RolloutDecision:
    """Who gets what."""

    targets: Mapping[str, GatewayTarget] = field(default_factory=dict)
    """Gateways that take another commit than the resource's, or may only plan it."""
    held: tuple[HeldGateway, ...] = ()
    """Gateways that do not have the commit because it is not their turn."""
    ordered: bool = False
    """Whether any gateway depends on others at all."""
    staged: bool = False
    progress: RolloutStatus | None = None
    approval: ApprovalRequest | None = None
    trouble: Stalled | None = None
    """Why it does not go on before somebody acts."""
    check_up: StageHealthCheck | None = None
    """A health check that is due."""
    again_in: float | None = None
    """Seconds until time alone changes something."""
    begun: int = 0
    """Gateways that were let go just now, where a limit counts them."""
    growing: bool = False
    """The queue has not become shorter for longer than it should."""

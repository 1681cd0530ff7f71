"""The values that the steps of a reconcile pass on: each step adds values and changes no earlier value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from stoker.api.spec.status import SyncStatus
from stoker.controller.bidirectional.types import BidirectionalResult
from stoker.controller.cache.gateways import GatewayFleet
from stoker.controller.cache.objects import SYNCED_KINDS, CachedResource, ResourceKey
from stoker.controller.owned.metadata import CommitDelivery
from stoker.controller.ref_resolution.lookup import RefLookupResult
from stoker.controller.rollout import RolloutDecision
from stoker.controller.spec.effective_ref import EffectiveRef
from stoker.controller.spec.load import LoadedSpec
from stoker.domain.errors import StokerError
from stoker.domain.intent.source import SecretKey
from stoker.domain.protocol import AgentMetadata

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReconcileContext:
    """All that is known of a resource so far in this reconcile."""

    key: ResourceKey
    kept: CachedResource
    status: SyncStatus
    understood: LoadedSpec | None = None
    paused_by: str = ""
    fleet: GatewayFleet = field(default_factory=GatewayFleet)
    outdated: tuple[str, ...] = ()
    """Pods whose sidecar differs from what would be injected now."""
    missing: tuple[SecretKey, ...] = ()
    effective: EffectiveRef | None = None
    answer: RefLookupResult | None = None
    published: AgentMetadata | None = None
    """The metadata ConfigMap's content before this reconcile."""
    what: CommitDelivery | None = None
    """The commit that gateways get from now on."""
    release: RolloutDecision = field(default_factory=RolloutDecision)
    shards: dict[str, int] = field(default_factory=dict)
    highest_shard: int = 0
    accepted: BidirectionalResult | None = None
    """The result for gateway changes; None if the reconcile did not reach that step."""
    again_in: float | None = None
    findings: tuple[StokerError, ...] = ()

    @property
    def group(self) -> str:
        return SYNCED_KINDS[self.key.kind].group


def require_value(value: T | None) -> T:
    """Return a value that an earlier step has set; the order of the steps guarantees it."""
    if value is None:
        raise AssertionError("a step ran before a step that it depends on")
    return value

"""The gateways of a release: what each was told last, and what it would stay at.

Whoever was let go is never called back: a gateway that was told to apply the commit keeps
that order until it is done, and one that waits keeps the order before it, which may still
be on its way. So a gateway never goes back to a commit because of a gate. The one
exceptions are a gateway that found another plan than the one that was approved, and one
whose approval was withdrawn before it applied its plan: each waits again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from stoker.controller.cache.gateways import FleetGateway
from stoker.controller.cache.pods import AgentState
from stoker.controller.rollout.inputs import RolloutInputs
from stoker.domain.errors import InvalidValue
from stoker.domain.protocol import AgentMetadata, GatewayTarget, PendingPlanReport, SyncMode, is_digest
from stoker.domain.refs import CommitId

MAX_ABSENT_PODS = 500
"""Orders that are kept for gateways that are not there at the moment."""


@dataclass(frozen=True, slots=True)
class RolloutMember:
    """One gateway on the way to a commit."""

    gateway: FleetGateway
    commit: CommitId
    told: GatewayTarget | None
    """The order that it has; None: nobody knows of one."""

    @property
    def name(self) -> str:
        return self.gateway.name

    @property
    def target(self) -> str:
        return self.gateway.target

    @property
    def done(self) -> bool:
        return self.gateway.is_at(self.commit)

    @property
    def free(self) -> bool:
        """It was never synced, so that its pod could not start if it were held back (C-111).

        A pod that follows one which had to plan has to plan as well; its agent knows whether there
        are files to be careful with.
        """
        follows = self.gateway.report is None and self.told is not None and self.told.mode is SyncMode.PLAN
        return self.stays_at is None and not follows

    @property
    def plan(self) -> PendingPlanReport | None:
        """What it would do, as it has reported for this commit."""
        report = self.gateway.report
        found = report.pending_plan if report is not None else None
        if found is None or found.commit != self.commit or not is_digest(found.digest):
            return None  # the report comes from a pod, and what it says of a plan is published to all
        return found

    @property
    def agreed(self) -> str:
        """The plan that was approved for it, unless it has found another one since."""
        told = self.told
        if told is None or told.commit != self.commit or not told.plan:
            return ""
        return "" if self.plan is not None and self.plan.digest != told.plan else told.plan

    @property
    def let_go(self) -> bool:
        """It was told to apply this commit, and that still holds."""
        if self.gateway.synced_commit == self.commit:
            return True
        told = self.told
        if told is None or told.commit != self.commit or told.mode is not SyncMode.APPLY:
            return False
        return not told.plan or bool(self.agreed)

    @property
    def stays_at(self) -> GatewayTarget | None:
        """The order that it keeps while it waits."""
        synced = _commit(self.gateway)
        told = self.told
        if told is not None and told.mode is SyncMode.APPLY and told.commit != self.commit:
            if synced is None and self.gateway.report is not None:
                return None
            return replace(told, plan="") if synced == told.commit else told
        return GatewayTarget(synced) if synced is not None else None

    @property
    def busy(self) -> bool:
        """It takes up a place among those that sync at once; who failed or is lost has given his up."""
        lost = self.gateway.pod.agent in (AgentState.NONE, AgentState.LOST)
        return not self.done and not self.gateway.failed and not lost


def rollout_members(situation: RolloutInputs, commit: CommitId) -> list[RolloutMember]:
    """Everybody who takes the resource's commit; a gateway with a ref of its own does not."""
    gateways = [one for one in situation.fleet.gateways if not one.override]
    return [RolloutMember(one, commit, _approved_order(one, situation, commit)) for one in gateways]


def plan_only_gateways(situation: RolloutInputs) -> list[FleetGateway]:
    """Gateways with a ref of their own whose changes take an approval: they only plan.

    The agent holds to the same rule by itself, also while no controller runs.
    """
    return [one for one in situation.fleet.gateways if one.override and situation.takes_approval(one.name)]


def orders_for_absent_pods(situation: RolloutInputs, commit: CommitId) -> Iterator[tuple[str, GatewayTarget]]:
    """A pod that is being replaced comes back to the order that it had, and not to whatever is newest.

    A released gateway that has this commit already needs no order while it is away.
    """
    there = {name for one in situation.fleet.gateways for name in (one.target, one.name, one.pod.name)}
    published = situation.published
    kept = published.targets if published is not None else {}
    found = {
        name: target for name, target in kept.items() if name not in there and target != GatewayTarget(commit)
    }
    for one in situation.before.discovered_gateways or ():
        at = _parse_commit(one.synced_commit or "")
        if at is not None and at != commit and not {one.name, one.pod_name} & (there | found.keys()):
            found[one.name] = GatewayTarget(at)
    yield from sorted(found.items())[:MAX_ABSENT_PODS]


def current_order(gateway: FleetGateway, published: AgentMetadata | None) -> GatewayTarget | None:
    """The order that a gateway has; None where nobody knows of one."""
    if published is None:
        return None
    # Whether agents go by their own name or their pod's may just have changed (C-035).
    for name in (gateway.target, gateway.pod.name, gateway.name):
        found = published.targets.get(name)
        if found is not None:
            return found
    if published.commit is None or gateway.report is None:
        return None  # nobody knows whether a pod that has said nothing was ever told
    return GatewayTarget(published.commit)


def _approved_order(
    gateway: FleetGateway, situation: RolloutInputs, commit: CommitId
) -> GatewayTarget | None:
    """The last order, only to be planned where it was released by an approval that was withdrawn since."""
    told = _last_order(gateway, situation, commit)
    if told is None or not told.plan or told.commit != commit or situation.requests.approval is not None:
        return told
    return GatewayTarget(commit, SyncMode.PLAN)


def _last_order(gateway: FleetGateway, situation: RolloutInputs, commit: CommitId) -> GatewayTarget | None:
    """As `current_order`; a pod that has said nothing yet may have files, and no gate may be open to it for
    that.

    Its agent knows whether it is a first sync, which it makes whatever it is told to plan (C-111).
    """
    told = current_order(gateway, situation.published)
    if told is not None or gateway.report is not None or not situation.gated:
        return told
    known = _known_order(gateway, situation)
    if known is not None and known.commit != commit:
        return known
    return GatewayTarget(commit, SyncMode.PLAN) if situation.takes_approval(gateway.name) else None


def _known_order(gateway: FleetGateway, situation: RolloutInputs) -> GatewayTarget | None:
    """Where the gateway was, or what it was told, before this pod."""
    published = situation.published
    if published is None:
        return None  # what the status says may be of another repository
    for one in situation.before.discovered_gateways or ():
        if one.name == gateway.name and gateway.target in (one.name, one.pod_name):
            at = _parse_commit(one.synced_commit or "") or published.commit
            return GatewayTarget(at) if at is not None else None
    return None


def _commit(gateway: FleetGateway) -> CommitId | None:
    return _parse_commit(gateway.synced_commit)


def _parse_commit(text: str) -> CommitId | None:
    try:
        return CommitId(text) if text else None
    except InvalidValue:
        return None  # the report comes from a pod; what is no commit cannot be stayed at

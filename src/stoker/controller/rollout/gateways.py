"""The gateways of a rollout: the target that each has, and the target that it keeps while it waits.

A gateway that may apply the commit keeps that target until it is done. A gateway that waits keeps its earlier
target, which it may still be applying. So no gate ever sends a gateway back to an older commit. There are two
exceptions, and in both the gateway waits again: it found a plan other than the approved plan, or its approval
was withdrawn before it applied the plan.
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
"""Targets that are kept for gateways without a pod at the moment."""


@dataclass(frozen=True, slots=True)
class RolloutMember:
    """A gateway that takes part in the rollout of a commit."""

    gateway: FleetGateway
    commit: CommitId
    told: GatewayTarget | None
    """The target that it has; None if unknown."""

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
        """It was never synced, so its pod could not start if it were held.

        A pod that replaces a pod which had to plan has to plan as well; its agent knows whether existing
        files are at risk.
        """
        follows = self.gateway.report is None and self.told is not None and self.told.mode is SyncMode.PLAN
        return self.stays_at is None and not follows

    @property
    def plan(self) -> PendingPlanReport | None:
        """The plan that it has reported for this commit."""
        report = self.gateway.report
        found = report.pending_plan if report is not None else None
        if found is None or found.commit != self.commit or not is_digest(found.digest):
            return None  # a pod writes the report, and its digest is published to all agents
        return found

    @property
    def agreed(self) -> str:
        """The plan that was approved for it, unless it has reported another plan since."""
        told = self.told
        if told is None or told.commit != self.commit or not told.plan:
            return ""
        return "" if self.plan is not None and self.plan.digest != told.plan else told.plan

    @property
    def let_go(self) -> bool:
        """It has the target to apply this commit, and that target is still valid."""
        if self.gateway.synced_commit == self.commit:
            return True
        told = self.told
        if told is None or told.commit != self.commit or told.mode is not SyncMode.APPLY:
            return False
        return not told.plan or bool(self.agreed)

    @property
    def stays_at(self) -> GatewayTarget | None:
        """The target that it keeps while it waits."""
        synced = _commit(self.gateway)
        told = self.told
        if told is not None and told.mode is SyncMode.APPLY and told.commit != self.commit:
            if synced is None and self.gateway.report is not None:
                return None
            return replace(told, plan="") if synced == told.commit else told
        return GatewayTarget(synced) if synced is not None else None

    @property
    def busy(self) -> bool:
        """It counts for the concurrency limit; a failed or lost gateway does not."""
        lost = self.gateway.pod.agent in (AgentState.NONE, AgentState.LOST)
        return not self.done and not self.gateway.failed and not lost


def rollout_members(situation: RolloutInputs, commit: CommitId) -> list[RolloutMember]:
    """All gateways that take the resource's commit; a gateway with a ref of its own does not."""
    gateways = [one for one in situation.fleet.gateways if not one.override]
    return [RolloutMember(one, commit, _approved_order(one, situation, commit)) for one in gateways]


def plan_only_gateways(situation: RolloutInputs) -> list[FleetGateway]:
    """Gateways with a ref of their own whose changes require approval: they only plan.

    The agent enforces the same rule itself, even while no controller runs.
    """
    return [one for one in situation.fleet.gateways if one.override and situation.takes_approval(one.name)]


def orders_for_absent_pods(situation: RolloutInputs, commit: CommitId) -> Iterator[tuple[str, GatewayTarget]]:
    """Keep the target of a pod that is being replaced, so that the new pod does not take the newest commit.

    A gateway that may apply this commit already needs no target while its pod is gone.
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
    """Return the target that a gateway has; None if unknown."""
    if published is None:
        return None
    # Agents may just have switched between their gateway's name and their pod's.
    for name in (gateway.target, gateway.pod.name, gateway.name):
        found = published.targets.get(name)
        if found is not None:
            return found
    if published.commit is None or gateway.report is None:
        return None  # a pod without a report may never have had a target
    return GatewayTarget(published.commit)


def _approved_order(
    gateway: FleetGateway, situation: RolloutInputs, commit: CommitId
) -> GatewayTarget | None:
    """Return the last target, reduced to planning if the approval that released it was withdrawn since."""
    told = _last_order(gateway, situation, commit)
    if told is None or not told.plan or told.commit != commit or situation.requests.approval is not None:
        return told
    return GatewayTarget(commit, SyncMode.PLAN)


def _last_order(gateway: FleetGateway, situation: RolloutInputs, commit: CommitId) -> GatewayTarget | None:
    """Return the current target, also for a pod that has not reported yet.

    A silent pod may have files, and its silence must not open a gate. Its agent knows whether this is a first
    sync, which it makes even when its target is to plan.
    """
    told = current_order(gateway, situation.published)
    if told is not None or gateway.report is not None or not situation.gated:
        return told
    known = _known_order(gateway, situation)
    if known is not None and known.commit != commit:
        return known
    return GatewayTarget(commit, SyncMode.PLAN) if situation.takes_approval(gateway.name) else None


def _known_order(gateway: FleetGateway, situation: RolloutInputs) -> GatewayTarget | None:
    """The commit or target that the gateway had before this pod."""
    published = situation.published
    if published is None:
        return None  # the status may be for another repository
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
        return None  # a pod writes the report, so the text may be no commit

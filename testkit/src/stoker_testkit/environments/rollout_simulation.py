"""A fleet in memory: agents that follow their metadata, and one rollout after the other.

It takes the place of pods, ConfigMaps and a controller: `decide` builds a rollout from what
is known and writes down what the controller would write, `act` is what an agent makes of
its order. Time passes when the test says so.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from stoker.api.spec.status import GatewayStatus
from stoker.api.spec.status import SyncStatus as Status
from stoker.controller.cache.gateways import FleetGateway, GatewayFleet
from stoker.controller.cache.pods import AgentState, CachedPod
from stoker.controller.rollout import RolloutDecision, RolloutInputs, StageHealthResult, decide_release
from stoker.controller.rollout.approval import future_approval_message
from stoker.controller.status.gateway_conditions import pending_verdict
from stoker.domain.intent.annotation_requests import ApprovalGrant, ResourceRequests
from stoker.domain.intent.delivery import ApprovalPolicy, DeploymentPolicy, RateLimitPolicy, needs_approval
from stoker.domain.intent.policies import GatewayAccessPolicy
from stoker.domain.protocol import (
    AgentMetadata,
    GatewayReport,
    GatewayTarget,
    PendingPlanReport,
    SyncMode,
    SyncState,
)
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef
from stoker.kube.runtime.conditions import ConditionStamp, set_condition

BEGIN = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def commit(number: int) -> CommitId:
    """The commits of a repository, in their order."""
    return CommitId(f"{number:040x}"[::-1])


@dataclass
class SimulatedFleet:
    """All that there is; every gateway begins at commit 0, and commit 1 has just come."""

    names: tuple[str, ...]
    deployment: DeploymentPolicy = field(default_factory=DeploymentPolicy)
    rate_limit: RateLimitPolicy | None = None
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    profiles: dict[str, str] = field(default_factory=dict)
    waits_for: dict[str, tuple[str, ...]] = field(default_factory=dict)
    number: int = 1
    now: datetime = BEGIN
    reports: dict[str, GatewayReport | None] = field(default_factory=dict)
    published: AgentMetadata = field(default_factory=lambda: AgentMetadata(commit=commit(0)))
    status: Status = field(default_factory=Status)
    given: ApprovalGrant | None = None
    approved_plans: tuple[str, ...] = ()
    asked: int = 0
    check: str | None = ""
    """The error of a health check; None: it has not answered."""
    salt: int = 0
    """Another number makes other plans of the same commits."""
    last: RolloutDecision = field(default_factory=RolloutDecision)
    overrides: dict[str, str] = field(default_factory=dict)
    """Refs of their own."""
    access: GatewayAccessPolicy = field(default_factory=GatewayAccessPolicy)

    def __post_init__(self) -> None:
        for name in self.names:
            self.reports[name] = GatewayReport(
                name, sync_status=SyncState.SYNCED, synced_commit=commit(0), commit=commit(0)
            )

    @property
    def new(self) -> CommitId:
        return commit(self.number)

    def gateway(self, name: str) -> FleetGateway:
        pod = CachedPod(name, "plant", {}, {}, "default", AgentState.READY)
        profile, override = self.profiles.get(name, ""), self.overrides.get(name, "")
        return FleetGateway(pod, name, name, profile, override, report=self.reports[name], target=name)

    def target(self, name: str) -> GatewayTarget:
        """The order that an agent finds."""
        found = self.published.targets.get(name)
        if found is not None or self.published.commit is None:
            return found or GatewayTarget(commit(0))
        # An agent whose changes take an approval demands a release of its own.
        held = needs_approval(name, self.approval, self.deployment)
        return GatewayTarget(self.published.commit, SyncMode.PLAN if held else SyncMode.APPLY)

    def has_it(self) -> set[str]:
        """The gateways whose target is the newest commit."""
        orders = {name: self.target(name) for name in self.names}
        return {name for name, one in orders.items() if one.commit == self.new and one.mode is SyncMode.APPLY}

    def decide(self, *, after: float = 0.0) -> RolloutDecision:
        """One pass of a controller, so many seconds later."""
        self.now += timedelta(seconds=after)
        fleet = GatewayFleet(tuple(self.gateway(name) for name in sorted(self.names)))
        situation = RolloutInputs(
            fleet,
            self.new,
            "main",
            self.now,
            self.deployment,
            self.rate_limit,
            self.approval,
            ResourceRequests(approval=self.given, approved_plans=self.approved_plans),
            self.waits_for,
            published=self.published,
            before=self.status,
            gateway=self.access,
            asked=str(self.asked),
        )
        made = decide_release(situation)
        if made.check_up is not None and self.check is not None:
            made = decide_release(replace(situation, checked=StageHealthResult(made.check_up, self.check)))
        self.last = made
        self.published = AgentMetadata(commit=self.new, targets=made.targets)
        seen = tuple(
            GatewayStatus(name=one.name, pod_name=one.pod.name, synced_commit=one.synced_commit or None)
            for one in fleet.gateways
        )
        condition = pending_verdict(fleet, made, future_approval_message(self.given, self.status, self.now))
        at = ConditionStamp(1, self.now)
        self.status = Status(
            release=made.progress,
            approval=made.approval,
            discovered_gateways=seen,
            conditions=set_condition(
                self.status.conditions or (),
                condition.type,
                condition.status,
                condition.reason,
                condition.message,
                at=at,
            ),
        )
        return made

    def act(self, name: str, *, fails: bool = False) -> None:
        """The agent's report for its target: first it begins, then it is done."""
        target = self.target(name)
        report = self.reports[name] or GatewayReport(name)
        at = report.synced_commit == target.commit
        digest = hashlib.sha256(f"{name} {target.commit} {self.salt}".encode()).hexdigest()
        if not at and (target.mode is SyncMode.PLAN or (target.plan and target.plan != digest)):
            plan = PendingPlanReport(digest, Reason.PLAN_PENDING, target.commit, 1, 2, 3)
            self.reports[name] = replace(
                report, sync_status=SyncState.PENDING, commit=target.commit, pending_plan=plan
            )
        elif target.mode is SyncMode.PLAN:
            return
        elif fails:
            self.reports[name] = replace(
                report,
                sync_status=SyncState.ERROR,
                commit=target.commit,
                reason=Reason.SOURCE_EMPTY,
                error_message="nothing is there",
            )
        elif not at and report.sync_status is not SyncState.SYNCING:
            self.reports[name] = replace(report, sync_status=SyncState.SYNCING, commit=target.commit)
        else:
            self.reports[name] = replace(
                report,
                sync_status=SyncState.SYNCED,
                commit=target.commit,
                synced_commit=target.commit,
                pending_plan=None,
            )

    def sync(self, *names: str) -> None:
        """These gateways reach their target."""
        for name in names or self.names:
            self.act(name)
            self.act(name)

    def approve(self, ref: str = "", *plans: str, by: str = "lead") -> None:
        """Approve, a second from now."""
        self.now += timedelta(seconds=1)
        self.given = ApprovalGrant(by, self.now, GitRef(ref) if ref else None)
        self.approved_plans = plans

    def stages(self) -> dict[str, str]:
        """The state of each stage."""
        progress = self.last.progress
        return {one.name: one.state for one in (progress.stages or ())} if progress is not None else {}

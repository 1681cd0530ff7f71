"""Decides the target of each gateway by combining all gates: apply the commit, plan it, or wait.

A gateway applies the commit when its plan is approved (where that is required), its stage is open, all
gateways before it are synced, and the limits leave room. A gateway that waits keeps its current target, or
plans the commit and writes nothing. Pure: all state of earlier reconciles comes with the `RolloutInputs`.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.api.spec.status import StageStatus
from stoker.controller.rollout import progress as rollout_progress
from stoker.controller.rollout import stages as rollout_stages
from stoker.controller.rollout.approval import ApprovalState, decide_approval, remember_future_approval
from stoker.controller.rollout.dependency_order import RolloutOrder, direct_dependencies
from stoker.controller.rollout.gateways import (
    RolloutMember,
    orders_for_absent_pods,
    plan_only_gateways,
    rollout_members,
)
from stoker.controller.rollout.inputs import HeldGateway, RolloutDecision, RolloutInputs
from stoker.controller.rollout.stages import StageEvaluation, StagePlan
from stoker.domain.errors import Stalled
from stoker.domain.intent.delivery import StagePolicy
from stoker.domain.protocol import GatewayTarget, SyncMode
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId

_RECHECK_SECONDS = 0.1


def decide_release(situation: RolloutInputs) -> RolloutDecision:
    """Return the decision; it is empty while no commit is known."""
    return (
        RolloutDecision()
        if situation.commit is None
        else _RolloutDecider(situation, situation.commit).release()
    )


class _RolloutDecider:
    """The working state of one decision."""

    def __init__(self, situation: RolloutInputs, commit: CommitId) -> None:
        self._situation = situation
        self._commit = commit
        self._members = rollout_members(situation, commit)
        self._stages = rollout_stages.assign_stages(
            situation, self._members, direct_dependencies(situation, self._members)
        )
        self._order = RolloutOrder(situation, self._members, self._stages.number)
        self._waiting = [one for one in self._members if not (one.done or one.let_go or one.free)]
        self._waits = {one.target for one in self._waiting}
        self._request = situation.request
        self._plans: dict[str, str] = {}
        self._targets: dict[str, GatewayTarget] = {}
        self._held: list[HeldGateway] = []
        self._times: list[float] = []

    def release(self) -> RolloutDecision:
        situation = self._situation
        if situation.gated:
            self._targets |= dict(orders_for_absent_pods(situation, self._commit))
        for gateway in plan_only_gateways(situation):
            self._targets[gateway.target] = GatewayTarget(self._commit, SyncMode.PLAN)
            if gateway.report is not None and gateway.report.pending_plan is not None:
                why = "an approval, which is not possible for a gateway with its own ref"
                self._held.append(HeldGateway(gateway.name, why, Reason.PENDING_APPROVAL))
        for one in self._members:
            if one.target not in self._waits:
                self._keep_going(one)
        uncovered = [one for one in self._waiting if not one.agreed] if situation.approval.required else []
        if uncovered and not self._take(decide_approval(situation, uncovered, None)):
            for one in self._waiting:
                self._hold(one, "an approval", Reason.PENDING_APPROVAL, planning=True)
            return self._made(situation.progress, StageEvaluation(), begun=0)
        return self._by_turns()

    def _by_turns(self) -> RolloutDecision:
        situation, stages = self._situation, self._stages
        before = rollout_progress.begin_progress(situation, self._members, stages)
        known = {one.name: one for one in before.stages or ()}
        walked = rollout_stages.walk_stages(
            situation,
            stages,
            self._members,
            known,
            lambda stage, crew: self._is_agreed(stage, crew, known.get(stage.name)),
        )
        able = [one for one in self._waiting if self._may(one, stages, walked)]
        busy = sum(one.busy for one in self._members if one.target not in self._waits)
        turns = rollout_progress.choose_turns(situation, before, able, busy)
        self._times += [turns.again_in] if turns.again_in is not None else []
        for one in able:
            if one.target in turns.free:
                self._let_go(one)
            else:
                self._hold(one, "its turn", Reason.WAITING_FOR_TURN)
        progress = rollout_progress.end_progress(situation, before, walked, turns)
        return self._made(
            progress if rollout_progress.has_progress(situation) else None, walked, begun=len(turns.free)
        )

    def _made(
        self, progress: rollout_progress.RolloutProgress | None, walked: StageEvaluation, *, begun: int
    ) -> RolloutDecision:
        situation = self._situation
        times = [*self._times, *([walked.again_in] if walked.again_in is not None else [])]
        growing, again_in = rollout_progress.queue_growth(progress, situation.now)
        return RolloutDecision(
            targets=self._targets,
            held=tuple(self._held),
            ordered=self._order.profiles or bool(situation.deployment.order),
            staged=bool(self._stages.stages),
            progress=progress,
            approval=remember_future_approval(situation, self._request)
            if _needs_approval(situation)
            else None,
            trouble=self._trouble(walked),
            check_up=walked.check_up,
            again_in=min((*times, *([again_in] if again_in is not None else [])), default=None),
            begun=begun if situation.rate_limit is not None else 0,
            growing=growing,
        )

    def _keep_going(self, member: RolloutMember) -> None:
        """Keep the approved plan of a gateway that may apply; a gateway that is done needs no plan."""
        if member.done or member.gateway.synced_commit == self._commit or not member.let_go:
            self._release(member, "")
        else:
            self._let_go(member)

    def _take(self, agreement: ApprovalState) -> bool:
        self._request = agreement.request
        self._plans |= agreement.plans
        self._times += [agreement.again_in] if agreement.again_in is not None else []
        return agreement.granted

    def _is_agreed(
        self, stage: StagePolicy, crew: Sequence[RolloutMember], before: StageStatus | None
    ) -> bool:
        """Whether a stage with `require_approval` is approved.

        A stage that has begun stays approved unless a plan changed.
        """
        begun = before is not None and before.state in ("Syncing", "Soaking")
        asking = [one for one in crew if one.target in self._waits and not (begun and one.agreed)]
        if not asking:
            return True
        if self._plans:  # one approval at a time: this reconcile has just used the resource's
            self._times.append(_RECHECK_SECONDS)
            return False
        return self._take(decide_approval(self._situation, asking, stage.name))

    def _may(self, member: RolloutMember, stages: StagePlan, walked: StageEvaluation) -> bool:
        if stages.stages:
            number = stages.number[member.name]
            if not walked.opens(number):
                self._hold_for_stage(member, walked, walked.stages[number])
                return False
        why = self._order.why_late(member)
        if why:
            self._hold(member, why, Reason.DEPENDENCY_WAITING)
        return not why

    def _hold_for_stage(self, member: RolloutMember, walked: StageEvaluation, stage: StageStatus) -> None:
        if stage.state == "Approval":
            self._hold(member, f"an approval of stage {stage.name}", Reason.PENDING_APPROVAL, planning=True)
        else:
            failed = ", which failed" if walked.failed else ""
            self._hold(member, f"stage {walked.current}{failed}", Reason.WAITING_FOR_STAGE)

    def _hold(self, member: RolloutMember, why: str, reason: Reason, *, planning: bool = False) -> None:
        self._held.append(HeldGateway(member.name, why, reason))
        agreed = self._plans.get(member.target, member.agreed)
        if planning or agreed:
            self._targets[member.target] = GatewayTarget(self._commit, SyncMode.PLAN, agreed)
        else:  # without a target to keep it has not reported yet; its agent knows whether it has files
            self._targets[member.target] = member.stays_at or GatewayTarget(self._commit, SyncMode.PLAN)

    def _let_go(self, member: RolloutMember) -> None:
        self._release(member, self._plans.get(member.target, member.agreed))

    def _release(self, member: RolloutMember, plan: str) -> None:
        """Let the gateway apply the commit. Where changes require approval, its agent demands a target."""
        if plan or self._situation.takes_approval(member.name):
            self._targets[member.target] = GatewayTarget(self._commit, SyncMode.APPLY, plan)

    def _trouble(self, walked: StageEvaluation) -> Stalled | None:
        circle = self._order.circle(self._stages.names)
        if circle is not None:
            return circle
        if walked.failed:
            return Stalled(
                f"{walked.failed}; later stages keep what they have", reason=Reason.CANARY_STAGE_FAILED
            )
        request = self._request
        if (
            _needs_approval(self._situation)
            and self._held
            and request is not None
            and request.state == "Expired"
        ):
            return Stalled(
                f"no user approved commit {self._commit.short} before {request.expires_at}; request a sync "
                "to ask again",
                reason=Reason.APPROVAL_EXPIRED,
            )
        return None


def _needs_approval(situation: RolloutInputs) -> bool:
    """Whether the resource or any stage requires an approval."""
    return situation.approval.required or any(one.require_approval for one in situation.deployment.stages)

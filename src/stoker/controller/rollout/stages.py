"""Canary stages: one group of gateways after the other, with a health check between them. Pure.

    Waiting ─► Approval ─► Syncing ─► Soaking ─► Passed
                              └─────────┴─► Failed

A stage has passed when all its gateways are synced (and not reported as unverified), its wait time is over,
and its health check has answered 200 after that. The check also runs during the wait, so that a user sees an
error before it counts: a gateway that has just been synced may need time.

Gateways in no stage go last, all together. An exception is a gateway that a stage depends on; it goes with
that stage. A failed gateway or health check stops the rollout: later stages keep their targets, and only a
new commit or a new request starts it again.

The status records the state of each stage. A new leader reads it from there: no stage is skipped, and no
passed stage is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from stoker.api.spec.status import StageStatus
from stoker.controller.rollout.gateway_hosts import is_gateway_host
from stoker.controller.rollout.gateways import RolloutMember
from stoker.controller.rollout.inputs import RolloutInputs, StageHealthCheck
from stoker.domain.clock import parse_rfc3339, rfc3339
from stoker.domain.intent.delivery import RolloutStrategy, StagePolicy
from stoker.domain.reasons import Reason

OTHERS_STAGE = "(others)"
"""The stage of all gateways that are in none; the name of a configured stage has no parentheses."""

# These reasons do not blame the commit: the agent tries again, and the stage waits for it.
_INCONCLUSIVE_REASONS = frozenset(
    {Reason.SOURCE_UNREACHABLE, Reason.UNREACHABLE, Reason.PASS_INTERRUPTED, Reason.SYNC_IN_PROGRESS}
)

MIN_HEALTH_CHECK_SECONDS = 15.0
"""Seconds between two health checks of a waiting stage; a check may take ten seconds."""
HEALTH_CHECKS_PER_SOAK = 20
"""Health checks during the wait of a stage with a long wait time."""

_StageState = Literal["Waiting", "Approval", "Syncing", "Soaking", "Passed", "Failed"]


@dataclass(frozen=True, slots=True)
class StagePlan:
    """The stages in order, and the stage number of each gateway."""

    stages: tuple[StagePolicy, ...] = ()
    number: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.stages)


@dataclass(slots=True)
class StageEvaluation:
    """The result of evaluating the stages."""

    stages: list[StageStatus] = field(default_factory=list)
    open: int = 0
    """The gateways of stages before this number may apply the commit."""
    failed: str = ""
    check_up: StageHealthCheck | None = None
    again_in: float | None = None

    def opens(self, number: int) -> bool:
        return number < self.open

    @property
    def current(self) -> str:
        return next((one.name for one in self.stages if one.state != "Passed"), "")


def assign_stages(
    situation: RolloutInputs, members: Sequence[RolloutMember], needs: Mapping[str, set[str]]
) -> StagePlan:
    """Assign each gateway to a stage."""
    if situation.deployment.strategy is not RolloutStrategy.CANARY or not situation.deployment.stages:
        return StagePlan()
    stages = situation.deployment.stages
    number: dict[str, int] = {}
    for index, stage in enumerate(stages):
        for name in stage.gateways:
            number.setdefault(name, index)
    written = frozenset(number)
    left = list(written)
    while left:  # a stage's dependencies go with it, unless they are in a configured stage
        name = left.pop()
        for before in needs.get(name, ()):
            if before not in written and number.get(before, len(stages)) > number[name]:
                number[before] = number[name]
                left.append(before)
    others = tuple(dict.fromkeys(one.name for one in members if one.name not in number))
    number |= dict.fromkeys(others, len(stages))
    more = (StagePolicy(OTHERS_STAGE, others),) if others else ()
    return StagePlan((*stages, *more), number)


def walk_stages(
    situation: RolloutInputs,
    plan: StagePlan,
    members: Sequence[RolloutMember],
    before: Mapping[str, StageStatus],
    agreed: Callable[[StagePolicy, Sequence[RolloutMember]], bool],
) -> StageEvaluation:
    """Evaluate the stages up to the first that has not passed; `agreed` checks the approval of a stage."""
    found = StageEvaluation()
    going = True
    for index, stage in enumerate(plan.stages):
        crew = [one for one in members if plan.number[one.name] == index]
        if not going:
            found.stages.append(StageStatus(name=stage.name, state="Waiting"))
            continue
        told = _advance_stage(situation, stage, crew, before.get(stage.name), agreed, found)
        found.stages.append(told)
        going = told.state == "Passed"
        if told.state in ("Syncing", "Soaking", "Passed"):
            found.open = index + 1
        if told.state == "Failed":
            found.failed = f"stage {stage.name} failed: {told.message}"
    return found


def _advance_stage(
    situation: RolloutInputs,
    stage: StagePolicy,
    crew: Sequence[RolloutMember],
    before: StageStatus | None,
    agreed: Callable[[StagePolicy, Sequence[RolloutMember]], bool],
    found: StageEvaluation,
) -> StageStatus:
    if before is not None and before.state in ("Passed", "Failed"):
        return before
    if stage.require_approval and not agreed(stage, crew):
        return _stage_progress(stage, "Approval", "it waits for an approval")
    wrong = [one for one in crew if _has_failed(one)]
    if wrong:
        return _stage_progress(stage, "Failed", _failure_reason(wrong[0]))
    there = {one.name for one in crew}
    missing = [name for name in stage.gateways if name not in there]
    if missing:
        return _stage_progress(stage, "Syncing", f"gateway {missing[0]} does not exist")
    if not all(one.done and _is_not_disproved(one) for one in crew):
        return _stage_progress(stage, "Syncing")
    return _soak_stage(situation, stage, crew, before, found)


def _soak_stage(
    situation: RolloutInputs,
    stage: StagePolicy,
    crew: Sequence[RolloutMember],
    before: StageStatus | None,
    found: StageEvaluation,
) -> StageStatus:
    now = situation.now
    since = before.synced_at if before is not None and before.synced_at else rfc3339(now)
    soaking = StageStatus(name=stage.name, state="Soaking", synced_at=since)
    waited = (now - parse_rfc3339(since)).total_seconds()
    left = stage.wait_after - waited
    if not stage.health_check_url:
        found.again_in = left if left > 0 else None
        return soaking if left > 0 else msgspec.structs.replace(soaking, state="Passed")
    every = max(MIN_HEALTH_CHECK_SECONDS, stage.wait_after / HEALTH_CHECKS_PER_SOAK)
    number = max(0, int(waited // every)) if left > 0 else 0
    check_up = StageHealthCheck(
        stage.name,
        str(situation.commit),
        since,
        stage.health_check_url,
        number,
        last=left <= 0,
        ca=situation.gateway.ca,
        verified=not (
            situation.gateway.insecure_skip_verify and is_gateway_host(crew, stage.health_check_url)
        ),
    )
    if left > 0:
        found.again_in = min(left, (number + 1) * every - waited)
    checked = situation.checked
    if checked is None or checked.what != check_up:
        found.check_up = check_up
        said = before.message if before is not None and before.state == "Soaking" else None
        return msgspec.structs.replace(soaking, message=said)
    if left > 0:
        said = f"its health check has not passed yet: {checked.trouble}"[:1024] if checked.trouble else None
        return msgspec.structs.replace(soaking, message=said)
    if checked.trouble:
        return msgspec.structs.replace(
            soaking, state="Failed", message=f"its health check failed: {checked.trouble}"[:1024]
        )
    return msgspec.structs.replace(soaking, state="Passed", checked_at=rfc3339(now))


def _stage_progress(stage: StagePolicy, state: _StageState, message: str | None = None) -> StageStatus:
    return StageStatus(name=stage.name, state=state, message=message[:1024] if message else None)


def _is_not_disproved(member: RolloutMember) -> bool:
    return member.gateway.report is None or member.gateway.report.verified is not False


def _has_failed(member: RolloutMember) -> bool:
    report = member.gateway.report
    if report is None:
        return False
    if report.quarantine is not None and report.quarantine.commit == member.commit:
        return True
    return (
        member.gateway.failed
        and report.commit == member.commit
        and report.reason not in _INCONCLUSIVE_REASONS
    )


def _failure_reason(member: RolloutMember) -> str:
    report = member.gateway.report
    if report is None:
        return f"gateway {member.name}"
    if report.quarantine is not None and report.quarantine.commit == member.commit:
        return f"gateway {member.name} rolled the commit back ({report.quarantine.reason})"
    return f"gateway {member.name}: {report.reason}: {report.error_message or 'it gives no reason'}"

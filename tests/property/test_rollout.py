"""A fleet, agents that follow their metadata, and a controller that decides again and again.

The world is played with random commits, failures, approvals, checks and times. Whatever
happens, no gate is walked around; and when everybody behaves, everybody arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.controller.cache.gateways import FleetGateway, GatewayFleet
from stoker.controller.rollout import RolloutDecision
from stoker.controller.rollout.sync_concurrency import max_concurrent_syncs
from stoker.domain.intent.delivery import (
    ApprovalPolicy,
    DeploymentPolicy,
    GatewayOrderPolicy,
    RateLimitPolicy,
    RolloutStrategy,
    StagePolicy,
    needs_approval,
)
from stoker.domain.protocol import GatewayTarget, SyncMode
from stoker.domain.refs import CommitId
from stoker_testkit.environments.rollout_simulation import SimulatedFleet, commit

NAMES = ("a", "b", "c", "d", "e", "f")


@dataclass
class CheckedFleet(SimulatedFleet):
    """The fleet, and what must hold after each decision."""

    reached: dict[str, int] = field(default_factory=dict)

    def decide(self, *, after: float = 0.0) -> RolloutDecision:
        before = {name: self.target(name) for name in NAMES}
        made = super().decide(after=after)
        self.check_laws(GatewayFleet(tuple(self.gateway(name) for name in NAMES)), before)
        return made

    def index(self, wanted: CommitId) -> int:
        return next(number for number in range(self.number + 1) if commit(number) == wanted)

    def check_laws(self, fleet: GatewayFleet, before: dict[str, GatewayTarget]) -> None:
        new = commit(self.number)
        by_name = {one.name: one for one in fleet.gateways}
        fresh = []
        for name in NAMES:
            result, was = self.target(name), before[name]
            if result.mode is SyncMode.PLAN:
                continue
            assert self.index(result.commit) >= self.reached.get(name, 0), "no gateway goes back"
            self.reached[name] = self.index(result.commit)
            if result.commit == new and (was.commit, was.mode) != (new, SyncMode.APPLY):
                fresh.append(name)
        self.check_order(by_name, fresh, new)
        self.check_stages(by_name, fresh, new)
        if self.approval.required and fresh:
            assert self.last.approval is not None
            assert self.last.approval.commit == new
            assert all(self.target(name).plan for name in fresh), "each has the plan that was approved"
        flying = [
            name
            for name in NAMES
            if self.target(name).mode is SyncMode.APPLY
            and self.target(name).commit == new
            and not by_name[name].is_at(new)
            and not by_name[name].failed
        ]
        if self.rate_limit is not None and fresh:
            assert len(flying) <= max_concurrent_syncs(self.rate_limit, len(NAMES))

    def check_order(self, by_name: dict[str, FleetGateway], fresh: list[str], new: CommitId) -> None:
        for entry in self.deployment.order:
            if entry.gateway in fresh:
                assert all(by_name[one].is_at(new) for one in entry.depends_on if one in by_name)

    def check_stages(self, by_name: dict[str, FleetGateway], fresh: list[str], new: CommitId) -> None:
        progress = self.last.progress
        for index, stage in enumerate(self.deployment.stages):
            if set(stage.gateways) & set(fresh):
                assert progress is not None
                assert progress.stages is not None
                assert all(one.state == "Passed" for one in progress.stages[:index])
                assert progress.stages[index].state != "Failed"


stages = st.permutations(NAMES).flatmap(
    lambda names: st.builds(
        lambda cut, wait, approve: DeploymentPolicy(
            RolloutStrategy.CANARY,
            (
                StagePolicy("one", tuple(names[:cut]), wait, "http://check/", False),
                StagePolicy("two", tuple(names[cut : cut + 2]), 0.0, "", approve),
            ),
        ),
        st.integers(1, 3),
        st.sampled_from([0.0, 30.0]),
        st.booleans(),
    )
)
orders = st.permutations(NAMES).flatmap(
    lambda names: st.builds(
        lambda weights, edges: DeploymentPolicy(
            order=tuple(
                GatewayOrderPolicy(
                    name, weights[place] if weights else 0, (names[place - 1],) if edges and place else ()
                )
                for place, name in enumerate(names)
            )
        ),
        st.sampled_from([(), (5, 5, 3, 3, 1, 0), (1, 1, 1, 0, 0, 0)]),
        st.booleans(),
    )
)
limits = st.one_of(
    st.none(),
    st.builds(
        RateLimitPolicy,
        st.one_of(st.none(), st.integers(1, 3)),
        st.one_of(st.none(), st.integers(1, 6)),
        st.one_of(st.none(), st.integers(1, 4)),
    ),
)
worlds = st.builds(
    CheckedFleet,
    st.just(NAMES),
    st.one_of(st.just(DeploymentPolicy()), stages, orders),
    limits,
    st.builds(ApprovalPolicy, st.booleans(), st.just(3600.0)),
)
deeds = st.lists(
    st.one_of(
        st.tuples(st.just("act"), st.sampled_from(NAMES)),
        st.tuples(st.just("fail"), st.sampled_from(NAMES)),
        st.tuples(st.sampled_from(["commit", "approve", "ask", "replan", "check", "wait"]), st.just("")),
    ),
    max_size=40,
)


def do(checked: CheckedFleet, deed: str, name: str) -> None:
    deeds: dict[str, Callable[[], object]] = {
        "act": lambda: checked.act(name),
        "fail": lambda: checked.act(name, fails=True),
        "commit": lambda: setattr(checked, "number", checked.number + 1),
        "approve": checked.approve,
        "ask": lambda: setattr(checked, "asked", checked.asked + 1),
        "replan": lambda: setattr(checked, "salt", checked.salt + 1),
        "check": lambda: setattr(checked, "check", {"": "it answered 500", None: ""}.get(checked.check)),
        "wait": lambda: setattr(checked, "now", checked.now + timedelta(seconds=40)),
    }
    deeds[deed]()
    checked.now += timedelta(seconds=1)


@settings(max_examples=150, deadline=None)
@given(worlds, deeds)
def test_no_gate_is_bypassed_and_every_healthy_gateway_arrives(
    checked: CheckedFleet, played: list[tuple[str, str]]
) -> None:
    checked.decide()
    for deed, name in played:
        do(checked, deed, name)
        checked.decide()
    checked.check = ""
    checked.asked += 1
    new = commit(checked.number)
    for _ in range(120):
        checked.decide()
        if all(checked.gateway(name).is_at(new) for name in NAMES):
            break
        for name in NAMES:
            checked.act(name)
        request = checked.status.approval
        if request is not None and request.state == "Expired":
            checked.asked += 1
        checked.approve()
        failed = checked.last.trouble is not None
        checked.asked += failed
        checked.now += timedelta(seconds=20)
    else:
        pytest.fail(f"a gateway never arrives: {checked.last}")
    checked.decide()
    again = checked.status
    checked.decide()
    released = {name for name in NAMES if needs_approval(name, checked.approval, checked.deployment)}
    assert checked.last.targets == {name: GatewayTarget(new) for name in released}, "the others need no order"
    assert checked.status == again, "and nothing is written when nothing changes"

"""A fleet, agents that do what they are told, and a controller that decides again and again.

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
class World(SimulatedFleet):
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
            told, was = self.target(name), before[name]
            if told.mode is SyncMode.PLAN:
                continue
            assert self.index(told.commit) >= self.reached.get(name, 0), "nobody is sent back"
            self.reached[name] = self.index(told.commit)
            if told.commit == new and (was.commit, was.mode) != (new, SyncMode.APPLY):
                fresh.append(name)
        self.check_order(by_name, fresh, new)
        self.check_stages(by_name, fresh, new)
        if self.approval.required and fresh:
            assert self.last.approval is not None
            assert self.last.approval.commit == new
            assert all(self.target(name).plan for name in fresh), "each has the plan that somebody saw"
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
    World,
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


def do(world: World, deed: str, name: str) -> None:
    deeds: dict[str, Callable[[], object]] = {
        "act": lambda: world.act(name),
        "fail": lambda: world.act(name, fails=True),
        "commit": lambda: setattr(world, "number", world.number + 1),
        "approve": world.approve,
        "ask": lambda: setattr(world, "asked", world.asked + 1),
        "replan": lambda: setattr(world, "salt", world.salt + 1),
        "check": lambda: setattr(world, "check", {"": "it answered 500", None: ""}.get(world.check)),
        "wait": lambda: setattr(world, "now", world.now + timedelta(seconds=40)),
    }
    deeds[deed]()
    world.now += timedelta(seconds=1)


@settings(max_examples=150, deadline=None)
@given(worlds, deeds)
def test_no_gate_is_bypassed_and_every_healthy_gateway_arrives(
    world: World, played: list[tuple[str, str]]
) -> None:
    world.decide()
    for deed, name in played:
        do(world, deed, name)
        world.decide()
    world.check = ""
    world.asked += 1
    new = commit(world.number)
    for _ in range(120):
        world.decide()
        if all(world.gateway(name).is_at(new) for name in NAMES):
            break
        for name in NAMES:
            world.act(name)
        request = world.status.approval
        if request is not None and request.state == "Expired":
            world.asked += 1
        world.approve()
        failed = world.last.trouble is not None
        world.asked += failed
        world.now += timedelta(seconds=20)
    else:
        pytest.fail(f"somebody never arrives: {world.last}")
    world.decide()
    again = world.status
    world.decide()
    released = {name for name in NAMES if needs_approval(name, world.approval, world.deployment)}
    assert world.last.targets == {name: GatewayTarget(new) for name in released}, "the others need no order"
    assert world.status == again, "and nothing is written when nothing changes"

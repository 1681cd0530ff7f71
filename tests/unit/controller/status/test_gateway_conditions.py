"""Conditions from the gateways of a resource, one at a time."""

from __future__ import annotations

from typing import Any

from stoker.controller.cache.gateways import FleetGateway, GatewayFleet
from stoker.controller.cache.pods import AgentState, CachedPod
from stoker.controller.rollout import HeldGateway, RolloutDecision
from stoker.controller.status import gateway_conditions
from stoker.domain.protocol import DriftReport, GatewayReport, PendingPlanReport, QuarantineReport, SyncState

COMMIT = "a" * 40


def gateway(name: str, agent: AgentState = AgentState.READY, override: str = "", **said: Any) -> FleetGateway:
    report = GatewayReport(name, pod_name=name, **said) if said else None
    pod = CachedPod(name, "plant", {}, {}, "default", agent)
    return FleetGateway(pod, name, name, override=override, report=report, target=name)


def synced(name: str, **more: Any) -> FleetGateway:
    return gateway(name, sync_status=SyncState.SYNCED, synced_commit=COMMIT, synced_ref="main", **more)


def fleet(*gateways: FleetGateway) -> GatewayFleet:
    return GatewayFleet(gateways)


def test_the_message_always_begins_with_how_many_are_synced() -> None:
    assert gateway_conditions.all_synced_verdict(fleet(), COMMIT)[1:] == (
        True,
        "NoGateways",
        "0 of 0 gateways synced",
    )
    assert gateway_conditions.all_synced_verdict(fleet(synced("a")), COMMIT)[1:] == (
        True,
        "GatewaysSynced",
        "1 of 1 gateways synced",
    )
    late = gateway("b", sync_status=SyncState.SYNCING, synced_commit="b" * 40)
    said = gateway_conditions.all_synced_verdict(fleet(synced("a"), late), COMMIT, "2026-03-02T08:15:00Z")
    assert said[1:] == (
        False,
        "SyncInProgress",
        "1 of 2 gateways synced: b is Syncing, at bbbbbbbb, since 2026-03-02T08:15:00Z",
    )


def test_a_gateway_that_failed_is_named_first_with_its_own_words() -> None:
    failed = gateway("z", sync_status=SyncState.ERROR, reason="SourceEmpty", error_message="nothing is there")
    said = gateway_conditions.all_synced_verdict(fleet(gateway("a"), failed), COMMIT)
    assert said.reason == "SyncFailed"
    assert said.message == (
        "0 of 2 gateways synced: z failed (SourceEmpty: nothing is there), a has not reported"
    )


def test_a_long_list_is_cut_and_counted() -> None:
    many = [gateway(f"g{number}") for number in range(8)]
    assert gateway_conditions.all_synced_verdict(fleet(*many), COMMIT).message.endswith(
        "g4 has not reported and 3 more"
    )


def test_agents_are_lost_before_they_are_starting() -> None:
    starting, lost = gateway("s", AgentState.STARTING), gateway("l", AgentState.LOST)
    assert gateway_conditions.agents_verdict(fleet(starting, lost))[1:] == (
        False,
        "AgentUnreachable",
        "no current heartbeat from l",
    )
    assert gateway_conditions.agents_verdict(fleet(starting))[1:3] == (False, "AgentStarting")
    assert gateway_conditions.agents_verdict(fleet(gateway("r")))[1:3] == (True, "AgentHealthy")
    assert gateway_conditions.agents_verdict(fleet(gateway("bare", AgentState.NONE)))[1:3] == (
        True,
        "NoGateways",
    )


def test_a_missing_agent_is_wrong_and_an_outdated_one_is_only_reported() -> None:
    bare = gateway("bare", AgentState.NONE)
    assert gateway_conditions.injection_verdict(fleet(bare), ("old",))[1:3] == (False, "SidecarMissing")
    assert gateway_conditions.injection_verdict(fleet(gateway("old")), ("old",))[1:3] == (
        True,
        "SidecarOutdated",
    )
    assert gateway_conditions.injection_verdict(fleet(gateway("new")), ())[1:3] == (True, "SidecarInjected")


def test_skew_is_another_ref_than_the_resources() -> None:
    own = synced("own", override="v1")
    other = FleetGateway(
        own.pod, "own", "own", override="v1", report=GatewayReport("own", synced_ref="v1"), target=""
    )
    assert gateway_conditions.ref_skew_verdict(fleet(synced("a")), "main")[1:3] == (False, "NoneFound")
    said = gateway_conditions.ref_skew_verdict(fleet(synced("a"), other), "main")
    assert said[1:] == (True, "RefSkewDetected", "own is at v1 by its annotation; the resource is at main")
    assert gateway_conditions.ref_skew_verdict(fleet(other), "")[1] is False, (
        "before a ref is known there is nothing to differ from"
    )


def test_drift_plans_and_doubts_name_their_gateways() -> None:
    drifted = synced("d", drift=DriftReport(4, ("a", "b", "c", "d")))
    assert (
        gateway_conditions.drift_verdict(fleet(drifted)).message
        == "another process or user changed files of d (4 files: a, b, c)"
    )
    assert gateway_conditions.drift_verdict(fleet(synced("a", drift=DriftReport(0))))[1] is False
    waiting = synced("p", pending_plan=PendingPlanReport("0123456789abcdef", "DeletionBudgetExceeded"))
    assert gateway_conditions.pending_verdict(fleet(waiting)).message == (
        "a plan is pending on p (0123456789abcdef: DeletionBudgetExceeded)"
    )
    assert gateway_conditions.pending_verdict(fleet(synced("a")))[1] is False
    assert gateway_conditions.verification_verdict(
        fleet(synced("a", verified=True), synced("b", verified=False))
    )[1:] == (
        False,
        "NotVerified",
        "not confirmed by b",
    )
    assert gateway_conditions.verification_verdict(fleet(synced("a", verified=True)))[1] is True
    assert gateway_conditions.verification_verdict(fleet(synced("a")))[1] is None, (
        "without a request there is no condition"
    )


def test_dependencies_are_a_condition_only_where_there_are_some() -> None:
    assert gateway_conditions.dependencies_verdict(RolloutDecision())[1] is None
    assert gateway_conditions.dependencies_verdict(RolloutDecision(ordered=True))[1:3] == (
        True,
        "DependenciesSatisfied",
    )
    held = RolloutDecision(held=(HeldGateway("a", "b of SyncProfile base"),), ordered=True)
    assert gateway_conditions.dependencies_verdict(held)[1:] == (
        False,
        "DependencyWaiting",
        "a waits for b of SyncProfile base",
    )


def test_a_commit_that_was_rolled_back_is_reported_until_it_is_released() -> None:
    held = QuarantineReport(COMMIT, "AutoRollback", "commit aaaaaaaa was rolled back: projects/x: not shown")
    said = gateway_conditions.rolled_back_verdict(fleet(synced("a"), synced("b", quarantine=held)), on=True)
    assert (said.type, said.status, said.reason) == ("AutoRollbackPerformed", True, "AutoRollback")
    assert "b (commit aaaaaaaa was rolled back: projects/x: not shown)" in said.message
    scan = QuarantineReport(COMMIT, "ScanFailureAutoRollback")
    assert (
        gateway_conditions.rolled_back_verdict(fleet(synced("a", quarantine=scan)), on=False).reason
        == scan.reason
    )
    assert gateway_conditions.rolled_back_verdict(fleet(synced("a")), on=True).status is False
    assert gateway_conditions.rolled_back_verdict(fleet(synced("a")), on=False).status is None

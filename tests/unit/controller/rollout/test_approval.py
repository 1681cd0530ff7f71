"""Approvals: who agreed to what, and when that counts."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta

import pytest

from stoker.api.spec.status import ApprovalRequest
from stoker.controller.rollout.approval import is_for_another_plan, plans_digest
from stoker.domain.intent.annotation_requests import ApprovalGrant
from stoker.domain.intent.delivery import ApprovalPolicy, DeploymentPolicy, RolloutStrategy, StagePolicy
from stoker.domain.protocol import GatewayReport, GatewayTarget, SyncMode, SyncState
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef
from stoker_testkit.environments.rollout_simulation import SimulatedFleet, commit


def asking(*names: str, timeout: float = 3600.0) -> SimulatedFleet:
    return SimulatedFleet(names or ("a", "b"), approval=ApprovalPolicy(required=True, timeout=timeout))


def request(fleet: SimulatedFleet) -> ApprovalRequest:
    found = fleet.last.approval
    assert found is not None
    return found


def pending(*names: str, timeout: float = 3600.0) -> SimulatedFleet:
    """A fleet whose plans are known and wait."""
    fleet = asking(*names, timeout=timeout)
    fleet.decide()
    fleet.sync()
    fleet.decide()
    assert request(fleet).state == "Pending"
    return fleet


def test_the_digest_is_over_the_sorted_lines() -> None:
    lines = "a 1111\nb 2222"
    assert plans_digest({"b": "2222", "a": "1111"}) == hashlib.sha256(lines.encode()).hexdigest()


def test_everybody_plans_then_it_waits_then_it_is_applied_with_the_plan_that_was_seen() -> None:
    fleet = asking("a", "b")
    fleet.decide()
    assert request(fleet).state == "Planning"
    assert {fleet.target(name) for name in "ab"} == {GatewayTarget(commit(1), SyncMode.PLAN)}
    fleet.sync("a")
    fleet.decide()
    assert request(fleet).state == "Planning", "one gateway has no plan yet"
    fleet.sync("b")
    fleet.decide()
    waiting = request(fleet)
    plans = {name: report.pending_plan for name, report in fleet.reports.items() if report is not None}
    digests = {name: plan.digest for name, plan in plans.items() if plan is not None}
    assert (waiting.state, waiting.digest, waiting.ref) == ("Pending", plans_digest(digests), "main")
    assert (waiting.files_added, waiting.files_modified, waiting.files_deleted) == (2, 4, 6)
    assert (waiting.requested_at, waiting.expires_at) == (
        "2026-03-02T08:00:00.000000Z",
        "2026-03-02T09:00:00Z",
    )
    assert fleet.last.again_in == 3600.0

    fleet.approve()
    fleet.decide()
    assert (request(fleet).state, request(fleet).approved_by) == ("Approved", "lead")
    assert {name: fleet.target(name) for name in "ab"} == {
        name: GatewayTarget(commit(1), SyncMode.APPLY, digests[name]) for name in "ab"
    }
    fleet.sync()
    fleet.decide()
    assert fleet.last.targets == {name: GatewayTarget(commit(1)) for name in "ab"}, "agents demand a release"
    assert request(fleet).state == "Approved", "who did it stays to be read"
    status = fleet.status
    fleet.decide(after=7200)
    assert fleet.status == status


@pytest.mark.parametrize(
    ("ref", "at", "plans", "why"),
    [
        ("main", 1, (), ""),
        (None, 1, (), ""),
        ("main", 1, ("DIGEST",), ""),
        (str(commit(1)), 1, (), ""),
        ("main", 1, ("PLANS",), ""),
        ("main", 0, (), "is older than the request"),
        ("main", 3600, (), "is in the future"),
        ("v2", 1, (), "is for ref v2, but main is pending"),
        ("main", 1, ("f" * 64,), "is for another plan than"),
    ],
    ids=[
        "the ref", "no ref", "the digest", "the commit", "each plan", "old", "the future", "another ref",
        "another plan",
    ],
)  # fmt: skip
def test_an_approval_for_something_else_is_ignored_and_reported(
    ref: str | None, at: float, plans: tuple[str, ...], why: str
) -> None:
    fleet = pending()
    singles = tuple(one.pending_plan.digest for one in fleet.reports.values() if one and one.pending_plan)
    named = {"DIGEST": (request(fleet).digest or "",), "PLANS": singles}
    fleet.approved_plans = named.get(plans[0], plans) if plans else ()
    fleet.given = ApprovalGrant("lead", fleet.now + timedelta(seconds=at), GitRef(ref) if ref else None)
    fleet.decide(after=1)
    if not why:
        assert request(fleet).state == "Approved"
        return
    assert request(fleet).state == "Pending"
    assert fleet.has_it() == set()
    message = request(fleet).message
    assert message is not None
    assert why in message
    assert is_for_another_plan(message) is (at > 0), "an old approval is no mistake"


def test_a_request_without_approval_expires() -> None:
    fleet = pending(timeout=60.0)
    made = fleet.decide(after=61)
    assert request(fleet).state == "Expired"
    assert made.trouble is not None
    assert made.trouble.reason is Reason.APPROVAL_EXPIRED
    fleet.approve()
    fleet.decide()
    assert (request(fleet).state, fleet.has_it()) == ("Expired", set())
    assert "expired" in (request(fleet).message or "")
    fleet.asked += 1
    fleet.decide()
    assert request(fleet).state == "Pending", "a new request asks anew"
    assert fleet.has_it() == set(), "and the approval of the old one is older"
    fleet.approve()
    fleet.decide()
    assert fleet.has_it() == {"a", "b"}


def test_a_plan_that_changes_before_the_approval_needs_another_approval() -> None:
    fleet = pending()
    first = request(fleet)
    fleet.salt += 1
    fleet.approve("main")
    fleet.sync("a")
    fleet.decide(after=1)
    assert request(fleet).digest != first.digest
    assert request(fleet).state == "Pending"
    fleet.approve("main", first.digest or "")
    fleet.decide(after=1)
    assert request(fleet).state == "Pending"
    assert "another plan" in (request(fleet).message or "")


def test_a_plan_that_changes_after_the_approval_voids_it_for_that_gateway() -> None:
    fleet = pending()
    fleet.approve()
    fleet.decide()
    fleet.sync("a")
    fleet.salt += 1
    fleet.act("b")  # it finds another plan than the one that was approved, and writes nothing
    fleet.decide(after=1)
    assert request(fleet).state == "Pending"
    assert fleet.target("b") == GatewayTarget(commit(1), SyncMode.PLAN)
    assert fleet.target("a") == GatewayTarget(commit(1)), "who has it keeps it"
    fleet.approve()
    fleet.decide()
    fleet.sync("b")
    fleet.decide()
    assert fleet.last.targets == {name: GatewayTarget(commit(1)) for name in "ab"}


def test_an_agent_that_restarts_while_its_plan_waits_changes_nothing() -> None:
    fleet = pending()
    before, report = fleet.status, fleet.reports["a"]
    assert report is not None
    for meanwhile in (replace(report, pending_plan=None), None):
        fleet.reports["a"] = meanwhile
        fleet.decide(after=5)
        assert fleet.target("a") == GatewayTarget(commit(1), SyncMode.PLAN)
        assert fleet.last.approval == before.approval
    fleet.reports["a"] = report
    fleet.decide(after=5)
    assert fleet.last.approval == before.approval


def test_an_approval_is_taken_again_if_the_metadata_could_not_be_written() -> None:
    fleet = pending()
    told = fleet.published
    fleet.approve()
    fleet.decide()
    fleet.published = told  # the map was not written, the status was
    fleet.decide()
    assert fleet.has_it() == {"a", "b"}


def test_an_approval_that_is_removed_is_withdrawn_for_gateways_that_have_not_applied_it() -> None:
    fleet = pending()
    fleet.approve()
    given = fleet.given
    fleet.decide()
    fleet.sync("a")
    fleet.given = None
    fleet.decide(after=1)
    assert fleet.target("b") == GatewayTarget(commit(1), SyncMode.PLAN)
    assert fleet.target("a") == GatewayTarget(commit(1)), "an approval that was used stays used"
    assert "was withdrawn" in (request(fleet).message or "")
    fleet.sync("b")
    fleet.decide(after=1)
    assert request(fleet).state == "Pending"
    fleet.given = given
    fleet.decide(after=1)
    assert request(fleet).state == "Pending", "the withdrawn approval is older than the new request"
    fleet.approve()
    fleet.decide()
    assert fleet.has_it() == {"a", "b"}


def test_an_approval_is_withdrawn_for_a_gateway_that_waits_for_its_stage() -> None:
    fleet = pending("a", "b")
    fleet.deployment = DeploymentPolicy(RolloutStrategy.CANARY, (StagePolicy("one", ("a",)),))
    fleet.approve()
    fleet.decide()
    fleet.given = None
    fleet.sync("a")
    fleet.decide(after=1)
    fleet.sync("b")
    fleet.decide(after=1)
    assert fleet.has_it() == {"a"}
    assert fleet.target("b") == GatewayTarget(commit(1), SyncMode.PLAN)


def test_an_approval_that_all_have_applied_may_be_removed() -> None:
    fleet = pending()
    fleet.approve()
    fleet.decide()
    fleet.sync()
    fleet.decide()
    fleet.given = None
    before = fleet.last
    assert fleet.decide(after=1) == before
    assert request(fleet).state == "Approved", "who approved stays to be read"


def test_a_first_sync_waits_for_no_approval() -> None:
    fleet = asking("a", "b")
    fleet.reports["b"] = GatewayReport("b")
    fleet.decide()
    assert fleet.has_it() == {"b"}


def test_a_pod_without_a_report_only_plans_as_it_may_have_files() -> None:
    fleet = asking("a", "b")
    fleet.reports["b"] = None
    for _ in range(2):
        fleet.decide()
        assert fleet.target("b") == GatewayTarget(commit(1), SyncMode.PLAN)
    fleet.reports["b"] = GatewayReport("b", sync_status=SyncState.SYNCED, synced_commit=commit(0))
    fleet.decide()
    assert fleet.has_it() == set()
    fleet.reports["b"] = GatewayReport("b", sync_status=SyncState.SYNCED, synced_commit=commit(1))
    fleet.decide()
    assert fleet.last.targets["b"] == GatewayTarget(commit(1)), "its agent knew that it was its first sync"


def test_no_approval_is_requested_for_pods_without_reports() -> None:
    fleet = asking("a", "b")
    fleet.reports = dict.fromkeys("ab")
    for _ in range(2):
        fleet.decide()
        assert fleet.last.approval is None
    for name in "ab":
        fleet.reports[name] = GatewayReport(name, sync_status=SyncState.SYNCED, synced_commit=commit(1))
    fleet.decide()
    released = {name: GatewayTarget(commit(1)) for name in "ab"}
    assert (fleet.last.approval, fleet.last.targets) == (None, released)


def test_a_stage_that_takes_an_approval_takes_it_of_a_silent_pod_as_well() -> None:
    stages = (StagePolicy("first", ("a",)), StagePolicy("second", ("b",), require_approval=True))
    fleet = SimulatedFleet(("a", "b"), DeploymentPolicy(RolloutStrategy.CANARY, stages))
    fleet.reports["b"] = None
    fleet.decide()
    assert fleet.target("b") == GatewayTarget(commit(1), SyncMode.PLAN)
    fleet.sync("a")
    fleet.decide()
    assert fleet.stages()["second"] == "Approval"
    assert fleet.target("b") == GatewayTarget(commit(1), SyncMode.PLAN)


def test_a_ref_of_its_own_is_no_way_around_an_approval() -> None:
    fleet = asking("a", "b")
    fleet.overrides["b"] = "try-this"
    fleet.decide()
    assert fleet.target("b") == GatewayTarget(commit(1), SyncMode.PLAN)
    fleet.sync("a", "b")
    fleet.decide()
    assert request(fleet).state == "Pending", "the others do not wait for its plan"
    assert {one.gateway: one.why for one in fleet.last.held} == {
        "a": "an approval",
        "b": "an approval, which is not possible for a gateway with its own ref",
    }
    fleet.approval = ApprovalPolicy()
    fleet.decide()
    assert "b" not in fleet.last.targets


def test_a_stage_that_takes_an_approval_takes_it_of_a_ref_of_its_own_as_well() -> None:
    stages = (StagePolicy("first", ("a",)), StagePolicy("second", ("b",), require_approval=True))
    fleet = SimulatedFleet(("a", "b"), DeploymentPolicy(RolloutStrategy.CANARY, stages))
    fleet.overrides |= {"a": "try-this", "b": "try-this"}
    fleet.decide()
    assert fleet.last.targets == {"b": GatewayTarget(commit(1), SyncMode.PLAN)}


def test_an_order_for_a_commit_that_a_gateway_has_is_not_kept_while_it_is_away() -> None:
    fleet = pending("a", "b")
    fleet.approve()
    fleet.decide()
    fleet.sync()
    fleet.decide()
    fleet.names = ("a",)
    fleet.decide()
    assert fleet.last.targets == {"a": GatewayTarget(commit(1))}


def test_a_new_commit_makes_a_new_request() -> None:
    fleet = pending()
    fleet.approve()
    fleet.decide()
    fleet.sync()
    fleet.number = 2
    fleet.decide()
    assert (request(fleet).state, request(fleet).commit) == ("Planning", commit(2))
    fleet.sync()
    fleet.decide(after=1)
    assert (request(fleet).state, fleet.has_it()) == ("Pending", set())


def test_with_stages_only_those_whose_turn_it_is_apply_what_was_approved() -> None:
    fleet = pending("a", "b")
    fleet.deployment = DeploymentPolicy(RolloutStrategy.CANARY, (StagePolicy("one", ("a",)),))
    fleet.approve()
    fleet.decide()
    assert fleet.has_it() == {"a"}
    held = fleet.target("b")
    assert (held.mode, bool(held.plan)) == (SyncMode.PLAN, True), "the plan that was approved is kept for it"
    fleet.sync()
    fleet.decide()
    assert fleet.has_it() == {"a", "b"}


def test_an_approval_is_used_once_also_where_it_was_given_by_a_clock_ahead_of_ours() -> None:
    fleet = pending("a")
    fleet.given = ApprovalGrant("lead", fleet.now + timedelta(minutes=4))
    fleet.decide()
    assert request(fleet).state == "Approved"
    fleet.sync()
    fleet.decide()
    fleet.number = 2
    fleet.decide(after=60)
    fleet.sync()
    fleet.decide()
    assert (request(fleet).commit, request(fleet).state) == (commit(2), "Pending")
    assert "older than the request" in (request(fleet).message or "")


def test_an_approval_from_the_future_counts_no_more_when_its_time_has_come() -> None:
    fleet = pending("a", timeout=7200.0)
    fleet.given = ApprovalGrant("lead", fleet.now + timedelta(hours=1))
    fleet.decide()
    assert "is in the future" in (request(fleet).message or "")
    fleet.salt += 1  # the request is made anew meanwhile
    fleet.decide(after=600)
    fleet.sync()
    for seconds in (1, 3600, 60):
        fleet.decide(after=seconds)
        assert request(fleet).state == "Pending"
        assert "is in the future" in (request(fleet).message or "")
    assert fleet.has_it() == set()
    fleet.approve("main")
    fleet.decide(after=1)
    assert request(fleet).state == "Approved"
    fleet.sync()
    fleet.decide()
    fleet.given = ApprovalGrant("lead", fleet.now + timedelta(hours=1))
    fleet.decide()
    fleet.number = 2
    fleet.decide(after=3590)
    fleet.sync()
    fleet.decide(after=5)
    assert (request(fleet).commit, request(fleet).state) == (commit(2), "Pending"), "nor for the next commit"


def test_an_approval_from_the_future_is_remembered_while_nothing_waits() -> None:
    fleet = asking("a")
    fleet.number = 0
    fleet.given = ApprovalGrant("lead", fleet.now + timedelta(hours=1))
    fleet.decide()
    assert fleet.status.approval is None
    (said,) = fleet.status.conditions or ()
    assert (said.status, said.reason) == ("False", Reason.APPROVAL_IGNORED)
    assert "is in the future" in said.message
    for _ in range(3):
        fleet.decide(after=1190)
    fleet.number = 1  # a minute before the hour is over
    fleet.decide()
    fleet.sync()
    for seconds in (1, 60):
        fleet.decide(after=seconds)
        assert request(fleet).state == "Pending"
        assert "is in the future" in (request(fleet).message or "")


def test_a_plan_without_the_form_of_a_digest_is_no_plan() -> None:
    fleet = asking("a")
    fleet.decide()
    fleet.sync("a")
    report = fleet.reports["a"]
    assert report is not None and report.pending_plan is not None  # noqa: PT018
    fleet.reports["a"] = replace(report, pending_plan=replace(report.pending_plan, digest="x y"))
    fleet.decide()
    assert request(fleet).state == "Planning"

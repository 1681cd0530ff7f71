"""Stages, order and limits: which gateways may take a commit now, with a fleet in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from stoker.controller.rollout.gateways import RolloutMember, current_order
from stoker.controller.rollout.stages import MIN_HEALTH_CHECK_SECONDS
from stoker.controller.rollout.sync_concurrency import (
    SyncCapacity,
    max_concurrent_syncs,
    rate_limit_room,
    recent_starts,
)
from stoker.domain.intent.delivery import (
    ApprovalPolicy,
    DeploymentPolicy,
    GatewayOrderPolicy,
    RateLimitPolicy,
    RolloutStrategy,
    StagePolicy,
)
from stoker.domain.intent.policies import GatewayAccessPolicy
from stoker.domain.protocol import (
    AgentMetadata,
    GatewayReport,
    GatewayTarget,
    QuarantineReport,
    SyncMode,
    SyncState,
)
from stoker.domain.reasons import Reason
from stoker_testkit.environments.rollout_simulation import BEGIN, SimulatedFleet, commit

FIVE = ("lab", "filler", "packer", "plant", "office")


def canary(*stages: StagePolicy) -> DeploymentPolicy:
    return DeploymentPolicy(RolloutStrategy.CANARY, stages)


def two_stages() -> DeploymentPolicy:
    return canary(
        StagePolicy("pilot", ("lab",), 30.0, "https://lab/StatusPing"),
        StagePolicy("lines", ("filler", "packer")),
    )


# Stages.


def test_one_stage_after_the_other_and_who_is_in_none_goes_last() -> None:
    fleet = SimulatedFleet(FIVE, two_stages())
    fleet.decide()
    assert fleet.has_it() == {"lab"}
    assert fleet.stages() == {"pilot": "Syncing", "lines": "Waiting", "(others)": "Waiting"}
    assert {one.gateway: (one.why, one.reason) for one in fleet.last.held}["plant"] == (
        "stage pilot",
        Reason.WAITING_FOR_STAGE,
    )
    fleet.sync("lab")
    made = fleet.decide()
    assert (fleet.stages()["pilot"], made.again_in) == ("Soaking", MIN_HEALTH_CHECK_SECONDS)
    assert fleet.has_it() == {"lab"}
    fleet.decide(after=31)
    assert fleet.stages() == {"pilot": "Passed", "lines": "Syncing", "(others)": "Waiting"}
    assert fleet.has_it() == {"lab", "filler", "packer"}
    fleet.sync("filler", "packer")
    fleet.decide()
    assert fleet.stages() == {"pilot": "Passed", "lines": "Passed", "(others)": "Syncing"}
    fleet.sync()
    fleet.decide()
    assert set(fleet.stages().values()) == {"Passed"}
    assert fleet.last.targets == {}


def test_a_health_check_is_asked_for_until_the_pause_is_over_and_the_one_after_it_decides() -> None:
    fleet = SimulatedFleet(FIVE, two_stages(), check=None)
    fleet.decide()
    fleet.sync("lab")
    first = fleet.decide().check_up
    assert first is not None
    assert (first.stage, first.url, first.last) == ("pilot", "https://lab/StatusPing", False)
    assert fleet.decide(after=5).check_up == first, "the same attempt"
    second = fleet.decide(after=MIN_HEALTH_CHECK_SECONDS)
    assert second.check_up not in (None, first)
    assert second.again_in == 30 - 5 - MIN_HEALTH_CHECK_SECONDS
    last = fleet.decide(after=11).check_up
    assert last is not None
    assert last.last
    assert fleet.decide(after=60).check_up == last, "the same attempt, however long it takes"
    assert fleet.has_it() == {"lab"}


@pytest.mark.parametrize(
    ("host", "insecure", "verified"),
    [
        ("lab", True, False),
        ("Lab.plant.svc:8043", True, False),
        ("lab.plant.svc.cluster.local.", True, False),
        ("lab.gateways.plant.svc", True, False),
        ("lab.plant.svc", False, True),
        ("filler.plant.svc", True, True),  # of another stage
        ("lab.office.svc", True, True),
        ("lab.example.com", True, True),
        ("lab.plant.svc.example.com", True, True),
        ("lab@monitor.example.com", True, True),
        ("monitor.plant.svc", True, True),
        ("10.0.0.7", True, True),
    ],
)
def test_no_certificate_but_a_gateways_is_believed_as_it_is(
    host: str, insecure: bool, verified: bool
) -> None:
    stages = canary(
        StagePolicy("pilot", ("lab",), 30.0, f"https://{host}/x?key=hidden"), StagePolicy("b", ("filler",))
    )
    fleet = SimulatedFleet(
        FIVE, stages, check=None, access=GatewayAccessPolicy(insecure_skip_verify=insecure)
    )
    fleet.decide()
    fleet.sync("lab")
    check_up = fleet.decide().check_up
    assert check_up is not None
    assert check_up.verified is verified


def test_a_slow_gateway_is_reported_and_counts_when_the_pause_is_over() -> None:
    fleet = SimulatedFleet(FIVE, two_stages(), check="lab answered 503")
    fleet.decide()
    fleet.sync("lab")
    assert fleet.decide().trouble is None
    (pilot, *_) = fleet.status.release.stages if fleet.status.release and fleet.status.release.stages else ()
    assert (pilot.state, pilot.message) == (
        "Soaking",
        "its health check has not passed yet: lab answered 503",
    )
    said, fleet.check = fleet.status, None
    fleet.decide(after=MIN_HEALTH_CHECK_SECONDS)
    assert fleet.status == said, "what was said stays said until there is another answer"
    fleet.check = ""
    fleet.decide()
    (pilot, *_) = fleet.status.release.stages if fleet.status.release and fleet.status.release.stages else ()
    assert (pilot.state, pilot.message) == ("Soaking", None)
    fleet.decide(after=MIN_HEALTH_CHECK_SECONDS)
    assert fleet.stages()["pilot"] == "Passed"


def test_a_check_that_fails_stops_everything_until_a_new_request_or_a_new_commit() -> None:
    fleet = SimulatedFleet(FIVE, two_stages(), check="lab answered 503")
    fleet.decide()
    fleet.sync("lab")
    fleet.decide()
    made = fleet.decide(after=31)
    assert made.trouble is not None
    assert (made.trouble.reason, made.trouble.message) == (
        Reason.CANARY_STAGE_FAILED,
        "stage pilot failed: its health check failed: lab answered 503; later stages keep what they have",
    )
    fleet.check = ""
    for _ in range(3):
        fleet.sync()
        fleet.decide(after=100)
        assert fleet.has_it() == {"lab"}, "also when it would pass now"
    fleet.asked += 1
    fleet.decide()
    assert fleet.stages()["pilot"] == "Soaking", "a new request begins anew"
    fleet.decide(after=31)
    assert fleet.has_it() == {"lab", "filler", "packer"}

    fleet.check = "no"
    fleet.number += 1
    fleet.decide()
    fleet.sync("lab")
    fleet.decide()
    assert fleet.decide(after=31).trouble is not None
    fleet.check, fleet.number = "", 3
    fleet.decide()
    assert (fleet.stages()["pilot"], fleet.has_it()) == ("Syncing", {"lab"}), "so does a new commit"


def test_a_gateway_that_fails_stops_everything_and_is_named() -> None:
    fleet = SimulatedFleet(
        FIVE, canary(StagePolicy("pilot", ("lab", "filler")), StagePolicy("rest", ("packer",)))
    )
    fleet.decide()
    fleet.act("filler", fails=True)
    made = fleet.decide()
    assert made.trouble is not None
    assert "stage pilot failed: gateway filler: SourceEmpty: nothing is there" in made.trouble.message
    fleet.sync("lab", "filler")
    fleet.decide()
    assert fleet.has_it() == {"lab", "filler"}, "that it came right later does not let the next stage go"


@pytest.mark.parametrize(
    ("report", "stops"),
    [
        ({"reason": Reason.SOURCE_UNREACHABLE}, False),
        ({"reason": Reason.SOURCE_EMPTY}, True),
        ({"reason": Reason.SOURCE_EMPTY, "commit": commit(0)}, False),
        ({"sync_status": SyncState.SYNCED, "quarantine": QuarantineReport(commit(1), "ScanFailure")}, True),
        ({"sync_status": SyncState.SYNCED, "quarantine": QuarantineReport(commit(0), "ScanFailure")}, False),
    ],
    ids=["git is away", "the commit is bad", "an older failure", "rolled back", "another was rolled back"],
)
def test_only_what_says_something_about_the_commit_stops_a_stage(
    report: dict[str, object], stops: bool
) -> None:
    fleet = SimulatedFleet(FIVE, two_stages())
    fleet.decide()
    before = fleet.reports["lab"]
    assert before is not None
    said: dict[str, object] = {"sync_status": SyncState.ERROR, "commit": commit(1), **report}
    fleet.reports["lab"] = replace(before, **said)  # type: ignore[arg-type]  # a table of fields
    assert (fleet.decide().trouble is not None) is stops


def test_a_stage_waits_for_verification_where_it_is_known() -> None:
    fleet = SimulatedFleet(
        ("lab", "filler"), canary(StagePolicy("pilot", ("lab",)), StagePolicy("rest", ("filler",)))
    )
    fleet.decide()
    fleet.sync("lab")
    report = fleet.reports["lab"]
    assert report is not None
    fleet.reports["lab"] = replace(report, verified=False)
    fleet.decide()
    assert fleet.stages()["pilot"] == "Syncing"
    fleet.reports["lab"] = replace(report, verified=True)
    fleet.decide()
    assert fleet.stages()["pilot"] == "Passed"


def test_a_gateway_that_does_not_exist_is_named_and_waited_for() -> None:
    fleet = SimulatedFleet(
        ("filler",), canary(StagePolicy("pilot", ("ghost",)), StagePolicy("rest", ("filler",)))
    )
    made = fleet.decide()
    assert fleet.has_it() == set()
    assert made.progress is not None
    assert made.progress.stages is not None
    assert made.progress.stages[0].message == "gateway ghost does not exist"


def test_stages_that_are_new_in_the_spec_are_not_gone_through_for_what_everybody_has() -> None:
    fleet = SimulatedFleet(FIVE)
    fleet.decide()
    fleet.sync()
    fleet.deployment, fleet.check = two_stages(), "it would fail"
    assert fleet.decide().check_up is None
    assert set(fleet.stages().values()) == {"Passed"}


def test_a_new_leader_goes_on_where_the_old_one_was() -> None:
    """Nothing but the status and the map is handed over, and a pass that could not write is made again."""
    fleet = SimulatedFleet(FIVE, two_stages())
    fleet.decide()
    fleet.sync("lab")
    fleet.decide()
    unwritten = fleet.status
    fleet.decide(after=31)
    assert fleet.has_it() == {"lab", "filler", "packer"}
    fleet.status = unwritten  # it died before it wrote the status, after it wrote the metadata
    fleet.check = None
    fleet.decide()
    assert fleet.has_it() == {"lab", "filler", "packer"}, "a released gateway is not called back"
    assert fleet.stages()["pilot"] == "Soaking"


# Who is never held, and who never goes back.


def test_a_gateway_that_was_never_synced_is_not_held() -> None:
    fleet = SimulatedFleet(FIVE, two_stages())
    fleet.reports["plant"] = GatewayReport("plant", sync_status=SyncState.ERROR)
    fleet.reports["office"] = None
    fleet.decide()
    assert fleet.has_it() == {"lab", "plant", "office"}


@pytest.mark.parametrize("passes", [0, 2], ids=["at once", "after passes in which it was silent"])
def test_a_pod_that_restarts_as_the_commit_comes_keeps_its_place(passes: int) -> None:
    fleet = SimulatedFleet(FIVE, two_stages())
    fleet.number = 0
    fleet.decide()  # everybody is there
    fleet.reports["plant"] = None
    for _ in range(passes):
        fleet.decide()
    fleet.number = 1
    fleet.decide()
    assert fleet.target("plant") == GatewayTarget(commit(0))
    assert fleet.has_it() == {"lab"}
    fleet.reports["plant"] = GatewayReport("plant", sync_status=SyncState.PENDING)
    fleet.decide()
    assert fleet.has_it() == {"lab", "plant"}, "it says that it never had anything"


def test_who_is_on_the_way_to_the_commit_before_stays_on_it_when_the_next_one_comes() -> None:
    fleet = SimulatedFleet(FIVE)
    fleet.decide()
    fleet.deployment = two_stages()
    fleet.act("plant")
    fleet.number = 2
    fleet.decide()
    assert fleet.target("plant") == GatewayTarget(commit(1)), "and not back at commit 0"
    assert fleet.has_it() == {"lab"}


def test_a_pod_that_is_replaced_comes_back_to_the_order_that_it_had() -> None:
    fleet = SimulatedFleet(FIVE, two_stages())
    fleet.decide()
    held = fleet.target("plant")
    assert held == GatewayTarget(commit(0))
    fleet.names = FIVE[:3] + FIVE[4:]
    fleet.decide()
    assert fleet.target("plant") == held, "while it is away"
    fleet.names = FIVE
    fleet.reports["plant"] = None
    fleet.decide()
    assert fleet.target("plant") == held

    fleet.names = FIVE[:3] + FIVE[4:]
    fleet.number = 2  # the commit comes while it is away
    fleet.decide()
    assert fleet.target("plant") == held


def test_orders_are_found_again_when_gateways_begin_to_go_by_the_names_of_their_pods() -> None:
    fleet = SimulatedFleet(("lab", "plant"), canary(StagePolicy("pilot", ("lab",))))
    fleet.decide()
    fleet.published = AgentMetadata(commit=commit(1), targets={"plant": GatewayTarget(commit(0))})
    pod = replace(fleet.gateway("plant"), target="plant-0")
    assert RolloutMember(pod, commit(1), current_order(pod, fleet.published)).let_go is False


# Order.

WEIGHTS = DeploymentPolicy(
    order=(
        GatewayOrderPolicy("plant", 100),
        GatewayOrderPolicy("filler", 80),
        GatewayOrderPolicy("packer", 80),
    )
)


def test_the_heaviest_go_first_all_together_then_the_next() -> None:
    fleet = SimulatedFleet(FIVE, WEIGHTS)
    fleet.decide()
    assert fleet.has_it() == {"plant"}
    assert {one.gateway: one.why for one in fleet.last.held}["lab"] == "plant of weight 100"
    fleet.sync("plant")
    fleet.decide()
    assert fleet.has_it() == {"plant", "filler", "packer"}
    fleet.sync("filler")
    fleet.decide()
    assert fleet.has_it() == {"plant", "filler", "packer"}
    fleet.sync()
    fleet.decide()
    assert fleet.has_it() == set(FIVE)
    assert fleet.last.trouble is None


def entry(gateway: str, *before: str, weight: int = 0) -> GatewayOrderPolicy:
    return GatewayOrderPolicy(gateway, weight, before)


@pytest.mark.parametrize(
    ("order", "waves"),
    [
        pytest.param(
            [entry("b", "a"), entry("c", "a"), entry("d", "b", "c")], ["a", "bc", "d"], id="a diamond"
        ),
        pytest.param([entry("b", "a"), entry("c", "b")], ["ad", "b", "c"], id="a chain, and one beside it"),
        pytest.param(
            [entry("a", weight=1), entry("b", "a"), entry("d", weight=1)],
            ["ad", "bc"],
            id="weights and dependencies",
        ),
    ],
)
def test_gateways_go_in_waves(order: list[GatewayOrderPolicy], waves: list[str]) -> None:
    fleet = SimulatedFleet(tuple("abcd"), DeploymentPolicy(order=tuple(order)))
    gone: set[str] = set()
    for wave in waves:
        fleet.decide()
        assert fleet.has_it() - gone == set(wave)
        gone |= set(wave)
        fleet.sync()
    fleet.decide()
    assert fleet.last.held == ()


@pytest.mark.parametrize(
    ("deployment", "profiles", "waits_for", "circle"),
    [
        pytest.param(
            DeploymentPolicy(order=(entry("a", "b"), entry("b", "a"))),
            {},
            {},
            "a waits for b waits for a",
            id="edges",
        ),
        pytest.param(
            DeploymentPolicy(order=(entry("a", "b", weight=5),)),
            {},
            {},
            "a waits for b waits for weight 5 waits for a",
            id="a weight against an edge",
        ),
        pytest.param(
            DeploymentPolicy(order=(entry("a", "b"),)),
            {"a": "base", "b": "area"},
            {"base": (), "area": ("base",)},
            "a waits for b waits for SyncProfile base waits for a",
            id="a profile against an edge",
        ),
        pytest.param(
            replace(canary(StagePolicy("s1", ("a",)), StagePolicy("s2", ("b",))), order=(entry("a", "b"),)),
            {},
            {},
            "a waits for b waits for stage s1 waits for a",
            id="a stage against an edge",
        ),
    ],
)
def test_a_circle_is_refused_and_spelt_out(
    deployment: DeploymentPolicy, profiles: dict[str, str], waits_for: dict[str, tuple[str, ...]], circle: str
) -> None:
    fleet = SimulatedFleet(("a", "b"), deployment, profiles=profiles, waits_for=waits_for)
    made = fleet.decide()
    assert made.trouble is not None
    assert made.trouble.reason is Reason.DEPENDENCY_CYCLE
    assert circle in made.trouble.message
    assert fleet.has_it() == set()


def test_whom_a_stage_depends_on_goes_with_it_if_it_is_in_none() -> None:
    """The specified example: plant is in no stage, and a gateway of the second stage depends on it."""
    order = (GatewayOrderPolicy("plant", 100), GatewayOrderPolicy("filler", 80, ("plant",)))
    stages = canary(StagePolicy("pilot", ("lab",)), StagePolicy("lines", ("filler", "packer")))
    fleet = SimulatedFleet(FIVE, replace(stages, order=order))
    waves: list[set[str]] = []
    for _ in range(5):
        before = fleet.has_it() if waves else set()
        made = fleet.decide()
        assert made.trouble is None
        waves.append(fleet.has_it() - before)
        fleet.sync()
    assert waves == [{"lab"}, {"plant"}, {"filler"}, {"packer"}, {"office"}]


def test_a_gateway_that_is_missing_from_the_order_is_named() -> None:
    fleet = SimulatedFleet(("a",), DeploymentPolicy(order=(entry("a", "ghost"),)))
    assert fleet.decide().held[0].why == "gateway ghost, which does not exist"


# Limits.


def test_so_many_at_once_first_come_first_served() -> None:
    fleet = SimulatedFleet(tuple("abcdef"), rate_limit=RateLimitPolicy(max_concurrent=2))
    made = fleet.decide()
    assert fleet.has_it() == {"a", "b"}
    assert made.progress is not None
    assert (made.progress.queued, made.progress.syncing, made.progress.queue) == (4, 2, ("c", "d", "e", "f"))
    assert {one.reason for one in made.held} == {Reason.WAITING_FOR_TURN}
    fleet.sync("b")
    fleet.decide()
    assert fleet.has_it() == {"a", "b", "c"}
    fleet.act("a", fails=True)
    fleet.decide()
    assert fleet.has_it() == {"a", "b", "c", "d"}, "who failed gives his place up"


def test_without_a_limit_all_go_and_with_an_empty_one_half_of_them() -> None:
    fleet = SimulatedFleet(tuple("abcde"))
    fleet.decide()
    assert len(fleet.has_it()) == 5
    assert fleet.last.progress is None
    assert (max_concurrent_syncs(RateLimitPolicy(), 5), max_concurrent_syncs(RateLimitPolicy(), 1)) == (2, 1)
    assert max_concurrent_syncs(RateLimitPolicy(max_concurrent=7), 1) == 7


def test_so_many_a_minute_over_every_sixty_seconds() -> None:
    fleet = SimulatedFleet(tuple("abcdef"), rate_limit=RateLimitPolicy(max_concurrent=6, per_minute=2))
    made = fleet.decide()
    assert (len(fleet.has_it()), made.begun) == (2, 2)
    fleet.sync()
    made = fleet.decide(after=30)
    assert (len(fleet.has_it()), made.begun) == (2, 0)
    assert made.again_in == 31.0
    fleet.decide(after=31)
    assert len(fleet.has_it()) == 4


@pytest.mark.parametrize(
    ("limit", "begun", "expected"),
    [
        (RateLimitPolicy(), [], 1000),
        (RateLimitPolicy(per_minute=3), [5.0], 2),
        (RateLimitPolicy(per_minute=3), [62.0], 3),
        (RateLimitPolicy(per_minute=60, burst=3), [], 3),
        (RateLimitPolicy(per_minute=60, burst=3), [0.0, 0.0, 0.0], 0),
        (RateLimitPolicy(per_minute=60, burst=3), [2.0, 2.0, 2.0], 2),
        (RateLimitPolicy(burst=2), [10.0, 10.0], 0),
        (RateLimitPolicy(burst=2), [40.0, 40.0], 0),
        (RateLimitPolicy(per_minute=4, burst=2), [40.0, 40.0], 2),
    ],
)
def test_the_room_that_a_minute_leaves(limit: RateLimitPolicy, begun: list[float], expected: int) -> None:
    times = [BEGIN - timedelta(seconds=ago) for ago in begun]
    kept = recent_starts([one.strftime("%Y-%m-%dT%H:%M:%SZ") for one in times], BEGIN)
    assert rate_limit_room(limit, kept, BEGIN).places == expected


def test_when_there_is_room_again_is_known() -> None:
    assert rate_limit_room(RateLimitPolicy(per_minute=60, burst=1), [BEGIN], BEGIN) == SyncCapacity(0, 1.0)


def test_limits_count_over_commits_and_over_leaders() -> None:
    fleet = SimulatedFleet(tuple("abcd"), rate_limit=RateLimitPolicy(max_concurrent=4, per_minute=4))
    fleet.decide()
    fleet.sync()
    fleet.number = 2
    fleet.decide(after=1)
    assert fleet.has_it() == set()


def test_a_queue_that_does_not_become_shorter_is_reported_after_a_minute() -> None:
    fleet = SimulatedFleet(tuple("abc"), rate_limit=RateLimitPolicy(max_concurrent=1))
    assert not fleet.decide().growing
    assert not fleet.decide(after=59).growing
    assert fleet.decide(after=2).growing
    fleet.sync("a")
    assert not fleet.decide().growing, "it became shorter"
    status = fleet.status
    fleet.decide(after=5)
    assert fleet.status == status, "time alone writes nothing"


# Stages with limits and approvals together.


def test_a_stage_that_asks_for_it_waits_for_an_approval_of_its_own() -> None:
    stages = canary(
        StagePolicy("pilot", ("lab",)), StagePolicy("lines", ("filler", "packer"), require_approval=True)
    )
    fleet = SimulatedFleet(FIVE, stages, approval=ApprovalPolicy(timeout=600.0))
    fleet.approve()  # before anything waits: it counts for nothing
    fleet.decide(after=5)
    assert fleet.has_it() == {"lab"}
    fleet.sync("lab")
    made = fleet.decide()
    assert made.approval is not None
    assert (made.approval.stage, made.approval.state) == ("lines", "Planning")
    assert fleet.target("filler") == GatewayTarget(commit(1), SyncMode.PLAN)
    assert fleet.target("plant") == GatewayTarget(commit(0)), "later stages plan nothing yet"
    fleet.sync()
    made = fleet.decide()
    assert made.approval is not None
    assert (made.approval.state, made.approval.files_modified) == ("Pending", 4)
    assert fleet.has_it() == {"lab"}
    fleet.approve("main", made.approval.digest or "")
    fleet.decide()
    assert fleet.has_it() == {"lab", "filler", "packer"}
    assert fleet.target("filler").plan
    fleet.sync()
    fleet.decide()
    assert fleet.has_it() == set(FIVE), "the last stage needs none"

"""Dependencies in a rollout: gateways of a profile wait for those it depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from stoker.controller.cache.gateways import FleetGateway, GatewayFleet, NeighbourGateway
from stoker.controller.cache.pods import AgentState, CachedPod
from stoker.controller.rollout import RolloutDecision, RolloutInputs, transitive_dependencies
from stoker.controller.rollout import decide_release as decide
from stoker.domain.protocol import GatewayReport, SyncState
from stoker.domain.refs import CommitId

OLD, NEW = CommitId("a" * 40), CommitId("b" * 40)


def gateway(
    name: str, profile: str, at: str = OLD, *, synced: bool = True, override: str = ""
) -> FleetGateway:
    pod = CachedPod(name, "plant", {}, {}, "default", AgentState.READY)
    status = SyncState.SYNCED if synced else SyncState.ERROR
    said = GatewayReport(name, pod_name=name, sync_status=status, synced_commit=at) if at else None
    return FleetGateway(pod, name, name, profile=profile, override=override, report=said, target=name)


def release(
    fleet: GatewayFleet,
    commit: CommitId | None,
    waits_for: Mapping[str, Sequence[str]],
    others: Sequence[NeighbourGateway] = (),
) -> RolloutDecision:
    return decide(RolloutInputs(fleet, commit, waits_for=waits_for, others=others))


def held(gateways: list[FleetGateway], waits_for: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Who is kept at which commit."""
    made = release(GatewayFleet(tuple(gateways)), NEW, waits_for)
    return {name: str(target.commit) for name, target in made.targets.items()}


CHAIN = {"base": (), "area": ("base",), "line": ("area",)}
DIAMOND = {"base": (), "left": ("base",), "right": ("base",), "top": ("left", "right")}


@pytest.mark.parametrize(
    ("gateways", "waits_for", "expected"),
    [
        pytest.param(
            [gateway("b", "base"), gateway("a", "area")], {}, {}, id="without order no gateway waits"
        ),
        pytest.param(
            [gateway("b", "base"), gateway("a", "area")], CHAIN, {"a": OLD}, id="the first is not done"
        ),
        pytest.param([gateway("b", "base", NEW), gateway("a", "area")], CHAIN, {}, id="the first is done"),
        pytest.param(
            [gateway("b", "base", NEW), gateway("a", "area"), gateway("l", "line")],
            CHAIN,
            {"l": OLD},
            id="the last waits for the one before it",
        ),
        pytest.param(
            [gateway("b", "base"), gateway("l", "line")],
            CHAIN,
            {"l": OLD},
            id="also over an unused profile",
        ),
        pytest.param(
            [gateway("b1", "base", NEW), gateway("b2", "base"), gateway("a", "area")],
            CHAIN,
            {"a": OLD},
            id="all gateways have to be done",
        ),
        pytest.param(
            [gateway("b", "base", NEW, synced=False), gateway("a", "area")],
            CHAIN,
            {"a": OLD},
            id="one that failed is not done",
        ),
        pytest.param(
            [gateway("b", "base"), gateway("a", "area", "")], CHAIN, {}, id="a new pod could never start"
        ),
        pytest.param([gateway("b", "base"), gateway("a", "area", NEW)], CHAIN, {}, id="who has it keeps it"),
        pytest.param(
            [gateway("b", "base"), gateway("a", "area", override="v1")], CHAIN, {}, id="a ref of its own"
        ),
        pytest.param([gateway("a", "area")], {"area": ("gone",)}, {"a": OLD}, id="a profile that is missing"),
        pytest.param(
            [
                gateway("b", "base", NEW),
                gateway("l", "left"),
                gateway("r", "right", NEW),
                gateway("t", "top"),
            ],
            DIAMOND,
            {"t": OLD},
            id="a diamond is no circle",
        ),
        pytest.param(
            [gateway("a", "one"), gateway("b", "two")],
            {"one": ("two",), "two": ("one",)},
            {"a": OLD, "b": OLD},
            id="in a circle everybody waits",
        ),
        pytest.param([gateway("b", "base"), gateway("a", "area", "no commit")], CHAIN, {}, id="a bad report"),
    ],
)
def test_gateways_stay_at_their_commit_until_those_before_them_are_done(
    gateways: list[FleetGateway], waits_for: dict[str, tuple[str, ...]], expected: dict[str, str]
) -> None:
    assert held(gateways, waits_for) == expected


def test_the_waiting_resource_and_its_dependency_are_reported() -> None:
    fleet = GatewayFleet((*(gateway(f"b{number}", "base") for number in range(5)), gateway("a", "area")))
    made = release(fleet, NEW, CHAIN)
    assert [(one.gateway, one.why) for one in made.held] == [
        ("a", "b0, b1, b2 and 2 more of SyncProfile base")
    ]
    assert made.ordered
    missing = release(GatewayFleet((gateway("a", "area"),)), NEW, {"area": ("gone",)})
    assert missing.held[0].why == "SyncProfile gone, which does not exist"


def test_a_gateway_of_another_resource_is_waited_for_at_its_own_commit() -> None:
    fleet, theirs = GatewayFleet((gateway("a", "area"),)), gateway("b", "base", "c" * 40)
    late = release(fleet, NEW, CHAIN, [NeighbourGateway(theirs, "d" * 40)])
    assert list(late.targets) == ["a"]
    done = release(fleet, NEW, CHAIN, [NeighbourGateway(theirs, "c" * 40)])
    assert done.targets == {}


def test_without_a_commit_there_is_nothing_to_release() -> None:
    assert release(GatewayFleet((gateway("a", "area"),)), None, CHAIN).targets == {}


def test_everything_before_a_profile_is_found_once() -> None:
    assert transitive_dependencies("top", DIAMOND) == ("left", "right", "base")
    assert transitive_dependencies("base", DIAMOND) == ()
    assert set(transitive_dependencies("one", {"one": ("two",), "two": ("one",)})) == {"one", "two"}

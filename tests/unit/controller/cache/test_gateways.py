"""Gateways of a resource: their pods, and the ConfigMaps with their reports."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.controller.cache.gateways import GatewayFleet, fleet_of, shards_for
from stoker.controller.cache.pods import AgentState, CachedPod
from stoker.domain.protocol import GatewayReport, StatusKeyMode, SyncState

COMMIT = "a" * 40


def pod(name: str, gateway: str = "", **more: Any) -> CachedPod:
    annotations = {"stoker.io/inject": "true", **more.pop("annotations", {})}
    if gateway:
        annotations["stoker.io/gateway-name"] = gateway
    said: dict[str, Any] = {"labels": {}, "account": "default", "agent": AgentState.READY, **more}
    return CachedPod(name=name, namespace="plant", annotations=annotations, **said)


def report(pod_name: str, commit: str = COMMIT, status: SyncState = SyncState.SYNCED) -> GatewayReport:
    return GatewayReport("g", pod_name=pod_name, sync_status=status, synced_commit=commit)


def names(fleet: GatewayFleet) -> list[str]:
    return [one.pod.name for one in fleet.gateways]


def test_pods_that_have_ended_or_are_leaving_are_no_gateways() -> None:
    fleet = fleet_of([pod("a"), pod("b", finished=True), pod("c", leaving=True)], {})
    assert names(fleet) == ["a"]
    assert fleet.accounted == {"a", "c"}, "who is leaving may still report"


def test_every_account_of_a_pod_with_an_agent_gets_its_rights_in_any_phase() -> None:
    pods = [
        pod("a", account="one", agent=AgentState.STARTING),
        pod("b", account="two", leaving=True),
        pod("c", account="three", agent=AgentState.NONE),
        pod("d", account="four", finished=True),
    ]
    assert fleet_of(pods, {}).accounts == ("one", "three", "two")


def test_pods_of_one_name_report_under_their_own_names() -> None:
    alone = fleet_of([pod("front-a", "front"), pod("front-b", "front", leaving=True)], {})
    assert alone.mode is StatusKeyMode.GATEWAY, "a rollout is no second gateway"
    assert [one.key for one in alone.gateways] == ["front"]
    both = fleet_of([pod("front-a", "front"), pod("front-b", "front"), pod("back")], {})
    assert both.mode is StatusKeyMode.POD
    assert [(one.name, one.key, one.target) for one in both.gateways] == [
        ("back", "back", "back"),
        ("front", "front-a", "front-a"),
        ("front", "front-b", "front-b"),
    ]


def test_a_report_belongs_to_the_pod_that_it_names() -> None:
    pods = [pod("front-b", "front")]
    predecessor = fleet_of(pods, {"front": report("front-a")})
    assert predecessor.gateways[0].report is None, "the report of another pod is not its own"
    old_shape = fleet_of(pods, {"front": report("")})
    assert old_shape.gateways[0].report is not None
    other_mode = fleet_of(pods, {"front-b": report("front-b")})
    assert other_mode.gateways[0].report is not None
    pair = [pod("front-b", "front"), pod("front-c", "front")]
    back = fleet_of(pair, {"front": report("front-b")})
    assert [one.report is not None for one in back.gateways] == [True, False]


def test_no_pod_reports_for_another_gateway_under_its_own_key() -> None:
    pods = [pod("front-b", "front"), pod("rogue-a", "rogue")]
    fleet = fleet_of(pods, {"rogue": report("front-b"), "rogue-a": report("front-b")})
    assert [one.report for one in fleet.gateways] == [None, None]


def test_being_done_is_being_synced_at_that_very_commit() -> None:
    def gateway(said: GatewayReport | None, **more: Any) -> Any:
        return fleet_of([pod("a", **more)], {} if said is None else {"a": said}).gateways[0]

    assert gateway(report("a")).is_at(COMMIT)
    assert not gateway(report("a")).is_at("b" * 40)
    assert not gateway(report("a", status=SyncState.SYNCING)).is_at(COMMIT)
    assert not gateway(None).is_at(COMMIT)
    assert not gateway(report("a", commit="")).is_at("")
    own = {"annotations": {"stoker.io/ref-override": "v1"}}
    assert gateway(report("a"), **own).is_at("b" * 40), "it is where its pod wants it"


def test_an_annotation_that_cannot_be_read_leaves_the_pods_own_name() -> None:
    fleet = fleet_of(
        [pod("a", "no/name"), pod("b", annotations={"stoker.io/sync-profile": "No Profile"})], {}
    )
    assert [one.name for one in fleet.gateways] == ["a", "b"]
    assert all(one.mistake for one in fleet.gateways)
    assert fleet.gateways[1].profile == ""


def keys(count: int, start: int = 0) -> list[str]:
    return [f"g{number:03}" for number in range(start, start + count)]


@pytest.mark.parametrize(
    ("count", "maps"), [(0, []), (1, []), (20, []), (21, [20, 1]), (40, [20, 20]), (45, [20, 20, 5])]
)
def test_a_map_holds_twenty(count: int, maps: list[int]) -> None:
    placed = list(shards_for(keys(count), {}).values())
    assert [placed.count(shard) for shard in range(len(maps))] == maps
    assert len(placed) == (count if maps else 0)


def test_no_gateway_changes_its_shard_without_need() -> None:
    before = shards_for(keys(25), {})
    fewer = shards_for(keys(22, start=3), before)
    assert all(before[key] == shard for key, shard in fewer.items())
    more = shards_for(["a-new-one", *keys(22, start=3)], fewer)
    assert more["a-new-one"] == 0, "a removed gateway leaves room"
    assert shards_for(keys(15), before) == {key: before[key] for key in keys(15)}
    assert shards_for(keys(10), before) == {}, "so few are in one place again"


def test_an_overfull_configmap_is_relieved() -> None:
    crowded = dict.fromkeys(keys(30), 3)
    placed = shards_for(keys(30), crowded)
    assert sorted(placed.values()) == [0] * 10 + [3] * 20

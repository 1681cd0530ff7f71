"""The rules behind a destination on its page, and the users who may see them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.dashboard.cluster.destinations import decode_destination
from stoker.dashboard.cluster.permissions import GrantedNamespaces, VisitorRights
from stoker.dashboard.cluster.rules import (
    HIDDEN,
    CachedWatchRule,
    DestinationKey,
    RulesByDestination,
    decode_rule,
    rule_problems,
)
from stoker.dashboard.cluster.view import ClusterViewSource
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import ClusterConfig
from stoker.kube.watch.store import ObjectChange, ObjectKey
from stoker_testkit.manual_clock import ManualClock

HERE = DestinationKey("plant", "site")


def rule(*conditions: dict[str, Any], kind: str = "WatchRule", **ref: str) -> CachedWatchRule:
    body = {
        "metadata": {"name": "maps", "namespace": "plant"},
        "spec": {"destinationRef": {"name": "site", **ref}},
        "status": {
            "conditions": [{"lastTransitionTime": "2026-05-01T08:00:00Z", **one} for one in conditions]
        },
    }
    return decode_rule(kind, json.dumps(body).encode())


def condition(type_: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("conditions", "trouble"),
    [
        ((), ""),
        ((condition("WatchErrored", "False", "NoneFound"),), ""),
        ((condition("WatchErrored", "True", "RBACDenied", "may not list pods"),), "may not list pods"),
        ((condition("DiscoveryDegraded", "True", "NoListWatch"),), "NoListWatch"),
        ((condition("Ready", "False", "InvalidSpec", "no rules"),), "no rules"),
        # The problems of the destination are on it already.
        ((condition("Ready", "False", "NetworkError", "away"),), ""),
        ((condition("RepoPushFailed", "True", "NetworkError", "away"),), ""),
    ],
)
def test_only_its_own_troubles_are_those_of_a_rule(
    conditions: tuple[dict[str, Any], ...], trouble: str
) -> None:
    assert rule(*conditions).trouble == trouble


def test_a_rule_sends_to_its_own_namespace_unless_it_names_another() -> None:
    assert rule().destination == HERE
    assert rule(namespace="other").destination == DestinationKey("other", "site")


def test_of_hidden_rules_only_the_existence_of_a_problem_is_shown() -> None:
    denied = rule(condition("WatchErrored", "True", "RBACDenied", "may not list pods"))
    assert rule_problems([denied, rule()], lambda one: True) == ("WatchRule maps: may not list pods",)
    assert rule_problems([denied, denied, rule()], lambda one: False) == (HIDDEN,)
    assert rule_problems([rule()], lambda one: False) == ()


def test_a_rule_that_moves_is_no_longer_where_it_was() -> None:
    book, old, new = RulesByDestination(), rule(), rule(namespace="other")
    assert book.replace(None, old) == {HERE}
    assert book.replace(old, new) == {HERE, new.destination}
    assert (book.of(HERE), book.of(new.destination)) == ((), (new,))
    assert book.replace(new, None) == {new.destination}
    assert book.of(new.destination) == ()


async def test_a_destination_is_shown_with_the_problems_of_its_rules() -> None:
    body = {"metadata": {"name": "site", "namespace": "plant"}, "spec": {"repoRef": {"name": "repo"}}}
    denied = rule(condition("WatchErrored", "True", "RBACDenied", "may not list pods"))
    everywhere = GrantedNamespaces(everywhere=True)
    boss = VisitorRights({"GitDestination": everywhere, "WatchRule": everywhere}).sight(may_stop=False)
    guest = VisitorRights({"GitDestination": everywhere}).sight(may_stop=False)
    async with KubeClient(ClusterConfig("http://127.0.0.1:1")) as client:
        scene = ClusterViewSource(client, "stoker-system", (), ManualClock(), rules=True)
        feed = {one.resource.kind: one for one in scene.reflectors}

        def tell(kind: str, name: str, old: object, new: object) -> None:
            feed[kind]._deliver(ObjectChange(ObjectKey("plant", name), "u", "1", old, new))

        tell("WatchRule", "maps", None, denied)  # it may be heard of first
        tell("GitDestination", "site", None, decode_destination(json.dumps(body).encode()))
        (seen,), (hidden,) = scene.picture(boss).destinations, scene.picture(guest).destinations
        assert seen.troubles == ("WatchRule maps: may not list pods",)
        assert hidden.troubles == (HIDDEN,)
        assert seen.rules is None, "who has not read all rules does not say how many there are"
        version = scene.version()
        tell("WatchRule", "maps", denied, rule())
        changes = scene.changes(version, boss)
        assert changes is not None
        assert changes.destinations[0].troubles == ()
        assert "WatchRule" not in {one.resource.kind for one in ClusterViewSource(client, "x").reflectors}


def test_what_is_well_and_should_be_known_and_who_has_to_act() -> None:
    def told(*conditions: dict[str, Any]) -> tuple[tuple[str, ...], bool]:
        since = {"lastTransitionTime": "2026-05-01T08:00:00Z"}
        status = {"conditions": [{**since, **one} for one in conditions]}
        body = {"metadata": {"name": "site", "namespace": "plant"}, "status": status}
        now = decode_destination(json.dumps(body).encode()).now
        return now.warnings, now.stalled

    assert told() == ((), False)
    assert told(condition("SecretsInClear", "False", "NoneFound")) == ((), False)
    assert told(condition("SecretsInClear", "True", "SecretsInClear", "in clear")) == (("in clear",), False)
    assert told(condition("Stalled", "True", "BranchNotAllowed", "no")) == ((), True)

"""The metadata for agents, and when it changes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from stoker.api.kinds.stoker import Stoker
from stoker.api.manifests.codec import from_wire
from stoker.api.to_intent import SettledResource, intent_for, merge_spec
from stoker.controller.cache.gateways import GatewayFleet
from stoker.controller.owned.metadata import (
    CommitDelivery,
    InstallationOptions,
    build_metadata,
    decide_delivery,
)
from stoker.controller.rollout import RolloutDecision
from stoker.controller.spec.load import LoadedSpec
from stoker.domain.protocol import AgentMetadata
from stoker.domain.refs import CommitId, GitRef, RepoUrl

URL = RepoUrl("https://git.test/plant.git")
MAIN, V1 = GitRef("main"), GitRef("v1")
OLD, NEW = CommitId("a" * 40), CommitId("b" * 40)
TOLD = AgentMetadata(commit=OLD, ref=MAIN, trigger="webhook", triggered_at="then", git_url=URL)


@pytest.mark.parametrize(
    ("found", "ref", "published", "expected"),
    [
        pytest.param(OLD, MAIN, None, CommitDelivery(OLD, MAIN, "polling", "now"), id="the first time"),
        pytest.param(OLD, MAIN, TOLD, CommitDelivery(OLD, MAIN, "webhook", "then"), id="nothing new"),
        pytest.param(NEW, MAIN, TOLD, CommitDelivery(NEW, MAIN, "polling", "now"), id="a new commit"),
        pytest.param(OLD, V1, TOLD, CommitDelivery(OLD, V1, "polling", "now"), id="another name of the same"),
        pytest.param(None, V1, TOLD, CommitDelivery(OLD, MAIN, "webhook", "then"), id="not found: all stays"),
        pytest.param(None, MAIN, None, CommitDelivery(None, MAIN), id="nothing is known"),
        pytest.param(
            None,
            MAIN,
            replace(TOLD, git_url=RepoUrl("https://git.test/other.git")),
            CommitDelivery(None, MAIN),
            id="the commit of another repository means nothing here",
        ),
    ],
)
def test_commit_and_ref_change_together_or_not_at_all(
    found: CommitId | None, ref: GitRef, published: AgentMetadata | None, expected: CommitDelivery
) -> None:
    assert decide_delivery(found, ref, URL, published, trigger="polling", now="now") == expected


def understood(annotations: dict[str, str] | None = None, **spec: Any) -> LoadedSpec:
    meta = {"name": "line", "namespace": "plant", "generation": 3, "annotations": annotations or {}}
    git = {"repo": str(URL), "ref": "main", **spec.pop("git", {})}
    settled: SettledResource[Any] = merge_spec(
        from_wire({"metadata": meta, "spec": {"git": git, **spec}}, Stoker)
    )
    return LoadedSpec(settled, intent_for(settled), (), (), (), ())


def told(known: LoadedSpec, **more: Any) -> AgentMetadata:
    what = CommitDelivery(OLD, MAIN, "spec", "now")
    installation = InstallationOptions(cluster_name="north", require_known_hosts=True)
    return build_metadata(
        known,
        GatewayFleet(),
        what,
        RolloutDecision(),
        {},
        paused=more.pop("paused", False),
        installation=installation,
    )


def test_every_key_is_there_and_can_be_read_again() -> None:
    key = {"name": "gateway", "key": "apiKey"}
    login = {"token": {"secretRef": {"name": "forge", "key": "token"}}}
    made = told(
        understood(git={"auth": login}, gateway={"apiKeySecretRef": key}, excludePatterns=["a/{b,c}", "d"])
    )
    data = made.data()
    assert AgentMetadata.parse(data) == made
    assert {name: data[name] for name in ("commit", "ref", "trigger", "triggeredAt", "gitURL")} == {
        "commit": OLD,
        "ref": "main",
        "trigger": "spec",
        "triggeredAt": "now",
        "gitURL": URL,
    }
    assert (data["authType"], data["authSecretName"], data["authSecretKey"]) == ("token", "forge", "token")
    assert (data["apiKeySecret"], data["apiKeySecretKey"]) == ("gateway", "apiKey")
    assert (data["gatewayPort"], data["gatewayTLS"]) == ("8043", "true"), "what is unset is made concrete"
    assert (data["paused"], data["terminating"], data["protocolVersion"]) == ("false", "false", "1")
    assert data["excludePatterns"] == "a/{b,c},d"
    spec = json.loads(data["agentSpec"])
    assert (spec["clusterName"], spec["requireKnownHosts"]) == ("north", True)


def test_a_request_changes_nothing_for_the_agents_and_an_approval_does() -> None:
    plain = told(understood())
    asked = told(
        understood({"stoker.io/requested-at": "2026-03-02T08:00:00Z", "stoker.io/requested-ref": "v1"})
    )
    approved = told(understood({"stoker.io/approved-plan": "0123456789abcdef"}))
    assert asked == plain
    assert approved != plain


def test_agents_never_learn_of_an_app_or_of_alarms() -> None:
    app = {"appId": 1, "installationId": 2, "privateKeySecretRef": {"name": "app", "key": "pem"}}
    alarm = {"enabled": True, "webhooks": [{"type": "slack", "url": "https://hooks.test/canary"}]}
    made = told(understood(git={"auth": {"githubApp": app}}, alerting=alarm))
    text = json.dumps(made.data())
    assert "canary" not in text
    assert "pem" not in text
    assert (made.auth_type, made.auth_secret and made.auth_secret.name) == ("token", "stoker-git-token-line")


def test_a_rollback_is_requested_with_the_value_as_its_id() -> None:
    made = told(understood(rollback={"toCommit": str(NEW)}))
    assert made.rollback is not None
    assert (made.rollback.id, made.rollback.to_commit) == (NEW, NEW)
    snapshot = told(understood(rollback={"toSnapshot": "gw-2026"}))
    assert snapshot.rollback is not None
    assert snapshot.rollback.to_snapshot == "gw-2026"

"""The identity of an agent, and the check of its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.agent.identity import AgentIdentity, AgentPaths, check_pod
from stoker.api.to_intent import PodFacts
from stoker.domain.errors import Misconfigured, Stalled
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.reasons import Reason

INJECTED = {"POD_NAME": "gateway-0", "POD_NAMESPACE": "plant", "CR_NAME": "line", "GATEWAY_NAME": "filler"}
OURS = PodFacts(
    "gateway-0",
    "plant",
    labels={"stoker.io/cr-name": "line", "stoker.io/cr-kind": "Stoker"},
    annotations={"stoker.io/cr-name": "line"},
)


def test_the_injectors_variables_say_who_it_is_and_the_kind_decides_on_the_maps() -> None:
    stoker = AgentIdentity.read(INJECTED)
    assert (stoker.pod, stoker.gateway, stoker.door) == ("gateway-0", "filler", SyncResourceKind.STOKER)
    assert (stoker.metadata_map, stoker.status_map(2)) == (
        "stoker-metadata-line",
        "stoker-statusshard-2-line",
    )
    older = AgentIdentity.read({**INJECTED, "CR_KIND": "IgnitionSync"})
    assert older.metadata_map == "ignition-sync-metadata-line"


@pytest.mark.parametrize("name", ["POD_NAME", "POD_NAMESPACE", "CR_NAME"])
def test_a_missing_variable_is_named(name: str) -> None:
    with pytest.raises(Misconfigured, match=name):
        AgentIdentity.read({**INJECTED, name: " "})


def test_a_kind_that_is_none_is_named() -> None:
    with pytest.raises(Misconfigured, match="CR_KIND is 'Gateway'"):
        AgentIdentity.read({**INJECTED, "CR_KIND": "Gateway"})


def test_no_place_comes_from_the_environment() -> None:
    places = AgentPaths()
    assert [str(one) for one in (places.repo, places.data, places.git_credentials, places.api_key)] == [
        "/repo",
        "/ignition-data",
        "/etc/stoker/git-credentials",
        "/etc/stoker/api-key",
    ]
    assert str(places.podinfo / "annotations") == "/etc/podinfo/annotations"
    assert [str(one) for one in places.hooks] == ["/opt/stoker/hooks", "/opt/ignition-sync/hooks"]


def test_the_pod_that_it_was_injected_for_is_accepted() -> None:
    check_pod(AgentIdentity.read(INJECTED), OURS)
    check_pod(AgentIdentity.read(INJECTED), replace(OURS, labels={}))
    check_pod(AgentIdentity.read(INJECTED), replace(OURS, annotations={}))


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (replace(OURS, name="gateway-1"), "'gateway-1' and POD_NAME"),
        (replace(OURS, annotations={"stoker.io/cr-name": "other"}), "annotation cr-name is 'other'"),
        (replace(OURS, annotations={"ignition-sync.io/cr-name": "other"}), "annotation cr-name is 'other'"),
        (replace(OURS, labels={"stoker.io/cr-name": "other"}), "label stoker.io/cr-name is 'other'"),
        (replace(OURS, labels={"stoker.io/cr-kind": "IgnitionSync"}), "label stoker.io/cr-kind"),
        (replace(OURS, labels={}, annotations={}), "neither annotation cr-name nor label"),
    ],
)
def test_every_other_pod_is_refused_with_what_differs(found: PodFacts, named: str) -> None:
    with pytest.raises(Stalled) as refused:
        check_pod(AgentIdentity.read(INJECTED), found)
    assert named in refused.value.message
    assert refused.value.reason is Reason.WRONG_POD

"""The pod's own files: read anew each time, as the kubelet writes them, and noticed when they change."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.identity import AgentIdentity, AgentPaths
from stoker.agent.sidecar.podinfo import PodInfo
from stoker.api.to_intent.pod_facts import PodAnnotationKey, gateway_name
from stoker.domain.errors import InvalidValue
from stoker_testkit.environments.agent_pod import AgentPod


@pytest.fixture
def pod(tmp_path: Path) -> AgentPod:
    return AgentPod.create(tmp_path, "plant")


@pytest.fixture
def info(pod: AgentPod) -> PodInfo:
    identity = AgentIdentity(pod.name, pod.namespace, pod.resource, gateway="from-the-injector")
    return PodInfo(AgentPaths(pod.root), identity)


def test_a_change_is_seen_in_the_stamps_and_in_the_next_reading(pod: AgentPod, info: PodInfo) -> None:
    before = info.stamps()
    assert info.stamps() == before
    pod.annotate({"ref-override": 'a "quoted"\nvalue\\ with ünïcode'})
    assert info.stamps() != before
    found = info.read().annotation(PodAnnotationKey.REF_OVERRIDE)
    assert found is not None
    assert found.value == 'a "quoted"\nvalue\\ with ünïcode'
    pod.annotate({"ref-override": None})
    assert info.read().annotation(PodAnnotationKey.REF_OVERRIDE) is None


def test_the_gateways_name_is_the_pods_own_and_else_the_injectors(pod: AgentPod, info: PodInfo) -> None:
    assert gateway_name(info.read()) == "filler"
    pod.annotate({"gateway-name": None})
    assert gateway_name(info.read()) == "from-the-injector"


def test_files_that_are_not_there_hold_nothing(tmp_path: Path) -> None:
    facts = PodInfo(AgentPaths(tmp_path / "empty"), AgentIdentity("p", "n", "r")).read()
    assert (facts.name, facts.namespace, dict(facts.labels), dict(facts.annotations)) == ("p", "n", {}, {})


@pytest.mark.parametrize("text", ["no equals sign", 'key="open', 'key="\\q"', "\x00"])
def test_what_no_kubelet_writes_is_refused_by_its_line(pod: AgentPod, info: PodInfo, text: str) -> None:
    pod.rewrite_podinfo({"annotations": f'fine="yes"\n{text}'})
    with pytest.raises(InvalidValue, match="the pod's annotations: line 2"):
        info.read()

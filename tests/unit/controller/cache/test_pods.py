"""The cached facts of a pod, and the state of its agent's container."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.controller.cache.pods import AgentState, decode_pod


def raw(
    *, agent: dict[str, Any] | None = None, phase: str = "Running", sidecar: str = "stoker-agent", **meta: Any
) -> bytes:
    pod: dict[str, Any] = {
        "metadata": {"name": "gateway-0", "namespace": "plant", **meta},
        "spec": {"containers": [{"name": "gateway"}], "serviceAccountName": "ignition"},
        "status": {"phase": phase},
    }
    if sidecar:
        pod["spec"]["initContainers"] = [{"name": sidecar, "restartPolicy": "Always"}]
    if agent is not None:
        pod["status"]["initContainerStatuses"] = [{"name": sidecar, **agent}]
    return json.dumps(pod).encode()


ASKS: dict[str, Any] = {"annotations": {"stoker.io/inject": "true", "kubectl.kubernetes.io/last": "x" * 100}}


def test_pods_that_want_nothing_of_us_are_not_kept() -> None:
    assert decode_pod(raw(sidecar="")) is None
    assert decode_pod(raw(sidecar="", annotations={"stoker.io/other": "x"})) is None
    assert decode_pod(raw(sidecar="", annotations={"stoker.io/inject": "false"})) is None


def test_of_a_gateways_pod_only_what_decides_is_kept() -> None:
    pod = decode_pod(raw(**ASKS, agent={"ready": True}))
    assert pod is not None
    assert pod.annotations == {"stoker.io/inject": "true"}
    assert (pod.account, pod.agent, pod.active) == ("ignition", AgentState.READY, True)
    legacy = decode_pod(raw(sidecar="", annotations={"ignition-sync.io/inject": "true"}))
    assert legacy is not None
    assert legacy.agent is AgentState.NONE


@pytest.mark.parametrize(
    ("agent", "phase", "expected"),
    [
        pytest.param(None, "Pending", AgentState.STARTING, id="nothing is known yet"),
        pytest.param({"ready": False, "started": False}, "Pending", AgentState.STARTING, id="its first sync"),
        pytest.param(
            {"state": {"waiting": {"reason": "PodInitializing"}}},
            "Pending",
            AgentState.STARTING,
            id="waiting",
        ),
        pytest.param({"ready": True, "started": True}, "Running", AgentState.READY, id="ready"),
        pytest.param({"ready": False, "started": True}, "Running", AgentState.LOST, id="ready no more"),
        pytest.param(
            {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}, "Running", AgentState.LOST, id="crashing"
        ),
        pytest.param({"state": {"terminated": {"exitCode": 1}}}, "Running", AgentState.LOST, id="ended"),
        pytest.param({"ready": True}, "Failed", AgentState.LOST, id="the pod has failed"),
    ],
)
def test_the_readiness_of_the_container_is_the_sign_of_life(
    agent: dict[str, Any] | None, phase: str, expected: AgentState
) -> None:
    pod = decode_pod(raw(**ASKS, agent=agent, phase=phase))
    assert pod is not None
    assert pod.agent is expected


@pytest.mark.parametrize("name", ["stoker-agent", "sync-agent"])
def test_an_agent_is_known_by_its_container_also_by_the_old_name(name: str) -> None:
    pod = decode_pod(raw(**ASKS, sidecar=name, agent={"ready": True}))
    assert pod is not None
    assert pod.agent is AgentState.READY


def test_the_label_of_the_injector_wins_over_what_the_pod_says() -> None:
    said = {
        "stoker.io/inject": "true",
        "stoker.io/cr-name": "said",
        "ignition-sync.io/cr-kind": "IgnitionSync",
    }
    stamped = {"stoker.io/cr-name": "stamped", "stoker.io/cr-kind": "Stoker"}
    bare, labelled = decode_pod(raw(annotations=said)), decode_pod(raw(annotations=said, labels=stamped))
    assert bare is not None
    assert labelled is not None
    assert (bare.resource, bare.resource_kind) == ("said", "IgnitionSync")
    assert (labelled.resource, labelled.resource_kind) == ("stamped", "Stoker")
    nameless = decode_pod(raw(**ASKS))
    assert nameless is not None
    assert nameless.resource == "*"

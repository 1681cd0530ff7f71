"""Reviews that no API server would send: a client that reaches the port can send anything (class 18)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.kinds.stoker import Stoker
from stoker.api.manifests.codec import from_wire
from stoker.api.to_intent import intent_for, merge_spec
from stoker.api.to_intent.annotations.annotations import pod_settings
from stoker.domain.errors import StokerError
from stoker.domain.pods.images import ImageRef
from stoker.domain.pods.injection import AgentInstallation
from stoker.webhooks.admission.crd_conversion import answer_conversion
from stoker.webhooks.admission.inject import Injection, InjectionRules, asks_for_agent, build_injection
from stoker.webhooks.admission.pod_model import AdmittedPod, read_pod
from stoker.webhooks.admission.reviews import AdmissionRequest, read_admission
from stoker_testkit.admission.json_patch import patched

PODS = Path(__file__).parents[1] / "data" / "pods"
RULES = InjectionRules(AgentInstallation(ImageRef.parse("registry.test/stoker:1.0")))
KEY = {"name": "key", "key": "apiKey"}
INTENT = intent_for(
    merge_spec(
        from_wire(
            {
                "metadata": {"name": "plant", "namespace": "site"},
                "spec": {
                    "git": {
                        "repo": "https://h.test/x.git",
                        "ref": "main",
                        "auth": {"token": {"secretRef": KEY}},
                    },
                    "gateway": {"apiKeySecretRef": KEY, "caSecretRef": KEY},
                },
            },
            Stoker,
        )
    )
)
OURS = ("stoker.io/", "ignition-sync.io/")


def outcome(document: object) -> dict[str, Any] | None:
    """The pod after injection; None where it was left alone or refused with a sentence."""
    pod = expect_result_or_sentence(lambda: read_pod(json.dumps(document).encode()))
    if not isinstance(pod, AdmittedPod) or not asks_for_agent(pod, pod.facts("site")):
        return None
    facts = pod.facts("site")
    done = expect_result_or_sentence(lambda: build_injection(pod, facts, pod_settings(facts), INTENT, RULES))
    assert isinstance(document, dict)
    return patched(document, done.patch) if isinstance(done, Injection) else None


def expect_result_or_sentence(call: Callable[[], object]) -> object:
    """What a call returns, or the sentence with which it refuses; nothing else may come out of it."""
    try:
        return call()
    except StokerError as error:
        sentence = error.message
    assert 0 < len(sentence) < 3000
    return sentence


def without_ours(document: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """What is left of a pod when everything that bears our names is taken away again."""
    for place in ("initContainers", "containers", "volumes"):
        kept = len(before["spec"].get(place) or [])
        added = document["spec"].get(place, [])[kept:]
        assert all(one["name"].startswith(("stoker-", "pod-annotations")) for one in added)
        if place in before["spec"]:
            document["spec"][place] = document["spec"][place][:kept] or before["spec"][place]
        else:
            document["spec"].pop(place, None)
    for place in ("annotations", "labels"):
        old = before["metadata"].get(place)
        left = {
            key: value
            for key, value in (document["metadata"].get(place) or {}).items()
            if not key.startswith(OURS) or key in (old or {})
        }
        for key in left:
            if key.startswith(OURS):
                left[key] = (old or {})[key]
        document["metadata"][place] = left or old
        if place not in before["metadata"]:
            document["metadata"].pop(place)
    return document


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(one for key, item in below for one in places(item, (*path, key)))]


STRANGE: list[Any] = [
    None,
    True,
    0,
    -1,
    1e308,
    "",
    "x" * 10_000,
    "\x00\ud800",
    [],
    {},
    [None],
    [[]],
    {"": None},
    "../../x",
]


@pytest.mark.parametrize("name", ["gateway", "frontend"])
def test_a_strange_value_at_any_place_of_a_pod_is_refused_or_harmless(name: str) -> None:
    original = json.loads((PODS / f"{name}.json").read_text())
    everywhere = places(original)
    taken = 0
    for path in everywhere[1:]:
        for strange in STRANGE:
            document = json.loads(json.dumps(original))
            place = document
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = strange
            before = json.loads(json.dumps(document))
            after = outcome(document)
            if after is not None:
                taken += 1
                assert without_ours(after, before) == before
    assert taken > 100, "most of a pod is none of our business"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_no_json_is_beyond_the_readers(value: Any) -> None:
    outcome(value)
    body = json.dumps(value).encode()
    expect_result_or_sentence(lambda: read_admission(body))
    expect_result_or_sentence(lambda: asyncio.run(answer_conversion(body)))


def test_a_pod_with_a_thousand_containers_costs_a_moment() -> None:
    document = json.loads((PODS / "gateway.json").read_text())
    container = document["spec"]["containers"][0]
    mounts = [{"name": f"v{number}", "mountPath": f"/mnt/{number}"} for number in range(50)]
    for number in range(1000):
        more = {**container, "name": f"c{number}", "volumeMounts": mounts}
        document["spec"]["containers"].append(more)
        document["spec"]["volumes"].append({"name": f"v{number}", "emptyDir": {}})
    began = time.process_time()
    after = outcome(document)
    assert time.process_time() - began < 3
    assert after is not None
    assert after["spec"]["containers"] == document["spec"]["containers"]


def test_huge_annotations_cost_a_moment_and_are_not_repeated() -> None:
    document = json.loads((PODS / "gateway.json").read_text())
    many = {f"stoker.io/sync-profil-{number}": "x" * 20 for number in range(5_000)}
    document["metadata"]["annotations"] |= {**many, "example.net/blob": "y" * 200_000}
    raw = json.dumps(document).encode()
    began = time.process_time()
    pod = read_pod(raw)
    facts = pod.facts("site")
    done = build_injection(pod, facts, pod_settings(facts), INTENT, RULES)
    assert time.process_time() - began < 1
    assert len(json.dumps(done.patch)) < 20_000
    assert len(done.notices) < 30


def test_a_volume_of_every_name_that_we_could_take_does_not_stop_us_for_long() -> None:
    document = json.loads((PODS / "gateway.json").read_text())
    for name in ("stoker-repo", "stoker-tmp", "pod-annotations", "stoker-token"):
        document["spec"]["volumes"] += [{"name": name}, *({"name": f"{name}-{n}"} for n in range(2, 2000))]
    began = time.process_time()
    after = outcome(document)
    assert time.process_time() - began < 2
    assert after is not None
    names = [one["name"] for one in after["spec"]["volumes"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("depth", [2_000, 100_000])
def test_a_body_that_is_nested_without_end_is_read_or_refused(depth: int) -> None:
    bomb = '{"x":' * depth + "1" + "}" * depth
    body = (
        '{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",'
        f'"request":{{"uid":"u","object":{{"metadata":{bomb}}},"extra":{bomb}}}}}'
    ).encode()
    review = expect_result_or_sentence(lambda: read_admission(body))
    if isinstance(review, AdmissionRequest):
        expect_result_or_sentence(lambda: read_pod(review.new or b""))
    else:
        assert "nested" in str(review)

"""Event handlers: which changes enqueue a resource."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.controller.cache.handlers import KeySink, SecretReferences, has_news, has_spec_change
from stoker.controller.cache.objects import CachedResource, ResourceKey, decode_object
from stoker.domain.protocol import GatewayReport
from stoker.kube.watch.store import ObjectKey

GROUP = "stoker.io"


def kept(**more: Any) -> CachedResource:
    meta = {"name": "line", "generation": 1, "finalizers": [f"{GROUP}/finalizer"], **more.pop("meta", {})}
    return decode_object(json.dumps({"metadata": meta, **more}).encode())


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param({"status": {"conditions": []}}, False, id="a status is only a report"),
        pytest.param({"meta": {"generation": 2}}, True, id="the spec"),
        pytest.param({"meta": {"annotations": {f"{GROUP}/requested-at": "x"}}}, True, id="a request"),
        pytest.param(
            {"meta": {"annotations": {"sync.ignition.io/requested-ref": "x"}}}, True, id="the other"
        ),
        pytest.param({"meta": {"annotations": {"approved-by": "alice"}}}, True, id="a bare approval"),
        pytest.param({"meta": {"annotations": {"example.com/note": "x"}}}, False, id="foreign"),
        pytest.param({"meta": {"labels": {"team": "north"}}}, False, id="a label"),
        pytest.param({"meta": {"deletionTimestamp": "2026-03-02T08:15:00Z"}}, True, id="its end"),
        pytest.param({"meta": {"finalizers": []}}, True, id="our finalizer is gone"),
    ],
)
def test_only_what_is_wanted_concerns_a_resource(after: dict[str, Any], expected: bool) -> None:
    assert has_spec_change(kept(), kept(**after)) is expected


def test_a_heartbeat_is_not_a_change() -> None:
    first = GatewayReport("a", heartbeat_at="2026-03-02T08:15:00Z").json()
    beat = GatewayReport("a", heartbeat_at="2026-03-02T08:20:00Z").json()
    moved = GatewayReport("a", heartbeat_at="2026-03-02T08:20:00Z", synced_commit="b" * 40).json()
    assert not has_news({"a": first}, {"a": beat})
    assert has_news({"a": first}, {"a": moved})
    assert has_news({"a": first}, {"a": beat, "b": first})
    assert has_news({"a": first}, {})
    assert has_news({"a": "{"}, {"a": "{{"})


def test_who_names_a_secret_is_found_and_forgotten() -> None:
    references = SecretReferences()
    one, two = (ResourceKey("Stoker", ObjectKey("plant", name)) for name in ("one", "two"))
    secret = ObjectKey("plant", "forge")
    references.put(one, {"forge", "gateway"})
    references.put(two, {"forge"})
    assert set(references.users(secret)) == {one, two}
    assert references.users(ObjectKey("other", "forge")) == ()
    references.put(one, {"gateway"})
    assert references.users(secret) == (two,)
    references.forget(two)
    assert references.users(secret) == ()


def test_a_sink_takes_the_keys_of_its_namespaces_and_drops_all_others() -> None:
    taken: list[str] = []
    sink = KeySink(
        lambda key: taken.append(f"now {key.object}"),
        lambda key: taken.append(f"soon {key.object}"),
        lambda key: taken.append(f"profile {key}"),
    ).only(lambda namespace: namespace == "north")
    for namespace in ("north", "south"):
        where = ObjectKey(namespace, "line")
        sink.now(ResourceKey("Stoker", where))
        sink.soon(ResourceKey("Stoker", where))
        sink.profile(where)
    assert taken == ["now north/line", "soon north/line", "profile north/line"]

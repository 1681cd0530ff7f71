"""A resource with everything that it inherits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.api.kinds.ignitionsync import ALLOWED_NAMESPACES
from stoker.api.to_intent.inheritance import installation_defaults
from stoker.controller.cache.informers import ControllerInformers, WatchScope
from stoker.controller.cache.objects import ResourceKey, decode_object
from stoker.controller.spec.load import SpecLoader
from stoker.domain.clock import SystemClock
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import ClusterConfig
from stoker.kube.watch.store import ObjectKey

DEFAULTS: dict[str, Any] = {"gateway": {"apiKeySecretRef": {"name": "by-default", "key": "k"}}}
BASE: dict[str, Any] = {"webhook": {"secretRef": {"name": "by-base", "key": "k"}}}
ALERT = {"type": "slack", "urlSecretRef": {"name": "alert", "key": "url"}}
"""The controller reads it only when an alert is sent."""
OWN: dict[str, Any] = {
    "git": {
        "repo": "https://git.example.com/a.git",
        "ref": "main",
        "auth": {"token": {"secretRef": {"name": "own", "key": "k"}}},
    }
}


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        (OWN, ("by-default", "own")),
        ({**OWN, "inheritsFrom": {"name": "base", "namespace": "shared"}}, ("by-base", "by-default", "own")),
        ({**OWN, "alerting": {"webhooks": [ALERT]}}, ("alert", "by-default", "own")),
    ],
)
def test_the_names_of_all_secrets_that_spec_base_and_defaults_name(
    spec: dict[str, Any], names: tuple[str, ...]
) -> None:
    observed = ControllerInformers(
        KubeClient(ClusterConfig("http://127.0.0.1:9")), WatchScope("home"), SystemClock()
    )
    meta = {"name": "base", "namespace": "shared", "annotations": {ALLOWED_NAMESPACES: "plant"}}
    (bases,) = observed.bases.reflectors
    raw = msgspec.json.encode({"metadata": meta, "spec": BASE})
    entry = bases.store.read(ObjectKey("shared", "base"), "u", "1", raw)
    assert entry is not None
    bases.store.put(ObjectKey("shared", "base"), entry)
    kept = decode_object(msgspec.json.encode({"metadata": {"name": "s", "namespace": "plant"}, "spec": spec}))
    key = ResourceKey("IgnitionSync", ObjectKey("plant", "s"))
    understood = SpecLoader(observed, installation_defaults(DEFAULTS)).of(key, kept)
    assert understood.secret_names == names

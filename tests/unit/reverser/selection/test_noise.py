"""Noise: changes that are not worth a file, and changes that only look like it."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol.names import resource_labels
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.noise import LEADER_ANNOTATION, noise_reason

RBAC = "rbac.authorization.k8s.io"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"


def config_map(name: str, namespace: str = "shop") -> ManifestKey:
    return ManifestKey("", "v1", "configmaps", namespace, name)


def role(name: str) -> ManifestKey:
    return ManifestKey(RBAC, "v1", "clusterroles", "", name)


def with_metadata(**metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata}


OWNED = {"kind": "Deployment", "name": "web", "uid": "u", "controller": True}


@pytest.mark.parametrize(
    ("key", "obj", "why"),
    [
        (config_map("kube-root-ca.crt"), {}, "the control plane puts it into every namespace"),
        (config_map("istio-ca-root-cert"), {}, "the mesh puts it into every namespace"),
        (config_map("extension-apiserver-authentication", "kube-system"), {}, "the API server keeps it"),
        (
            config_map("stoker-status-line-1"),
            with_metadata(labels=resource_labels(SyncResourceKind.STOKER, "line-1")),
            "controller and agents of this product speak through it",
        ),
        (
            config_map("some-lock"),
            with_metadata(annotations={LEADER_ANNOTATION: "{}"}),
            "it is where controllers elect their leader",
        ),
        (
            ManifestKey("apps", "v1", "replicasets", "shop", "web-1"),
            with_metadata(ownerReferences=[{"kind": "X", "name": "y"}, OWNED]),
            "Deployment web owns it and makes it again",
        ),
        (
            ManifestKey("", "v1", "secrets", "shop", "sh.helm.release.v1.web.v3"),
            {"type": "helm.sh/release.v1"},
            "it is a release of Helm, which keeps its own history",
        ),
        (config_map("sh.helm.release.v1.web.v3"), {}, "it is a release of Helm, which keeps its own history"),
        (
            config_map("web.v1"),
            with_metadata(labels={"OWNER": "TILLER"}),
            "it is a release of Helm, which keeps its own history",
        ),
        (ManifestKey("", "v1", "services", "default", "kubernetes"), {}, "the API server keeps it"),
        (
            role("system:node"),
            with_metadata(
                labels={"kubernetes.io/bootstrapping": "rbac-defaults"}, annotations={AUTOUPDATE: "true"}
            ),
            "the API server keeps it as long as its annotation autoupdate is true",
        ),
        (
            ManifestKey("apiregistration.k8s.io", "v1", "apiservices", "", "v1.apps"),
            with_metadata(labels={"kube-aggregator.kubernetes.io/automanaged": "onstart"}),
            "the API server registers it by itself",
        ),
    ],
)
def test_what_makes_itself_again_is_noise(key: ManifestKey, obj: dict[str, Any], why: str) -> None:
    assert noise_reason(obj, key) == why


@pytest.mark.parametrize(
    ("key", "obj"),
    [
        (config_map("prices"), {}),
        (config_map("prices"), {"metadata": None}),
        (config_map("extension-apiserver-authentication", "shop"), {}),
        (config_map("stoker-status-of-the-nation"), {}),
        (config_map("mine"), with_metadata(labels={"stoker.io/cr-name": "line-1"})),
        (
            config_map("mine"),
            with_metadata(ownerReferences=[{"kind": "Deployment", "name": "web", "uid": "u"}]),
        ),
        (ManifestKey("example.com", "v1", "configmaps", "shop", "kube-root-ca.crt"), {}),
        (ManifestKey("serving.knative.dev", "v1", "services", "default", "kubernetes"), {}),
        (ManifestKey("", "v1", "services", "shop", "kubernetes"), {}),
        (ManifestKey("", "v1", "secrets", "shop", "db"), {"type": "Opaque"}),
        (ManifestKey("example.com", "v1", "releases", "shop", "x"), {"type": "helm.sh/release.v1"}),
        (
            role("cluster-admin"),
            with_metadata(
                labels={"kubernetes.io/bootstrapping": "rbac-defaults"}, annotations={AUTOUPDATE: "false"}
            ),
        ),
        (role("mine"), {}),
    ],
)
def test_what_a_person_made_is_written(key: ManifestKey, obj: dict[str, Any]) -> None:
    assert noise_reason(obj, key) is None

"""Fields that are removed from an object, and that no others are."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from stoker.reverser.manifest.sanitize import LAST_APPLIED, sanitize

OF_THE_SERVER: dict[str, Any] = {
    "managedFields": [{"manager": "kubectl"}],
    "resourceVersion": "7",
    "uid": "u",
    "creationTimestamp": "2024-01-01T00:00:00Z",
    "deletionTimestamp": "2024-01-01T00:00:00Z",
    "deletionGracePeriodSeconds": 0,
    "generation": 3,
    "selfLink": "/api/v1/x",
    "ownerReferences": [{"uid": "dead"}],
}


def test_status_and_what_the_server_keeps_in_metadata_is_removed() -> None:
    metadata = {
        "name": "web",
        "namespace": "shop",
        "labels": {"a": "b"},
        "finalizers": ["x/y"],
        **OF_THE_SERVER,
    }
    obj = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {},
        "status": {"replicas": 1},
    }
    before = copy.deepcopy(obj)
    assert sanitize(obj) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}, "finalizers": ["x/y"]},
        "spec": {},
    }
    assert obj == before


@pytest.mark.parametrize(
    "own",
    [
        {"immutable": True, "data": {"a": "b"}, "binaryData": {"c": "ZA=="}},
        {"imagePullSecrets": [{"name": "x"}], "automountServiceAccountToken": False},
        {"aggregationRule": {"clusterRoleSelectors": []}, "rules": None},
        {"provisioner": "x", "reclaimPolicy": "Retain", "allowVolumeExpansion": True},
        {"value": 7, "globalDefault": False, "preemptionPolicy": "Never"},
        {"spec": {"clusterIP": "None", "clusterIPs": ["None"], "internalTrafficPolicy": "Cluster"}},
        {
            "spec": {
                "template": {"metadata": {"creationTimestamp": None, "uid": "kept"}},
                "status": {"phase": "kept"},
            }
        },
        {"whatever": {"metadata": {"resourceVersion": "kept"}}},
    ],
)
def test_whatever_else_is_in_an_object_stays(own: dict[str, Any]) -> None:
    obj = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "generateName": "x-"}, **own}
    assert sanitize(obj) == obj


def test_the_last_applied_configuration_is_removed_and_other_annotations_stay() -> None:
    annotations = {LAST_APPLIED: '{"data":{"password":"aHVudGVyMg=="}}', "team": "a"}
    assert sanitize({"metadata": {"annotations": annotations}}) == {
        "metadata": {"annotations": {"team": "a"}}
    }
    assert sanitize({"metadata": {"annotations": {LAST_APPLIED: "{}"}}}) == {"metadata": {}}
    assert sanitize({"metadata": {"annotations": {}}}) == {"metadata": {"annotations": {}}}


@pytest.mark.parametrize(
    "odd", [{}, {"metadata": None}, {"metadata": "x"}, {"metadata": {"annotations": None}}]
)
def test_an_object_without_the_usual_shape_is_no_trouble(odd: dict[str, Any]) -> None:
    assert sanitize(odd) == odd

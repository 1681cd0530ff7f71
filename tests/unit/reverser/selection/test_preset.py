"""The kinds of the paper, letter by letter."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidValue
from stoker.reverser.selection.preset import (
    CLUSTER_WIDE,
    EXCLUDED,
    MAX_KINDS,
    NAMESPACED,
    PRESET,
    GroupResource,
    excluded_kinds,
)

WORKLOADS = {
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "services",
    "ingresses.networking.k8s.io",
    "networkpolicies.networking.k8s.io",
    "poddisruptionbudgets.policy",
}
ACCESS = {
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "configmaps",
    "secrets",
    "serviceaccounts",
}
QUOTAS = {
    "resourcequotas",
    "limitranges",
    "priorityclasses.scheduling.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "storageclasses.storage.k8s.io",
}


def test_the_preset_is_the_specified_one() -> None:
    assert set(map(str, PRESET)) == WORKLOADS | ACCESS | QUOTAS
    assert len(PRESET) == len(set(PRESET))
    assert not set(NAMESPACED) & set(CLUSTER_WIDE)
    assert not EXCLUDED & set(PRESET)
    assert MAX_KINDS == 300


def test_volume_claims_are_not_in_the_preset_and_not_excluded() -> None:
    claims = GroupResource.of("persistentvolumeclaims")
    assert claims not in PRESET
    assert claims not in EXCLUDED


def test_the_floor_of_exclusions_is_the_specified_one_and_can_only_grow() -> None:
    floor = {
        "pods",
        "events",
        "events.events.k8s.io",
        "leases.coordination.k8s.io",
        "endpoints",
        "endpointslices.discovery.k8s.io",
        "controllerrevisions.apps",
        "flowschemas.flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
        "jobs.batch",
        "cronjobs.batch",
    }
    assert set(map(str, EXCLUDED)) == floor
    assert set(map(str, excluded_kinds(["widgets.example.com"]))) == floor | {"widgets.example.com"}


@pytest.mark.parametrize("text", ["", ".apps", "a/b", "*", "pods.", "*.apps"])
def test_what_is_not_a_kind_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        excluded_kinds([text])

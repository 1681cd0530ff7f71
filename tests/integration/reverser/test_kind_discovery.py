"""Kinds that come, go and change their version, servers that cannot be described, and the caps on kinds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.reverser_environment import BASE, ReverserSite, files_of
from stoker_testkit.wait_until import eventually

# What one of them does to discovery would be seen by the others.
pytestmark = pytest.mark.xdist_group("served-kinds")


def crd(group: str, *versions: str, storage: str = "") -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"recipes.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "recipes", "singular": "recipe", "kind": "Recipe"},
            "versions": [
                {"name": each, "served": True, "storage": each == (storage or versions[0]), "schema": schema}
                for each in versions
            ],
        },
    }


class Kitchen:
    """A kind of the test's own."""

    def __init__(self, site: ReverserSite) -> None:
        self.site = site
        self.group = f"{site.namespace}.example.test"

    def serve(self, *versions: str, storage: str = "") -> None:
        body = crd(self.group, *versions, storage=storage)
        self.site.cluster.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(body)
        )
        name = f"crd/recipes.{self.group}"
        self.site.cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", name)

    def cook(self, name: str, version: str = "v1") -> None:
        body = {
            "apiVersion": f"{self.group}/{version}",
            "kind": "Recipe",
            "metadata": {"name": name},
            "steps": ["stir"],
        }
        path = f"/apis/{self.group}/{version}/namespaces/{self.site.namespace}/recipes"
        eventually(lambda: self.site.cluster.request("POST", path, body).status in (201, 409), 20.0)

    def remove(self) -> None:
        self.site.cluster.kubectl("delete", "--ignore-not-found", "--wait=false", f"crd/recipes.{self.group}")

    def path(self, name: str, version: str = "v1") -> str:
        return f"{BASE}/{self.group}/{version}/recipes/{self.site.namespace}/{name}.yaml"


@pytest.fixture
def kitchen(site: ReverserSite) -> Iterator[Kitchen]:
    kitchen = Kitchen(site)
    yield kitchen
    kitchen.remove()


def test_a_kind_is_written_as_soon_as_it_is_served_and_gone_with_it(
    site: ReverserSite, prod: Repository, kitchen: Kitchen
) -> None:
    site.repo_config()
    site.destination()
    site.rule("recipes", [f"recipes.{kitchen.group}"])
    site.start()
    message = site.until("WatchRule", "recipes", "WaitingDependencies")
    assert "is not served" in message
    foreign = kitchen.path("by-hand")
    kitchen.serve("v1")
    kitchen.cook("bread")
    files = site.until_files(prod, {kitchen.path("bread"): "stir"})
    site.until("WatchRule", "recipes", "Initialized")
    assert files[kitchen.path("bread")].startswith(f"apiVersion: {kitchen.group}/v1\n".encode())
    prod.commit({foreign: "not an object of ours\n"})
    kitchen.remove()
    files = site.until_files(prod, {kitchen.path("bread"): None})
    assert foreign in files


def test_a_kind_moves_with_the_version_that_the_server_prefers(
    site: ReverserSite, prod: Repository, kitchen: Kitchen
) -> None:
    kitchen.serve("v1")
    kitchen.cook("bread")
    site.repo_config()
    site.destination()
    site.rule("recipes", [f"recipes.{kitchen.group}"])
    site.start("--discovery-refresh=1s")
    site.until_files(prod, {kitchen.path("bread"): "stir"})
    kitchen.serve("v2", "v1", storage="v1")
    files = site.until_files(prod, {kitchen.path("bread", "v2"): "stir", kitchen.path("bread"): None})
    assert files[kitchen.path("bread", "v2")].startswith(f"apiVersion: {kitchen.group}/v2\n".encode())


def test_a_server_that_cannot_be_described_degrades_discovery_and_deletes_nothing(
    site: ReverserSite, prod: Repository, kitchen: Kitchen
) -> None:
    group = f"down-{site.namespace}.example.test"
    kept = f"{BASE}/{group}/v1/things/{site.namespace}/kept.yaml"
    head = f"metadata:\n  name: kept\n  namespace: {site.namespace}\n"
    prod.commit({kept: f"apiVersion: {group}/v1\nkind: Thing\n{head}"})
    service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "nobody", "namespace": site.namespace},
        },
    }
    site.cluster.kubectl("create", "-f", "-", stdin=json.dumps(service))
    try:
        site.repo_config()
        site.destination()
        site.rule("mixed", ["configmaps", f"things.{group}"])
        site.config_map("prices")
        site.start("--discovery-refresh=1s")
        site.until("WatchRule", "mixed", "PartialDiscovery", "DiscoveryDegraded")
        files = site.until_files(prod, {site.map_path("prices"): "value"})
        assert kept in files
        site.until("WatchRule", "mixed", "Initialized")
    finally:
        site.cluster.kubectl("delete", "apiservice", f"v1.{group}")
    # Once discovery is complete again, the kind is gone, and so is its file.
    site.until_files(prod, {kept: None})
    site.until("WatchRule", "mixed", "NoneFound", "DiscoveryDegraded")


def test_more_kinds_than_the_cap_are_skipped_in_order_and_reported(
    site: ReverserSite, prod: Repository
) -> None:
    site.repo_config()
    site.destination()
    site.rule("two", ["secrets", "configmaps"])
    site.config_map("prices")
    site.secret("login", password="hidden")
    site.start("--max-kinds=1", "--include-secrets")
    site.until("WatchRule", "two", "TooManyKinds", "DiscoveryDegraded")
    site.until_files(prod, {site.map_path("prices"): "value"})
    assert not [path for path in files_of(prod) if "/secrets/" in path]


def test_names_that_select_nothing_are_reported_by_their_reason(site: ReverserSite, prod: Repository) -> None:
    site.repo_config()
    site.destination()
    site.rule("odd", ["configmaps", "clusterroles", "tokenreviews", "pods", "deployments/scale", "*"])
    site.config_map("prices")
    site.start()
    site.until_files(prod, {site.map_path("prices"): "value"})
    message = site.until("WatchRule", "odd", "ScopeMismatch", "DiscoveryDegraded")
    assert "clusterroles" in message
    assert "5 names select nothing" in site.until("WatchRule", "odd", "Initialized")
    log = site.running[0].tail(1000)
    for why in ("ScopeMismatch", "Excluded", "SubresourceIgnored", "WatchAllDisabled"):
        assert f'"why":"{why}"' in log


def test_a_kind_that_can_be_neither_listed_nor_watched_is_reported_and_the_others_are_written(
    site: ReverserSite, prod: Repository
) -> None:
    site.repo_config()
    site.destination()
    site.rule("some", ["configmaps", "localsubjectaccessreviews.authorization.k8s.io"])
    site.cluster_rule(site.namespace, ["tokenreviews.authentication.k8s.io"])
    site.config_map("prices")
    try:
        site.start()
        message = site.until("WatchRule", "some", "NoListWatch", "DiscoveryDegraded")
        assert "localsubjectaccessreviews" in message
        site.until_files(prod, {site.map_path("prices"): "value"})
        assert "1 kind is watched" in site.until("WatchRule", "some", "Initialized")
        message = site.until("ClusterWatchRule", site.namespace, "NoListWatch", "DiscoveryDegraded")
        assert "tokenreviews" in message
        site.until("ClusterWatchRule", site.namespace, "WaitingDependencies")
    finally:
        site.delete("ClusterWatchRule", site.namespace)

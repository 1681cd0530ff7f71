"""A namespace that refuses a reverser everything keeps it from no other, and loses no file until it opens.

As after somebody deleted a watched namespace: our Role went with it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.dashboard.rbac_environment import RbacEnvironment
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.reverser_environment import PATIENCE, ReverserSite, files_of
from stoker_testkit.wait_until import eventually

ACCOUNT = "reverser"
EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
READ = ["get", "list", "watch"]
EVERYWHERE = [
    {"apiGroups": ["configbutler.ai"], "resources": ["clusterwatchrules"], "verbs": READ},
    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": READ},
    {"apiGroups": ["apiregistration.k8s.io"], "resources": ["apiservices"], "verbs": READ},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": READ},
]


@pytest.fixture
def dark(kinds: ClusterAccess, site: ReverserSite, tmp_path: Path) -> ReverserSite:
    """A namespace whose rule writes to the destination of another, and of which nothing will be seen."""
    name = f"dark-{uuid.uuid4().hex[:8]}"
    kinds.create_namespace(name)
    made = ReverserSite(kinds, name, tmp_path / "dark", site.url)
    to = {"name": "production", "namespace": site.namespace}
    spec = {"destinationRef": to, "rules": [{"resources": ["configmaps"]}]}
    made.apply("WatchRule", "maps", spec)
    made.config_map("kept")
    return made


@pytest.fixture
def account(site: ReverserSite) -> Iterator[Path]:
    """The kubeconfig of an account that may work in the namespace of the site and in no other."""
    house = RbacEnvironment(site.cluster, site.namespace, "")
    house.person(ACCOUNT)
    house.grant("all", ACCOUNT, EVERYTHING)
    name = f"{site.namespace}-{ACCOUNT}"
    role = {"metadata": {"name": name}, "kind": "ClusterRole", "rules": EVERYWHERE}
    bundle = json.dumps({"apiVersion": "rbac.authorization.k8s.io/v1", **role})
    site.cluster.kubectl("create", "-f", "-", stdin=bundle)
    to = f"--serviceaccount={site.namespace}:{ACCOUNT}"
    site.cluster.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", to)
    yield site.cluster.service_account_kubeconfig(site.namespace, ACCOUNT)
    site.stop()
    site.cluster.kubectl("delete", "clusterrole,clusterrolebinding", name)


def test_the_others_are_worked_on_and_its_files_stay_until_it_opens(
    site: ReverserSite, dark: ReverserSite, prod: Repository, account: Path
) -> None:
    both = f"--watch-namespaces={site.namespace},{dark.namespace}"
    site.follow_maps(allowedNamespaces=[dark.namespace])
    first = site.start(both)
    site.until_files(prod, {dark.map_path("kept"): "value"})
    first.stop()

    site.start(f"{both},gone", kubeconfig=account)
    site.config_map("prices")
    dark.delete("ConfigMap", "kept")
    site.until_files(prod, {site.map_path("prices"): "value"})
    site.until("GitDestination", "production", "Initialized")
    output = site.running[-1].log.read_text()
    assert output.count('"namespace.unseen"') == 2
    assert dark.map_path("kept") in files_of(prod)
    site.config_map("prices", {"key": "later"})
    site.until_files(prod, {site.map_path("prices"): "later"})
    assert dark.map_path("kept") in files_of(prod)

    dark.config_map("new")
    RbacEnvironment(site.cluster, site.namespace, "").grant(
        "all", ACCOUNT, EVERYTHING, namespace=dark.namespace
    )
    eventually(lambda: '"namespace.seen"' in site.running[-1].log.read_text(), 2 * PATIENCE, site.tail)
    site.until_files(prod, {dark.map_path("new"): "value", dark.map_path("kept"): None})

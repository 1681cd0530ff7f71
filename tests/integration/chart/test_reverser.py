"""The reverser of a release: with the account, arguments and configuration of the chart, and no more."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stoker.http_server.tls.ca_bundle import VALIDATING
from stoker_testkit.chart.helm import Helm
from stoker_testkit.chart.reverser_process import lead_to, start_reverser
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.processes import Process
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.reverser_environment import files_of
from stoker_testkit.wait_until import eventually

pytestmark = pytest.mark.xdist_group("author-capture")

PATIENCE = 60.0
NAME, HOME = "stoker", "stoker-system"
VALUES: dict[str, Any] = {
    "reverser": {"enabled": True, "controller": {"includeSecrets": True}},
    "webhook": {"enabled": False},
    "crds": {"conversion": False},
}
RECIPIENT = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ClusterAccess]:
    with ControlPlane.start(tmp_path / "plane", controller_manager=True) as plane:
        for name in (HOME, "shop"):
            plane.create_namespace(name)
        plane.kubectl("create", "clusterrolebinding", "people", "--clusterrole=cluster-admin", "--user=alice")
        yield plane


@pytest.fixture
def helm(plane: ClusterAccess) -> Helm:
    return Helm(plane.folder, plane)


def webhook(plane: ClusterAccess) -> dict[str, Any]:
    answer: Any = plane.request("GET", VALIDATING.path(name="stoker-reverser")).json()
    found: dict[str, Any] = answer["webhooks"][0]
    return found


def started(plane: ClusterAccess, helm: Helm, folder: Path, values: Mapping[str, object] = VALUES) -> Process:
    """The pod's program, on this machine: where the chart names a Service or a volume, a port or a folder."""
    (deployment,) = (
        one
        for one in helm.template(values, namespace=HOME)
        if (one["kind"], one["metadata"]["name"]) == ("Deployment", "stoker-reverser")
    )
    pod = deployment["spec"]["template"]["spec"]
    return start_reverser(plane, pod, folder)


def leases(plane: ClusterAccess) -> list[str]:
    return plane.kubectl("-n", HOME, "get", "leases", "-o", "name").stdout.split()


def described(url: str) -> str:
    plain = {"repoRef": {"name": "repo"}, "branch": "main", "baseFolder": "plain"}
    encrypted = {"secretPolicy": "Encrypt", "encryption": {"recipients": [RECIPIENT]}}
    objects: dict[tuple[str, str], object] = {
        ("GitRepoConfig", "repo"): {"repoUrl": url, "allowedBranches": ["main"]},
        ("GitDestination", "plain"): plain,
        ("GitDestination", "sealed"): {**plain, "baseFolder": "sealed", **encrypted},
        ("WatchRule", "maps"): {
            "destinationRef": {"name": "plain"},
            "rules": [{"resources": ["configmaps"]}],
        },
        ("WatchRule", "secrets"): {
            "destinationRef": {"name": "sealed"},
            "rules": [{"resources": ["secrets"]}],
        },
    }
    items = [
        {
            "apiVersion": "configbutler.ai/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "shop"},
            "spec": spec,
        }
        for (kind, name), spec in objects.items()
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def test_the_reverser_of_a_release_works_with_its_own_rights_and_survives_an_upgrade(
    plane: ClusterAccess, helm: Helm, git_http: GitHttpServer, tmp_path: Path
) -> None:
    repository = Repository.create(git_http.root / "state.git")
    notes = helm.install(NAME, HOME, VALUES)
    assert "The reverser writes what WatchRules and ClusterWatchRules select" in notes
    assert "rules" not in webhook(plane)
    service = webhook(plane)["clientConfig"]["service"]
    with started(plane, helm, tmp_path) as process:
        plane.kubectl("apply", "-f", "-", stdin=described(git_http.url("state.git")))
        plane.kubectl("-n", "shop", "create", "secret", "generic", "db", "--from-literal=password=hunter2")
        secret = "sealed/core/v1/secrets/shop/db.yaml"
        eventually(lambda: secret in files_of(repository), PATIENCE, process.tail, interval=0.1)
        assert b"hunter2" not in files_of(repository)[secret]
        keys: Any = plane.request("GET", f"/api/v1/namespaces/{HOME}/secrets/gitops-reverser-digests").json()
        assert keys["data"], "the empty Secret of the chart is filled"

        number = 0

        def known() -> bool:
            """Until the API server has noticed the rules and whom to trust."""
            nonlocal number
            number += 1
            path = f"plain/core/v1/configmaps/shop/m{number}.yaml"
            plane.kubectl("-n", "shop", "create", "configmap", f"m{number}", user="alice")
            eventually(lambda: path in files_of(repository), PATIENCE, process.tail)
            return repository.git("log", "-1", "--format=%an", "main", "--", path) == b"alice\n"

        eventually(known, PATIENCE, lambda: f"an author: {webhook(plane)}\n{process.tail()}", interval=0.1)
        lead_to(plane, "url", "service", service)
        before = webhook(plane)
        assert {each for rule in before["rules"] for each in rule["resources"]} == {"configmaps", "secrets"}
        own = next(each for each in before["matchConditions"] if each["name"] == "not-by-the-reverser")
        assert f"system:serviceaccount:{HOME}:stoker-reverser" in own["expression"]

        helm.upgrade(NAME, HOME, {**VALUES, "reverser": {"enabled": True, "replicas": 3}})
        assert webhook(plane) == before
        log = (tmp_path / "reverser.log").read_text()
        assert re.search("forbidden|RBACDenied", log, re.IGNORECASE) is None
        assert leases(plane), "one of the branch, and one of the replica"
        helm.uninstall(NAME, HOME, "--no-hooks")
    eventually(lambda: not leases(plane), PATIENCE, lambda: f"no Lease is left: {leases(plane)}")
    assert plane.request("GET", VALIDATING.path(name="stoker-reverser")).status == 404

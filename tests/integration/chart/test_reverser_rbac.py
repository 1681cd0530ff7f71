"""The rights that the chart gives to the reverser, held against what it asks of a real API server.

It runs with the account of the release alone. The audit log has its requests; each
rule is removed to see that something is missed; a kind without RBAC is reported
as such, and a role with the label brings it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.reverser.selection.preset import CLUSTER_WIDE, NAMESPACED
from stoker_testkit.chart.crd_removal import take_kinds_away
from stoker_testkit.chart.helm import Helm
from stoker_testkit.chart.reverser_process import lead_to
from stoker_testkit.chart.unused_rbac_rules import Account, needless
from stoker_testkit.cluster import audit_log
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.processes import Process
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.reverser_environment import files_of
from stoker_testkit.wait_until import eventually

from .test_reverser import HOME, NAME, PATIENCE, VALUES, described, started, webhook

pytestmark = pytest.mark.xdist_group("author-capture")

ACCOUNT = "stoker-reverser"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audited")


@pytest.fixture(scope="module")
def plane(folder: Path) -> Iterator[ClusterAccess]:
    with ControlPlane.start(
        folder / "plane", controller_manager=True, apiserver_flags=audit_log.flags(folder)
    ) as plane:
        for name in (HOME, "shop", "other"):
            plane.create_namespace(name)
        plane.kubectl("label", "namespace", "shop", "written=yes")
        yield plane


@pytest.fixture
def helm(plane: ClusterAccess) -> Iterator[Helm]:
    helm = Helm(plane.folder, plane)
    yield helm
    helm.uninstall(NAME, HOME, "--no-hooks")
    take_kinds_away(plane)


def condition(plane: ClusterAccess, kind: str, name: str, type_: str) -> tuple[str, str]:
    """Status and reason."""
    where = () if kind == "clusterwatchrule" else ("-n", "shop")
    found: Any = json.loads(plane.kubectl(*where, "get", kind, name, "-o", "json").stdout)
    for one in found.get("status", {}).get("conditions", ()):
        if one["type"] == type_:
            return one["status"], one["reason"]
    return "", ""


def until(plane: ClusterAccess, process: Process, name: str, reason: str, kind: str = "watchrule") -> None:
    eventually(
        lambda: condition(plane, kind, name, "WatchErrored")[1] == reason,
        PATIENCE,
        lambda: f"{reason}, not {condition(plane, kind, name, 'WatchErrored')}:\n{process.tail()}",
        interval=0.2,
    )


def rule(plane: ClusterAccess, kind: str, name: str, rules: list[dict[str, Any]]) -> None:
    metadata, ref = {"name": name}, {"name": "plain"}
    if kind == "ClusterWatchRule":
        ref["namespace"] = "shop"
    else:
        metadata["namespace"] = "shop"
    body = {
        "apiVersion": "configbutler.ai/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"destinationRef": ref, "rules": rules},
    }
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(body))


def roles(helm: Helm) -> list[dict[str, Any]]:
    return [
        one
        for one in helm.template(VALUES, namespace=HOME)
        if one["kind"] in ("Role", "ClusterRole")
        and "reverser" in one["metadata"]["name"]
        and "aggregationRule" not in one
    ]


def idle(helm: Helm, asked: list[audit_log.AuditedRequest]) -> list[str]:
    """Verbs that are granted and were not used; an account that may list may as well read one."""
    used = {
        (one.group, one.resource, verb)
        for one in asked
        for verb in (one.verb, *(["create"] if one.made_anew else []))
    }
    return [
        f"{role['metadata']['name']}: {verb} {resource}.{group}"
        for role in roles(helm)
        for each in role["rules"]
        for group in each["apiGroups"]
        for resource in each["resources"]
        for verb in each["verbs"]
        if (group, resource, verb) not in used
        and not (role["metadata"]["name"].endswith("-preset") and verb == "get")
    ]


def _asked(folder: Path, since: float) -> list[audit_log.AuditedRequest]:
    return [one for one in audit_log.asked(folder, ACCOUNT) if one.at >= since - 1]


def test_every_right_of_the_reverser_is_used_and_none_is_missing(
    plane: ClusterAccess, helm: Helm, git_http: GitHttpServer, tmp_path: Path, folder: Path
) -> None:
    began = time.time()
    repository = Repository.create(git_http.root / "state.git")
    helm.install(NAME, HOME, VALUES)
    with started(plane, helm, tmp_path) as process:
        plane.kubectl("apply", "-f", "-", stdin=described(git_http.url("state.git")))
        inside = {
            "scope": "Namespaced",
            "resources": [str(each) for each in NAMESPACED],
            "namespaceSelector": {"matchLabels": {"written": "yes"}},
        }
        outside = {"scope": "Cluster", "resources": [str(each) for each in CLUSTER_WIDE]}
        rule(plane, "ClusterWatchRule", "all", [inside, outside])
        plane.kubectl("-n", "shop", "create", "secret", "generic", "db", "--from-literal=password=hunter2")
        plane.kubectl("-n", "shop", "create", "serviceaccount", "till")
        plane.kubectl("create", "clusterrole", "till", "--verb=get", "--resource=pods")
        wanted = {
            "sealed/core/v1/secrets/shop/db.yaml",
            "plain/core/v1/serviceaccounts/shop/till.yaml",
            "plain/rbac.authorization.k8s.io/v1/clusterroles/till.yaml",
        }
        eventually(
            lambda: wanted <= set(files_of(repository)),
            PATIENCE,
            lambda: f"{wanted - set(files_of(repository))}:\n{process.tail()}",
            interval=0.2,
        )
        for _ in range(2):  # the second time is one more of the same Event
            plane.kubectl("-n", "shop", "patch", "gitdestination", "plain", "--type=merge", "-p", SUSPENDED)
            eventually(
                lambda: condition(plane, "gitdestination", "plain", "Ready")[1] == "Suspended",
                PATIENCE,
                process.tail,
            )
            plane.kubectl("-n", "shop", "patch", "gitdestination", "plain", "--type=merge", "-p", RESUMED)
            eventually(
                lambda: condition(plane, "gitdestination", "plain", "Ready")[0] == "True",
                PATIENCE,
                lambda: f"{condition(plane, 'gitdestination', 'plain', 'Ready')}\n{process.tail()}",
            )
        # Kinds that hold nothing are listed in their turn, and nothing else shows when that was.
        eventually(
            lambda: not any("-preset: " in one for one in idle(helm, _asked(folder, began))),
            PATIENCE,
            process.tail,
            interval=0.5,
        )
    asked = _asked(folder, began)
    assert [one for one in asked if one.code == 403] == []
    assert idle(helm, asked) == []
    assert needless(Account(plane, HOME, ACCOUNT), roles(helm), asked) == []


SUSPENDED, RESUMED = '{"spec":{"suspend":true}}', '{"spec":{"suspend":false}}'


def test_a_kind_without_rbac_is_reported_until_a_role_with_the_label_grants_it(
    plane: ClusterAccess, helm: Helm, git_http: GitHttpServer, tmp_path: Path
) -> None:
    repository = Repository.create(git_http.root / "state.git")
    helm.install(NAME, HOME, VALUES)
    service = webhook(plane)["clientConfig"]["service"]
    with started(plane, helm, tmp_path) as process:
        plane.kubectl("apply", "-f", "-", stdin=described(git_http.url("state.git")))
        rule(plane, "WatchRule", "scaling", [{"resources": ["horizontalpodautoscalers.autoscaling"]}])
        plane.kubectl("-n", "shop", "create", "deployment", "till", "--image=till", "--replicas=0")
        plane.kubectl("-n", "shop", "autoscale", "deployment", "till", "--max=2", "--cpu-percent=50")
        until(plane, process, "scaling", "RBACDenied")
        before = helm.run("get", "manifest", NAME, f"--namespace={HOME}").stdout
        assert "horizontalpodautoscalers" not in before
        granted = {
            "metadata": {"name": "scaling", "labels": {"stoker.io/aggregate-to-reverser": "true"}},
            "rules": [
                {
                    "apiGroups": ["autoscaling"],
                    "resources": ["horizontalpodautoscalers"],
                    "verbs": ["get", "list", "watch"],
                }
            ],
        }
        assert plane.request("POST", f"{RIGHTS}/clusterroles", granted).status == 201
        path = "plain/autoscaling/v2/horizontalpodautoscalers/shop/till.yaml"
        eventually(lambda: path in files_of(repository), PATIENCE, process.tail, interval=0.2)
        until(plane, process, "scaling", "NoneFound")

        # An upgrade leaves what the cluster has gathered.
        gathered: Any = plane.request("GET", f"{RIGHTS}/clusterroles/stoker-reverser-read").json()
        lead_to(plane, "url", "service", service)
        helm.upgrade(NAME, HOME, {**VALUES, "reverser": {**VALUES["reverser"], "replicas": 3}})
        after: Any = plane.request("GET", f"{RIGHTS}/clusterroles/stoker-reverser-read").json()
        assert after["rules"] == gathered["rules"]
    plane.kubectl("delete", "clusterrole", "scaling")


def test_in_one_namespace_the_reverser_has_roles_and_sees_nothing_else(
    plane: ClusterAccess, helm: Helm, git_http: GitHttpServer, tmp_path: Path
) -> None:
    values = {**VALUES, "reverser": {**VALUES["reverser"], "watchNamespaces": ["shop"]}}
    repository = Repository.create(git_http.root / "state.git")
    helm.install(NAME, HOME, values)
    with started(plane, helm, tmp_path, values) as process:
        plane.kubectl("apply", "-f", "-", stdin=described(git_http.url("state.git")))
        plane.kubectl("-n", "shop", "create", "configmap", "seen")
        path = "plain/core/v1/configmaps/shop/seen.yaml"
        eventually(lambda: path in files_of(repository), PATIENCE, process.tail, interval=0.2)
        rule(plane, "ClusterWatchRule", "roles", [{"scope": "Cluster", "resources": ["clusterroles"]}])
        until(plane, process, "roles", "RBACDenied", "clusterwatchrule")
    account = Account(plane, HOME, ACCOUNT)
    for resource in ("secrets", "configmaps"):
        seen = audit_log.AuditedRequest("list", "", resource, "shop", 200, 0.0)
        assert account.may(seen, "list")
        assert not account.may(seen._replace(namespace="other"), "list")
        assert not account.may(seen._replace(namespace=""), "list")
    plane.kubectl("-n", "shop", "delete", "configmap", "seen")

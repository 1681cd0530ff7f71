"""The chart on a real cluster: checked, installed, used by its own accounts, upgraded, taken away.

A control plane of its own: what the chart installs is cluster-wide and would be in the
way of every other test.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker_testkit.chart.crd_removal import take_kinds_away
from stoker_testkit.chart.helm import CHART, Helm
from stoker_testkit.chart.process_release import HOME, NAME, ProcessRelease
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.wait_until import eventually

from .test_templates import VALUES

pytestmark = pytest.mark.xdist_group("chart")

PATIENCE = 60.0
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
# Created and deleted by the cluster itself: what runs, its events, what follows from a CRD.
TRANSIENT = {"Deployment", "ReplicaSet", "Job", "Pod", "Endpoints", "EndpointSlice", "Event", "APIService"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterAccess]:
    with ControlPlane.start(tmp_path_factory.mktemp("plane"), controller_manager=True) as plane:
        for name in (HOME, "line-1", "line-2"):
            namespace(plane, name)
        foreign(plane)
        yield plane


@pytest.fixture(scope="module")
def helm(plane: ClusterAccess) -> Helm:
    return Helm(plane.folder, plane)


def namespace(plane: ClusterAccess, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}}
    assert plane.request("POST", "/api/v1/namespaces", body).status == 201


# Kinds of others of which the chart makes objects.
FOREIGN = (
    ("cert-manager.io", "Certificate", "certificates"),
    ("cert-manager.io", "Issuer", "issuers"),
    ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
    ("monitoring.coreos.com", "PodMonitor", "podmonitors"),
    ("monitoring.coreos.com", "PrometheusRule", "prometheusrules"),
)


def foreign(plane: ClusterAccess) -> None:
    """As far as they are needed to take an object."""
    for group, kind, plural in FOREIGN:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "names": {"kind": kind, "plural": plural},
                "scope": "Namespaced",
                "versions": [version],
            },
        }
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(crd))
    names = [f"crd/{plural}.{group}" for group, _, plural in FOREIGN]
    plane.kubectl("wait", "--for=condition=Established", *names)


def inventory(plane: ClusterAccess) -> set[str]:
    """All objects of the cluster, but those that come and go by themselves."""
    kinds = plane.kubectl("api-resources", "--verbs=list", "-o", "name", "--cached=false").stdout.split()
    shown = plane.kubectl("get", ",".join(kinds), "-A", "-o", "json", "--ignore-not-found").stdout
    return {
        f"{one['kind']} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}"
        for one in json.loads(shown)["items"]
        if one["kind"] not in TRANSIENT
    }


@pytest.mark.parametrize("name", VALUES)
def test_the_api_server_takes_what_is_rendered_with(name: str, plane: ClusterAccess, helm: Helm) -> None:
    objects = helm.template(VALUES[name], namespace=HOME)
    if name not in ("defaults", "cert-manager", "no admission"):  # the CRDs of the others are the same
        objects = [one for one in objects if one["kind"] != "CustomResourceDefinition"]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    output = plane.kubectl(
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        stdin=text,
    )
    assert output.stdout.count("serverside-applied (server dry run)") == len(objects)
    assert "Warning" not in output.stderr, output.stderr
    for one in (each for each in objects if each["kind"] in ("Deployment", "Job")):
        pod = one["spec"]["template"]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**pod["metadata"], "name": "x"},
            "spec": pod["spec"],
        }
        # The account and the class come with a release; everything else is judged as in one.
        body["spec"] = {**pod["spec"], "serviceAccountName": "default", "priorityClassName": None}
        answer = plane.request("POST", f"/api/v1/namespaces/{HOME}/pods?dryRun=All", body)
        assert answer.status == 201, answer.body


def test_a_pod_that_is_not_restricted_would_be_refused_here(plane: ClusterAccess) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "x", "image": "stoker:0.1.0"}]},
    }
    answer = plane.request("POST", f"/api/v1/namespaces/{HOME}/pods?dryRun=All", body)
    assert answer.status == 403
    assert b"violates PodSecurity" in answer.body


@pytest.fixture
def release(plane: ClusterAccess, helm: Helm, tmp_path: Path) -> Iterator[ProcessRelease]:
    with ProcessRelease(plane, tmp_path) as made:
        yield made
    if NAME in helm.run("list", "--all-namespaces", "--short").stdout:
        helm.uninstall(NAME, HOME, "--no-hooks")


def pods(plane: ClusterAccess) -> list[str]:
    found: Any = plane.request("GET", f"/api/v1/namespaces/{HOME}/pods").json()
    return [one["metadata"]["name"] for one in found["items"]]


def bundles(plane: ClusterAccess) -> list[str]:
    """The caBundle of every webhook and of every conversion."""
    found = []
    for kind in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/stoker-webhook"
        answer: Any = plane.request("GET", path).json()
        found += [one["clientConfig"].get("caBundle", "") for one in answer["webhooks"]]
    listed: Any = plane.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions").json()
    for crd in listed["items"]:
        if crd["spec"]["group"] not in {group for group, _, _ in FOREIGN}:
            found.append(crd["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle", ""))
    return found


def ready(plane: ClusterAccess, namespace: str, name: str) -> dict[str, Any]:
    path = f"/apis/stoker.io/v1alpha1/namespaces/{namespace}/stokers/{name}"
    found: Any = plane.request("GET", path).json()
    conditions = {one["type"]: one for one in found.get("status", {}).get("conditions", ())}
    answer: dict[str, Any] = conditions.get("Ready", {})
    return answer


def stoker(name: str, repo: str) -> str:
    return json.dumps(
        {
            "apiVersion": "stoker.io/v1alpha1",
            "kind": "Stoker",
            "metadata": {"name": name},
            "spec": {"git": {"repo": repo, "ref": "main"}},
        }
    )


def test_a_release_comes_works_changes_and_goes(
    plane: ClusterAccess, helm: Helm, release: ProcessRelease, git_http: GitHttpServer
) -> None:
    """Install, use with the accounts of the chart, upgrade, uninstall: nothing is left but the CRDs."""
    before = inventory(plane)
    notes = release.install()
    assert "stoker 0.1.0 runs in namespace stoker-system" in notes
    # The real admission plug-in has let them in: the namespace enforces Pod Security `restricted`.
    eventually(lambda: len(pods(plane)) == 4, PATIENCE, "two pods of each component are made")

    release.start(reachable=False)
    eventually(lambda: all(bundles(plane)), PATIENCE, lambda: f"trust everywhere:\n{release.log_tail()}")
    repository = Repository.create(git_http.root / "plant.git")
    repository.commit({"services/filler/projects/a/project.json": "{}"})
    plane.kubectl("-n", "line-1", "apply", "-f", "-", stdin=stoker("plant", git_http.url("plant.git")))
    eventually(
        lambda: ready(plane, "line-1", "plant").get("status") == "True",
        PATIENCE,
        lambda: f"Ready, not {ready(plane, 'line-1', 'plant')}:\n{release.log_tail()}",
    )

    trusted = bundles(plane)
    helm.upgrade(
        NAME, HOME, {"controller": {"replicas": 3}, "webhook": {"validation": {"failurePolicy": "Fail"}}}
    )
    assert bundles(plane) == trusted
    eventually(lambda: len(pods(plane)) == 5, PATIENCE, "a third controller")

    plane.kubectl("-n", "line-1", "delete", "stoker", "plant", "--timeout=60s")
    logged_lines = release.logged()  # without its role a program that still runs may well complain
    release.uninstall()  # while both programs still run
    logged_lines += (release.folder / "remove-finalizers.log").read_text()
    assert re.search("forbidden|RBACDenied", logged_lines, re.IGNORECASE) is None
    eventually(lambda: not pods(plane), PATIENCE, "the Deployments' pods go")
    release.stop()
    eventually(
        lambda: (
            {each.partition(" ")[0] for each in inventory(plane) - before} == {"CustomResourceDefinition"}
        ),
        PATIENCE,
        lambda: f"nothing but CRDs is left: {inventory(plane) - before}",
    )

    # What was kept belongs to the release of that name, which can come again.
    release.install()


def maps_in(plane: ClusterAccess) -> str:
    return plane.kubectl("-n", "line-2", "get", "configmaps", "-o", "name").stdout


def test_an_uninstall_removes_the_finalizers_of_resources_that_are_still_there(
    plane: ClusterAccess, release: ProcessRelease, git_http: GitHttpServer
) -> None:
    """The controller still runs while the finalizers are removed, and must not add them again."""
    release.install()
    release.start("controller")
    Repository.create(git_http.root / "plant.git").commit({"services/filler/a": "1"})
    for name in ("one", "two"):
        plane.kubectl("-n", "line-2", "apply", "-f", "-", stdin=stoker(name, git_http.url("plant.git")))
        eventually(lambda name=name: finalizers(plane, name), PATIENCE, release.log_tail)  # type: ignore[misc]
    made = {f"configmap/stoker-{what}-{name}" for what in ("metadata", "status") for name in ("one", "two")}
    eventually(lambda: made <= set(maps_in(plane).split()), PATIENCE, release.log_tail)
    maps = maps_in(plane)

    release.uninstall()
    assert "lease.seized" in release.logged()
    assert [finalizers(plane, name) for name in ("one", "two")] == [[], []]
    assert maps_in(plane) == maps, "what belongs to a resource stays with it"
    release.stop()

    plane.kubectl("-n", "line-2", "delete", "stokers", "--all", "--timeout=30s")
    eventually(
        lambda: (
            "stoker-" not in plane.kubectl("-n", "line-2", "get", "configmaps,roles", "-o", "name").stdout
        ),
        PATIENCE,
        "all that belonged to them goes by itself",
    )


def test_an_uninstall_is_not_held_up_by_crds_that_are_gone(
    plane: ClusterAccess, release: ProcessRelease
) -> None:
    """People take away what they see, in whichever order."""
    release.install()
    take_kinds_away(plane)
    release.uninstall()
    assert "finalizers.removed" in release.logged()
    eventually(lambda: not pods(plane), PATIENCE, "the pods go")


def test_an_uninstall_is_not_held_up_by_a_namespace_that_is_gone(
    plane: ClusterAccess, release: ProcessRelease
) -> None:
    """Its Role went with it: the Job is refused there, as where only the Role was deleted."""
    namespace(plane, "line-3")
    release.values = {"controller": {"watchNamespaces": ["line-2", "line-3"]}}
    release.install()
    plane.kubectl("delete", "namespace", "line-3", "--timeout=60s")
    release.uninstall()
    assert '"namespace.gone"' in release.logged()
    assert [one for one in inventory(plane) if "remove-finalizers" in one] == [], (
        "what it could see with is gone, too"
    )


def finalizers(plane: ClusterAccess, name: str) -> list[str]:
    path = f"/apis/stoker.io/v1alpha1/namespaces/line-2/stokers/{name}"
    found: Any = plane.request("GET", path).json()
    return list(found["metadata"].get("finalizers", []))


def test_in_two_namespaces_the_release_does_its_work_with_roles(
    plane: ClusterAccess, release: ProcessRelease, git_http: GitHttpServer
) -> None:
    release.values = {"controller": {"watchNamespaces": ["line-1", "line-2"]}}
    release.install()
    release.start(reachable=False)
    Repository.create(git_http.root / "plant.git").commit({"services/filler/a": "1"})
    plane.kubectl("-n", "line-2", "apply", "-f", "-", stdin=stoker("other", git_http.url("plant.git")))
    eventually(
        lambda: ready(plane, "line-2", "other").get("status") == "True",
        PATIENCE,
        lambda: f"Ready, not {ready(plane, 'line-2', 'other')}:\n{release.log_tail()}",
    )
    eventually(lambda: all(bundles(plane)), PATIENCE, lambda: f"trust everywhere:\n{release.log_tail()}")
    plane.kubectl("-n", "line-2", "delete", "stoker", "other", "--timeout=60s")
    assert re.search("forbidden|RBACDenied", release.logged(), re.IGNORECASE) is None


def test_crds_that_were_applied_by_hand_are_taken_over(
    plane: ClusterAccess, helm: Helm, release: ProcessRelease
) -> None:
    take_kinds_away(plane)
    plane.kubectl("apply", "--server-side", "-f", str(helm.chart.parents[1] / "config/crd"))
    refused = helm.run(
        "install", NAME, helm.chart, f"--namespace={HOME}", "--set=image.repository=stoker", check=False
    )
    assert "cannot be imported into the current release" in refused.stderr
    helm.install(NAME, HOME, None, "--take-ownership")


def conversions(plane: ClusterAccess) -> set[tuple[str, bool]]:
    """The conversion strategies of our CRDs, and whether they name a webhook."""
    shown = plane.kubectl("get", "crd", "-l", "app.kubernetes.io/part-of=stoker", "-o", "json").stdout
    found = [one["spec"]["conversion"] for one in json.loads(shown)["items"]]
    assert len(found) == 8
    return {(one["strategy"], "webhook" in one) for one in found}


def test_conversion_is_given_up_and_taken_up_over_crds_that_a_release_has_left(
    plane: ClusterAccess, helm: Helm
) -> None:
    """Of those that it takes over helm knows no earlier form from which something could be missing."""
    converting, plain = {("Webhook", True)}, {("None", False)}
    helm.install(NAME, HOME)
    assert conversions(plane) == converting
    helm.uninstall(NAME, HOME, "--no-hooks")
    helm.install(NAME, HOME, {"crds": {"conversion": False}})
    assert conversions(plane) == plain
    helm.upgrade(NAME, HOME, {"crds": {"conversion": True}})
    assert conversions(plane) == converting
    helm.upgrade(NAME, HOME, {"webhook": {"enabled": False}})
    assert conversions(plane) == plain
    helm.uninstall(NAME, HOME, "--no-hooks")


def with_a_further_version(folder: Path) -> Path:
    """The chart as it may be one day: SyncProfiles are served in two versions."""
    shutil.copytree(CHART, folder / "stoker")
    crd = folder / "stoker/templates/crds/stoker.io_syncprofiles.yaml"
    head, mark, rest = crd.read_text().partition("  - name: v1alpha1\n")
    schema, end, _ = rest.rpartition("{{- end }}")
    further = f"{mark}{schema}".replace("v1alpha1", "v1beta1", 1).replace(
        "storage: true", "storage: false", 1
    )
    crd.write_text(f"{head}{mark}{schema}{further}{end}\n")
    return folder / "stoker"


def test_versions_of_a_kind_come_with_an_upgrade_and_go_with_a_rollback(
    plane: ClusterAccess, helm: Helm, release: ProcessRelease, tmp_path: Path
) -> None:
    release.values = {"crds": {"conversion": False}}
    release.install()
    profile = {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "SyncProfile",
        "metadata": {"name": "kept"},
        "spec": {"mappings": [{"source": "a", "destination": "projects"}]},
    }
    plane.kubectl("-n", "line-1", "apply", "-f", "-", stdin=json.dumps(profile))

    def seen(version: str) -> Any:
        path = f"/apis/stoker.io/{version}/namespaces/line-1/syncprofiles/kept"
        answer = plane.request("GET", path)
        return answer.json()["spec"] if answer.status == 200 else None  # type: ignore[index]

    spec = seen("v1alpha1")
    assert seen("v1beta1") is None
    newer = Helm(tmp_path, plane, chart=with_a_further_version(tmp_path))
    newer.upgrade(NAME, HOME, release.values)
    eventually(lambda: seen("v1beta1") == spec, PATIENCE, "the same in the version that has come")
    helm.run("rollback", NAME, "1", f"--namespace={HOME}")
    eventually(lambda: seen("v1beta1") is None, PATIENCE, "the version has gone")
    assert seen("v1alpha1") == spec
    plane.kubectl("-n", "line-1", "delete", "syncprofile", "kept")

"""A watched namespace that is deleted ends by itself, while the controller works in it.

A real controller with the rights and the arguments that the chart gives it, on a control plane with the
namespace controller. Of all orders in which that one deletes the content of a namespace the worst is made
sure of: the controller's Role is the first to go.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stoker_testkit.chart.controller_rbac import CONTROLLER, controller_rules
from stoker_testkit.chart.helm import Helm
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.wait_until import eventually

CRDS = Path(__file__).parents[3] / "config" / "crd"
FINALIZER = "stoker.io/finalizer"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
NOWHERE = {"repo": "http://127.0.0.1:9/plant.git", "ref": "main"}
ENDS_WITHIN = 90.0


@pytest.fixture
def cluster(control_plane_with_controllers: ClusterAccess) -> ClusterAccess:
    plane = control_plane_with_controllers
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
    return plane


@pytest.fixture
def home(cluster: ClusterAccess, tmp_path: Path) -> Iterator[Site]:
    """Where the release is installed; the namespaces that it watches are others."""
    name = f"home-{uuid.uuid4().hex[:8]}"
    cluster.create_namespace(name)
    with Site.prepare(cluster, name, tmp_path) as made:
        yield made


@pytest.fixture
def watched(cluster: ClusterAccess, tmp_path: Path) -> Site:
    name = f"watched-{uuid.uuid4().hex[:8]}"
    cluster.create_namespace(name)
    return Site(cluster, name, tmp_path)


def chart_flags(folder: Path, namespaces: Sequence[str]) -> list[str]:
    """What the chart tells the controller about finalizers where it watches these namespaces."""
    objects = Helm(folder).template({"controller": {"watchNamespaces": list(namespaces)}})
    (controller,) = (
        one for one in objects if one["kind"] == "Deployment" and "controller" in one["metadata"]["name"]
    )
    arguments = controller["spec"]["template"]["spec"]["containers"][0]["args"]
    return [argument for argument in arguments if "finalizer" in argument]


def is_gone(site: Site) -> bool:
    return site.cluster.request("GET", f"/api/v1/namespaces/{site.namespace}").status == 404


def test_a_watched_namespace_ends_although_the_controllers_role_goes_first(
    home: Site, watched: Site, tmp_path: Path
) -> None:
    watched.grant(CONTROLLER, CONTROLLER, controller_rules().watched, home=home.namespace)
    watched.apply("Stoker", "line", git=NOWHERE)
    watched.apply("Stoker", "older", git=NOWHERE)
    watched.patch(watched.path_of("Stoker", "older"), {"metadata": {"finalizers": [FINALIZER, "x.io/own"]}})
    flags = chart_flags(tmp_path, [watched.namespace])
    home.start(f"--watch-namespaces={watched.namespace}", *flags)
    watched.until("Stoker", "line", "Ready", "SourceUnreachable")
    eventually(
        lambda: watched.get("Stoker", "older")["metadata"]["finalizers"] == ["x.io/own"],
        PATIENCE,
        "a finalizer of an earlier release is removed, that of another owner is not",
    )
    watched.patch(watched.path_of("Stoker", "older"), {"metadata": {"finalizers": None}})
    for kind in ("rolebindings", "roles"):
        path = f"{RBAC}/namespaces/{watched.namespace}/{kind}/{CONTROLLER}"
        assert watched.cluster.request("DELETE", path).status == 200
    watched.cluster.request("DELETE", f"/api/v1/namespaces/{watched.namespace}")
    eventually(lambda: is_gone(watched), ENDS_WITHIN, home.tail, interval=0.5)


def test_a_namespace_ends_where_the_controller_works_on_all(
    home: Site, watched: Site, tmp_path: Path
) -> None:
    assert chart_flags(tmp_path, []) == []
    rules = controller_rules()
    name = f"{CONTROLLER}-{home.namespace}"
    cluster_role = {"metadata": {"name": name}, "rules": [*rules.watched, *rules.cluster]}
    subject = {"kind": "ServiceAccount", "name": CONTROLLER, "namespace": home.namespace}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}
    for kind, body in (("clusterroles", cluster_role), ("clusterrolebindings", binding)):
        assert home.cluster.request("POST", f"{RBAC}/{kind}", body).status == 201
    try:
        watched.apply("Stoker", "line", git=NOWHERE, labels={"home": home.namespace})
        home.start("--watch-namespaces=", f"--watch-label-selector=home={home.namespace}")
        eventually(
            lambda: watched.get("Stoker", "line")["metadata"].get("finalizers") == [FINALIZER],
            PATIENCE,
            home.tail,
        )
        watched.cluster.request("DELETE", f"/api/v1/namespaces/{watched.namespace}")
        eventually(lambda: is_gone(watched), ENDS_WITHIN, home.tail, interval=0.5)
    finally:
        for kind in ("clusterroles", "clusterrolebindings"):
            home.cluster.request("DELETE", f"{RBAC}/{kind}/{name}")

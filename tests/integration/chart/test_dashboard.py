"""The chart's dashboard: off until it is wanted, behind a Service, with no right that it could do without."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker_testkit.chart.helm import CHART, Helm
from stoker_testkit.chart.process_release import HOME, ProcessRelease
from stoker_testkit.chart.unused_rbac_rules import Account, needless
from stoker_testkit.cluster import audit_log
from stoker_testkit.cluster.cluster_access import ClusterAccess, CommandFailed
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.dashboard.rbac_environment import OWN_ROLE, RbacEnvironment, SignedInBrowser
from stoker_testkit.wait_until import eventually

from .test_templates import VALUES, container, of_kind

PATIENCE = 60.0
GIT = {"repo": "https://git.invalid/plant.git", "ref": "main"}
GROUPED = pytest.mark.xdist_group("chart")


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


def named(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next(one for one in of_kind(objects, kind) if one["metadata"]["name"] == name)


def test_it_is_off_until_it_is_wanted(helm: Helm) -> None:
    objects = helm.template()
    assert not [one for one in objects if one["metadata"]["name"].endswith("dashboard")]
    assert not [
        word for word in container(objects, "stoker-controller-manager")["args"] if "dashboard" in word
    ]


def test_every_replica_of_every_shard_is_behind_the_service(helm: Helm) -> None:
    objects = helm.template({**VALUES["dashboard"], "controller": {"shards": 2}})
    service = named(objects, "Service", "stoker-dashboard")["spec"]
    assert (service["type"], service["sessionAffinity"]) == ("ClusterIP", "ClientIP")
    for name in ("stoker-controller-manager", "stoker-controller-manager-1"):
        pod = named(objects, "Deployment", name)["spec"]["template"]
        assert service["selector"].items() <= pod["metadata"]["labels"].items()
        ports = {one["name"]: one["containerPort"] for one in pod["spec"]["containers"][0]["ports"]}
        assert ports[service["ports"][0]["targetPort"]] == 8090


def test_tls_and_the_ingress_are_as_values_say(helm: Helm) -> None:
    objects = helm.template(VALUES["dashboard of two namespaces"])
    manager = container(objects, "stoker-controller-manager")
    assert {
        "--dashboard-bind-address=:8090",
        "--dashboard-cert-dir=/etc/stoker/dashboard-tls",
        "--dashboard-trusted-proxy=10.0.0.0/8",
    } <= set(manager["args"])
    mount = {"name": "dashboard-tls", "mountPath": "/etc/stoker/dashboard-tls", "readOnly": True}
    assert mount in manager["volumeMounts"]
    pod = named(objects, "Deployment", "stoker-controller-manager")["spec"]["template"]["spec"]
    tls = next(one for one in pod["volumes"] if one["name"] == "dashboard-tls")
    assert tls["secret"] == {"secretName": "dashboard-tls", "optional": True}, (
        "gateways do not wait for a page"
    )
    ingress = named(objects, "Ingress", "stoker-dashboard")["spec"]
    assert ingress["tls"] == [{"hosts": ["stoker.plant.example"], "secretName": "plant-tls"}]
    to = ingress["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert to == {"name": "stoker-dashboard", "port": {"name": "dashboard"}}
    with pytest.raises(CommandFailed, match=r"nobody would answer"):
        helm.template({"dashboard": {"ingress": {"enabled": True, "host": "x.example"}}})
    with pytest.raises(CommandFailed, match=r"dashboard\.ingress\.host must be given"):
        helm.template({"dashboard": {"enabled": True, "ingress": {"enabled": True, "tlsSecretName": "x"}}})


def test_the_reverser_serves_one_of_its_own_where_that_is_wanted(helm: Helm) -> None:
    objects = helm.template(VALUES["dashboards of both"])
    reverser = container(objects, "stoker-reverser")
    assert {"--dashboard-bind-address=:8090", "--dashboard-cert-dir=/etc/stoker/dashboard-tls"} <= set(
        reverser["args"]
    )
    mount = {"name": "dashboard-tls", "mountPath": "/etc/stoker/dashboard-tls", "readOnly": True}
    assert mount in reverser["volumeMounts"]
    pod = named(objects, "Deployment", "stoker-reverser")["spec"]["template"]
    tls = next(one for one in pod["spec"]["volumes"] if one["name"] == "dashboard-tls")
    assert tls["secret"]["optional"] is True
    service = named(objects, "Service", "stoker-reverser-dashboard")["spec"]
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["sessionAffinity"] == "ClientIP"
    ports = {one["name"]: one["containerPort"] for one in reverser["ports"]}
    assert ports[service["ports"][0]["targetPort"]] == 8090
    ingress = named(objects, "Ingress", "stoker-dashboard")["spec"]
    assert {
        one["host"]: one["http"]["paths"][0]["backend"]["service"]["name"] for one in ingress["rules"]
    } == {"stoker.plant.example": "stoker-dashboard", "mirror.plant.example": "stoker-reverser-dashboard"}
    assert ingress["tls"][0]["hosts"] == ["mirror.plant.example", "stoker.plant.example"]


def test_the_reverser_serves_none_because_the_controller_does_and_the_other_way_round(helm: Helm) -> None:
    own = "stoker-reverser-dashboard"
    names = {one["metadata"]["name"] for one in helm.template(VALUES["dashboard"])}
    assert own not in names
    objects = helm.template(VALUES["dashboard of the reverser in two namespaces"])
    names = {one["metadata"]["name"] for one in objects}
    assert {own, "stoker-viewer", "stoker-editor", "stoker-emergency-stop"} <= names
    assert not {"stoker-dashboard", OWN_ROLE} & names
    assert not [
        word for word in container(objects, "stoker-controller-manager")["args"] if "dashboard" in word
    ]


@pytest.mark.parametrize(
    ("dashboard", "message"),
    [
        ({"reverser": {"enabled": True}, "ingress": {"enabled": True}}, r"nobody would answer"),
        ({"reverser": {"enabled": True, "host": "x.example"}}, r"dashboard\.reverser\.host has no effect"),
        ({"reverser": {"enabled": True}, "service": {"type": "NodePort"}}, r"dashboard\.tls\.secretName"),
        (
            {
                "enabled": True,
                "reverser": {"enabled": True, "host": "x.example"},
                "ingress": {"enabled": True, "host": "x.example", "tlsSecretName": "x"},
            },
            r"must not be dashboard\.ingress\.host",
        ),
    ],
)
def test_a_dashboard_of_the_reverser_that_could_not_be_meant_is_refused(
    helm: Helm, dashboard: dict[str, Any], message: str
) -> None:
    with pytest.raises(CommandFailed, match=message):
        helm.template({"reverser": {"enabled": True}, "dashboard": dashboard})


@pytest.mark.parametrize(
    ("way", "wants"),
    [
        ({"service": {"type": "LoadBalancer"}}, r"dashboard\.tls\.secretName"),
        ({"service": {"type": "NodePort"}}, r"dashboard\.tls\.secretName"),
        ({"ingress": {"enabled": True, "host": "x.example"}}, r"dashboard\.ingress\.tlsSecretName"),
    ],
)
def test_tokens_go_in_the_clear_only_where_that_is_configured(
    helm: Helm, way: dict[str, Any], wants: str
) -> None:
    with pytest.raises(CommandFailed, match=wants):
        helm.template({"dashboard": {"enabled": True, **way}})
    objects = helm.template({"dashboard": {"enabled": True, **way, "tls": {"allowPlain": True}}})
    assert named(objects, "Service", "stoker-dashboard")


def test_an_ingress_keeps_a_browser_with_one_replica(helm: Helm) -> None:
    ingress = {
        "enabled": True,
        "host": "x.example",
        "tlsSecretName": "x",
        "annotations": {"a.example/b": "c"},
    }
    objects = helm.template({"dashboard": {"enabled": True, "ingress": ingress}})
    annotations = named(objects, "Ingress", "stoker-dashboard")["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/affinity"] == "cookie"
    assert annotations["a.example/b"] == "c"


@pytest.mark.parametrize(("replicas", "value"), [(1, False), (2, True)])
def test_the_notes_say_what_more_than_one_replica_needs(replicas: int, value: bool, tmp_path: Path) -> None:
    """They are rendered for a cluster alone, so they are put into an object of a copy of the chart here."""
    chart = tmp_path / "stoker"
    shutil.copytree(CHART, chart)
    (chart / "templates/NOTES.txt").rename(chart / "NOTES.txt")
    text = '{{ tpl (.Files.Get "NOTES.txt") . | toJson }}'
    (chart / "templates/told.yaml").write_text(f"kind: Notes\nmetadata: {{name: notes}}\ntext: {text}\n")
    ingress = {"enabled": True, "host": "x.example", "tlsSecretName": "x"}
    controller = {"replicas": replicas, "podDisruptionBudget": {"enabled": False}}
    dashboard = {"enabled": True, "reverser": {"enabled": True}, "ingress": ingress}
    values = {"dashboard": dashboard, "controller": controller, "reverser": {"enabled": True}}
    (notes,) = of_kind(Helm(tmp_path, chart=chart).template(values), "Notes")
    for component, service in (("controller", "stoker-dashboard"), ("reverser", "stoker-reverser-dashboard")):
        assert f"The dashboard of the {component} is at http://{service}.stoker-system.svc" in notes["text"]
    assert ("must keep a browser with it" in notes["text"]) is value


def test_people_get_permissions_only_where_they_are_bound_or_aggregated(helm: Helm) -> None:
    for name, aggregated in (("dashboard", False), ("dashboard of two namespaces", True)):
        objects = helm.template(VALUES[name])
        for role, label in (("viewer", "view"), ("editor", "edit")):
            labels = named(objects, "ClusterRole", f"stoker-{role}")["metadata"]["labels"]
            assert (f"rbac.authorization.k8s.io/aggregate-to-{label}" in labels) is aggregated
        bound = {one["roleRef"]["name"] for one in of_kind(objects, "RoleBinding", "ClusterRoleBinding")}
        assert not {"stoker-viewer", "stoker-editor", "stoker-emergency-stop"} & bound


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "audited"


@pytest.fixture
def plane(folder: Path) -> Iterator[ClusterAccess]:
    with ControlPlane.start(folder / "plane", apiserver_flags=audit_log.flags(folder)) as plane:
        for name in ("line-1", "line-2"):
            plane.create_namespace(name)
        yield plane


@GROUPED
@pytest.mark.parametrize(
    ("name", "server", "roles"),
    [
        ("dashboard", "controller", 1),
        pytest.param("dashboard of two namespaces", "controller", 2, marks=pytest.mark.long),
        ("dashboard of the reverser in two namespaces", "reverser", 3),
    ],
)
def test_every_right_of_its_account_is_needed_and_none_is_missing(
    name: str, server: str, roles: int, plane: ClusterAccess, folder: Path, tmp_path: Path
) -> None:
    values = {key: value for key, value in VALUES[name].items() if key != "dashboard"}
    served = {"enabled": True} if server == "controller" else {"reverser": {"enabled": True}}
    values |= {"dashboard": served, "webhook": {"enabled": False}, "crds": {"conversion": False}}
    house = RbacEnvironment(plane, "line-1", "line-2")
    with ProcessRelease(plane, tmp_path, values) as release:
        release.install()
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
        release.start(server)
        house.apply("Stoker", "line-1", {"git": GIT})
        house.apply("GitRepoConfig", "repo", {"repoUrl": GIT["repo"], "allowedBranches": ["main"]})
        spec = {"repoRef": {"name": "repo"}, "branch": "main", "baseFolder": "a"}
        house.apply("GitDestination", "production", spec)
        viewer = house.person("viewer", "stoker-viewer")
        browser = SignedInBrowser(release.ports[server]["dashboard-bind-address"])
        eventually(browser.answers, PATIENCE, release.log_tail)
        assert browser.sign_in(viewer) == 200

        def seen() -> bool:
            picture = browser.ask("GET", "/api/picture")[1]
            return bool(picture["resources"]) and any(one["repo"] for one in picture["destinations"])

        eventually(seen, PATIENCE, release.log_tail)
        release.stop()
        account = Account(plane, HOME, f"stoker-{server}")
        done = audit_log.asked(folder, account.name)
        refused = [one for one in done if one.code == 403]
        assert {(one.verb, one.resource) for one in refused} <= {("get", "storageclasses")}
        found = [
            one
            for one in of_kind(
                release.helm.template(values, name="stoker", namespace=HOME), "Role", "ClusterRole"
            )
            if one["metadata"]["name"].startswith(f"stoker-{server}-dashboard")
            and one["metadata"].get("namespace") != "line-2"
        ]
        assert len(found) == roles
        assert needless(account, found, done) == []

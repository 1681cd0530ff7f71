"""The chart's roles, held against what controller and webhook really ask of an API server.

Both run with exactly what the chart grants, over everything that they do: nothing may be
refused, and nothing may be granted that neither is asked for nor handed on to agents. What
was asked is in the API server's own audit log. Then each rule is removed, one at a
time, and something that was done must be forbidden.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stoker.domain.errors import StokerError
from stoker.domain.intent.intent import SyncResourceKind
from stoker_testkit.chart.controller_rbac import controller_rules
from stoker_testkit.chart.process_release import HOME, ProcessRelease
from stoker_testkit.chart.unused_rbac_rules import Account, needless
from stoker_testkit.cluster import audit_log
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.forges.github_app_login import GitHubAppServer
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

pytestmark = pytest.mark.xdist_group("chart")

FAST = {"interval": "1s"}
COMPONENTS = ("controller", "webhook")


class Right(NamedTuple):
    where: str
    """A namespace, or nothing for all."""
    group: str
    resource: str
    verb: str


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "audited"


@pytest.fixture
def plane(folder: Path) -> Iterator[ClusterAccess]:
    with ControlPlane.start(
        folder / "plane", controller_manager=True, apiserver_flags=audit_log.flags(folder)
    ) as plane:
        for name in ("line-1", "line-2"):
            plane.create_namespace(name)
        yield plane


def roles(release: ProcessRelease, component: str) -> list[dict[str, Any]]:
    """What the chart makes, but for the namespace in which nothing happens here."""
    return [
        one
        for one in release.helm.template(release.values, name="stoker", namespace=HOME)
        if one["kind"] in ("Role", "ClusterRole")
        and one["metadata"]["labels"]["app.kubernetes.io/component"] == component
        and one["metadata"].get("namespace") != "line-2"
    ]


def granted(release: ProcessRelease, component: str) -> set[Right]:
    return {
        Right(one["metadata"].get("namespace", ""), group, resource, verb)
        for one in roles(release, component)
        for rule in one["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(folder: Path, component: str, wide: bool) -> set[Right]:
    found = set()
    for one in audit_log.asked(folder, f"stoker-{component}"):
        for verb in (one.verb, *(["create"] if one.made_anew else [])):
            found.add(Right(one.namespace, one.group, one.resource, verb))
            if wide:
                found.add(Right("", one.group, one.resource, verb))
    return found


def done(folder: Path, component: str = "controller") -> set[tuple[str, str]]:
    """Verbs and kinds of what a process has asked."""
    return {(one.verb, one.resource) for one in audit_log.asked(folder, f"stoker-{component}")}


def handed_on(site: Site, wide: bool) -> set[Right]:
    """What roles that the controller makes grant: no account may grant more than it has."""
    return {
        Right("" if wide else site.namespace, group, resource, verb)
        for role in site.listed("Role")
        if "stoker.io/cr-name" in role["metadata"].get("labels", {})
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _names(rights: set[Right]) -> list[str]:
    return sorted(
        f"{one.where or 'everywhere'}: {one.verb} {one.group or 'core'}/{one.resource}" for one in rights
    )


@pytest.mark.parametrize("namespaces", [[], ["line-1", "line-2"]], ids=["all namespaces", "two namespaces"])
def test_every_right_is_used_and_none_is_missing(
    namespaces: list[str], plane: ClusterAccess, folder: Path, tmp_path: Path, git_http: GitHttpServer
) -> None:
    wide = not namespaces
    values = {"controller": {"watchNamespaces": namespaces, "githubApp": {"namespaces": ["line-1"]}}}
    with GitHubAppServer.start(git_http.root) as github, ProcessRelease(plane, tmp_path, values) as release:
        release.install()
        release.start()
        site = Site(plane, "line-1", tmp_path)
        plant = Repository.create(git_http.root / "plant.git")
        plant.commit({"services/site/projects/site/project.json": "{}"})
        as_app(site, github)
        handed = everything(site, release, plant, git_http.url("plant.git"), folder, wide)

        for component in COMPONENTS:
            refused = [one for one in audit_log.asked(folder, f"stoker-{component}") if one.code == 403]
            # Who has only namespaces may not look at the cluster's storage classes.
            assert {(one.verb, one.resource) for one in refused} <= {("get", "storageclasses")}
            assert wide <= (not refused)
        idle = granted(release, "controller") - used(folder, "controller", wide) - handed
        assert _names(idle) == []
        assert _names(granted(release, "webhook") - used(folder, "webhook", wide=True)) == []
        release.stop()
        for component in COMPONENTS:
            account = Account(plane, HOME, f"stoker-{component}")
            done = audit_log.asked(folder, account.name)
            assert needless(account, roles(release, component), done) == []


def leftover_finalizers(site: Site) -> None:
    """A release that watched all namespaces left its finalizers; one with Roles removes them."""
    for kind, name in (("Stoker", "line"), ("IgnitionSync", "big")):
        path = site.path_of(kind, name)
        ours = f"{site.get(kind, name)['apiVersion'].partition('/')[0]}/finalizer"
        site.patch(path, {"metadata": {"finalizers": [ours]}, "spec": {"paused": True}})
        eventually(partial(_has_no_finalizer, site, kind, name), PATIENCE, f"{ours} is removed")
        site.patch(path, {"spec": {"paused": False}})


def _has_no_finalizer(site: Site, kind: str, name: str) -> bool:
    return not site.get(kind, name)["metadata"].get("finalizers")


def everything(
    site: Site, release: ProcessRelease, plant: Repository, url: str, folder: Path, wide: bool
) -> set[Right]:
    """All that controller and webhook ever do; what the controller handed on meanwhile."""
    eventually(lambda: site.get("ServiceAccount", "default"), PATIENCE, "the namespace is ready for pods")
    git = {"repo": url, "ref": "main"}
    mapping = [{"source": "a", "destination": "projects"}]
    site.apply("SyncProfile", "base", mappings=mapping)
    site.apply("SyncProfile", "area", mappings=mapping, dependsOn=[{"profileName": "base"}])
    site.apply("IgnitionSyncBase", "common", gateway={"filesOnly": True})
    site.secret("hook", hmac=planted("webhook-key"))
    foreign(site, "stoker-agent-line")
    storage = {"accessMode": "ReadWriteMany", "storageClassName": "slow", "size": "1Gi"}
    site.apply("IgnitionSync", "big", git=git, inheritsFrom={"name": "common"}, storage=storage)
    webhook = {"secretRef": {"name": "hook", "key": "hmac"}}
    site.apply("Stoker", "line", git=git, polling=FAST, webhook=webhook)
    pods = [
        site.pod("gateway-0", "line", profile="base"),
        site.pod("big-0", "big", kind=SyncResourceKind.IGNITION_SYNC),
    ]
    for _ in range(2):  # the second time is one more of the same Event
        site.pod("bare-0", "line", injected=False)
        site.until_event("DataVolumeNotFound")
        site.cluster.request("DELETE", f"{site.path_of('Pod', 'bare-0')}?gracePeriodSeconds=0")
    site.pod("bare-1", "big", kind=SyncResourceKind.IGNITION_SYNC, injected=False).delete()
    with suppress(StokerError):
        site.post("/api/v1", "pods", nameless())  # the webhook must look which resource it could mean
    site.until_metadata("line", commit=plant.tip())
    pods[0].report(plant.tip())
    site.until("Stoker", "line", "Ready", "GatewaysSynced")
    if wide:
        site.until("IgnitionSync", "big", "Ready", "StorageClassNotFound")
    claim = "ignition-sync-repo-big"
    eventually(lambda: site.get("PersistentVolumeClaim", claim), PATIENCE, release.log_tail)
    site.patch(site.path_of("IgnitionSync", "big"), {"spec": {"storage": {"size": "2Gi"}}})
    eventually(lambda: site.get("Deployment", "ignition-sync-fetcher-big"), PATIENCE, release.log_tail)

    for _ in range(2):
        site.patch(site.path_of("Stoker", "line"), {"spec": {"paused": True}})
        site.until("Stoker", "line", "Ready", "Paused")
        site.patch(site.path_of("Stoker", "line"), {"spec": {"paused": False}})
        site.until("Stoker", "line", "Ready", "GatewaysSynced")
    if not wide:
        leftover_finalizers(site)
    reverser(site)
    release.stop_program("controller")
    # As a user does who wants another leader; the next one makes it anew.
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/stoker-controller-0"
    assert site.cluster.request("DELETE", lease).status == 200
    release.start("controller")
    site.patch(site.path_of("RoleBinding", "stoker-agent-line"), {"subjects": []})
    eventually(
        lambda: site.get("RoleBinding", "stoker-agent-line").get("subjects"), PATIENCE, release.log_tail
    )
    eventually(
        lambda: ("get", "deployments") in done(folder),
        PATIENCE,
        "the next controller looks whether the fetcher is there",
        interval=0.2,
    )
    eventually(
        lambda: {("create", "secrets"), ("update", "secrets")} <= done(folder),
        PATIENCE,
        "a token is written, and written anew before its end",
        interval=0.2,
    )
    handed = handed_on(site, wide)
    site.patch(site.path_of("IgnitionSync", "big"), {"spec": {"storage": None}})
    eventually(lambda: not site.get("Deployment", "ignition-sync-fetcher-big"), PATIENCE, release.log_tail)
    eventually(
        lambda: (
            "deletionTimestamp"
            in site.get("PersistentVolumeClaim", claim).get("metadata", {"deletionTimestamp": 0})
        ),
        PATIENCE,
        release.log_tail,
    )
    pods[0].delete()
    for kind, name in (("Stoker", "line"), ("Stoker", "app"), ("IgnitionSync", "big")):
        site.delete(kind, name)
        eventually(lambda kind=kind, name=name: not site.get(kind, name), PATIENCE, release.log_tail)  # type: ignore[misc]
    eventually(
        lambda: ("patch", "events") in done(folder, "webhook"),
        PATIENCE,
        "the webhook counts the Event that it wrote twice",
        interval=0.5,
    )
    return handed


def as_app(site: Site, github: GitHubAppServer) -> None:
    """A resource whose repository is opened by a GitHub App, with tokens that soon end."""
    github.lifetime = 6.0
    site.secret("app", pem=github.register(12, 3456).decode())
    app = {"appId": 12, "installationId": 3456, "privateKeySecretRef": {"name": "app", "key": "pem"}}
    git = {"repo": github.url("plant.git"), "ref": "main", "auth": {"githubApp": app}}
    site.apply("Stoker", "app", git=git, polling=FAST)


def foreign(site: Site, name: str) -> None:
    """A role and a binding of the name that is ours, without our label: they are taken over."""
    meta = {"name": name, "namespace": site.namespace}
    group = "rbac.authorization.k8s.io"
    site.post(f"/apis/{group}/v1", "roles", {"metadata": meta, "rules": []})
    ref = {"apiGroup": group, "kind": "Role", "name": name}
    site.post(f"/apis/{group}/v1", "rolebindings", {"metadata": meta, "roleRef": ref, "subjects": []})


def nameless() -> dict[str, Any]:
    return {
        "metadata": {"name": "nameless", "annotations": {"stoker.io/inject": "true"}},
        "spec": {"containers": [{"name": "gateway", "image": "gateway"}]},
    }


def reverser(site: Site) -> None:
    """Objects of the other direction, which admission judges."""
    repository = {"repoUrl": "https://git.test/plant.git", "allowedBranches": ["main"]}
    place = {"repoRef": {"name": "plant"}, "branch": "main", "baseFolder": "a"}
    rule = {"destinationRef": {"name": "plant"}, "rules": [{"resources": ["configmaps"]}]}
    for kind, spec in (("GitRepoConfig", repository), ("GitDestination", place), ("WatchRule", rule)):
        manifest = {
            "apiVersion": "configbutler.ai/v1alpha1",
            "kind": kind,
            "metadata": {"name": "plant", "namespace": site.namespace},
            "spec": spec,
        }
        site.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def test_it_works_where_an_owner_reference_needs_the_right_to_delete_the_owner(
    tmp_path: Path, git_http: GitHttpServer
) -> None:
    """OwnerReferencesPermissionEnforcement, which some distributions turn on."""
    plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    plant = Repository.create(git_http.root / "plant.git")
    plant.commit({"README.md": "one"})
    with ControlPlane.start(tmp_path / "plane", controller_manager=True, apiserver_flags=[plugin]) as plane:
        plane.create_namespace("line-1")
        site = Site(plane, "line-1", tmp_path)
        eventually(lambda: site.get("ServiceAccount", "default"), PATIENCE, "the namespace is ready")
        with ProcessRelease(plane, tmp_path, {"webhook": {"enabled": False}}) as release:
            release.install()
            release.start()
            site.apply("Stoker", "line", git={"repo": git_http.url("plant.git"), "ref": "main"})
            pod = site.pod("gateway-0", "line")
            site.until_metadata("line", commit=plant.tip())
            pod.report(plant.tip())
            site.until("Stoker", "line", "Ready", "GatewaysSynced")
            owners = site.get("Role", "stoker-agent-line")["metadata"]["ownerReferences"]
            assert [one["name"] for one in owners] == ["line"]
            assert "Forbidden" not in release.logged()


def test_without_shared_volumes_the_rights_for_them_are_not_there() -> None:
    kinds = {resource for rule in controller_rules().watched for resource in rule["resources"]}
    with_volumes = {
        resource for rule in controller_rules(shared_volumes=True).watched for resource in rule["resources"]
    }
    assert with_volumes - kinds == {"persistentvolumeclaims", "deployments", "serviceaccounts"}

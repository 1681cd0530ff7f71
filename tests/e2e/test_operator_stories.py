"""The operator as users meet it: chart, controller, webhook, agents and gateways, all of them real processes.

helm installs the chart on a real API server; controller and webhook run with its arguments and
accounts; a kubelet without containers runs what the webhook injects, with the token of each
pod's own account. Only the gateways are test gateways.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain.protocol import StatusKeyMode
from stoker.domain.refs import CommitId
from stoker.git.auth.credentials import TOKEN_USER
from stoker_testkit.certificates import Authority
from stoker_testkit.chart.process_release import HOME, ProcessRelease
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.environments.agent_environment import project
from stoker_testkit.environments.operator_environment import GATEWAY, IGNITION, PATIENCE
from stoker_testkit.environments.operator_process_environment import OperatorSite
from stoker_testkit.forges.gitea import GiteaServer
from stoker_testkit.gateway.settings import ApiKey
from stoker_testkit.kubelet.process_containers import GatewayImage, Image, Program
from stoker_testkit.kubelet.process_kubelet import ProcessKubelet
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.services import oci_artifacts
from stoker_testkit.services.oci_registry import Registry
from stoker_testkit.services.stub_http_service import StubHttpService
from stoker_testkit.wait_until import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("operator")]

FAST = {"interval": "1s"}


@pytest.fixture(scope="module")
def operator(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ProcessRelease, ProcessKubelet, GatewayImage]]:
    folder = tmp_path_factory.mktemp("operator")
    with (
        ControlPlane.start(folder / "plane", controller_manager=True) as plane,
        ProcessRelease(plane, folder) as release,
    ):
        release.install()
        release.start()
        gateways = GatewayImage()
        images: dict[str, Image] = {release.image: Program(), IGNITION: gateways}
        with ProcessKubelet.start(plane, folder / "node", images) as kubelet:
            yield release, kubelet, gateways


@pytest.fixture
def site(operator: tuple[ProcessRelease, ProcessKubelet, GatewayImage], tmp_path: Path) -> OperatorSite:
    release, kubelet, gateways = operator
    return OperatorSite.open(release, kubelet, gateways, f"site-{uuid.uuid4().hex[:8]}", tmp_path)


@pytest.fixture
def plant(repositories: Path) -> Repository:
    return Repository.create(repositories / "plant.git")


def files(*gateways: str, version: int = 1) -> dict[str, str]:
    """The services of a repository, each with a project of its own."""
    return {
        f"services/{name}/{path}": text for name in gateways for path, text in project(name, version).items()
    }


def title(name: str) -> str:
    return f"projects/{name}/project.json"


def content(name: str, version: int) -> str:
    """What the project of a service says about itself."""
    return project(name, version)[title(name)]


def git(server: GitHttpServer, ref: str = "main", **more: object) -> dict[str, object]:
    return {"repo": server.url("plant.git"), "ref": ref, **more}


QUICK = {"sync_period": "1"}
"""For gateways that come up within a second, which no real one does."""


def test_quick_start_of_the_specification(
    site: OperatorSite, plant: Repository, git_ssh: GitSshServer
) -> None:
    """A key for git, a key for the gateway, one resource, two annotations."""
    first = plant.commit(files("ignition"))
    site.secret("git-sync-secret", **{"ssh-privatekey": git_ssh.authorized_key().read_text()})
    login = {"sshKey": {"secretRef": {"name": "git-sync-secret", "key": "ssh-privatekey"}}}
    source = {"repo": git_ssh.url("plant.git"), "ref": "main", "auth": login}
    site.apply("IgnitionSync", "my-site", git=source, gateway=GATEWAY)
    site.stateful_set("ignition", service_path="services/ignition")
    site.until_synced("IgnitionSync", "my-site", first, 1)
    assert site.file("ignition-0", title("ignition")) == content("ignition", 1)
    assert "ignition" in site.gateway("ignition-0").projects
    shown = site.cluster.kubectl("-n", site.namespace, "get", "ignitionsyncs").stdout
    assert "1 of 1 gateways synced" in shown
    site.until_event("SidecarInjected", "ignition-0")


LINE = ("filler", "capper", "labeler", "packer", "palletizer")


def check_five_gateways(kind: str, site: OperatorSite, plant: Repository, server: GitHttpServer) -> None:
    first = plant.commit(files(*LINE))
    site.apply(kind, "line", git=git(server), polling=FAST, gateway=GATEWAY)
    for name in LINE:
        site.gateway_pod(name, gateway_name=name, service_path=f"services/{name}", **QUICK)
    site.until_synced(kind, "line", first, 5)
    for name in LINE:
        assert site.file(name, title(name)) == content(name, 1)
        assert set(site.gateway(name).projects) == {name}, "each has its own and nothing else"

    second = plant.commit(files("filler", "packer", version=2))
    site.until_synced(kind, "line", second, 5)
    assert [site.file(name, title(name)) == content(name, 2) for name in LINE] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert site.until(kind, "line", "Ready", "GatewaysSynced").startswith("5 of 5 gateways synced")
    for name in LINE:
        assert site.gateway(name).stale() == []


def test_five_gateways_one_repository(site: OperatorSite, plant: Repository, git_http: GitHttpServer) -> None:
    check_five_gateways("Stoker", site, plant, git_http)


@pytest.mark.long
def test_five_gateways_of_an_ignitionsync(
    site: OperatorSite, plant: Repository, git_http: GitHttpServer
) -> None:
    check_five_gateways("IgnitionSync", site, plant, git_http)


@pytest.mark.long
def test_replicated_frontends(site: OperatorSite, plant: Repository, git_http: GitHttpServer) -> None:
    """Replicas share the gateway's name, so that their reports go by the names of their pods."""
    first = plant.commit(files("frontend"))
    site.apply("Stoker", "web", git=git(git_http), polling=FAST, gateway=GATEWAY)
    site.deployment("frontend", 3, gateway_name="frontend", service_path="services/frontend", **QUICK)
    site.until_synced("Stoker", "web", first, 3)
    assert sorted(site.reports("Stoker", "web")) == site.pods()
    published = site.metadata("web")
    assert published is not None
    assert published.status_key_mode is StatusKeyMode.POD

    site.scale("frontend", 2)
    eventually(lambda: len(site.pods()) == 2, PATIENCE, "a replica goes", interval=0.1)
    second = plant.commit(files("frontend", version=2))
    site.until_synced("Stoker", "web", second, 2)
    assert [site.file(pod, title("frontend")) for pod in site.pods()] == [content("frontend", 2)] * 2


def test_push_to_webhook_to_all_gateways_verified(site: OperatorSite, tmp_path: Path) -> None:
    """A real forge calls the receiver; there is no polling."""
    with GiteaServer.start(tmp_path / "gitea") as forge:
        repository = forge.create_repository("plant")
        commit = ""
        for name in ("north", "south"):
            commit = repository.commit(f"services/{name}/{title(name)}", content(name, 1).encode())
        site.secret("hook", hmac=planted("webhook-key"))
        site.secret("forge", token=forge.token)
        source = {
            "repo": repository.clone_url,
            "ref": "main",
            "auth": {"token": {"secretRef": {"name": "forge", "key": "token"}}},
        }
        hook = {"secretRef": {"name": "hook", "key": "hmac"}}
        rare = {"interval": "1h"}
        site.apply("Stoker", "plant", git=source, polling=rare, gateway=GATEWAY, webhook=hook)
        for name in ("north", "south"):
            site.gateway_pod(name, gateway_name=name, service_path=f"services/{name}", **QUICK)
        site.until_synced("Stoker", "plant", CommitId(commit), 2)

        repository.hook(
            f"{site.release.receiver}/webhook/{site.namespace}/plant",
            secret=planted("webhook-key"),
            events=["push"],
        )
        pushed = repository.commit("services/north/projects/north/notes.txt", b"from the webhook\n")
        site.until_synced("Stoker", "plant", CommitId(pushed), 2)
        assert site.file("north", "projects/north/notes.txt") == "from the webhook\n"
        site.until_metadata("plant", trigger="webhook", commit=CommitId(pushed))


@pytest.mark.long
def test_ref_override_and_skew(site: OperatorSite, plant: Repository, git_http: GitHttpServer) -> None:
    first = plant.commit(files("north", "south"))
    hotfix = plant.commit(files("north", version=9), branch="hotfix", onto=first)
    site.apply("Stoker", "plant", git=git(git_http), polling=FAST, gateway=GATEWAY)
    for name in ("north", "south"):
        site.gateway_pod(name, gateway_name=name, service_path=f"services/{name}", **QUICK)
    site.until_synced("Stoker", "plant", first, 2)
    assert site.condition("Stoker", "plant", "RefSkew")[0] == "False"

    site.annotate_pod("north", ref_override="hotfix")
    message = site.until("Stoker", "plant", "RefSkew", "RefSkewDetected")
    assert message.startswith("north is at hotfix by its annotation")
    site.until_file("north", title("north"), content("north", 9))
    assert site.reports("Stoker", "plant")["north"].synced_commit == hotfix

    second = plant.commit(files("north", "south", version=2))
    site.until_file("south", title("south"), content("south", 2))
    assert site.file("north", title("north")) == content("north", 9), "it has its own way"
    site.annotate_pod("north", ref_override=None)
    site.until_synced("Stoker", "plant", second, 2)
    assert site.file("north", title("north")) == content("north", 2)
    site.until("Stoker", "plant", "RefSkew", "NoneFound")


@pytest.mark.long
def test_pause_and_emergency_stop(site: OperatorSite, plant: Repository, git_http: GitHttpServer) -> None:
    first = plant.commit(files("north"))
    site.apply("Stoker", "plant", git=git(git_http), polling=FAST, gateway=GATEWAY)
    site.gateway_pod("north", service_path="services/north", **QUICK)
    site.until_synced("Stoker", "plant", first, 1)

    site.patch(site.path_of("Stoker", "plant"), {"spec": {"paused": True}})
    site.until("Stoker", "plant", "Ready", "Paused")
    eventually(
        lambda: site.reports("Stoker", "plant")["north"].reason == "Paused", PATIENCE, "the agent says so"
    )
    # Another resource at the same branch shows when the new commit could have been seen.
    site.apply("Stoker", "witness", git=git(git_http), polling=FAST)
    second = plant.commit(files("north", version=2))
    site.until_metadata("witness", commit=second)
    report = site.reports("Stoker", "plant")["north"]
    assert (report.reason, report.synced_commit) == ("Paused", first)
    assert site.file("north", title("north")) == content("north", 1)
    site.patch(site.path_of("Stoker", "plant"), {"spec": {"paused": False}})
    site.until_synced("Stoker", "plant", second, 1)

    everywhere = {"metadata": {"name": "ignition-sync-global-pause"}, "data": {"paused": "true"}}
    place = f"/api/v1/namespaces/{HOME}/configmaps"
    assert site.cluster.request("POST", place, everywhere).status == 201
    message = site.until("Stoker", "plant", "Ready", "Paused")
    assert "ignition-sync-global-pause" in message
    third = plant.commit(files("north", version=3))
    eventually(
        lambda: site.reports("Stoker", "plant")["north"].reason == "Paused", PATIENCE, "the agent says so"
    )
    assert site.file("north", title("north")) == content("north", 2)
    assert site.cluster.request("DELETE", f"{place}/ignition-sync-global-pause").status == 200
    site.until_synced("Stoker", "plant", third, 1)


def test_an_artifact_of_the_plants_own_registry(site: OperatorSite, tmp_path: Path) -> None:
    """Where no forge can be reached: a registry with the plant's own authority and a password."""
    authority = Authority()
    with Registry.start(tmp_path / "registry", auth="basic", authority=authority) as registry:
        first = CommitId(registry.push("plant/line", "stable", oci_artifacts.flux(files("north"))))
        site.secret("registry", username=registry.username, password=registry.password)
        site.secret("plant-ca", **{"ca.crt": authority.pem.decode()})
        source = {
            "repo": registry.url("plant/line"),
            "ref": "stable",
            "auth": {"basic": {"secretRef": {"name": "registry"}}},
            "caSecretRef": {"name": "plant-ca", "key": "ca.crt"},
        }
        site.apply("Stoker", "plant", git=source, polling=FAST, gateway=GATEWAY)
        site.gateway_pod("north", service_path="services/north", **QUICK)
        site.until_synced("Stoker", "plant", first, 1)
        assert site.file("north", title("north")) == content("north", 1)
        assert "north" in site.gateway("north").projects

        second = CommitId(
            registry.push("plant/line", "stable", oci_artifacts.oras(files("north", version=2)))
        )
        site.until_synced("Stoker", "plant", second, 1)
        assert site.file("north", title("north")) == content("north", 2)

        site.patch(site.path_of("Stoker", "plant"), {"spec": {"git": {"ref": f"sha256:{first}"}}})
        site.until_synced("Stoker", "plant", first, 1)
        assert site.file("north", title("north")) == content("north", 1)

        assert registry.password not in site.kubelet.log(site.namespace, "north") + site.release.log_tail()


def test_rotation_of_a_secret(site: OperatorSite, plant: Repository, git_http: GitHttpServer) -> None:
    """Both Secrets that a gateway lives by are changed under it; no pod is touched."""
    git_http.users = {TOKEN_USER: "old"}
    site.secret("forge", token="old")
    login = {"token": {"secretRef": {"name": "forge", "key": "token"}}}
    first = plant.commit(files("north"))
    site.apply("Stoker", "plant", git=git(git_http, auth=login), polling=FAST, gateway=GATEWAY)
    site.gateway_pod("north", service_path="services/north", **QUICK)
    site.until_synced("Stoker", "plant", first, 1)
    pod = site.get("Pod", "north")
    (agent,) = pod["status"]["initContainerStatuses"]
    lives = (pod["metadata"]["uid"], agent["restartCount"])

    git_http.users = {TOKEN_USER: "new"}
    second = plant.commit(files("north", version=2))
    eventually(
        lambda: site.condition("Stoker", "plant", "RepoCloned")[0] == "False",
        PATIENCE,
        lambda: site.describe("Stoker", "plant"),
    )
    site.change_secret("forge", token="new")
    site.until_synced("Stoker", "plant", second, 1)

    keys = site.gateway("north").settings.keys
    keys.clear()
    keys["rotated"] = ApiKey(planted("rotated-key"))
    site.change_secret("ignition-api-key", apiKey=f"rotated:{planted('rotated-key')}")
    third = plant.commit(files("north", version=3))
    site.until_synced("Stoker", "plant", third, 1)
    assert site.file("north", title("north")) == content("north", 3)
    pod = site.get("Pod", "north")
    (agent,) = pod["status"]["initContainerStatuses"]
    logged = site.kubelet.log(site.namespace, "north")
    assert (pod["metadata"]["uid"], agent["restartCount"]) == lives, logged
    assert planted("rotated-key") not in logged + site.release.log_tail()


def test_a_pod_without_a_sidecar_is_reported(
    site: OperatorSite, plant: Repository, git_http: GitHttpServer
) -> None:
    plant.commit(files("north"))
    site.apply("Stoker", "plant", git=git(git_http), polling=FAST, gateway=GATEWAY)
    site.release.stop_program("webhook")
    site.gateway_pod("north", service_path="services/north", cr_name="plant", **QUICK)
    message = site.until("Stoker", "plant", "SidecarInjected", "SidecarMissing")
    assert message == "no agent in pod north: delete the pod so that it is recreated with an agent"
    assert site.condition("Stoker", "plant", "Ready")[1] == "SidecarMissing"
    site.until_event("SidecarMissing", "north")
    eventually(lambda: site.gateway("north").state, PATIENCE, "the gateway runs all the same")

    site.release.start("webhook")
    site.delete_pod("north")
    site.gateway_pod("north", service_path="services/north", cr_name="plant", **QUICK)
    site.until("Stoker", "plant", "SidecarInjected", "SidecarInjected")
    site.until_file("north", title("north"), content("north", 1))


@pytest.mark.long
def test_both_kinds_side_by_side(site: OperatorSite, plant: Repository, git_http: GitHttpServer) -> None:
    """Two resources of one name, each with its gateway, its ref and its maps."""
    first = plant.commit(files("north", "south"))
    second = plant.commit(files("north", "south", version=2), branch="next")
    site.apply("Stoker", "line", git=git(git_http), polling=FAST, gateway=GATEWAY)
    site.apply("IgnitionSync", "line", git=git(git_http, "next"), polling=FAST, gateway=GATEWAY)
    for name, kind in (("north", "Stoker"), ("south", "IgnitionSync")):
        site.gateway_pod(name, service_path=f"services/{name}", cr_name="line", cr_kind=kind, **QUICK)
    site.until_synced("Stoker", "line", first, 1)
    site.until_synced("IgnitionSync", "line", second, 1)
    assert site.file("north", title("north")) == content("north", 1)
    assert site.file("south", title("south")) == content("south", 2)
    assert list(site.reports("Stoker", "line")) == ["north"]
    assert list(site.reports("IgnitionSync", "line")) == ["south"]


@pytest.mark.long
def test_two_repositories_in_one_namespace(
    site: OperatorSite, plant: Repository, git_http: GitHttpServer
) -> None:
    other = Repository.create(git_http.root / "other.git")
    first, second = plant.commit(files("north")), other.commit(files("south"))
    site.apply("Stoker", "north", git=git(git_http), polling=FAST, gateway=GATEWAY)
    source = {"repo": git_http.url("other.git"), "ref": "main"}
    site.apply("Stoker", "south", git=source, polling=FAST, gateway=GATEWAY)
    for name in ("north", "south"):
        site.gateway_pod(name, service_path=f"services/{name}", cr_name=name, **QUICK)
    site.until_synced("Stoker", "north", first, 1)
    site.until_synced("Stoker", "south", second, 1)
    moved = other.commit(files("south", version=2))
    site.until_synced("Stoker", "south", moved, 1)
    assert site.status("Stoker", "north")["lastSyncCommit"] == first


@pytest.mark.long
def test_profile_dependency_order(site: OperatorSite, plant: Repository, git_http: GitHttpServer) -> None:
    """The hub gets a commit first; while it cannot take it, its spokes stay where they are."""
    first = plant.commit(files("hub", "spoke"))
    for name, before in (("hub", ()), ("spoke", ("hub",))):
        mapping = {"source": f"services/{name}/projects", "destination": "projects"}
        after = [{"profileName": one} for one in before]
        site.apply("SyncProfile", name, mappings=[mapping], dependsOn=after, syncPeriod=1)
    site.apply("Stoker", "plant", git=git(git_http), polling=FAST, gateway=GATEWAY)
    for name in ("hub", "spoke"):
        site.gateway_pod(name, sync_profile=name)
    site.until_synced("Stoker", "plant", first, 2)

    site.gateway("hub").settings.scan_refusal = "a license is missing"
    second = plant.commit(files("hub", "spoke", version=2))
    message = site.until("Stoker", "plant", "DependenciesMet", "DependencyWaiting")
    assert message == "spoke waits for hub of SyncProfile hub"
    assert site.file("spoke", title("spoke")) == content("spoke", 1)
    site.gateway("hub").settings.scan_refusal = ""
    site.until_synced("Stoker", "plant", second, 2)
    assert site.file("spoke", title("spoke")) == content("spoke", 2)


def test_a_canary_stops_where_its_health_check_fails(
    site: OperatorSite, plant: Repository, git_http: GitHttpServer
) -> None:
    """Stage by stage; the second one is not well, and nothing of the third has changed."""
    with StubHttpService.start() as service:
        stages = [
            {"name": "pilot", "gateways": ["lab"], "healthCheckUrl": f"{service.url}/pilot"},
            {"name": "lines", "gateways": ["filler"], "healthCheckUrl": f"{service.url}/lines"},
            {"name": "rest", "gateways": ["office"]},
        ]
        canary = {"strategy": "canary", "stages": stages}
        first = plant.commit(files("lab", "filler", "office"))
        site.apply("Stoker", "plant", git=git(git_http), polling=FAST, gateway=GATEWAY, deployment=canary)
        for name in ("lab", "filler", "office"):
            site.gateway_pod(name, gateway_name=name, service_path=f"services/{name}", **QUICK)
        site.until_synced("Stoker", "plant", first, 3)

        def state() -> list[str]:
            progress = site.status("Stoker", "plant")["release"]
            return [one["state"] for one in progress["stages"]]

        eventually(lambda: state() == ["Passed"] * 3, PATIENCE, lambda: site.describe("Stoker", "plant"))
        before = site.reports("Stoker", "plant")["office"]
        service.broken.add("/lines")
        second = plant.commit(files("lab", "filler", "office", version=2))
        message = site.until("Stoker", "plant", "CanaryStageFailed", "CanaryStageFailed")
        assert message.startswith("stage lines failed: its health check failed"), message
        assert state() == ["Passed", "Failed", "Waiting"]
        assert [site.file(name, title(name)) for name in ("lab", "filler", "office")] == [
            content("lab", 2),
            content("filler", 2),
            content("office", 1),
        ]
        after = site.reports("Stoker", "plant")["office"]
        assert after.without_heartbeat() == before.without_heartbeat(), "nothing reached the third stage"
        service.broken.clear()
        site.annotate("Stoker", "plant", requested_ref="main", requested_at="2026-03-02T08:15:00Z")
        site.until_synced("Stoker", "plant", second, 3)
        assert site.file("office", title("office")) == content("office", 2)


@pytest.mark.long
def test_deletion_waits_for_agents_and_leaves_the_files(
    site: OperatorSite, plant: Repository, git_http: GitHttpServer
) -> None:
    first = plant.commit(files("north"))
    site.apply("Stoker", "plant", git=git(git_http), polling=FAST, gateway=GATEWAY)
    site.gateway_pod("north", service_path="services/north", **QUICK)
    site.until_synced("Stoker", "plant", first, 1)
    site.delete("Stoker", "plant")
    eventually(
        lambda: not site.get("Stoker", "plant"),
        PATIENCE,
        lambda: site.describe("Stoker", "plant"),
        interval=0.1,
    )
    eventually(lambda: not ours_in(site), PATIENCE, lambda: f"{ours_in(site)} go with it", interval=0.2)
    assert site.file("north", title("north")) == content("north", 1)
    assert site.gateway("north").asked("GET", "/gateway-info"), "the gateway runs on"


def ours_in(site: OperatorSite) -> list[str]:
    """What the operator made in the namespace."""
    kinds = ("ConfigMap", "Role", "RoleBinding", "PersistentVolumeClaim")
    return [
        f"{kind} {one['metadata']['name']}"
        for kind in kinds
        for one in site.cluster.request("GET", site.path_of(kind)).json()["items"]  # type: ignore[index]
        if one["metadata"]["name"] != "kube-root-ca.crt"
    ]


def test_uninstall_leaves_nothing_behind(
    site: OperatorSite, plant: Repository, git_http: GitHttpServer
) -> None:
    """The last story: after it there is no operator."""
    plant.commit(files("north"))
    site.apply("IgnitionSync", "plant", git=git(git_http), polling=FAST, gateway=GATEWAY)
    site.gateway_pod("north", service_path="services/north", **QUICK)
    site.until_file("north", title("north"), content("north", 1))
    for kind in ("stokers", "ignitionsyncs", "syncprofiles"):
        site.cluster.kubectl("delete", kind, "--all", "--all-namespaces", "--timeout=60s")
    site.release.uninstall()  # while both programs still run
    site.release.stop()
    eventually(lambda: not ours_in(site), PATIENCE, lambda: f"{ours_in(site)} go", interval=0.2)
    kinds = "clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations"
    left = site.cluster.kubectl("get", kinds, "-o", "name").stdout.split()
    assert [one for one in left if "stoker" in one] == []
    inside = "deployments,services,serviceaccounts,roles,rolebindings,secrets,leases,poddisruptionbudgets"
    left = site.cluster.kubectl("-n", HOME, "get", inside, "-o", "name").stdout.split()
    assert left == ["serviceaccount/default"]
    crds = site.cluster.kubectl("get", "crds", "-o", "name").stdout
    assert crds.count("stoker.io") == 2, "an uninstall never takes people's resources"

    site.delete_pod("north")
    site.gateway_pod("north", service_path="services/north")
    eventually(
        lambda: site.get("Pod", "north")["status"].get("phase") == "Running",
        PATIENCE,
        "gateways start all the same",
    )
    assert "initContainers" not in site.get("Pod", "north")["spec"]

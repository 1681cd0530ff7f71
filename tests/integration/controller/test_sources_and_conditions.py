"""`stoker controller` as a real process on the real API server, following real repositories."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.processes import Process, free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

PATIENCE = 60.0
STOKER = [sys.executable, "-m", "stoker"]
IDLE = "without effect in this version: storage"

Start = Callable[..., Process]


@pytest.fixture
def start(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Start]:
    """Starts a controller that works on the test's own namespace."""
    running: list[Process] = []

    def start(*flags: str) -> Process:
        command = [*STOKER, "controller", f"--kubeconfig={kinds.kubeconfig()}", "--log-format=json"]
        scope = [f"--watch-namespaces={namespace}", f"--lease-namespace={namespace}"]
        quiet = [] if flags else ["--health-probe-bind-address=0", "--metrics-bind-address=0"]
        quiet.append("--receiver-bind-address=0")
        log = tmp_path / f"controller-{len(running)}.log"
        running.append(Process.start("stoker controller", [*command, *scope, *quiet, *flags], log=log))
        return running[-1]

    yield start
    for process in running:
        process.stop()


@pytest.fixture
def plant(repositories: Path, git_http: GitHttpServer) -> Repository:
    repository = Repository.create(repositories / "plant.git")
    repository.commit({"services/site/projects/site/project.json": "{}"})
    return repository


class Resources:
    """What a person does with kubectl in one namespace."""

    def __init__(self, cluster: ClusterAccess, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace

    def apply(self, kind: str, name: str, **spec: object) -> None:
        group = "stoker.io" if kind == "Stoker" else "sync.ignition.io"
        manifest = {
            "apiVersion": f"{group}/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self._namespace},
            "spec": spec,
        }
        self._cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def secret(self, name: str, **data: str) -> None:
        literals = [f"--from-literal={key}={value}" for key, value in data.items()]
        self._cluster.kubectl("-n", self._namespace, "create", "secret", "generic", name, *literals)

    def status(self, kind: str, name: str) -> dict[str, Any]:
        shown = self._cluster.kubectl("-n", self._namespace, "get", kind, name, "-o", "json").stdout
        status = json.loads(shown).get("status", {})
        assert isinstance(status, dict)
        return status

    def ready(self, kind: str, name: str) -> tuple[str, str, str]:
        """Status, reason and message of Ready."""
        for condition in self.status(kind, name).get("conditions", []):
            if condition["type"] == "Ready":
                return condition["status"], condition["reason"], condition["message"]
        return "", "", ""

    def until_ready(self, kind: str, name: str, reason: str) -> str:
        """Wait until Ready has that reason; its message."""
        eventually(
            lambda: self.ready(kind, name)[1] == reason,
            PATIENCE,
            lambda: f"{kind} {name} becomes {reason}; it is {self.ready(kind, name)}",
            interval=0.3,
        )
        return self.ready(kind, name)[2]


@pytest.fixture
def resources(kinds: ClusterAccess, namespace: str) -> Resources:
    return Resources(kinds, namespace)


def git(server: GitHttpServer, ref: str = "main", **more: object) -> dict[str, object]:
    return {"repo": server.url("plant.git"), "ref": ref, **more}


def test_the_status_follows_the_ref_of_both_kinds(
    start: Start, resources: Resources, plant: Repository, git_http: GitHttpServer
) -> None:
    resources.secret("gateway", apiKey=f"name:{planted('gateway-key')}")
    gateway = {"apiKeySecretRef": {"name": "gateway", "key": "apiKey"}}
    resources.apply("Stoker", "line", git=git(git_http), polling={"interval": "1s"}, gateway=gateway)
    resources.apply("IgnitionSync", "line", git=git(git_http), polling={"interval": "1s"}, gateway=gateway)
    start()
    for kind in ("Stoker", "IgnitionSync"):
        resources.until_ready(kind, "line", "RefResolved")
        assert resources.status(kind, "line")["lastSyncCommit"] == plant.tip()
        assert resources.status(kind, "line")["observedGeneration"] == 1
    commit = plant.commit({"services/site/projects/site/project.json": "{ }"})
    for kind in ("Stoker", "IgnitionSync"):
        eventually(
            lambda kind=kind: resources.status(kind, "line")["lastSyncCommit"] == commit,  # type: ignore[misc]
            PATIENCE,
            f"{kind} follows the new commit",
            interval=0.3,
        )


def test_one_broken_resource_says_what_is_wrong_and_stops_no_other(
    start: Start, resources: Resources, plant: Repository, git_http: GitHttpServer
) -> None:
    resources.apply("Stoker", "lost", git=git(git_http, "no-such-ref"))
    resources.apply(
        "Stoker", "shut", git=git(git_http, auth={"token": {"secretRef": {"name": "gone", "key": "t"}}})
    )
    resources.apply("Stoker", "well", git=git(git_http))
    resources.apply("Stoker", "resting", git=git(git_http), paused=True)
    start()
    assert "no-such-ref" in resources.until_ready("Stoker", "lost", "RefNotFound")
    assert "'gone'" in resources.until_ready("Stoker", "shut", "SecretNotFound")
    resources.until_ready("Stoker", "well", "RefResolved")
    resources.until_ready("Stoker", "resting", "Paused")
    assert "lastSyncCommit" not in resources.status("Stoker", "resting")

    plant.tag("no-such-ref", plant.tip())
    resources.secret("gone", t=planted("git-token"))
    resources.until_ready("Stoker", "lost", "RefResolved")
    resources.until_ready("Stoker", "shut", "RefResolved")


def test_a_missing_gateway_key_is_reported_and_the_commit_is_known_all_the_same(
    start: Start, resources: Resources, plant: Repository, git_http: GitHttpServer
) -> None:
    resources.secret("gateway", other="x")
    key = {"name": "gateway", "key": "apiKey"}
    resources.apply("Stoker", "line", git=git(git_http), gateway={"apiKeySecretRef": key})
    start()
    assert "'apiKey'" in resources.until_ready("Stoker", "line", "SecretNotFound")
    assert resources.status("Stoker", "line")["lastSyncCommit"] == plant.tip()


def test_credentials_of_a_secret_open_the_repository_and_wrong_ones_are_named(
    start: Start, resources: Resources, plant: Repository, git_http: GitHttpServer
) -> None:
    git_http.users["operator"] = planted("git-password")
    resources.secret("good", username="operator", password=planted("git-password"))
    resources.secret("bad", username="operator", password=planted("wrong-password"))
    for name in ("good", "bad"):
        resources.apply("Stoker", name, git=git(git_http, auth={"basic": {"secretRef": {"name": name}}}))
    controller = start()
    resources.until_ready("Stoker", "good", "RefResolved")
    message = resources.until_ready("Stoker", "bad", "SourceAuthFailed")
    assert planted("wrong-password") not in message
    assert planted("wrong-password") not in controller.log.read_text()
    assert resources.status("Stoker", "good")["lastSyncCommit"] == plant.tip()


def test_an_ssh_key_of_a_secret_opens_the_repository_and_an_unverified_host_is_reported(
    start: Start, resources: Resources, plant: Repository, git_ssh: GitSshServer
) -> None:
    key = git_ssh.authorized_key().read_text()
    resources.secret("ssh", key=key, hosts=git_ssh.known_hosts.read_text())
    for name, hosts in (("known", {"name": "ssh", "key": "hosts"}), ("unknown", None)):
        login = {"secretRef": {"name": "ssh", "key": "key"}}
        auth = {"sshKey": login if hosts is None else {**login, "knownHostsSecretRef": hosts}}
        address = git_ssh.url(plant.path.name)
        resources.apply("Stoker", name, git={"repo": address, "ref": "main", "auth": auth})
    controller = start()
    risk = "SSH host key verification disabled — MITM risk"
    assert risk not in resources.until_ready("Stoker", "known", "RefResolved")
    assert risk in resources.until_ready("Stoker", "unknown", "RefResolved")
    assert resources.status("Stoker", "known")["lastSyncCommit"] == plant.tip()
    log = controller.log.read_text()
    assert risk in log
    assert not any(line in log for line in key.splitlines()[1:-1])


def test_a_path_of_the_controllers_own_container_is_no_source(start: Start, resources: Resources) -> None:
    source = {"repo": "file:///proc/self/root", "ref": "main"}
    resources.apply("Stoker", "local", git=source, gateway={"filesOnly": True})
    start()
    message = resources.until_ready("Stoker", "local", "InvalidSpec")
    assert "spec.git.repo is a file:// address" in message


def test_a_base_that_appears_later_completes_the_resource_that_inherits_it(
    start: Start, resources: Resources, plant: Repository, git_http: GitHttpServer
) -> None:
    resources.apply(
        "IgnitionSync", "heir", git=git(git_http), gateway={"filesOnly": True}, inheritsFrom={"name": "base"}
    )
    start()
    assert "base" in resources.until_ready("IgnitionSync", "heir", "BaseNotFound")
    resources.apply("IgnitionSyncBase", "base", polling={"interval": "1s"})
    resources.until_ready("IgnitionSync", "heir", "RefResolved")
    assert resources.status("IgnitionSync", "heir")["lastSyncCommit"] == plant.tip()


@pytest.mark.usefixtures("plant")
def test_a_field_without_effect_is_named_in_a_condition_and_in_an_event(
    start: Start, resources: Resources, kinds: ClusterAccess, namespace: str, git_http: GitHttpServer
) -> None:
    resources.apply(
        "IgnitionSync", "line", git=git(git_http), gateway={"filesOnly": True}, storage={"size": "1Gi"}
    )
    start()  # without shared volumes
    assert IDLE in resources.until_ready("IgnitionSync", "line", "RefResolved")
    eventually(lambda: IDLE in messages(kinds, namespace), PATIENCE, "a warning event", interval=0.3)


def messages(cluster: ClusterAccess, namespace: str) -> str:
    """What the Events of a namespace say."""
    return cluster.kubectl("-n", namespace, "get", "events", "-o", "jsonpath={.items[*].message}").stdout


@pytest.mark.usefixtures("plant")
def test_a_field_without_effect_is_reported_although_the_first_reconcile_failed(
    start: Start, resources: Resources, kinds: ClusterAccess, namespace: str, git_http: GitHttpServer
) -> None:
    source = git(git_http, auth={"token": {"secretRef": {"name": "late", "key": "t"}}})
    resources.apply("IgnitionSync", "line", git=source, gateway={"filesOnly": True}, storage={"size": "1Gi"})
    start()
    resources.until_ready("IgnitionSync", "line", "SecretNotFound")
    resources.secret("late", t=planted("git-token"))
    resources.until_ready("IgnitionSync", "line", "RefResolved")
    eventually(lambda: IDLE in messages(kinds, namespace), PATIENCE, "a warning event", interval=0.3)


def test_a_ref_that_moves_is_reported_although_a_later_step_fails(
    start: Start,
    resources: Resources,
    kinds: ClusterAccess,
    namespace: str,
    plant: Repository,
    git_http: GitHttpServer,
) -> None:
    key = {"apiKeySecretRef": {"name": "gone", "key": "apiKey"}}
    resources.apply("Stoker", "line", git=git(git_http), gateway=key)
    start()
    resources.until_ready("Stoker", "line", "SecretNotFound")
    commit = plant.commit({"README.md": "moved"})
    asked = "stoker.io/requested-at=2026-03-02T08:15:00Z"
    kinds.kubectl("-n", namespace, "annotate", "stoker", "line", asked)
    eventually(lambda: f"to {commit[:8]}" in messages(kinds, namespace), PATIENCE, "an event", interval=0.3)


@pytest.mark.usefixtures("plant")
def test_a_stalled_resource_that_is_paused_no_longer_asks_for_help(
    start: Start, resources: Resources, git_http: GitHttpServer
) -> None:
    resources.apply("Stoker", "line", git=git(git_http, "no-such-ref"))
    start()
    resources.until_ready("Stoker", "line", "RefNotFound")
    resources.apply("Stoker", "line", git=git(git_http, "no-such-ref"), paused=True)
    resources.until_ready("Stoker", "line", "Paused")
    conditions = resources.status("Stoker", "line")["conditions"]
    assert "Stalled" not in {condition["type"] for condition in conditions}


@pytest.mark.usefixtures("plant")
def test_a_deleted_resource_is_measured_no_more(
    start: Start, resources: Resources, kinds: ClusterAccess, namespace: str, git_http: GitHttpServer
) -> None:
    metrics = f"127.0.0.1:{free_ports(1)[0]}"

    def page() -> str:
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    resources.apply("Stoker", "short-lived", git=git(git_http))
    start("--health-probe-bind-address=0", f"--metrics-bind-address={metrics}")
    resources.until_ready("Stoker", "short-lived", "RefResolved")
    eventually(lambda: 'cr="short-lived"' in page(), PATIENCE, "it is measured", interval=0.3)
    kinds.kubectl("-n", namespace, "delete", "stoker", "short-lived")
    eventually(lambda: 'cr="short-lived"' not in page(), PATIENCE, "it is forgotten", interval=0.3)


@pytest.mark.usefixtures("plant")
def test_nothing_is_written_when_nothing_changed(
    start: Start, resources: Resources, kinds: ClusterAccess, namespace: str, git_http: GitHttpServer
) -> None:
    metrics = f"127.0.0.1:{free_ports(1)[0]}"
    resources.apply("Stoker", "line", git=git(git_http), polling={"interval": "1s"})
    start("--health-probe-bind-address=0", f"--metrics-bind-address={metrics}")
    resources.until_ready("Stoker", "line", "RefResolved")

    def passes() -> int:
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=5) as page:
            lines = page.read().decode().splitlines()
        counted = [line for line in lines if line.startswith("ignition_sync_reconcile_total{")]
        return sum(int(float(line.rpartition(" ")[2])) for line in counted)

    def version() -> str:
        path = "jsonpath={.metadata.resourceVersion}"
        return kinds.kubectl("-n", namespace, "get", "stoker", "line", "-o", path).stdout

    before, counted, looks = version(), passes(), len(git_http.requests)
    eventually(
        lambda: len(git_http.requests) >= looks + 3,
        PATIENCE,
        "three more looks at the repository",
        interval=0.3,
    )
    assert passes() == counted, "where nothing moved there is nothing to do"
    kinds.kubectl("-n", namespace, "annotate", "stoker", "line", "stoker.io/nudged-at=now")
    eventually(lambda: passes() > counted, PATIENCE, "a requested reconcile", interval=0.3)
    nudged = version()
    looks = len(git_http.requests)
    eventually(lambda: len(git_http.requests) >= looks + 2, PATIENCE, "looks after that", interval=0.3)
    assert (version(), nudged != before) == (nudged, True), "the annotation is the only write"


@pytest.mark.cluster
def test_a_resource_that_the_schema_let_through_stalls_alone(
    tmp_path: Path, plant: Repository, git_http: GitHttpServer
) -> None:
    """A cluster whose CRDs are older or were edited by hand must not stop the whole kind."""
    with ControlPlane.start(tmp_path / "loose") as plane:
        _install_without_schemas(plane)
        plane.create_namespace("plant")
        resources = Resources(plane, "plant")
        resources.apply("Stoker", "bad", git=7, polling={"interval": -1e30})
        resources.apply("Stoker", "good", git=git(git_http))
        command = [*STOKER, "controller", f"--kubeconfig={plane.kubeconfig()}", "--log-format=json"]
        quiet = [f"--{one}-bind-address=0" for one in ("health-probe", "metrics", "receiver")]
        with Process.start("controller", [*command, *quiet], log=tmp_path / "controller.log"):
            resources.until_ready("Stoker", "good", "RefResolved")
            assert "git" in resources.until_ready("Stoker", "bad", "InvalidSpec")
        assert resources.status("Stoker", "good")["lastSyncCommit"] == plant.tip()


def test_a_term_signal_ends_it_in_order_and_gives_the_lease_back(
    start: Start, kinds: ClusterAccess, namespace: str
) -> None:
    controller = start()

    def holder() -> str:
        path = "jsonpath={.items[*].spec.holderIdentity}"
        return kinds.kubectl("-n", namespace, "get", "leases", "-o", path).stdout

    eventually(holder, PATIENCE, "there is a leader", interval=0.3)
    controller._popen.send_signal(signal.SIGTERM)
    assert controller.wait(PATIENCE)
    assert controller.returncode == 0
    assert holder() == ""


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "does not exist"), ("{", "not"), ("apiVersion: v1\nkind: Config\n", "context")],
)
def test_a_kubeconfig_that_cannot_be_used_gives_one_sentence_and_exit_code_2(
    tmp_path: Path, content: str | None, says: str
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    if content is not None:
        kubeconfig.write_text(content)
    done = subprocess.run(
        [*STOKER, "controller", "--kubeconfig", str(kubeconfig)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def _install_without_schemas(plane: ControlPlane) -> None:
    """The kinds that the controller watches, with schemas that let anything through."""
    for group, kind in (
        ("stoker.io", "Stoker"),
        ("sync.ignition.io", "IgnitionSync"),
        ("sync.ignition.io", "IgnitionSyncBase"),
        ("stoker.io", "SyncProfile"),
    ):
        plural = f"{kind.lower()}s"
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {
            "name": "v1alpha1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": anything},
            "subresources": {"status": {}},
        }
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "names": {
                    "kind": kind,
                    "plural": plural,
                    "singular": kind.lower(),
                    "listKind": f"{kind}List",
                },
                "scope": "Namespaced",
                "versions": [version],
            },
        }
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(crd))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{plural}.{group}")

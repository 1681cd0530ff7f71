"""The control plane of all integration tests is a real one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain.errors import InvalidValue, Misconfigured
from stoker_testkit.cluster.cluster_access import ClusterAccess, CommandFailed
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.processes import ProcessFailed
from stoker_testkit.wait_until import eventually

pytestmark = pytest.mark.cluster

POD = """
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  containers: [{name: main, image: example.test/none}]
"""


def test_the_servers_are_those_that_were_pinned(control_plane: ClusterAccess) -> None:
    output = control_plane.kubectl("version").stdout
    assert "Server Version: v1.3" in output
    assert control_plane.request("GET", "/readyz").body == b"ok"


def test_a_user_may_do_what_a_role_allows_and_nothing_else(
    control_plane: ClusterAccess, namespace: str
) -> None:
    in_namespace = ("-n", namespace)
    denied = control_plane.kubectl("get", "configmaps", *in_namespace, user="bob", check=False)
    assert denied.returncode == 1
    assert 'User "bob" cannot list resource "configmaps"' in denied.stderr

    control_plane.kubectl("create", "role", "reader", "--verb=list", "--resource=configmaps", *in_namespace)
    control_plane.kubectl("create", "rolebinding", "bob", "--role=reader", "--user=bob", *in_namespace)
    eventually(
        lambda: (
            control_plane.kubectl("get", "configmaps", *in_namespace, user="bob", check=False).returncode == 0
        ),
        message="bob may list configmaps",
    )
    with pytest.raises(CommandFailed, match='cannot list resource "secrets"'):
        control_plane.kubectl("get", "secrets", *in_namespace, user="bob")
    assert control_plane.request("GET", "/api/v1/namespaces", user="alice").status == 403


@pytest.mark.parametrize("user", ["alice", "bob", "carol", "dave"])
def test_every_user_has_an_identity_of_its_own(control_plane: ClusterAccess, user: str) -> None:
    assert f"Username    {user}\n" in control_plane.kubectl("auth", "whoami", user=user).stdout


def test_an_unknown_token_is_refused(control_plane: ClusterAccess) -> None:
    stranger = ClusterAccess(
        control_plane.folder, control_plane.url, {"x": "guessed"}, control_plane.binaries
    )
    assert stranger.request("GET", "/api", user="x").status == 401


def test_a_kubeconfig_has_the_namespace_it_was_asked_for(
    control_plane: ClusterAccess, namespace: str, admin_kubeconfig: Path
) -> None:
    control_plane.kubectl(f"--kubeconfig={admin_kubeconfig}", "create", "configmap", "here")
    assert control_plane.kubectl("get", "configmap", "here", "-n", namespace, "-o", "name").stdout


def test_a_service_account_acts_with_its_own_token(control_plane: ClusterAccess, namespace: str) -> None:
    control_plane.kubectl("create", "serviceaccount", "agent", "-n", namespace)
    config = control_plane.service_account_kubeconfig(namespace, "agent")
    output = control_plane.kubectl(f"--kubeconfig={config}", "auth", "whoami").stdout
    assert f"system:serviceaccount:{namespace}:agent" in output
    with pytest.raises(CommandFailed, match=f"service account {namespace}/nobody"):
        control_plane.service_account_kubeconfig(namespace, "nobody")


def test_a_client_certificate_is_an_identity(control_plane: ClusterAccess, tmp_path: Path) -> None:
    pair = control_plane.authority.client("erin", ["night-shift"]).save(tmp_path, "erin")
    config = control_plane.certificate_kubeconfig("erin", pair)
    output = control_plane.kubectl(f"--kubeconfig={config}", "auth", "whoami").stdout
    assert "erin" in output
    assert "night-shift" in output


def test_pods_can_be_made_without_controllers(control_plane: ClusterAccess, namespace: str) -> None:
    control_plane.kubectl("create", "-n", namespace, "-f", "-", stdin=POD)
    phase = control_plane.kubectl("get", "pod", "one", "-n", namespace, "-o", "jsonpath={.status.phase}")
    assert phase.stdout == "Pending"


def test_a_namespace_cannot_be_made_twice(control_plane: ClusterAccess, namespace: str) -> None:
    with pytest.raises(CommandFailed, match="already exists"):
        control_plane.create_namespace(namespace)


def test_a_namespace_goes_away_with_what_is_in_it(control_plane_with_controllers: ClusterAccess) -> None:
    plane = control_plane_with_controllers
    plane.create_namespace("leaving")
    plane.kubectl("create", "configmap", "inside", "-n", "leaving")
    plane.kubectl("delete", "namespace", "leaving", "--wait=false")
    eventually(
        lambda: plane.request("GET", "/api/v1/namespaces/leaving").status == 404,
        timeout=60,
        message="the namespace is gone",
    )


def test_garbage_is_collected_by_owner_reference(control_plane_with_controllers: ClusterAccess) -> None:
    plane = control_plane_with_controllers
    plane.kubectl("create", "configmap", "owner")
    uid = plane.kubectl("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}").stdout
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
    maps = "/api/v1/namespaces/default/configmaps"
    assert plane.request("POST", maps, owned).status == 201
    plane.kubectl("delete", "configmap", "owner")
    eventually(lambda: plane.request("GET", f"{maps}/owned").status == 404, timeout=60, message="collected")


def test_pods_get_a_service_account(control_plane_with_controllers: ClusterAccess) -> None:
    plane = control_plane_with_controllers
    plane.kubectl("create", "-f", "-", stdin=POD)
    account = plane.kubectl("get", "pod", "one", "-o", "jsonpath={.spec.serviceAccountName}").stdout
    assert account == "default"


@pytest.fixture(scope="module")
def own_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that the tests below may stop and restart."""
    folder = tmp_path_factory.mktemp("plane")
    with ControlPlane.start(folder, users={"admin": ["system:masters"], "zoe": []}) as running:
        yield running


def test_it_has_the_users_it_was_given(own_plane: ControlPlane) -> None:
    assert "zoe" in own_plane.kubectl("auth", "whoami", user="zoe").stdout
    with pytest.raises(InvalidValue, match="was started without a user 'bob'"):
        own_plane.kubeconfig("bob")


def test_objects_outlive_a_restart_of_the_api_server(own_plane: ControlPlane) -> None:
    own_plane.create_namespace("durable")
    address = own_plane.url
    own_plane.stop_apiserver()
    with pytest.raises(OSError, match="refused"):
        own_plane.request("GET", "/readyz")
    own_plane.start_apiserver()
    assert own_plane.url == address
    assert own_plane.request("GET", "/api/v1/namespaces/durable").status == 200


def test_the_api_server_takes_other_flags_with_a_restart(own_plane: ControlPlane) -> None:
    own_plane.restart_apiserver(flags=["--disable-admission-plugins=ServiceAccount,NamespaceLifecycle"])
    into_nowhere = {"metadata": {"name": "x"}}
    answer = own_plane.request("POST", "/api/v1/namespaces/nowhere/configmaps", into_nowhere)
    assert answer.status == 201  # refused unless that plug-in is off


def test_another_process_finds_it_by_its_folder(own_plane: ControlPlane) -> None:
    found = ClusterAccess.load(own_plane.folder)
    assert (found.url, found.token("admin")) == (own_plane.url, own_plane.token("admin"))
    assert found.request("GET", "/readyz").status == 200


def test_its_folder_cannot_be_used_twice(own_plane: ControlPlane) -> None:
    with pytest.raises(Misconfigured, match="is not empty; a control plane needs a folder of its own"):
        ControlPlane.start(own_plane.folder)


def test_a_flag_that_the_api_server_does_not_know_is_shown(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="unknown flag: --nonsense"):
        ControlPlane.start(tmp_path / "plane", apiserver_flags=["--nonsense"])


def test_a_temporary_folder_goes_with_the_control_plane() -> None:
    with ControlPlane.start() as plane:
        assert plane.folder.is_dir()
    assert not plane.folder.exists()


MEMBER = """
import sys, pathlib
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.cluster.shared_control_plane import shared_control_plane
with shared_control_plane(pathlib.Path(sys.argv[1]), ControlPlane.start) as plane:
    print(plane.folder, flush=True)
    sys.stdin.read()
"""


class Member:
    """A worker of a test run, as a process of its own, that uses the shared control plane."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", MEMBER, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.plane = ClusterAccess.load(Path(self.process.stdout.readline().decode().strip()))

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def gone(self) -> bool:
        return self.process.poll() is not None

    def close(self) -> None:
        with self.process:
            self.process.kill()


def answers(plane: ClusterAccess) -> bool:
    try:
        return plane.request("GET", "/readyz").status == 200
    except OSError:
        return False


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[Member]]:
    """Two workers that share one control plane; the first has started it."""
    both = [Member(tmp_path), Member(tmp_path)]
    yield both
    for member in both:
        member.close()


def test_workers_share_one_plane_which_stays_until_the_last_has_gone(members: list[Member]) -> None:
    owner, guest = members
    assert owner.plane.url == guest.plane.url
    owner.leave()
    assert answers(guest.plane)
    assert not owner.gone()
    guest.leave()
    eventually(owner.gone, 30, "the owner has stopped the control plane")
    assert not answers(guest.plane)


def test_a_plane_whose_owner_was_killed_is_gone_and_the_next_worker_starts_another(
    members: list[Member], tmp_path: Path
) -> None:
    owner, guest = members
    owner.process.kill()
    eventually(lambda: not answers(guest.plane), 10, "the servers die with their owner")
    heir = Member(tmp_path)
    assert answers(heir.plane)
    heir.close()

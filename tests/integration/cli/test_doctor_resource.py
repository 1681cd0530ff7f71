"""`stoker doctor NAME`: what is wrong with one resource, its Secrets, its repository and its gateways."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stoker.cli.commands import cli
from stoker.cli.exit_codes import ExitCode
from stoker.domain.clock import SystemClock, rfc3339
from stoker.domain.protocol import SyncState
from stoker.domain.reasons import Reason
from stoker_testkit.cluster.namespace_objects import require
from stoker_testkit.forges.github_app_login import GitHubAppServer
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.wait_until import eventually

from .installed_operator import SECRET, InstalledOperator, ResourceSite

pytestmark = pytest.mark.xdist_group("doctor")

CHECKS = ["resource", "secrets", "api key", "git"]
CHECKS += ["gateways", "agent", "agent role", "reports", "gateway", "ready"]


def test_a_resource_with_which_all_works_is_well(
    resource_site: ResourceSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = resource_site.versions()
    code, found = resource_site.look()
    assert code == ExitCode.DONE
    assert list(found)[-len(CHECKS) :] == CHECKS
    assert {one["mark"] for one in found.values()} == {"ok"}, found
    assert resource_site.versions() == before, "nothing was changed"
    # A repository that only the cluster reaches: what is between here and it is broken.
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    code, found = resource_site.look()
    assert code == ExitCode.DONE
    assert found["git"]["mark"] == "note"
    assert "from here; the controller says" in found["git"]["message"]


# A resource.


def test_a_resource_that_is_not_there(installed: InstalledOperator) -> None:
    check, reason, _, fix = installed.complaint("none", code=ExitCode.WRONG_INPUT)
    assert (check, reason) == ("resource", Reason.NOT_FOUND)
    assert "kubectl get stokers,ignitionsyncs -n default" in fix


def test_secrets_that_are_not_right(resource_site: ResourceSite) -> None:
    resource_site.delete("Secret", "git-credentials")
    check, reason, message, fix = resource_site.complaint()
    assert (check, reason) == ("secrets", Reason.SECRET_NOT_FOUND)
    assert "Secret 'git-credentials' does not exist" in message
    expected = (
        f"kubectl -n {resource_site.namespace} create secret generic git-credentials --from-file=token=FILE"
    )
    assert fix == expected
    resource_site.secret("git-credentials", password=SECRET, user="plant")
    check, _, message, _ = resource_site.complaint()
    assert check == "secrets"
    assert message.endswith("has no key 'token'; it has password, user")
    resource_site.replace_secret("git-credentials", token="")
    assert resource_site.complaint()[2].endswith("has no key 'token'; it has token")


def test_a_key_of_the_gateway_that_no_gateway_takes(resource_site: ResourceSite) -> None:
    resource_site.replace_secret("ignition-api-key", apiKey=f"Bearer {SECRET}")
    check, reason, message, fix = resource_site.complaint()
    assert (check, reason) == ("api key", Reason.TOKEN_MALFORMED)
    assert "begins with 'Bearer'" in message
    resource_site.replace_secret("ignition-api-key", apiKey=SECRET)
    check, reason, message, fix = resource_site.complaint()
    assert (check, reason) == ("api key", Reason.TOKEN_MALFORMED)
    assert "is not of the form name:secret" in message
    assert "key 'apiKey' of Secret 'ignition-api-key' must hold the whole line" in fix


def test_a_login_that_the_repository_refuses(resource_site: ResourceSite) -> None:
    resource_site.replace_secret("git-credentials", token="another")
    check, reason, _, fix = resource_site.complaint()
    assert (check, reason) == ("git", Reason.SOURCE_AUTH_FAILED)
    assert "may read the repository" in fix


def test_a_repository_and_a_ref_that_are_not_there(
    resource_site: ResourceSite, git_http: GitHttpServer
) -> None:
    resource_site.patch(resource_site.path_of("Stoker", "line-1"), {"spec": {"git": {"ref": "v99"}}})
    check, reason, _, _ = resource_site.complaint()
    assert (check, reason) == ("git", Reason.REF_NOT_FOUND)
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{reserved.getsockname()[1]}/plant.git"
        resource_site.patch(resource_site.path_of("Stoker", "line-1"), {"spec": {"git": {"repo": nowhere}}})
        resource_site.until("Stoker", "line-1", "RepoCloned", Reason.SOURCE_UNREACHABLE)
        check, reason, message, _ = resource_site.complaint()
    assert (check, reason) == ("git", Reason.SOURCE_UNREACHABLE)
    assert nowhere in message


def test_a_paused_resource_and_a_server_without_known_hosts_are_noted(resource_site: ResourceSite) -> None:
    resource_site.secret("ssh", key="no key at all")
    auth = {"token": None, "sshKey": {"secretRef": {"name": "ssh", "key": "key"}}}
    git = {"repo": "ssh://git@127.0.0.1:1/plant.git", "auth": auth}
    resource_site.patch(resource_site.path_of("Stoker", "line-1"), {"spec": {"git": git, "paused": True}})
    _, found = resource_site.look()
    assert (found["resource"]["mark"], found["resource"]["reason"]) == ("note", Reason.PAUSED)
    assert found["resource"]["fix"] == f"stoker resume line-1 --namespace {resource_site.namespace}"
    assert found["known hosts"]["mark"] == "note"
    assert "knownHostsSecretRef" in found["known hosts"]["fix"]


def test_an_ignitionsync_logs_in_as_the_github_app_that_it_names(
    resource_site: ResourceSite, tmp_path: Path
) -> None:
    repository = Repository.create(tmp_path / "forge" / "plant.git")
    repository.commit({"services/site/projects/P/project.json": "{}"})
    with GitHubAppServer.start(tmp_path / "forge") as github:
        key = github.register(12, 3456).decode()
        resource_site.secret("app", pem=key)
        app = {"appId": 12, "installationId": 3456, "privateKeySecretRef": {"name": "app", "key": "pem"}}
        git = {"repo": github.url("plant.git"), "ref": "main", "auth": {"githubApp": app}}
        api_key = {"apiKeySecretRef": {"name": "ignition-api-key", "key": "apiKey"}}
        resource_site.apply("IgnitionSync", "line-2", git=git, gateway=api_key)

        def look() -> dict[str, Any]:
            found = resource_site.installed.look(f"--namespace={resource_site.namespace}", "line-2")[1]
            assert found["resource"]["message"].startswith("IgnitionSync")
            return found

        well = look()["git"]
        assert (well["mark"], well["message"][-8:]) == ("ok", str(repository.tip())[:8])
        resource_site.replace_secret("app", pem=github.register(13, 99).decode())
        wrong = look()["git"]
        assert (wrong["mark"], wrong["reason"]) == ("wrong", Reason.SOURCE_AUTH_FAILED)
        assert "refused the app id or its private key" in wrong["message"]
        assert "a private key that was made there into key 'pem' of Secret 'app'" in wrong["fix"]
        resource_site.replace_secret("app", pem="no key at all")
        wrong = look()["git"]
        assert (wrong["mark"], wrong["reason"]) == ("wrong", Reason.INVALID_VALUE)
        assert "is not an unencrypted private key in PEM form" in wrong["message"]
        assert "'pem' of Secret 'app'" in wrong["fix"]


# Its gateways.


def test_a_pod_without_an_agent_and_no_pod_at_all(resource_site: ResourceSite) -> None:
    resource_site.pod("packer-0", "line-1", gateway="packer", injected=False)
    check, reason, message, fix = resource_site.complaint()
    assert (check, reason) == ("agent", Reason.SIDECAR_MISSING)
    assert "packer-0" in message
    assert fix == f"kubectl -n {resource_site.namespace} delete pod packer-0"
    for name in ("packer-0", "filler-0"):
        resource_site.cluster.request("DELETE", f"{resource_site.path_of('Pod', name)}?gracePeriodSeconds=0")
    check, reason, _, fix = resource_site.complaint()
    assert (check, reason) == ("gateways", Reason.NO_GATEWAYS)
    assert 'stoker.io/inject: "true"' in fix
    assert "stoker.io/cr-name: line-1" in fix


def test_an_account_of_agents_without_rights(
    installed: InstalledOperator, resource_site: ResourceSite
) -> None:
    controller = installed.release.running["controller"].pid
    eventually(
        lambda: resource_site.get("RoleBinding", "stoker-agent-line-1"), message="agents have their rights"
    )
    os.kill(controller, signal.SIGSTOP)  # it would repair this by itself
    try:
        resource_site.delete("RoleBinding", "stoker-agent-line-1")
        wrong = eventually(
            lambda: [one for one in [resource_site.look()[1]["agent role"]] if one["mark"] == "wrong"],
            8.0,
            "RBAC has noticed",
        )[0]
    finally:
        os.kill(controller, signal.SIGCONT)
    assert wrong["reason"] == Reason.RBAC_DENIED
    assert "service account default" in wrong["message"]
    assert "get configmaps stoker-metadata-line-1" in wrong["message"]


def test_an_agent_that_does_not_report_or_died(resource_site: ResourceSite) -> None:
    pod = resource_site.pod("packer-0", "line-1", gateway="packer")
    check, reason, message, _ = resource_site.complaint()
    assert (check, reason) == ("reports", Reason.AGENT_UNREACHABLE)
    assert message == "gateway packer has not reported yet"
    pod.report("", SyncState.PENDING, heartbeat_at="2020-01-01T00:00:00Z")
    assert resource_site.complaint()[2] == "gateway packer reported last at 2020-01-01T00:00:00Z"
    pod.is_ready(False)
    check, reason, message, fix = resource_site.complaint()
    assert (check, reason) == ("agent", Reason.AGENT_UNREACHABLE)
    assert "packer-0" in message
    assert f"kubectl -n {resource_site.namespace} logs packer-0 -c stoker-agent" in fix


def test_what_an_agent_says_of_its_gateway_names_the_part_that_is_missing(
    resource_site: ResourceSite,
) -> None:
    pod = resource_site.pod("packer-0", "line-1", gateway="packer")
    for reason, text, fix in (
        (Reason.TOKEN_MALFORMED, "is not of the form name:secret", "of Secret 'ignition-api-key' must hold"),
        (Reason.TOKEN_REJECTED, "does not accept the API key", "API Keys"),
        (Reason.LEVEL_NOT_GRANTED, "Gateway Write is not granted", "Gateway Write Permissions"),
        (Reason.CERTIFICATE_NOT_TRUSTED, "self-signed certificate", "spec.gateway.caSecretRef"),
    ):
        now = rfc3339(SystemClock().now())
        pod.report("", SyncState.ERROR, reason=reason, error_message=text, heartbeat_at=now)
        check, found, message, fixed_by = resource_site.complaint()
        assert (check, found) == ("gateway", reason)
        assert message == f"gateway packer: {text}"
        assert fix in fixed_by


# Who may not look.


def test_a_missing_permission_is_reported_and_is_not_a_failure(
    installed: InstalledOperator, resource_site: ResourceSite
) -> None:
    code, found = resource_site.look(user="dave")
    assert code == ExitCode.DONE, found
    marks = {check: one["mark"] for check, one in found.items()}
    assert [marks[one] for one in ("api server", "version", "kinds")] == ["ok"] * 3
    assert {marks[one] for one in ("schemas", "operator", "webhooks", "admission", "resource")} == {"untried"}
    assert all(
        "not checked" in one["message"] or "not tried" in one["message"]
        for one in found.values()
        if one["mark"] == "untried"
    )
    arguments = ["doctor", f"--kubeconfig={installed.cluster.kubeconfig('dave')}"]
    assert "no problem found; some checks were skipped" in CliRunner().invoke(cli, arguments).stdout
    # A user who may read all but Secrets sees the rest.
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}
    named = {
        "apiGroups": ["stoker.io", "sync.ignition.io", "apiextensions.k8s.io"],
        "resources": ["*"],
        "verbs": ["get"],
    }
    maps = {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["get"]}
    group = "/apis/rbac.authorization.k8s.io/v1"
    role = {"metadata": {"name": "looking"}, "rules": [everything, named, maps]}
    require(installed.cluster.request("POST", f"{group}/clusterroles", role), 201)
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "looking"}
    binding = {
        "metadata": {"name": "looking"},
        "roleRef": ref,
        "subjects": [{"kind": "User", "name": "carol"}],
    }
    require(installed.cluster.request("POST", f"{group}/clusterrolebindings", binding), 201)
    code, found = resource_site.look(user="carol")
    assert code == ExitCode.DONE, found
    assert found["secrets"]["mark"] == "untried"
    assert "api key" not in found
    assert found["git"]["mark"] == "untried"
    assert "the controller says" in found["git"]["message"]
    assert (found["rights"]["mark"], found["agent role"]["mark"]) == ("untried", "untried")
    assert found["ready"]["mark"] == "ok"

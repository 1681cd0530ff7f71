"""`stoker export` against a real API server: what is written, what is left, what the files are good for."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyrage  # type: ignore[import-untyped]
import pytest

from stoker.domain.deletion_guard import deletions_digest
from stoker.domain.errors import Stalled
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import load_config
from stoker.reverser.encryption.digest_keys import ensure_keys
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.command_fork_server import CommandResult, Commands
from stoker_testkit.faults.http_fault_proxy import AnsweredFault, HttpFaultProxy
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.ssh_keys import make_ssh_key
from stoker_testkit.reverser.preset_round_trip import PresetTrip
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.services.sops_decrypt import opened

RULES = """\
apiVersion: configbutler.ai/v1alpha1
kind: WatchRule
metadata: {{name: settings, namespace: {namespace}}}
spec:
  destinationRef: {{name: elsewhere}}
  rules:
  - resources: [configmaps, secrets, nonsense]
    labelSelector: {{matchLabels: {{exported: "yes"}}}}
"""
DESTINATION = """\
---
apiVersion: configbutler.ai/v1alpha1
kind: GitDestination
metadata: {{name: elsewhere, namespace: {namespace}}}
spec:
  repoRef: {{name: repo}}
  branch: main
  baseFolder: clusters/prod
  secretPolicy: {policy}
  {more}
"""
EVERYWHERE = """\
apiVersion: configbutler.ai/v1alpha1
kind: ClusterWatchRule
metadata: {{name: teams}}
spec:
  destinationRef: {{name: none, namespace: none}}
  rules:
  - scope: Namespaced
    resources: [configmaps]
    namespaceSelector: {{matchLabels: {{team: {namespace}}}}}
"""


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with Commands.ready(
        "cli.export.command",
        "cli.export.options",
        "cli.export.explain",
        "reverser.export.exporter",
        "reverser.export.folder_store",
        "reverser.export.branch_store",
        "reverser.encryption.sealer",
        "cli.sync.git_credentials",
    ) as ready:
        yield ready


class ExportSite:
    """A namespace of a cluster, a folder, and the command."""

    def __init__(self, commands: Commands, cluster: ClusterAccess, namespace: str, place: Path) -> None:
        self._commands = commands
        self.cluster = cluster
        self.namespace = namespace
        self.place = place
        self.out = place / "out"

    def export(self, *words: str, user: str = "admin", to: str | Path | None = None) -> CommandResult:
        kubeconfig = self.cluster.kubeconfig(user, namespace=self.namespace)
        where = () if "--explain" in words else (f"--to={self.out if to is None else to}",)
        return self.run(*where, f"--kubeconfig={kubeconfig}", *words)

    def run(self, *words: str) -> CommandResult:
        return self._commands.run("export", f"--cache-dir={self.place / 'cache'}", *words)

    def exported(self, *words: str, to: str | Path | None = None) -> dict[str, Any]:
        done = self.export(f"--namespace={self.namespace}", "--output=json", *words, to=to)
        assert done.code == 0, done
        return done.document

    def create(self, kind: str, name: str, labels: dict[str, str] | None = None, **fields: Any) -> None:
        body = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels or {}},
        }
        where = f"{self.at(kind)}/{name}?fieldManager=somebody&force=true"
        answer = self.cluster.request(
            "PATCH", where, body | fields, content_type="application/apply-patch+yaml"
        )
        assert answer.status in (200, 201), answer

    def delete(self, kind: str, name: str) -> None:
        assert self.cluster.request("DELETE", f"{self.at(kind)}/{name}").status == 200

    def at(self, kind: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{kind.lower()}s"

    def path(self, resource: str, name: str) -> str:
        return f"core/v1/{resource}/{self.namespace}/{name}.yaml"

    def files(self, folder: Path | None = None) -> set[str]:
        root = folder or self.out
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def site(commands: Commands, control_plane: ClusterAccess, namespace: str, tmp_path: Path) -> ExportSite:
    return ExportSite(commands, control_plane, namespace, tmp_path)


def test_every_kind_of_the_preset_survives_the_way_to_files_and_back(site: ExportSite) -> None:
    trip = PresetTrip(site.cluster, site.namespace)
    trip.make()
    done = site.export("--secret-policy=Include", "--output=json")
    assert done.code == 0, done
    mine = [path for path in done.document["added"] if site.namespace in path]
    assert len(mine) == len(trip.before)
    # The control plane is shared: only what is this test's own is applied.
    folder = site.place / "mine"
    for path in mine:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (site.out / path).rename(folder / path)
    trip.check_at_rest(folder)
    trip.check_return(folder)


def test_a_second_export_writes_nothing(site: ExportSite) -> None:
    site.create("ConfigMap", "settings", data={"a": "1"})
    first = site.exported()
    assert first["added"] == [site.path("configmaps", "settings")]
    written = site.out / first["added"][0]
    before = written.stat().st_mtime_ns
    again = site.exported()
    assert (again["added"], again["modified"], again["unchanged"]) == ([], [], 1)
    assert written.stat().st_mtime_ns == before
    site.create("ConfigMap", "settings", data={"a": "2"})
    assert site.exported()["modified"] == first["added"]
    assert 'a: "2"' in written.read_text()


def test_nothing_is_deleted_unless_asked_and_never_what_is_no_object_s(site: ExportSite) -> None:
    site.create("ConfigMap", "goes", data={})
    site.create("ConfigMap", "stays", data={})
    site.exported()
    foreign = {
        "README.md": "mine",
        "core/v1/configmaps/README.yaml": "not an object's path",
        site.path("configmaps", "foreign"): "kind: Kustomization\n",
        site.path("widgets", "unknown-kind"): "apiVersion: v1\nkind: Widget\n",
        f"core/v1/configmaps/{site.namespace}-other/x.yaml": "apiVersion: v1\nkind: ConfigMap\n",
        f"deep/er/{site.path('configmaps', 'x')}": "apiVersion: v1\n",
    }
    for path, text in foreign.items():
        (site.out / path).parent.mkdir(parents=True, exist_ok=True)
        (site.out / path).write_text(text)
    site.delete("configmap", "goes")
    kept = site.exported()
    gone = site.path("configmaps", "goes")
    assert gone in kept["orphansKept"]
    assert (site.out / gone).exists()
    assert site.exported("--prune")["deleted"] == [gone]
    assert site.files() == {*foreign, site.path("configmaps", "stays")}


def test_a_folder_that_became_empty_goes_with_its_last_file(site: ExportSite) -> None:
    site.create("ConfigMap", "goes", data={})
    site.exported()
    site.delete("configmap", "goes")
    site.exported("--prune")
    assert list(site.out.iterdir()) == []


def test_more_deletions_than_the_budget_allows_are_held_back(site: ExportSite) -> None:
    for number in range(4):
        site.create("ConfigMap", f"m{number}", data={})
    site.exported()
    for number in range(3):
        site.delete("configmap", f"m{number}")
    held = site.export(f"--namespace={site.namespace}", "--prune", "--deletion-budget=2,50")
    assert held.code == 1
    assert "3 files" in held.out
    assert len(site.files()) == 4
    digest = deletions_digest(site.path("configmaps", f"m{number}") for number in range(3))
    assert f"--approve-plan {digest}" in held.out
    stale = site.export(
        f"--namespace={site.namespace}", "--prune", "--deletion-budget=2,50", f"--approve-plan={'0' * 64}"
    )
    assert stale.code == 1
    assert digest in stale.out
    assert len(site.files()) == 4
    approved = site.exported("--prune", "--deletion-budget=2,50", f"--approve-plan={digest}")
    assert len(approved["deleted"]) == 3


def test_an_approval_of_another_plan_is_an_error_within_the_budget_too(site: ExportSite) -> None:
    site.create("ConfigMap", "goes", data={})
    site.exported()
    site.delete("configmap", "goes")
    stale = site.export(f"--namespace={site.namespace}", "--prune", f"--approve-plan={'0' * 64}")
    assert stale.code == 1
    assert len(site.files()) == 1


def test_nothing_is_deleted_in_a_folder_of_another_cluster(site: ExportSite) -> None:
    site.create("ConfigMap", "goes", data={})
    site.exported()
    marker = site.out / ".configbutler" / "owner.yaml"
    marker.parent.mkdir()
    marker.write_text("clusterUID: another\ncontrollerNS: a\ncontrollerName: b\ninstanceID: c\n")
    site.delete("configmap", "goes")
    done = site.exported("--prune")
    assert done["deleted"] == []
    assert done["orphansKept"] == [site.path("configmaps", "goes")]


def test_a_comment_in_an_exported_file_stays_until_values_change(site: ExportSite) -> None:
    site.create("ConfigMap", "prices", data={"bread": "2"})
    site.exported()
    file = site.out / site.path("configmaps", "prices")
    file.write_text("# ask Ada\n" + file.read_text())
    assert site.exported()["modified"] == []
    assert file.read_text().startswith("# ask Ada\n")


def test_what_may_not_be_listed_is_named_and_not_taken_for_gone(site: ExportSite) -> None:
    site.create("ConfigMap", "one", data={})
    site.create("Secret", "two", stringData={"password": "hunter2"})
    site.exported()
    role = f"only-maps-{site.namespace}"
    site.cluster.kubectl(
        "create", "role", role, "-n", site.namespace, "--verb=list,get", "--resource=configmaps"
    )
    site.cluster.kubectl("create", "rolebinding", role, "-n", site.namespace, f"--role={role}", "--user=dave")
    done = site.export(f"--namespace={site.namespace}", "--prune", "--output=json", user="dave")
    assert done.code == 1
    errors = {error["path"]: error["message"] for error in done.document["errors"]}
    assert "secrets" in errors
    assert "forbidden" in errors["secrets"]
    assert "configmaps" not in errors
    assert (done.document["unchanged"], done.document["deleted"]) == (1, [])
    assert site.path("secrets", "two") in site.files()


def test_secrets_are_redacted_unless_a_flag_says_otherwise(site: ExportSite) -> None:
    site.create("Secret", "login", stringData={"password": "hunter2"})
    path = site.exported()["added"][0]
    text = (site.out / path).read_text()
    assert "aHVudGVyMg==" not in text
    assert text.startswith("# data, whose values are not written: password\n")
    # Applying it takes nothing from the living Secret.
    site.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(site.out / path))
    kept = site.cluster.kubectl("get", "secret", "login", "-n", site.namespace, "-o", "json").stdout
    assert json.loads(kept)["data"] == {"password": "aHVudGVyMg=="}
    clear = site.export(f"--namespace={site.namespace}", "--secret-policy=Include")
    assert clear.code == 0
    assert "1 Secrets are written in clear" in clear.err
    assert "aHVudGVyMg==" in (site.out / path).read_text()
    assert (site.out / path).stat().st_mode & 0o077 == 0
    assert site.exported("--secret-policy=Exclude", "--prune")["deleted"] == [path]


def test_encrypted_secrets_are_opened_by_sops_and_stay_as_they_are(site: ExportSite) -> None:
    identity = pyrage.x25519.Identity.generate()
    site.create("Secret", "login", stringData={"password": "hunter2"}, type="Opaque")
    key = f"--digest-key-file={site.place / 'key'}"
    words = ("--secret-policy=Encrypt", f"--recipient={identity.to_public()}", key)
    path = site.exported(*words)["added"][0]
    sealed = (site.out / path).read_bytes()
    assert b"aHVudGVyMg" not in sealed
    assert opened(sealed, identity)["data"] == {"password": "aHVudGVyMg=="}
    assert site.files() == {path, ".configbutler/digests"}
    assert site.exported(*words)["unchanged"] == 1
    assert (site.out / path).read_bytes() == sealed
    # Another user replaces the file: it is noticed although nothing in the cluster changed.
    (site.out / path).write_bytes(sealed.replace(b"kind: Secret", b"kind: secret"))
    assert site.exported(*words)["modified"] == [path]
    another = pyrage.x25519.Identity.generate()
    assert site.exported(*words, f"--recipient={another.to_public()}")["modified"] == [path]
    assert opened((site.out / path).read_bytes(), another)["data"] == {"password": "aHVudGVyMg=="}
    site.delete("secret", "login")
    assert site.exported(*words, "--prune")["deleted"] == [path]
    assert site.files() == set()


def test_rules_from_a_file_say_what_goes_where(site: ExportSite) -> None:
    site.create("ConfigMap", "yes", {"exported": "yes"}, data={})
    site.create("ConfigMap", "no", data={})
    site.create("Secret", "login", {"exported": "yes"}, stringData={"password": "hunter2"})
    identity = pyrage.x25519.Identity.generate()
    more = f"encryption: {{recipients: [{identity.to_public()}]}}"
    rules = site.place / "rules.yaml"
    rules.write_text(
        RULES.format(namespace=site.namespace)
        + DESTINATION.format(namespace=site.namespace, policy="Encrypt", more=more)
    )
    done = site.export(f"--rules={rules}", "--output=json")
    assert done.code == 0, done
    base = f"clusters/prod/core/v1/{{}}/{site.namespace}/{{}}.yaml".format
    assert sorted(done.document["added"]) == [base("configmaps", "yes"), base("secrets", "login")]
    assert "nonsense is not served" in done.err
    assert opened((site.out / base("secrets", "login")).read_bytes(), identity)["data"]
    rules.write_text(RULES.format(namespace=site.namespace))
    elsewhere = site.place / "elsewhere"
    done = site.export(f"--rules={rules}", "--output=json", "--base-folder=./b/", to=elsewhere)
    assert f"b/{site.path('secrets', 'login')}" in done.document["added"]
    assert "aHVudGVyMg" not in (elsewhere / f"b/{site.path('secrets', 'login')}").read_text()


def test_labels_of_namespaces_and_objects_on_their_way_out_count(site: ExportSite) -> None:
    site.create("ConfigMap", "stays", data={})
    site.create("ConfigMap", "goes", data={})
    rules = site.place / "rules.yaml"
    rules.write_text(EVERYWHERE.format(namespace=site.namespace))
    done = site.export(f"--rules={rules}", "--output=json")
    assert (done.code, done.document["added"]) == (0, [])
    label = {"metadata": {"labels": {"team": site.namespace}}}
    merge = "application/merge-patch+json"
    site.cluster.request("PATCH", f"/api/v1/namespaces/{site.namespace}", label, content_type=merge)
    finalizer = {"metadata": {"finalizers": ["example.test/held"]}}
    where = f"{site.at('ConfigMap')}/goes"
    site.cluster.request("PATCH", where, finalizer, content_type=merge)
    assert site.export(f"--rules={rules}", "--output=json").document["added"] == [
        site.path("configmaps", "goes"),
        site.path("configmaps", "stays"),
    ]
    site.delete("ConfigMap", "goes")
    label["metadata"]["labels"] = {"changed": "yes"}
    site.cluster.request("PATCH", where, label, content_type=merge)
    done = site.export(f"--rules={rules}", "--prune", "--output=json")
    assert (done.document["modified"], done.document["deleted"]) == ([], [])
    why = site.export(f"--rules={rules}", "--explain", "configmaps", f"{site.namespace}/goes")
    assert "is left out: it is being deleted" in why.out
    site.cluster.request("PATCH", where, {"metadata": {"finalizers": None}}, content_type=merge)
    done = site.export(f"--rules={rules}", "--prune", "--output=json")
    assert done.document["deleted"] == [site.path("configmaps", "goes")]


def test_noise_and_forbidden_objects_are_left_out_and_explained(site: ExportSite) -> None:
    site.create("ConfigMap", "kube-root-ca.crt", data={})
    site.create("ConfigMap", "settings", data={})
    site.create("Secret", "sh.helm.release.v1.web.v1", type="helm.sh/release.v1", data={})
    printed = site.exported("--secret-policy=Include")
    assert (printed["added"], printed["leftOut"]) == ([site.path("configmaps", "settings")], 2)
    done = site.export(f"--namespace={site.namespace}", "--explain")
    assert done.code == 0
    assert "kube-root-ca.crt is left out: the control plane puts it into every namespace" in done.out
    assert (
        f"settings is in the export at {site.path('configmaps', 'settings')}; selected by preset" in done.out
    )
    one = site.export(f"--namespace={site.namespace}", "--explain", "cm", "kube-root-ca.crt", "--output=json")
    assert [(each["written"], len(each["why"])) for each in one.document["objects"]] == [(False, 1)]
    role = site.export(f"--namespace={site.namespace}", "--explain", "ClusterRole", "cluster-admin")
    assert "is left out" in role.out
    none = site.export("--explain", "configmaps", "none-of-this-name")
    assert none.code == 2
    assert "there is no configmaps none-of-this-name" in none.err


def test_one_signed_commit_holds_all_of_an_export(
    site: ExportSite, git_http: GitHttpServer, repositories: Path
) -> None:
    repository = Repository.create(repositories / "cluster.git")
    repository.commit({"README.md": "mine", "base/core/v1/configmaps/other/x.yaml": "apiVersion: v1\n"})
    site.create("ConfigMap", "one", data={"a": "1"})
    site.create("ConfigMap", "two", data={"a": "1"})
    key = make_ssh_key(site.place / "signing")
    words = (f"--signing-key-file={key.private}", "--base-folder=base")
    url = git_http.url("cluster.git")
    first = site.exported(*words, to=url)
    assert len(first["added"]) == 2
    allowed = site.place / "allowed"
    allowed.write_text(f"* {key.public_line}\n")
    config = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "gpg.ssh.allowedSignersFile"}
    repository.git("verify-commit", first["commit"], env=config | {"GIT_CONFIG_VALUE_0": str(allowed)})
    message = repository.git("log", "-1", "--format=%B", "main").decode()
    assert message.startswith(f"[CREATE 2] 2 configmaps in {site.namespace}\n")
    assert "X-ConfigButler-ControllerName: stoker-export\n" in message
    again = site.exported(*words, to=url)
    assert again["commit"] == first["commit"] == repository.tip("main")
    site.delete("configmap", "two")
    assert site.exported(*words, "--prune", to=url)["deleted"] == [f"base/{site.path('configmaps', 'two')}"]
    left = repository.git("ls-tree", "-r", "--name-only", "main").decode().split()
    one = f"base/{site.path('configmaps', 'one')}"
    assert left == sorted(["README.md", "base/core/v1/configmaps/other/x.yaml", one])


def test_a_new_branch_of_an_empty_repository_is_made(
    site: ExportSite, git_http: GitHttpServer, repositories: Path
) -> None:
    repository = Repository.create(repositories / "empty.git")
    site.create("ConfigMap", "one", data={})
    output = site.exported("--branch=cluster", to=git_http.url("empty.git"))
    assert repository.tip("cluster") == output["commit"]


def test_a_repository_that_refuses_the_login_is_exit_4(
    site: ExportSite, git_http: GitHttpServer, repositories: Path
) -> None:
    Repository.create(repositories / "shut.git")
    git_http.tokens.add(planted("git-token"))
    site.create("ConfigMap", "one", data={})
    token = site.place / "token"
    token.write_text("the-wrong-one")
    done = site.export(f"--token-file={token}", to=git_http.url("shut.git"))
    assert (done.code, done.out) == (4, "")
    assert "the-wrong-one" not in done.err


def test_a_cluster_that_refuses_the_login_is_exit_4_and_writes_nothing(site: ExportSite) -> None:
    good = site.cluster.kubeconfig("dave").read_text()
    bad = site.place / "kubeconfig"
    bad.write_text(good.replace(site.cluster.token("dave"), "nobody"))
    done = site.run(f"--to={site.out}", f"--kubeconfig={bad}")
    assert done.code == 4
    assert "Unauthorized" in done.err
    bad.write_text(good.replace(site.cluster.url, "https://127.0.0.1:1"))
    assert site.run(f"--to={site.out}", f"--kubeconfig={bad}").code == 4
    assert not site.out.exists() or site.files() == set()


def test_symlinks_in_the_folder_are_not_followed(site: ExportSite) -> None:
    site.create("ConfigMap", "one", data={})
    site.create("ConfigMap", "two", data={})
    away = site.place / "away"
    away.mkdir()
    (away / "victim").write_text("as it was")
    here = site.out / f"core/v1/configmaps/{site.namespace}"
    here.mkdir(parents=True)
    (here / "one.yaml").symlink_to(away / "victim")
    done = site.export(f"--namespace={site.namespace}", "--output=json")
    assert done.code == 1
    assert [error["path"] for error in done.document["errors"]] == [
        f"core/v1/configmaps/{site.namespace}/one"
    ]
    assert (here / "two.yaml").is_file()
    assert (away / "victim").read_text() == "as it was"
    (here / "one.yaml").unlink()
    here.rename(away / "folder")
    here.symlink_to(away / "folder")
    assert site.export(f"--namespace={site.namespace}").code == 1


def test_the_credentials_of_a_reverser_are_never_exported(site: ExportSite, kinds: ClusterAccess) -> None:
    site.create("Secret", "deploy-key", stringData={"token": "t"})
    site.create("Secret", "digests", type="configbutler.ai/digest-keys", stringData={"digest.key": "k" * 32})
    site.create("Secret", "other", stringData={"a": "b"})
    config = {
        "apiVersion": "configbutler.ai/v1alpha1",
        "kind": "GitRepoConfig",
        "metadata": {"name": "repo", "namespace": site.namespace},
        "spec": {
            "repoUrl": "https://git.example.test/a.git",
            "allowedBranches": ["main"],
            "secretRef": {"name": "deploy-key"},
        },
    }
    kinds.kubectl("apply", "-f", "-", stdin=json.dumps(config))
    output = site.exported("--secret-policy=Include")
    assert output["added"] == [site.path("secrets", "other")]


def test_a_terminal_is_not_needed_and_a_pipe_sees_no_bar(site: ExportSite) -> None:
    site.create("ConfigMap", "one", data={})
    kubeconfig = site.cluster.kubeconfig(namespace=site.namespace)
    argv = [sys.executable, "-m", "stoker", "export", f"--to={site.out}", f"--kubeconfig={kubeconfig}"]
    done = subprocess.run(
        [*argv, f"--namespace={site.namespace}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "TERM": "xterm"},
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        f"added {site.path('configmaps', 'one')}",
        f"{site.out}: 1 added, 0 modified, 0 deleted, 0 unchanged, 0 objects left out",
    ]


def test_two_exports_into_one_folder_do_not_mix(site: ExportSite) -> None:
    site.out.mkdir()
    fd = os.open(site.out, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        done = site.export()
    finally:
        os.close(fd)
    assert done.code == 3
    assert "another export is writing" in done.err
    half = site.out / f".stoker-{uuid.uuid4().hex[:16]}.tmp"
    half.write_text("what a killed one left")
    site.exported()
    assert not half.exists()


def test_a_list_that_expires_begins_anew_and_a_kind_that_fails_is_named(
    site: ExportSite, http_fault_proxy: HttpFaultProxy
) -> None:
    site.create("ConfigMap", "one", data={})
    site.create("Secret", "two", data={})
    gone = b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'
    broken = b'{"kind":"Status","code":500,"reason":"InternalError","message":"no"}'
    json_ = {"Content-Type": "application/json"}
    http_fault_proxy.arm(AnsweredFault(410, gone, json_), r"/configmaps\?", times=2)
    http_fault_proxy.arm(AnsweredFault(500, broken, json_), r"/secrets\?", times=None)
    kubeconfig = site.cluster.kubeconfig(namespace=site.namespace, server=http_fault_proxy.url)
    done = site.run(f"--to={site.out}", f"--kubeconfig={kubeconfig}", f"--namespace={site.namespace}")
    assert done.code == 1
    assert "error secrets: " in done.out
    assert site.files() == {site.path("configmaps", "one")}
    lists = http_fault_proxy.seen(r"/configmaps\?")
    assert [one.status for one in lists] == [410, 410, 200]
    assert all("resourceVersion=" not in one.path for one in lists), "lists must be consistent"


async def test_the_keys_for_digests_are_made_once_and_rotated_by_hand(
    control_plane: ClusterAccess, namespace: str
) -> None:
    config = load_config(control_plane.kubeconfig())
    async with KubeClient(config) as client:
        first, second = await asyncio.gather(ensure_keys(client, namespace), ensure_keys(client, namespace))
        digest = first.digest(b"said", "blob")
        assert second.age_of(digest, b"said", "blob") == 0
        where = f"/api/v1/namespaces/{namespace}/secrets/gitops-reverser-digests"
        found: Any = control_plane.request("GET", where).json()
        assert found["type"] == "configbutler.ai/digest-keys"
        fresh = base64.b64encode(b"n" * 32).decode()
        data = {"before.key": found["data"]["digest.key"], "digest.key": fresh}
        patched = control_plane.request(
            "PATCH", where, {"data": data}, content_type="application/merge-patch+json"
        )
        assert patched.status == 200
        assert (await ensure_keys(client, namespace)).age_of(digest, b"said", "blob") == 1
        other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "data": data}
        control_plane.request("POST", f"/api/v1/namespaces/{namespace}/secrets", other)
        with pytest.raises(Stalled, match="is not of the type"):
            await ensure_keys(client, namespace, "mine")

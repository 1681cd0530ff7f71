"""Verbs about a cluster mean what kubectl would mean, and watching outlasts a cluster that is away."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stoker.cli.commands import cli
from stoker.cli.exit_codes import ExitCode
from stoker_testkit.cluster.stub_api_server import kubeconfig_for, stub_api
from stoker_testkit.wait_until import eventually

EMPTY: dict[str, Any] = {"metadata": {}, "items": []}
TO = "--to=" + "1" * 40


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["status"], "/namespaces/plant/stokers"),
        (["status", "-n", "other"], "/namespaces/other/stokers"),
        (["status", "-A"], "v1alpha1/stokers"),
        (["status", "line"], "/namespaces/plant/stokers/line"),
        (["history", "line"], "/namespaces/plant/stokers/line"),
        (["status", "stoker/line"], "/namespaces/plant/stokers/line"),
        (["status", "IgnitionSyncs/line"], "/namespaces/plant/ignitionsyncs/line"),
        (["diff", "line"], "/namespaces/plant/stokers/line"),
        (["plan", "line"], "/namespaces/plant/stokers/line"),
        (["plan", "line", "-n", "other"], "/namespaces/other/stokers/line"),
        (["approve", "line"], "/namespaces/plant/stokers/line"),
        (["pause", "line"], "/namespaces/plant/stokers/line"),
        (["rollback", "line", TO], "/namespaces/plant/stokers/line"),
        (["rollback", "line", TO, "--namespace=default"], "/namespaces/default/stokers/line"),
        (["migrate", "--from-configmap=map"], "/namespaces/plant/configmaps/map"),
    ],
)
def test_without_a_namespace_that_of_the_context_is_used(
    tmp_path: Path, arguments: list[str], asked: str
) -> None:
    paths: list[str] = []

    def answer(path: str, _: dict[str, str]) -> object:
        paths.append(path)
        return EMPTY if path.endswith("s") else 404

    with stub_api(answer) as address:
        config = kubeconfig_for(address, tmp_path, namespace="plant")
        done = CliRunner().invoke(cli, [*arguments, f"--kubeconfig={config}"])
    assert paths[0].endswith(asked), done.output


def test_a_cluster_without_our_kinds_is_not_one_without_resources(tmp_path: Path) -> None:
    with stub_api(lambda *_: 404) as address:
        config = kubeconfig_for(address, tmp_path)
        done = CliRunner().invoke(cli, ["status", "-A", f"--kubeconfig={config}"])
    assert (done.exit_code, done.stdout) == (ExitCode.WRONG_INPUT, "")
    assert "this cluster knows no Stoker and no IgnitionSync" in done.stderr
    with stub_api(lambda path, _: EMPTY if path.endswith("/stokers") else 404) as address:
        config = kubeconfig_for(address, tmp_path)
        done = CliRunner().invoke(cli, ["status", "-A", f"--kubeconfig={config}"])
    assert (done.exit_code, done.stdout) == (ExitCode.DONE, "no resources found\n"), "one of them is enough"


def test_a_context_without_a_namespace_means_default(tmp_path: Path) -> None:
    paths: list[str] = []

    def answer(path: str, _: dict[str, str]) -> object:
        paths.append(path)
        return EMPTY

    with stub_api(answer) as address:
        done = CliRunner().invoke(cli, ["status", f"--kubeconfig={kubeconfig_for(address, tmp_path)}"])
    assert done.stdout == "no resources found\n"
    assert all("/namespaces/default/" in one for one in paths)


def test_a_resource_in_a_file_needs_no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`plan -f` needs no cluster, and never looks for one."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    manifest = tmp_path / "line.yaml"
    spec = {"git": {"repo": "file:///nowhere", "ref": "main"}}
    head = {"apiVersion": "stoker.io/v1alpha1", "kind": "Stoker", "metadata": {"name": "line"}}
    manifest.write_text(json.dumps({**head, "spec": spec}))
    done = CliRunner().invoke(cli, ["plan", f"-f{manifest}", f"--data-dir={tmp_path}"])
    assert "kubeconfig" not in done.output
    assert "NoMappings" in done.output


@pytest.mark.parametrize("flags", [["-o", "json"], ["-ojson"], ["--output", "json"], ["--output=json"]])
def test_json_may_be_asked_for_as_of_kubectl(tmp_path: Path, flags: list[str]) -> None:
    with stub_api(lambda *_: EMPTY) as address:
        config = kubeconfig_for(address, tmp_path)
        done = CliRunner().invoke(cli, ["status", f"--kubeconfig={config}", *flags])
    assert json.loads(done.stdout) == {"resources": []}
    refused = CliRunner().invoke(cli, ["status", "line-1", "line-2", *flags])
    assert refused.exit_code == ExitCode.WRONG_INPUT
    assert json.loads(refused.stdout)["message"].endswith("(line-2)")


@pytest.mark.parametrize("flag", ["--data-dir=.", "--repo=https://git.example.net/a.git", "-f=line.yaml"])
def test_a_folder_beside_a_resource_is_not_passed_over_in_silence(flag: str) -> None:
    for verb in (["rollback", TO], ["plan"]):
        done = CliRunner().invoke(cli, [*verb, "line", "--kubeconfig=none", flag])
        assert done.exit_code == ExitCode.WRONG_INPUT
        assert f"{flag[:2] if flag[1] == 'f' else flag.partition('=')[0]} applies to a folder" in done.stderr


@pytest.mark.parametrize(
    ("status", "reason"), [(403, "RBACDenied"), (401, "Unauthorized"), (500, "APIServerError")]
)
def test_an_rbac_denial_is_distinguished_from_a_guard(tmp_path: Path, status: int, reason: str) -> None:
    with stub_api(lambda *_: status) as address:
        config = kubeconfig_for(address, tmp_path)
        for verb in ("status", "pause", "approve", "history"):
            done = CliRunner().invoke(cli, [verb, "line", f"--kubeconfig={config}", "-o", "json"])
            assert (done.exit_code, json.loads(done.stdout)["reason"]) == (ExitCode.UNREACHABLE, reason)


@pytest.mark.parametrize(
    "arguments",
    [[verb, "typo"] for verb in ("status", "history", "diff", "plan", "approve", "pause", "resume")]
    + [["rollback", "typo", TO], ["migrate", "--from-gatewaysync=typo"]],
)
def test_an_unknown_name_is_wrong_input(tmp_path: Path, arguments: list[str]) -> None:
    with stub_api(lambda *_: 404) as address:
        config = kubeconfig_for(address, tmp_path)
        done = CliRunner().invoke(cli, [*arguments, f"--kubeconfig={config}"])
    assert (done.exit_code, done.stdout) == (ExitCode.WRONG_INPUT, "")
    assert "typo" in done.stderr


def test_watching_goes_on_when_the_cluster_is_away_for_a_while(tmp_path: Path) -> None:
    looks = 0

    def answer(path: str, _: dict[str, str]) -> object:
        nonlocal looks
        if not path.endswith("/stokers"):
            return EMPTY
        looks += 1
        if looks == 2:
            return 500
        metadata = {"name": "before" if looks < 2 else "after", "namespace": "default"}
        return {"metadata": {}, "items": [{"metadata": metadata}]}

    log = tmp_path / "log"
    with stub_api(answer) as address, log.open("w") as written:
        command = [sys.executable, "-m", "stoker", "status", "--watch", "--output=json"]
        command.append(f"--kubeconfig={kubeconfig_for(address, tmp_path)}")
        with subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT) as watching:
            try:
                eventually(lambda: '"after"' in log.read_text(), 60.0, log.read_text)
            finally:
                watching.terminate()
    first, away, back, last = log.read_text().splitlines()
    assert [json.loads(one)["resources"][0]["name"] for one in (first, last)] == ["before", "after"]
    assert away.startswith("stoker status: APIServerError: ")
    assert away.endswith("; retrying")
    assert back == "stoker status: the cluster answers again"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["approve", "pods/line"],
            "'pods' is not a kind of resource here: Stoker, IgnitionSync, GitDestination",
        ),
        (
            ["status", "gitdestination/prod"],
            "'gitdestination' is not a kind of resource here: Stoker, IgnitionSync",
        ),
        (["status", "stoker/line", "--kind=IgnitionSync"], "--kind IgnitionSync contradicts stoker/"),
    ],
)
def test_a_kind_in_front_of_a_name_is_one_of_ours(words: list[str], message: str) -> None:
    done = CliRunner().invoke(cli, [*words, "--kubeconfig=none"])
    assert (done.exit_code, done.stdout) == (ExitCode.WRONG_INPUT, "")
    assert message in done.stderr

"""Refusals of `stoker export` before any request, and rules from files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stoker.cli.commands import cli
from stoker.cli.export.options import (
    EXPORT_DESTINATION,
    ExportOptions,
    build_export_job,
    read_digest_keys,
    repository_of,
)
from stoker.domain.deletion_guard import DeletionLimits
from stoker.domain.errors import InvalidValue, Misconfigured, Stalled
from stoker.reverser.manifest.named_secrets import SecretRef
from stoker.reverser.manifest.secret_policy import SecretPolicy
from stoker.reverser.selection.explain import ExplainTarget
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import DestinationRef

RECIPIENT = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {token: t}}]
contexts: [{name: a, context: {cluster: a, user: a, namespace: home}}]
"""
RULE = """\
apiVersion: configbutler.ai/v1alpha1
kind: WatchRule
metadata: {name: maps}
spec: {destinationRef: {name: prod}, rules: [{resources: [configmaps]}]}
---
apiVersion: configbutler.ai/v1alpha1
kind: ClusterWatchRule
metadata: {name: everywhere}
spec:
  destinationRef: {name: prod, namespace: home}
  rules: [{scope: Namespaced, resources: [services]}, {scope: Cluster, resources: [clusterroles]}]
"""
DESTINATION = """\
---
apiVersion: configbutler.ai/v1alpha1
kind: GitDestination
metadata: {name: prod}
spec: {repoRef: {name: repo}, branch: main, baseFolder: clusters/prod}
---
apiVersion: configbutler.ai/v1alpha1
kind: GitRepoConfig
metadata: {name: repo}
spec: {repoUrl: "https://git.example.test/a.git", allowedBranches: [main], secretRef: {name: login}}
"""
PROD = DestinationRef("home", "prod")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return path


def export(kubeconfig: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["export", f"--kubeconfig={kubeconfig}", *words], prog_name="stoker")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "--to is missing"),
        (("--to=x", "--rules=nowhere.yaml"), "nowhere.yaml cannot be read"),
        (("--to=x", "--preset", "--rules=a"), "--rules and --preset"),
        (("--to=x", "configmaps", "a"), "only with --explain"),
        (("--to=x", "--base-folder=../up"), "base|path"),
        (("--to=x", "--exclude=*"), "not the name of a kind"),
        (("--to=x", "--secret-policy=Encrypt"), "--recipient is missing"),
        (("--to=x", "--secret-policy=Encrypt", "--recipient=age1x"), "recipient 'age1x'"),
        (("--to=x", f"--recipient={RECIPIENT}"), "has no effect without --secret-policy Encrypt"),
        (("--to=x", "--secret-policy=Clear"), "(?i)secret-policy.*'Clear' is not one of"),
        (("--to=x", "--signing-key-file=k"), "applies only to a repository"),
        (("--to=x", "--deletion-budget=1"), "FILES,PERCENT"),
        (("--to=ftp://a/b",), "must begin with https://"),
        (("--to=https://u:p@a/b",), "put credentials into a Secret"),
        (("--to=https://a.test/b", "--branch=--upload-pack=x"), "begins with '-'"),
        (("--to=https://a.test/b", "--token-file=a", "--ssh-key-file=b"), "are different logins"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = export(kubeconfig, *words)
    assert done.exit_code == 2, done.output
    (line,) = done.stderr.splitlines()
    assert line.startswith("stoker export: ")
    assert re.search(says, line), line
    assert not (tmp_path / "x").exists()


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    done = export(tmp_path / "none", "--to=x")
    assert done.exit_code == 2
    assert str(tmp_path / "none") in done.stderr


@pytest.mark.parametrize(
    ("to", "is_repository"),
    [
        ("https://git.example.test/a.git", True),
        ("ssh://git@git.example.test/a.git", True),
        ("git@git.example.test:a.git", True),
        ("file:///srv/a.git", True),
        ("out", False),
        ("./a@b:c", False),
        ("/srv/a.git", False),
        ("C:backup", False),
    ],
)
def test_a_folder_is_distinguished_from_a_repository(to: str, is_repository: bool) -> None:
    assert (repository_of(to) is not None) is is_repository


def test_without_rules_it_is_the_preset_with_secrets_redacted() -> None:
    job, warnings = build_export_job(
        ExportOptions(excludes=("secrets",), deletion_budget="7,8", prune=True), "home"
    )
    assert job.targets == {EXPORT_DESTINATION: ExplainTarget("", SecretPolicy.REDACT)}
    assert {rule.namespaced for rule in job.rules} == {True, False}
    assert GroupResource("", "secrets") in job.excluded
    assert GroupResource("", "pods") in job.excluded, "the floor stays"
    assert (job.budget, job.prune, warnings) == (DeletionLimits(7, 8), True, ())


def test_a_destination_in_the_files_says_what_it_says_in_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(RULE + DESTINATION)
    job, _ = build_export_job(ExportOptions(rules=(str(file),)), "home")
    assert job.targets == {PROD: ExplainTarget("clusters/prod", SecretPolicy.EXCLUDE)}
    assert {rule.destination for rule in job.rules} == {PROD}
    assert job.own == {SecretRef("home", "login")}
    job, _ = build_export_job(
        ExportOptions(rules=(str(file),), base_folder="b", secret_policy="Redact"), "home"
    )
    assert job.targets == {PROD: ExplainTarget("b/clusters/prod", SecretPolicy.REDACT)}


def test_a_destination_that_is_not_in_the_files_is_the_export_itself(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(RULE)
    job, _ = build_export_job(ExportOptions(rules=(str(file),)), "home")
    assert job.targets == {EXPORT_DESTINATION: ExplainTarget("", SecretPolicy.REDACT)}
    assert [rule.namespace for rule in job.rules] == ["home", "", ""]


def test_namespaces_narrow_every_rule(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(RULE)
    job, _ = build_export_job(ExportOptions(rules=(str(file),), namespaces=("b", "a", "b")), "home")
    assert [(str(rule.resources[0]), rule.namespace) for rule in job.rules] == [
        ("services", "a"),
        ("services", "b"),
    ]
    job, _ = build_export_job(ExportOptions(rules=(str(file),), namespaces=("home",)), "home")
    assert [str(rule.resources[0]) for rule in job.rules] == ["configmaps", "services"]


def test_a_suspended_resource_is_left_alone_and_reported(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(RULE + DESTINATION.replace("baseFolder", "suspend: true, baseFolder"))
    with pytest.raises(Stalled, match="GitDestination home/prod is suspended"):
        build_export_job(ExportOptions(rules=(str(file),)), "home")
    file.write_text(DESTINATION)
    with pytest.raises(InvalidValue, match="hold no WatchRule"):
        build_export_job(ExportOptions(rules=(str(file),)), "home")


def test_the_key_for_digests_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    first = read_digest_keys(path)
    assert first is not None
    assert path.stat().st_mode & 0o777 == 0o600
    again = read_digest_keys(path)
    assert again is not None
    assert again.age_of(first.digest(b"x", "y"), b"x", "y") == 0
    path.write_bytes(b"short")
    with pytest.raises(InvalidValue, match="fewer than 32 bytes"):
        read_digest_keys(path)
    with pytest.raises(Misconfigured, match="cannot be created"):
        read_digest_keys(tmp_path / "no" / "key")

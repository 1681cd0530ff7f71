"""A user of another tool finds every step of the migration, and what is removed, on one page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from stoker_testkit.docs_checks.markdown_page import ROOT, read_page

MIGRATION = (ROOT / "docs" / "migration.md").read_text()
MATRIX = (ROOT / "docs" / "decision-matrix.md").read_text()
COMPARISON = (ROOT / "docs" / "comparison.md").read_text()

GIT_SYNC = {"GITSYNC_REPO": "git@git.example.net:plant/config.git", "GITSYNC_REF": "2.0.0"}


def section(heading: str) -> str:
    return MIGRATION.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def test_the_way_from_git_sync_has_its_five_steps_in_order() -> None:
    steps = re.findall(r"^\*\*(\d)\. (\w+)", section("From git-sync"), re.MULTILINE)
    assert steps == [("1", "Install"), ("2", "Make"), ("3", "Annotate"), ("4", "Take"), ("5", "Deploy")]


@pytest.mark.parametrize(
    "name",
    [
        "x-git-sync",
        "x-common",
        "initContainers",
        "git-sync-env-*",
        "sync-scripts",
        "sync-files.sh",
        "sync-entrypoint.sh",
        "git-sync-target-ref",
        "git-sync-configmap.yaml",
        "registry.k8s.io/git-sync/git-sync:v4.4.0",
    ],
)
def test_everything_that_goes_is_named_with_what_does_it_now(name: str) -> None:
    rows = [line for line in section("From git-sync").splitlines() if line.startswith("| ")]
    assert [row for row in rows if name in row.split("|")[1]]


def test_the_command_of_the_page_makes_the_resource_that_the_page_waits_for(tmp_path: Path) -> None:
    page = read_page(MIGRATION, "docs/migration.md")
    commands = "".join(fence.text for fence in page.fences if fence.language == "sh")
    given = re.search(r"--from-configmap (\S+) --namespace (\S+) --name (\S+) --output (\S+)", commands)
    assert given is not None
    source, namespace, name, output = given.groups()
    old = tmp_path / "old.yaml"
    head = {"name": source, "namespace": namespace}
    old.write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": head, "data": GIT_SYNC}))
    argv = ["migrate", f"--filename={old}", f"--name={name}", f"--namespace={namespace}"]
    done = subprocess.run(
        [sys.executable, "-m", "stoker", *argv], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    made = yaml.safe_load(done.stdout)
    assert (made["kind"], made["metadata"]) == ("IgnitionSync", {"name": name, "namespace": namespace})
    assert f"kubectl apply -f {output}" in commands
    assert f"kubectl -n {namespace} wait ignitionsync/{name} --for=condition=AllGatewaysSynced" in commands
    login = made["spec"]["git"]["auth"]["sshKey"]["secretRef"]
    assert f"`{login['name']}` with `{login['key']}`" in section("From git-sync")


@pytest.mark.parametrize(
    ("case", "advice"),
    [
        ("one gateway in a cluster", "operator"),
        ("five and more gateways, one repository", "operator"),
        ("logic of your own around a sync", "hooks"),
        ("no internet access", "operator"),
        ("hundreds of gateways", "operator"),
        ("a module under development", "a script"),
        ("files for anything but a gateway", "git-sync"),
    ],
)
def test_each_case_of_the_matrix_has_its_advice(case: str, advice: str) -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in MATRIX.splitlines()]
    (row,) = [row for row in rows if row[0] == case]
    assert advice in row[1]
    assert row[2]


def test_the_comparison_says_where_others_are_better_and_claims_no_figure_that_is_not_measured() -> None:
    assert "**Where the others are better**" in COMPARISON
    assert "## Where we are worse" in COMPARISON
    measured = (ROOT / "docs" / "benchmarks.md").read_text()
    (resting,) = re.findall(r"rests at about (\d+) MB\. The first sync", COMPARISON)
    (idle,) = re.findall(r"\| RSS {2,}\| (\d+)\.\d MB +\| ≤ 60 MB", measured)
    assert abs(int(resting) - int(idle)) <= 3

"""`stoker status`, `history`, `diff`, `pause` and `resume` on a real API server with a real controller."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.cli.exit_codes import ExitCode
from stoker.domain.protocol.report import DiffReport, FileChangeReport, HistoryEntryReport, SyncState
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.wait_until import eventually

PAUSE = "ignition-sync-global-pause"


@pytest.fixture
def site(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Site]:
    with Site.prepare(kinds, namespace, tmp_path) as made:
        yield made


def stoker(site: Site, *arguments: str) -> tuple[int, str, str]:
    reach = f"--kubeconfig={site.cluster.kubeconfig('admin')}", f"--namespace={site.namespace}"
    command = [sys.executable, "-m", "stoker", *arguments, *reach]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def commit(site: Site, repositories: Path, git_http: GitHttpServer) -> str:
    """A resource with two gateways; one is synced, the other has failed."""
    plant = Repository.create(repositories / "plant.git")
    first = plant.commit({"services/site/projects/site/project.json": "{}"})
    site.start()
    site.apply("Stoker", "line", git={"repo": git_http.url("plant.git"), "ref": "main"})
    filler, capper = (
        site.pod("filler-0", "line", gateway="filler"),
        site.pod("capper-0", "line", gateway="capper"),
    )
    site.until_metadata("line", commit=first)
    diff = DiffReport(
        "", first, 1, 0, 0, ("site",), (FileChangeReport("projects/site/project.json", "added"),)
    )
    entry = HistoryEntryReport(
        "2026-05-01T08:00:00Z", first, "main", 1, ("site",), "1.9s", "success", diff=diff
    )
    filler.report(first, history=(entry,))
    capper.report(first, SyncState.ERROR, error_message="no route to the gateway")
    eventually(
        lambda: (
            {one.get("syncStatus") for one in site.status("Stoker", "line").get("discoveredGateways", ())}
            == {"Synced", "Error"}
        ),
        PATIENCE,
        site.tail,
    )
    return first


def test_status_shows_the_fleet_and_then_one_resource(site: Site, commit: str) -> None:
    code, out, _ = stoker(site, "status")
    head, row = out.splitlines()
    assert (code, head.split()[:3]) == (ExitCode.DONE, ["NAMESPACE", "NAME", "KIND"])
    assert row.split()[:7] == [site.namespace, "line", "Stoker", "main", commit[:8], "1/2", "False"]

    code, out, _ = stoker(site, "status", "line", "--exit-code")
    assert code == ExitCode.DIFFERENT
    rows = {line.split()[0]: line for line in out.splitlines() if "-0" in line}
    assert rows["filler"].split()[1:4] == ["filler-0", "Synced", commit[:8]]
    assert rows["capper"].endswith("no route to the gateway")
    assert "\x1b" not in out, "no colour in a pipe"


def test_status_as_json_has_its_documented_shape(site: Site, commit: str) -> None:
    code, out, _ = stoker(site, "status", "--output=json")
    (resource,) = json.loads(out)["resources"]
    assert (code, resource["kind"], resource["ready"], resource["paused"]) == (0, "Stoker", "False", False)
    assert {one["name"]: one["syncStatus"] for one in resource["gateways"]} == {
        "filler": "Synced",
        "capper": "Error",
    }
    assert "syncHistory" not in resource["gateways"][0]


def test_history_and_diff_show_the_syncs_of_a_gateway(site: Site, commit: str) -> None:
    code, out, _ = stoker(site, "history", "line", "--gateway=filler")
    assert (code, out.splitlines()[1].split()[:2]) == (ExitCode.DONE, ["filler", "1"])
    assert commit[:8] in out
    code, out, _ = stoker(site, "diff", "line", "--gateway=filler")
    assert (code, out.splitlines()) == (
        ExitCode.DONE,
        [f"filler: nothing -> {commit[:8]}", "+ projects/site/project.json"],
    )
    code, out, _ = stoker(site, "history", "line", "--output=json")
    assert [(one["gateway"], one["sync"]) for one in json.loads(out)["syncs"]] == [("filler", 1)]
    code, _, printed = stoker(site, "diff", "line")
    assert (code, "2 gateways: choose one with --gateway" in printed) == (ExitCode.WRONG_INPUT, True)
    code, _, printed = stoker(site, "history", "line", "--gateway=other")
    assert (code, "it has: capper, filler" in printed) == (ExitCode.WRONG_INPUT, True)
    code, _, printed = stoker(site, "diff", "line", "--gateway=filler", "--sync=2")
    assert (code, "there is no sync 2" in printed) == (ExitCode.WRONG_INPUT, True)


def test_one_resource_is_held_still_and_goes_on(site: Site, commit: str) -> None:
    assert stoker(site, "pause", "line")[0] == ExitCode.DONE
    site.until("Stoker", "line", "Ready", "Paused")
    assert json.loads(stoker(site, "status", "--output=json")[1])["resources"][0]["paused"] is True
    assert stoker(site, "resume", "line")[0] == ExitCode.DONE
    eventually(lambda: site.condition("Stoker", "line", "Ready")[1] != "Paused", PATIENCE, site.tail)


def test_the_emergency_stop_is_written_where_a_controller_reads_it(site: Site, commit: str) -> None:
    code, out, _ = stoker(site, "pause", "--everything")
    assert (code, out.strip()) == (
        ExitCode.DONE,
        f"everything is paused by {PAUSE} in namespace {site.namespace}",
    )
    site.until("Stoker", "line", "Ready", "Paused")
    assert stoker(site, "resume", "--everything")[0] == ExitCode.DONE
    eventually(lambda: site.condition("Stoker", "line", "Ready")[1] != "Paused", PATIENCE, site.tail)


def test_an_emergency_stop_that_no_controller_reads_is_no_success(site: Site) -> None:
    code, _, output = stoker(site, "pause", "--everything")
    assert code == ExitCode.WRONG_INPUT
    assert f"no controller runs in namespace {site.namespace}" in output
    assert site.get("ConfigMap", PAUSE)["data"] == {"paused": "true"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["status", "none"], "does not exist"),
        (["status", "none", "-A"], "--all-namespaces cannot be combined with a name"),
        (["history"], "name the resource"),
        (["pause"], "name one resource, or give --everything"),
        (["resume", "line", "--everything"], "name one resource, or give --everything"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(
    site: Site, arguments: list[str], sentence: str
) -> None:
    code, out, output = stoker(site, *arguments)
    assert (code, out) == (ExitCode.WRONG_INPUT, "")
    assert sentence in output


def test_an_empty_namespace_has_no_resources(site: Site) -> None:
    assert stoker(site, "status")[:2] == (ExitCode.DONE, "no resources found\n")

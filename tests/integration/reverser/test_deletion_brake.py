"""Deletions beyond the budget are held, on the real API server and in a real repository."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stoker.domain.deletion_guard import deletions_digest
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.reverser_environment import BASE, ReverserSite, files_of
from stoker_testkit.wait_until import eventually

MARKER = f"{BASE}/.configbutler/owner.yaml"
FOREIGN = "clusterUID: another\ncontrollerNS: there\ncontrollerName: gitops-reverser\ninstanceID: x\n"
SOON = {"maxWait": "5s"}
SMALL = {"files": 5, "percent": 100}


def manifest(site: ReverserSite, name: str) -> str:
    head = f"metadata:\n  name: {name}\n  namespace: {site.namespace}\n"
    return f"apiVersion: v1\nkind: ConfigMap\n{head}data:\n  key: value\n"


def orphans(site: ReverserSite, count: int) -> dict[str, str]:
    return {site.map_path(f"gone-{n:03}"): manifest(site, f"gone-{n:03}") for n in range(count)}


def held(site: ReverserSite) -> dict[str, object]:
    found: dict[str, object] = site.status("GitDestination", "production").get("heldDeletions") or {}
    return found


def kept(site: ReverserSite) -> int:
    return int(site.status("GitDestination", "production").get("orphansKept") or 0)


def approve(site: ReverserSite, digest: str) -> None:
    body = {"metadata": {"annotations": {"configbutler.ai/approved-plan": digest}}}
    site.patch("GitDestination", "production", body)


def approve_command(site: ReverserSite, digest: str) -> subprocess.CompletedProcess[str]:
    command = [
        *(sys.executable, "-m", "stoker", "approve"),
        f"--kubeconfig={site.cluster.kubeconfig()}",
        f"--namespace={site.namespace}",
        "production",
        "--kind=GitDestination",
        f"--digest={digest}",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.smoke
def test_more_orphans_than_the_budget_are_held_until_exactly_that_plan_is_approved(
    site: ReverserSite, prod: Repository
) -> None:
    files = orphans(site, 60)
    prod.commit(files)
    site.follow_maps()
    first = site.start()
    message = site.until("GitDestination", "production", "DeletionHeld")
    digest = deletions_digest(files)
    assert digest in message
    assert "60 files" in message
    assert "gone-000" in message
    eventually(lambda: held(site).get("digest") == digest, 20.0, site.tail)
    assert held(site)["count"] == 60
    site.until_event("GitDestination", "DeletionHeld")
    site.config_map("lives")
    site.until_files(prod, {site.map_path("lives"): "value"})  # writes go on
    assert files.keys() <= files_of(prod).keys()
    # Another replica finds the same plan.
    first.stop()
    site.start()
    site.config_map("later")
    site.until_files(prod, {site.map_path("later"): "value"})
    site.until("GitDestination", "production", "DeletionHeld")
    assert files.keys() <= files_of(prod).keys()
    # An approval of another plan is named, with the plan there is now.
    approve(site, "0" * 64)
    eventually(
        lambda: "names another plan" in site.condition("GitDestination", "production", "Ready")[2],
        20.0,
        site.tail,
    )
    assert digest in site.condition("GitDestination", "production", "Ready")[2]
    assert files.keys() <= files_of(prod).keys()
    approve(site, digest)
    site.until_files(prod, dict.fromkeys(files))
    site.until("GitDestination", "production", "Initialized")
    eventually(lambda: not held(site), 20.0, site.tail)
    assert {site.map_path("lives"), site.map_path("later")} <= files_of(prod).keys()


@pytest.mark.smoke
def test_a_burst_of_deletions_is_held_and_released_by_the_command(
    site: ReverserSite, prod: Repository
) -> None:
    site.follow_maps(batch=SOON, deletionBudget=SMALL)
    names = [f"map-{n}" for n in range(8)]
    for name in names:
        site.config_map(name)
    site.start()
    site.until_files(prod, {site.map_path(name): "value" for name in names})
    site.delete("ConfigMap")
    site.until("GitDestination", "production", "DeletionHeld")
    eventually(lambda: held(site).get("count") == 8, 20.0, lambda: f"{held(site)}\n{site.tail()}")
    assert {site.map_path(name) for name in names} <= files_of(prod).keys()
    wrong = approve_command(site, "0" * 64)
    assert wrong.returncode == 3
    assert str(held(site)["digest"]) in wrong.stdout + wrong.stderr
    done = approve_command(site, str(held(site)["digest"]))
    assert done.returncode == 0, done.stderr
    site.until_files(prod, {site.map_path(name): None for name in names})


def test_deletions_one_by_one_are_held_once_the_budget_is_used_up(
    site: ReverserSite, prod: Repository
) -> None:
    site.follow_maps(deletionBudget=SMALL)
    names = [f"map-{n}" for n in range(8)]
    for name in names:
        site.config_map(name)
    site.start()
    site.until_files(prod, {site.map_path(name): "value" for name in names})
    for name in names[:5]:
        site.delete("ConfigMap", name)
        site.until_files(prod, {site.map_path(name): None})
    site.delete("ConfigMap", names[5])
    site.until("GitDestination", "production", "DeletionHeld")
    assert site.map_path(names[5]) in files_of(prod)
    # The object is back: nothing is held any more, and nothing was lost.
    site.config_map(names[5])
    site.until("GitDestination", "production", "Initialized")
    assert site.map_path(names[5]) in files_of(prod)


@pytest.mark.smoke
def test_nothing_is_deleted_by_inference_under_another_clusters_marker(
    site: ReverserSite, prod: Repository
) -> None:
    files = orphans(site, 7)
    prod.commit({**files, MARKER: FOREIGN})
    site.follow_maps()
    site.start()
    eventually(lambda: kept(site) == 7, 20.0, lambda: f"{kept(site)}\n{site.tail()}")
    site.config_map("lives")
    site.until_files(prod, {site.map_path("lives"): "value"})
    assert files.keys() <= files_of(prod).keys()


def test_a_file_that_is_no_manifest_of_the_object_is_never_deleted(
    site: ReverserSite, prod: Repository
) -> None:
    foreign = {
        site.map_path("notes"): "apiVersion: v1\nkind: ConfigMap\n# by hand\n",
        site.map_path("other"): manifest(site, "another-name"),
        site.map_path("several"): manifest(site, "several") + "---\n" + manifest(site, "more"),
    }
    prod.commit({**foreign, site.map_path("gone"): manifest(site, "gone")})
    site.follow_maps()
    site.start()
    files = site.until_files(prod, {site.map_path("gone"): None})
    assert foreign.keys() <= files.keys()
    eventually(lambda: kept(site) == 3, 20.0, lambda: f"{kept(site)}\n{site.tail()}")

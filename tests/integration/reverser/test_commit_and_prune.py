"""`stoker reverser` as a real process on the real API server, writing to git over http."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path

import pytest

from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.reverser_environment import BASE, ReverserSite, files_of, metric_of
from stoker_testkit.wait_until import eventually

MARKER = f"{BASE}/.configbutler/owner.yaml"


def _manifest(site: ReverserSite, kind: str, name: str) -> str:
    return f"apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: {site.namespace}\n"


@pytest.mark.smoke
def test_an_object_is_written_and_followed_to_its_end(site: ReverserSite, prod: Repository) -> None:
    site.follow_maps()
    site.config_map("prices", {"bread": "2"})
    site.start()
    files = site.until_files(prod, {site.map_path("prices"): 'bread: "2"'})
    assert files[site.map_path("prices")].startswith(b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n")
    assert MARKER in files
    site.config_map("prices", {"bread": "3"})
    site.until_files(prod, {site.map_path("prices"): 'bread: "3"'})
    site.delete("ConfigMap", "prices")
    site.until_files(prod, {site.map_path("prices"): None})
    subjects = [message.splitlines()[0] for message in prod.messages()]
    name = f"core/v1/configmaps/{site.namespace}/prices"
    assert subjects == [f"[DELETE] {name}", f"[UPDATE] {name}", f"[CREATE] {name}"]
    for kind, each in (("GitRepoConfig", "repo"), ("GitDestination", "production"), ("WatchRule", "maps")):
        site.until(kind, each, "Initialized")
    assert set(files_of(prod)) == {MARKER}
    eventually(
        lambda: site.status("GitDestination", "production").get("lastCommit") == prod.tip(), 20.0, site.tail
    )
    commits = site.status("GitDestination", "production")["recentCommits"]
    assert [one["commit"] for one in commits] == prod.git("log", "--format=%H").decode().split()
    assert [one["subject"] for one in commits] == subjects
    assert not [one for one in commits if "author" in one], "its author is unknown"
    assert all(one["waited"].endswith("s") and one["time"] for one in commits)


@pytest.mark.smoke
def test_every_commit_carries_the_four_trailers_and_the_unknown_author(
    site: ReverserSite, prod: Repository
) -> None:
    site.follow_maps()
    site.config_map("prices")
    site.start()
    site.until_files(prod, {site.map_path("prices"): "value"})
    (message,) = prod.messages()
    uid = site.cluster.kubectl("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}").stdout
    assert message.splitlines()[-5:] == [
        f"X-ConfigButler-ClusterUID: {uid}",
        f"X-ConfigButler-ControllerNS: {site.namespace}",
        "X-ConfigButler-ControllerName: gitops-reverser",
        "X-ConfigButler-InstanceID: replica-0",
        "X-ConfigButler-Author: unknown",
    ]
    assert prod.git("log", "-1", "--format=%an <%ae>").decode().strip() == (
        "gitops-reverser <gitops-reverser@configbutler.invalid>"
    )


@pytest.mark.smoke
def test_a_restart_writes_only_what_changed_meanwhile(site: ReverserSite, prod: Repository) -> None:
    site.follow_maps()
    for name in ("stays", "changes", "goes"):
        site.config_map(name)
    first = site.start()
    site.until_files(prod, {site.map_path(name): "value" for name in ("stays", "changes", "goes")})
    first.stop()
    tip = prod.tip()
    second = site.start()
    site.until("WatchRule", "maps", "Initialized")
    site.config_map("probe")
    site.until_files(prod, {site.map_path("probe"): "value"})
    assert prod.git("rev-list", f"{tip}..main").decode().split() == [prod.tip()]
    second.stop()
    site.config_map("changes", {"key": "other"})
    site.delete("ConfigMap", "goes")
    site.start()
    site.until_files(prod, {site.map_path("changes"): "other", site.map_path("goes"): None})
    changed = prod.git("log", "--format=", "--name-only", f"{tip}..main").decode().split()
    assert sorted(changed) == sorted(site.map_path(name) for name in ("probe", "changes", "goes"))


@pytest.mark.smoke
def test_only_orphans_of_rules_that_still_name_them_are_swept(site: ReverserSite, prod: Repository) -> None:
    kept = {
        f"{BASE}/README.md": "by hand",
        f"{BASE}/core/v1/configmaps/{site.namespace}/notes.txt": "not a path of ours",
        # No rule names services.
        f"{BASE}/core/v1/services/{site.namespace}/web.yaml": _manifest(site, "Service", "web"),
        f"{BASE}/core/v1/configmaps/elsewhere/other.yaml": "apiVersion: v1\n",  # another namespace
        f"elsewhere/core/v1/configmaps/{site.namespace}/gone.yaml": "apiVersion: v1\n",
    }
    prod.commit({**kept, site.map_path("gone"): _manifest(site, "ConfigMap", "gone")})
    site.follow_maps()
    site.config_map("lives")
    site.start()
    files = site.until_files(prod, {site.map_path("gone"): None, site.map_path("lives"): "value"})
    assert kept.keys() <= files.keys()
    # A rule that goes leaves its files.
    site.delete("WatchRule", "maps")
    site.rule("services", ["services"])
    files = site.until_files(prod, {f"{BASE}/core/v1/services/{site.namespace}/web.yaml": None})
    assert site.map_path("lives") in files


@pytest.mark.smoke
def test_prune_policies_keep_files_and_count_them(site: ReverserSite, prod: Repository) -> None:
    never, on_event = "clusters/never", "clusters/event"
    old = _manifest(site, "ConfigMap", "old")
    prod.commit({site.map_path("old", base): old for base in (never, on_event)})
    site.repo_config()
    site.destination("never", baseFolder=never, prune="Never")
    site.destination("event", baseFolder=on_event, prune="OnEvent")
    site.rule("never", to="never")
    site.rule("event", to="event")
    site.config_map("young")
    site.start()
    site.until_files(prod, {site.map_path("young", base): "value" for base in (never, on_event)})
    site.delete("ConfigMap", "young")
    files = site.until_files(prod, {site.map_path("young", on_event): None})
    assert {
        site.map_path("young", never),
        site.map_path("old", never),
        site.map_path("old", on_event),
    } <= set(files)
    eventually(lambda: site.status("GitDestination", "event").get("orphansKept") == 1, 20.0, site.tail)
    site.config_map("probe")  # the count of what was kept follows with the next look
    eventually(lambda: (site.status("GitDestination", "never").get("orphansKept") or 0) >= 1, 20.0, site.tail)


@pytest.mark.smoke
def test_what_others_push_stays_and_what_they_change_of_ours_comes_back(
    site: ReverserSite, prod: Repository
) -> None:
    site.follow_maps()
    site.config_map("prices")
    site.start()
    site.until_files(prod, {site.map_path("prices"): "value"})
    prod.commit({"README.md": "theirs", site.map_path("prices"): "edited by hand\n"})
    site.config_map("other")
    files = site.until_files(
        prod, {site.map_path("other"): "value", site.map_path("prices"): "key: value", "README.md": "theirs"}
    )
    assert b"edited" not in files[site.map_path("prices")]


def test_several_destinations_and_branches_are_written(
    site: ReverserSite, prod: Repository, repositories: Path, git_http: GitHttpServer
) -> None:
    lab = Repository.create(repositories / "lab.git")
    site.repo_config(allowedBranches=["main", "release/1"])
    site.repo_config("lab", repoUrl=git_http.url("lab.git"))
    site.destination("one", baseFolder="a")
    site.destination("two", baseFolder="b")
    site.destination("three", branch="release/1", baseFolder="a")
    site.destination("four", baseFolder="a", repoRef={"name": "lab"})
    for to in ("one", "two", "three", "four"):
        site.rule(to, to=to)
    site.config_map("prices")
    site.start()
    both = {site.map_path("prices", "a"): "value", site.map_path("prices", "b"): "value"}
    site.until_files(prod, both)
    site.until_files(prod, {site.map_path("prices", "a"): "value"}, branch="release/1")
    site.until_files(lab, {site.map_path("prices", "a"): "value"})
    site.config_map("prices", {"key": "second"})
    site.until_files(prod, dict.fromkeys(both, "second"))
    site.until_files(lab, {site.map_path("prices", "a"): "second"})
    release = site.until_files(prod, {site.map_path("prices", "a"): "second"}, branch="release/1")
    assert site.map_path("prices", "b") not in release


def test_suspending_stops_writing_and_resuming_catches_up(site: ReverserSite, prod: Repository) -> None:
    site.follow_maps()
    site.config_map("prices")
    site.start()
    site.until_files(prod, {site.map_path("prices"): "value"})
    site.destination(suspend=True)
    site.until("GitDestination", "production", "Suspended")
    site.until("WatchRule", "maps", "Suspended")
    tip = prod.tip()
    site.config_map("prices", {"key": "later"})
    site.repo_config(suspend=True)
    site.until("GitRepoConfig", "repo", "Suspended")
    assert prod.tip() == tip
    site.repo_config()
    site.destination()
    site.until_files(prod, {site.map_path("prices"): "later"})


def test_pushes_follow_the_cadence_of_the_repository(site: ReverserSite, prod: Repository) -> None:
    (port,) = free_ports(1)
    site.repo_config(push={"interval": "1h", "maxCommits": 3})
    site.destination()
    site.rule()
    site.start(f"--metrics-port={port}")
    site.until("WatchRule", "maps", "Initialized")

    def commit(name: str, made: int) -> None:
        """Each of them is a commit of its own, because the window is at its minimum."""
        site.config_map(name)
        taken = "change_queue_duration_seconds_count"
        eventually(lambda: metric_of(port, taken) == made, 20.0, lambda: f"{name}\n{site.tail()}")

    for made, name in enumerate(("a", "b"), 1):
        commit(name, made)
        assert not prod.has_branch("main"), "two are fewer than three, and the hour is not over"
    eventually(lambda: metric_of(port, "repo_branch_queue_depth") == 2, 20.0, site.tail)
    commit("c", 3)
    site.until_files(prod, {site.map_path("c"): "value"})
    named = [message.splitlines()[0].rpartition("/")[2] for message in prod.messages()]
    assert named == ["c", "b", "a"]
    eventually(lambda: metric_of(port, "push_duration_seconds_count") == 1, 20.0, "all went with one push")
    tip = prod.tip()
    commit("d", 4)
    assert prod.tip() == tip
    site.repo_config(push={"interval": "2s"})
    site.until_files(prod, {site.map_path("d"): "value"})
    begun = time.monotonic()
    for made, name in enumerate(("e", "f"), 5):
        commit(name, made)
    site.until_files(prod, {site.map_path("e"): "value", site.map_path("f"): "value"})
    assert time.monotonic() - begun >= 2.0


def test_changes_wait_for_their_window(site: ReverserSite, prod: Repository) -> None:
    site.follow_maps(batch={"maxWait": "1s"})
    site.start()
    site.until("WatchRule", "maps", "Initialized")
    for n in range(5):
        site.config_map(f"map-{n}")
    site.until_files(prod, {site.map_path(f"map-{n}"): "value" for n in range(5)})
    assert len(prod.messages()) <= 2
    assert "[CREATE " in prod.messages()[-1] or "[CREATE]" in prod.messages()[-1]


def test_a_status_shows_what_is_not_in_git_yet(site: ReverserSite, prod: Repository) -> None:
    site.follow_maps(batch={"maxWait": "1h"})
    site.start()
    site.until("WatchRule", "maps", "Initialized")

    def waits() -> tuple[int, str]:
        status = site.status("GitDestination", "production")
        return status.get("pendingChanges", 0), status.get("pendingSince", "")

    assert waits() == (0, "")
    site.config_map("prices")
    eventually(lambda: waits()[0] == 1, 20.0, site.tail)
    since = waits()[1]
    site.config_map("late")
    eventually(lambda: waits() == (2, since), 20.0, lambda: f"{waits()}\n{site.tail()}")
    site.destination(batch={"maxWait": "0s"})
    site.until_files(prod, {site.map_path("prices"): "value"})
    eventually(lambda: waits() == (0, ""), 20.0, lambda: f"{waits()}\n{site.tail()}")


def test_a_stop_pushes_what_waits_and_gives_the_lease_back(site: ReverserSite, prod: Repository) -> None:
    (port,) = free_ports(1)
    site.follow_maps(batch={"maxWait": "1h"})
    process = site.start(f"--metrics-port={port}")
    site.until("WatchRule", "maps", "Initialized")
    for name in ("prices", "late"):
        site.config_map(name)

    def brought() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            page: str = answer.read().decode()
        return 'objects_scanned_total{gvk="v1/ConfigMap",scope="Namespaced"} 2.0' in page

    eventually(brought, 20.0, site.tail)
    assert not prod.has_branch("main")
    process.stop()
    assert process.returncode == 0
    assert {site.map_path(name) for name in ("prices", "late")} <= set(files_of(prod))
    (lease,) = (one for one in site.get("Lease")["items"] if "-member-" not in one["metadata"]["name"])
    assert not lease["spec"].get("holderIdentity")


def test_a_status_is_written_only_when_something_else_is_true(site: ReverserSite, prod: Repository) -> None:
    site.follow_maps()
    site.start()
    kinds = (("GitRepoConfig", "repo"), ("GitDestination", "production"), ("WatchRule", "maps"))
    for kind, name in kinds:
        site.until(kind, name, "Initialized")

    def versions() -> list[str]:
        return [site.get(kind, name)["metadata"]["resourceVersion"] for kind, name in kinds]

    before = versions()
    for n in range(5):
        site.config_map("prices", {"key": f"state {n}"})
        site.until_files(prod, {site.map_path("prices"): f"state {n}"})
    eventually(
        lambda: site.status("GitDestination", "production").get("lastCommit") == prod.tip(), 20.0, site.tail
    )
    after = versions()
    assert (before[0], before[2]) == (after[0], after[2])
    assert before[1] != after[1]
    generation = site.get("GitDestination", "production")["metadata"]["generation"]
    site.destination(prune="OnEvent")
    eventually(
        lambda: site.status("GitDestination", "production")["observedGeneration"] == generation + 1, 20.0
    )

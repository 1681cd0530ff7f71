"""Ownership of a branch and a folder: Leases between replicas, markers between installations, credentials."""

from __future__ import annotations

from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.reverser_environment import BASE, ReverserSite, files_of
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

MARKER = f"{BASE}/.configbutler/owner.yaml"
QUICK = ("--lease-duration=3s", "--lease-renew=1s")
FOREIGN = "clusterUID: elsewhere\ncontrollerNS: system\ncontrollerName: gitops-reverser\ninstanceID: x\n"


def holders(site: ReverserSite) -> dict[str, str]:
    """Which replica holds which branch."""
    leases = site.get("Lease").get("items", [])
    return {
        one["metadata"]["name"]: one["spec"].get("holderIdentity", "").partition("_")[0]
        for one in leases
        if "-member-" not in one["metadata"]["name"]
    }


def test_a_killed_owner_is_succeeded_and_nothing_is_lost(site: ReverserSite, prod: Repository) -> None:
    site.follow_maps()
    site.config_map("first")
    owner = site.start(*QUICK)
    site.until_files(prod, {site.map_path("first"): "value"})
    assert set(holders(site).values()) == {"replica-0"}
    site.start(*QUICK)
    owner.kill()
    site.config_map("second")
    site.delete("ConfigMap", "first")
    site.until_files(prod, {site.map_path("second"): "value", site.map_path("first"): None})
    assert set(holders(site).values()) == {"replica-1"}
    site.until("GitDestination", "production", "Initialized")
    site.until("GitDestination", "production", "LeaseAcquired", "LeaseNotAcquired")


def test_branches_are_spread_over_replicas_and_stay_written(site: ReverserSite, prod: Repository) -> None:
    branches = [f"b{n}" for n in range(8)]
    site.repo_config(allowedBranches=branches)
    for branch in branches:
        site.destination(branch, branch=branch)
        site.rule(branch, to=branch)
    site.config_map("prices")
    site.start(*QUICK)
    for branch in branches:
        site.until_files(prod, {site.map_path("prices"): "value"}, branch=branch)
    second = site.start(*QUICK)
    eventually(
        lambda: set(holders(site).values()) == {"replica-0", "replica-1"},
        40.0,
        lambda: f"both hold some: {holders(site)}\n{site.tail()}",
        interval=0.2,
    )
    site.config_map("prices", {"key": "spread"})
    for branch in branches:
        site.until_files(prod, {site.map_path("prices"): "spread"}, branch=branch)
    second.stop()  # gives back what it holds, at once
    site.config_map("prices", {"key": "alone"})
    for branch in branches:
        site.until_files(prod, {site.map_path("prices"): "alone"}, branch=branch)


def test_the_marker_of_another_cluster_stops_an_exclusive_destination(
    site: ReverserSite, prod: Repository
) -> None:
    prod.commit({MARKER: FOREIGN})
    tip = prod.tip()
    site.follow_maps(exclusiveMode=True)
    site.config_map("prices")
    site.start("--branch-refresh=1s")
    message = site.until("GitDestination", "production", "MarkerMismatch")
    assert "installation system/gitops-reverser of cluster elsewhere" in message
    site.until("GitDestination", "production", "MarkerMismatch", "OwnershipConflict")
    assert site.condition("GitDestination", "production", "OwnershipConflict")[0] == "True"
    site.until("WatchRule", "maps", "MarkerMismatch")
    site.until_event("GitDestination", "MarkerMismatch")
    assert prod.tip() == tip
    # Once the other has left, it is written without a restart.
    prod.commit({MARKER: None})
    files = site.until_files(prod, {site.map_path("prices"): "value"})
    assert b"elsewhere" not in files[MARKER]
    site.until("GitDestination", "production", "NoneFound", "OwnershipConflict")


def test_an_exclusive_destination_yields_to_the_one_that_takes_it_over(
    site: ReverserSite, prod: Repository
) -> None:
    site.follow_maps(exclusiveMode=True)
    site.config_map("prices")
    site.start("--branch-refresh=1s")
    site.until_files(prod, {site.map_path("prices"): "value"})
    prod.commit({MARKER: FOREIGN})
    site.until("GitDestination", "production", "AnotherOwnerActive")
    tip = prod.tip()
    site.config_map("prices", {"key": "not any more"})
    site.until("WatchRule", "maps", "AnotherOwnerActive")
    assert prod.tip() == tip


def test_the_marker_of_another_only_warns_where_the_folder_may_be_shared(
    site: ReverserSite, prod: Repository
) -> None:
    prod.commit({MARKER: FOREIGN})
    site.follow_maps()
    site.config_map("prices")
    site.start()
    files = site.until_files(prod, {site.map_path("prices"): "value"})
    assert files[MARKER] == FOREIGN.encode()
    site.until("GitDestination", "production", "MarkerMismatch", "MarkerConflict")
    site.until("GitDestination", "production", "Initialized")


def test_a_marker_that_cannot_be_written_is_reported_and_stops_nothing(
    site: ReverserSite, prod: Repository
) -> None:
    prod.commit({f"{BASE}/.configbutler": "a file where a folder is needed"})
    site.follow_maps()
    site.config_map("prices")
    site.start()
    site.until_files(prod, {site.map_path("prices"): "value"})
    site.until("GitDestination", "production", "MarkerWriteFailed", "MarkerConflict")
    assert prod.read(f"{BASE}/.configbutler") == b"a file where a folder is needed"


def test_two_configs_of_one_repository_share_the_order_and_no_credentials(
    site: ReverserSite, prod: Repository, git_http: GitHttpServer
) -> None:
    git_http.users = {"ann": planted("password-of-ann"), "bob": planted("password-of-bob")}
    site.secret("ann", username="ann", password=planted("password-of-ann"))
    site.secret("bob", username="bob", password=planted("password-of-bob"))
    site.repo_config("ann", secretRef={"name": "ann"})
    site.repo_config("bob", secretRef={"name": "bob"}, repoUrl=site.url.removesuffix(".git") + "/")
    site.destination("ann", repoRef={"name": "ann"}, baseFolder="ann")
    site.destination("bob", repoRef={"name": "bob"}, baseFolder="bob")
    site.rule("ann", to="ann")
    site.rule("bob", to="bob")
    # Both spellings lead to the same folder on the server.
    (prod.path.parent / "prod").symlink_to(prod.path)
    site.start()
    site.until("GitDestination", "ann", "Initialized")
    site.until("GitDestination", "bob", "Initialized")
    assert len(holders(site)) == 1
    for n in range(5):
        site.config_map("prices", {"key": f"state {n}"})
        both = {site.map_path("prices", base): f"state {n}" for base in ("ann", "bob")}
        site.until_files(prod, both)
    pushes = [each.user for each in git_http.requests if each.path.endswith("/git-receive-pack")]
    assert set(pushes) == {"ann", "bob"}
    for commit in prod.git("rev-list", "main").decode().split():
        touched = prod.git("show", "--format=", "--name-only", commit).decode().split()
        assert len({path.partition("/")[0] for path in touched}) == 1
    # No replica came too late for the other: they take turns.
    assert '"replays":1' not in site.running[0].tail(10_000)


def test_a_login_that_is_exchanged_counts_at_once(
    site: ReverserSite, prod: Repository, git_http: GitHttpServer
) -> None:
    git_http.users = {"ann": planted("git-password")}
    site.secret("login", username="ann", password=planted("wrong-password"))
    site.repo_config(secretRef={"name": "login"})
    site.destination()
    site.rule()
    site.config_map("prices")
    site.start()
    site.until("GitDestination", "production", "AuthFailed")
    site.until("GitRepoConfig", "repo", "AuthFailed")
    site.until("WatchRule", "maps", "AuthFailed", "RepoPushFailed")
    assert planted("wrong-password") not in site.tail()
    site.secret("login", username="ann", password=planted("git-password"))
    site.until_files(prod, {site.map_path("prices"): "value"})
    site.until("GitRepoConfig", "repo", "Initialized")
    git_http.users = {"ann": planted("rotated-password")}
    site.secret("login", username="ann", password=planted("rotated-password"))
    site.config_map("prices", {"key": "with the new one"})
    site.until_files(prod, {site.map_path("prices"): "with the new one"})


def test_an_older_destination_that_points_to_a_written_folder_later_is_refused(
    site: ReverserSite, prod: Repository
) -> None:
    site.repo_config("elsewhere", repoUrl=f"{site.url.removesuffix('.git')}-other.git")
    site.destination("aa-early", repoRef={"name": "elsewhere"})
    site.follow_maps()
    site.config_map("prices")
    site.start()
    site.until_files(prod, {site.map_path("prices"): "value"})
    eventually(
        lambda: "folder" in site.status("GitDestination", "production"), 10.0, "the folder is recorded"
    )
    site.repo_config("elsewhere", repoUrl=site.url.replace("127.0.0.1", "127.1").removesuffix(".git") + "/")
    message = site.until("GitDestination", "aa-early", "FoldersOverlap")
    assert f"GitDestination {site.namespace}/production, which writes there already" in message
    site.config_map("prices", {"key": "still"})
    site.until_files(prod, {site.map_path("prices"): "still"})


def test_overlapping_folders_stop_only_the_younger_destination(site: ReverserSite, prod: Repository) -> None:
    site.follow_maps()
    eventually(lambda: site.get("GitDestination", "production"), 10.0)
    site.start()
    site.until("GitDestination", "production", "Initialized")
    site.destination("zz-inside", baseFolder=f"{BASE}/inside")
    site.rule("inside", to="zz-inside")
    message = site.until("GitDestination", "zz-inside", "FoldersOverlap")
    assert "production" in message
    site.until("WatchRule", "inside", "FoldersOverlap")
    site.config_map("prices")
    site.until_files(prod, {site.map_path("prices"): "value"})
    assert not [path for path in files_of(prod) if "inside" in path]

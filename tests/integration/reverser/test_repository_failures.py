"""Bad input and outages of a repository: a condition with the reason, nothing lost, and the rest goes on."""

from __future__ import annotations

import json
import string
from pathlib import Path
from urllib.parse import quote

import pytest

from stoker_testkit.forges.gitea import USER, GiteaServer
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.reverser_environment import BASE, ReverserSite, files_of
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually


def test_an_unreachable_repository_is_reported_and_caught_up_with(
    site: ReverserSite, prod: Repository, repositories: Path, git_http: GitHttpServer
) -> None:
    away = repositories / "away.git"
    site.repo_config("away", repoUrl=git_http.url("away.git"))
    site.destination("away", repoRef={"name": "away"})
    site.rule("away", to="away")
    site.follow_maps()
    site.config_map("prices")
    site.start()
    site.until_files(prod, {site.map_path("prices"): "value"})  # the other one goes on
    site.until("GitDestination", "away", "NetworkError")
    site.until("GitRepoConfig", "away", "NetworkError")
    site.until("WatchRule", "away", "NetworkError", "RepoPushFailed")
    eventually(lambda: site.condition("WatchRule", "maps", "Ready")[0] == "True", 60.0, "maps is ready")
    late = Repository.create(away)
    site.until_files(late, {site.map_path("prices"): "value"}, patience=60.0)
    site.until("WatchRule", "away", "NoneFound", "RepoPushFailed")


def test_what_waits_through_an_outage_is_pushed_in_order(
    site: ReverserSite, prod: Repository, repositories: Path
) -> None:
    site.follow_maps()
    site.config_map("prices", {"count": "0"})
    site.start()
    site.until_files(prod, {site.map_path("prices"): 'count: "0"'})
    hidden = repositories / "hidden"
    prod.path.rename(hidden)
    for n in range(1, 4):
        site.config_map("prices", {"count": str(n)})
        site.until("GitDestination", "production", "NetworkError")
    site.delete("ConfigMap", "prices")
    site.config_map("other")
    hidden.rename(prod.path)
    prices = site.map_path("prices")
    site.until_files(prod, {site.map_path("other"): "value", prices: None}, patience=60.0)
    site.until("GitDestination", "production", "Initialized")
    commits = prod.git("log", "--reverse", "--format=%H", "main", "--", prices).decode().split()
    *states, end = (prod.files(commit).get(prices, b"gone") for commit in commits)
    assert end == b"gone"
    assert b'count: "0"' in states[0]
    assert states == sorted(states), (
        "what waits together may be one commit, and none comes before an older one"
    )


def test_a_read_only_repository_is_reported(
    site: ReverserSite, prod: Repository, git_http: GitHttpServer
) -> None:
    prod.commit({"README.md": "hello"})
    prod.git("config", "http.receivepack", "false")
    site.follow_maps()
    site.config_map("prices")
    site.start()
    message = site.until("GitDestination", "production", "AuthFailed")
    assert "write" in message or "refuse" in message or "receive-pack" in message or "not" in message
    site.until_event("GitDestination", "AuthFailed")
    prod.git("config", "http.receivepack", "true")
    site.until_files(prod, {site.map_path("prices"): "value"}, patience=60.0)


def test_a_branch_that_is_not_allowed_is_refused_by_name(site: ReverserSite, prod: Repository) -> None:
    site.follow_maps(branch="secret")
    site.config_map("prices")
    site.start()
    assert "'secret'" in site.until("GitDestination", "production", "BranchNotAllowed")
    assert "production" in site.until("WatchRule", "maps", "BranchNotAllowed")
    assert site.condition("GitDestination", "production", "Stalled")[0] == "True"
    site.repo_config(allowedBranches=["main", "secret"])
    site.until_files(prod, {site.map_path("prices"): "value"}, branch="secret")
    eventually(
        lambda: site.condition("GitDestination", "production", "Stalled") == ("", "", ""),
        30.0,
        "it is no longer stalled",
    )


def test_what_is_missing_is_waited_for(site: ReverserSite, prod: Repository) -> None:
    site.rule()
    site.start()
    site.until("WatchRule", "maps", "WaitingDependencies")
    site.destination()
    assert "GitRepoConfig" in site.until("GitDestination", "production", "WaitingDependencies")
    site.repo_config(secretRef={"name": "login"})
    assert "'login'" in site.until("GitDestination", "production", "SecretNotFound")
    site.secret("login", token=planted("git-token"))
    site.config_map("prices")
    site.until_files(prod, {site.map_path("prices"): "value"}, patience=60.0)
    site.until("WatchRule", "maps", "Initialized")


def test_an_object_whose_path_is_blocked_is_named_and_holds_up_no_other(
    site: ReverserSite, prod: Repository
) -> None:
    blocked = f"{BASE}/core/v1/configmaps/{site.namespace}/blocked.yaml/README.md"
    prod.commit({blocked: "a folder where a file is to be"})
    site.follow_maps()
    site.config_map("blocked")
    site.config_map("fine")
    site.start("--branch-refresh=1s")
    files = site.until_files(prod, {site.map_path("fine"): "value"})
    assert blocked in files
    message = site.until("GitDestination", "production", "ObjectNotWritten")
    assert "blocked.yaml" in message
    site.until_event("GitDestination", "ObjectNotWritten")
    prod.commit({blocked: None})
    site.until_files(prod, {site.map_path("blocked"): "value"})
    site.until("GitDestination", "production", "Initialized")


def test_a_large_object_and_odd_names_are_written(site: ReverserSite, prod: Repository) -> None:
    site.repo_config()
    site.destination()
    site.rule("all", ["configmaps", "roles.rbac.authorization.k8s.io"])
    site.config_map("large", {"data": "x" * 1_040_000})
    name = f"a:b{string.ascii_letters}{string.digits}!\"#$&'()*+,;<=>?@[]^_`{{|}}~ ü€𝄞"
    long = "l" * 253
    for each in (name, long, "CON", ".hidden", "aux.v1", "UPPER", "upper"):
        body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": each}}
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{site.namespace}/roles"
        answer = site.cluster.request("POST", path, {**body, "rules": []})
        assert answer.status == 201, answer.body
    site.start()
    site.until_files(prod, {site.map_path("large"): "x" * 1_040_000})
    folder = f"{BASE}/rbac.authorization.k8s.io/v1/roles/{site.namespace}/"

    def roles() -> list[bytes]:
        return [content for path, content in files_of(prod).items() if path.startswith(folder)]

    eventually(lambda: len(roles()) == 7, 30.0, lambda: f"{list(files_of(prod))}\n{site.tail()}")
    assert any(json.dumps(name, ensure_ascii=False).encode() in content for content in roles())
    site.cluster.request("DELETE", f"{path}/{quote(name, safe='')}")
    eventually(lambda: len(roles()) == 6, 30.0, site.tail)


def test_many_deletions_at_once_all_arrive(site: ReverserSite, prod: Repository) -> None:
    site.follow_maps(deletionBudget={"files": 300, "percent": 100})
    manifests = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"map-{n}"}} for n in range(300)
    ]
    bundle = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    site.cluster.kubectl("-n", site.namespace, "create", "-f", "-", stdin=bundle)
    site.start()
    eventually(lambda: _count(prod, site) == 300, 30.0, site.tail, interval=0.2)
    before = prod.tip()
    site.delete("ConfigMap")
    eventually(lambda: _count(prod, site) == 0, 40.0, site.tail, interval=0.2)
    counts = prod.git("log", "--format=format:#", "--name-status", f"{before}..main").decode()
    assert sum(part.count("D\t") for part in counts.split("#")) == 300


def _count(prod: Repository, site: ReverserSite) -> int:
    if not prod.has_branch("main"):
        return 0
    folder = f"{BASE}/core/v1/configmaps/{site.namespace}/"
    return prod.git("ls-tree", "--name-only", "main", folder).decode().count("\n")


def test_a_server_that_declines_one_object_gets_all_others(site: ReverserSite, prod: Repository) -> None:
    hook = prod.path / "hooks" / "pre-receive"
    hook.write_text(
        "#!/bin/sh\nwhile read old new ref; do\n"
        'if git grep -q FORBIDDEN "$new"; then echo "there is a forbidden word in it"; exit 1; fi\ndone\n'
    )
    hook.chmod(0o755)
    site.follow_maps()
    for n in range(6):
        site.config_map(f"map-{n}")
    site.config_map("map-3", {"key": "FORBIDDEN"})
    site.start()
    fine = {site.map_path(f"map-{n}"): "value" for n in range(6) if n != 3}
    files = site.until_files(prod, {**fine, site.map_path("map-3"): None})
    assert files
    message = site.until("GitDestination", "production", "ObjectNotWritten")
    assert "map-3" in message
    site.config_map("map-3", {"key": "mended"})
    site.until_files(prod, {site.map_path("map-3"): "mended"})
    site.until("GitDestination", "production", "Initialized")


@pytest.mark.xdist_group("gitea")
def test_a_protected_branch_stalls_with_the_words_of_the_forge(
    site: ReverserSite, gitea: GiteaServer
) -> None:
    repository = gitea.create_repository(f"protected-{site.namespace}")
    repository.request("POST", "/branch_protections", {"rule_name": "main", "enable_push": False})
    site.secret("login", username=USER, token=gitea.token)
    site.repo_config(
        repoUrl=repository.clone_url, secretRef={"name": "login"}, allowedBranches=["main", "open"]
    )
    site.destination()
    site.destination("open", branch="open")
    site.rule()
    site.rule("open", to="open")
    site.config_map("prices")
    site.config_map("second")
    site.start()
    site.until("GitDestination", "production", "PushDeclined")
    site.until("WatchRule", "maps", "PushDeclined", "RepoPushFailed")
    site.until("GitDestination", "open", "Initialized")  # another branch of the same repository goes on
    repository.request("DELETE", "/branch_protections/main")
    site.until("GitDestination", "production", "Initialized", patience=80.0)
    found = repository.request("GET", f"/contents/{site.map_path('prices')}?ref=main")
    assert found["size"] > 0

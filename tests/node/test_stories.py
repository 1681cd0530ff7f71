"""The operator as users run it: our image, the chart, native sidecars, Services, all on a node."""

from __future__ import annotations

import hashlib
import hmac
import json
import urllib.request
from pathlib import Path

import pytest

from stoker.domain.refs import CommitId
from stoker_testkit.environments.agent_environment import project
from stoker_testkit.environments.operator_environment import AGENT, GATEWAY, GatewaySite
from stoker_testkit.node.operator_cluster import NodeOperatorCluster, OperatorCluster, TimedSteps
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.reverser_environment import ReverserSite, files_of
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

pytestmark = pytest.mark.node

QUICK = {"sync_period": "1"}
RARE = {"interval": "1h"}
OFTEN = {"interval": "1s"}
KEY = planted("webhook-key")


def files(*gateways: str, version: int = 1) -> dict[str, str]:
    return {
        f"services/{name}/{path}": text for name in gateways for path, text in project(name, version).items()
    }


def title(name: str) -> str:
    return f"projects/{name}/project.json"


def content(name: str, version: int) -> str:
    return project(name, version)[title(name)]


def source(server: GitHttpServer) -> dict[str, object]:
    return {"repo": server.url("plant.git"), "ref": "main"}


def start_line(site: GatewaySite, server: GitHttpServer, *names: str, polling: object) -> None:
    """One resource, and a gateway for each name."""
    site.secret("hook", hmac=KEY)
    hook = {"secretRef": {"name": "hook", "key": "hmac"}}
    site.apply("Stoker", "line", git=source(server), gateway=GATEWAY, webhook=hook, polling=polling)
    for name in names:
        site.gateway_pod(name, service_path=f"services/{name}", **QUICK)


def call(stage: OperatorCluster, site: GatewaySite, commit: CommitId) -> int:
    """What a forge does after a push; the answer's status."""
    body = json.dumps({"ref": "refs/heads/main", "after": str(commit)}).encode()
    request = urllib.request.Request(  # noqa: S310 - the address is the release's own
        f"{stage.receiver}/webhook/{site.namespace}/line",
        data=body,
        headers={
            "Content-Type": "application/json",
            "X-GitHub-Event": "push",
            "X-Hub-Signature-256": f"sha256={hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()}",
        },
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=site.patience) as answer:
        return int(answer.status)


def test_quick_start(
    stage: OperatorCluster, site: GatewaySite, git_server: GitHttpServer, plant_repository: Repository
) -> None:
    """From nothing but the release to a gateway that has shown what git holds."""
    steps = TimedSteps()
    first = plant_repository.commit(files("north"))
    with steps.step("one resource and one pod with two annotations"):
        start_line(site, git_server, "north", polling=RARE)
    sidecar = site.get("Pod", "north")["spec"]["initContainers"][0]
    assert (sidecar["name"], sidecar["restartPolicy"]) == (AGENT, "Always")
    with steps.step("the agent becoming ready in its pod"):
        eventually(
            lambda: site.agent("north").get("ready"),
            site.patience,
            lambda: site.describe("Stoker", "line"),
            interval=0.1,
        )
    with steps.step("the first synced gateway, shown by itself"):
        site.until_synced("Stoker", "line", first, 1)
    assert site.file("north", title("north")) == content("north", 1)
    site.until_event("SidecarInjected", "north")
    shown = stage.cluster.kubectl("-n", site.namespace, "get", "stokers").stdout
    assert "1 of 1 gateways synced" in shown


def test_an_update_comes_by_webhook(
    stage: OperatorCluster, site: GatewaySite, git_server: GitHttpServer, plant_repository: Repository
) -> None:
    """Without polling; the call reaches whichever replica its Service chooses."""
    first = plant_repository.commit(files("north", "south"))
    start_line(site, git_server, "north", "south", polling=RARE)
    site.until_synced("Stoker", "line", first, 2)
    for version in (2, 3):
        commit = plant_repository.commit(files("north", "south", version=version))
        assert call(stage, site, commit) == 202
        site.until_synced("Stoker", "line", commit, 2)
        assert [site.file(name, title(name)) for name in ("north", "south")] == [
            content("north", version),
            content("south", version),
        ]
    site.until_metadata("line", trigger="webhook", commit=commit)


def test_a_gateway_is_rolled_back_and_follows_again(
    site: GatewaySite, git_server: GitHttpServer, plant_repository: Repository
) -> None:
    first = plant_repository.commit(files("north"))
    start_line(site, git_server, "north", polling=OFTEN)
    site.until_synced("Stoker", "line", first, 1)
    second = plant_repository.commit(files("north", version=2))
    site.until_synced("Stoker", "line", second, 1)

    place = site.path_of("Stoker", "line")
    site.patch(place, {"spec": {"rollback": {"toCommit": str(first)}}})
    site.until_file("north", title("north"), content("north", 1))
    eventually(
        lambda: site.status("Stoker", "line").get("rollback", {}).get("result") == "Succeeded",
        site.patience,
        lambda: site.describe("Stoker", "line"),
        interval=0.1,
    )
    site.patch(place, {"spec": {"rollback": None}})
    site.until_file("north", title("north"), content("north", 2))
    site.until_synced("Stoker", "line", second, 1)


def test_the_reverser_writes_what_people_change(
    stage: OperatorCluster, site: GatewaySite, git_server: GitHttpServer, tmp_path: Path
) -> None:
    repository = Repository.create(git_server.root / "cluster.git")
    reverser = ReverserSite(stage.cluster, site.namespace, tmp_path, url=git_server.url("cluster.git"))
    reverser.follow_maps()
    reverser.until("WatchRule", "maps", "Initialized", patience=site.patience)
    reverser.config_map("recipe", {"syrup": "sweet"})
    reverser.until_files(repository, {reverser.map_path("recipe"): "syrup: sweet"}, patience=site.patience)
    reverser.config_map("recipe", {"syrup": "dry"})
    reverser.until_files(repository, {reverser.map_path("recipe"): "syrup: dry"}, patience=site.patience)
    reverser.delete("ConfigMap", "recipe")
    reverser.until_files(repository, {reverser.map_path("recipe"): None}, patience=site.patience)
    assert not [one for one in files_of(repository) if one.endswith("recipe.yaml")]


def test_a_killed_agent_goes_on_where_it_was(
    site: GatewaySite, git_server: GitHttpServer, plant_repository: Repository
) -> None:
    first = plant_repository.commit(files("north"))
    start_line(site, git_server, "north", polling=OFTEN)
    site.until_synced("Stoker", "line", first, 1)
    pod = site.get("Pod", "north")["metadata"]["uid"]
    second = plant_repository.commit(files("north", version=2))
    site.kill_agent("north")
    site.until_synced("Stoker", "line", second, 1)
    assert site.file("north", title("north")) == content("north", 2)
    assert site.get("Pod", "north")["metadata"]["uid"] == pod, "the gateway was not touched"


def test_a_controller_lost_in_the_middle_loses_nothing(
    stage: OperatorCluster, site: GatewaySite, git_server: GitHttpServer, plant_repository: Repository
) -> None:
    """It has begun to ask git for the new commit when another process ends it."""
    first = plant_repository.commit(files("north"))
    start_line(site, git_server, "north", polling=RARE)
    site.until_synced("Stoker", "line", first, 1)
    second = plant_repository.commit(files("north", version=2))
    asked = len(git_server.requests)
    assert call(stage, site, second) == 202
    eventually(lambda: len(git_server.requests) > asked, site.patience, "the controller asks git")
    stage.lose_controller()
    site.until_synced("Stoker", "line", second, 1)
    assert site.file("north", title("north")) == content("north", 2)


def test_two_replicas_of_each_share_the_work(
    stage: OperatorCluster, site: GatewaySite, git_server: GitHttpServer, plant_repository: Repository
) -> None:
    """A webhook goes away while pods are made: none of them comes without its agent."""
    if isinstance(stage, NodeOperatorCluster):
        stage.release.until_running()
        counts = {one: len(stage.release.pods(one)) for one in ("controller", "webhook", "reverser")}
        assert counts == {"controller": 2, "webhook": 2, "reverser": 2}
    first = plant_repository.commit(files("north", "south"))
    stage.lose_webhook()
    start_line(site, git_server, "north", "south", polling=RARE)
    site.until_synced("Stoker", "line", first, 2)
    assert site.agent("north")
    assert site.agent("south")

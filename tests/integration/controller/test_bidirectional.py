"""Bidirectional sync as a whole: a real agent, a real controller, a real API server and a real forge.

Both run as the accounts that they have in a cluster: the controller with the chart's
rules, the agent with the Role that the controller made for it.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from stoker.agent.sidecar.startup import MARKER
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.agent_pod import AgentPod
from stoker_testkit.environments.controller_environment import Site
from stoker_testkit.forges.gitea import GiteaServer
from stoker_testkit.wait_until import eventually

pytestmark = pytest.mark.xdist_group("gitea")

PATIENCE = 60.0
DEBOUNCE = 0.5
ACCOUNT = "ignition"
VIEW = "projects/site/view.txt"
IN_GIT = f"services/site/{VIEW}"
LINES = "one\ntwo\nthree\nfour\n"


class Plant:
    """One repository on the forge, one resource, one gateway."""

    def __init__(self, site: Site, forge: GiteaServer, folder: Path) -> None:
        self.site, self.forge = site, forge
        self.repository = forge.create_repository(f"plant-{secrets.token_hex(4)}")
        self.commit(IN_GIT, LINES)
        self.pod = AgentPod.create(
            folder / "pod",
            site.namespace,
            resource="line",
            gateway="press",
            annotations={"service-path": "services/site"},
        )
        (self.pod.root / "tmp" / MARKER).touch()

    @property
    def branch(self) -> str:
        return f"gateway-changes/{self.site.namespace}/press"

    def start(self, strategy: str = "gitWins", polling: str = "1s", **more: object) -> None:
        site, forge = self.site, self.forge
        site.secret("git", token=forge.token)
        token = {"name": "git", "key": "token"}
        site.apply(
            "Stoker",
            "line",
            git={"repo": self.repository.clone_url, "ref": "main", "auth": {"token": {"secretRef": token}}},
            gateway={"filesOnly": True},
            polling={"interval": polling},
            bidirectional={
                "enabled": True,
                "watchPaths": ["projects/**"],
                "debounce": f"{int(DEBOUNCE * 1000)}ms",
                "conflictStrategy": strategy,
                "forge": {"type": "gitea", "url": forge.url},
                **more,
            },
        )
        site.post("/api/v1", "serviceaccounts", {"metadata": {"name": ACCOUNT, "namespace": site.namespace}})
        site.pod("gateway-0", "line", gateway="press", account=ACCOUNT)
        site.start()
        eventually(lambda: site.get("RoleBinding", "stoker-agent-line").get("subjects"), PATIENCE, "rights")
        self.pod.mount("git-credentials", {"token": forge.token})
        self.pod.start(site.cluster.service_account_kubeconfig(site.namespace, ACCOUNT))
        self.pod.until_file(VIEW, LINES)
        self.until_watched()

    def until_watched(self) -> None:
        eventually(
            lambda: self.pod.logged("changes.watched"), PATIENCE, lambda: f"a watch: {self.pod.tail()}"
        )
        eventually(lambda: self.entry().get("syncStatus") == "Synced", PATIENCE, self.describe)

    def commit(self, path: str, text: str) -> str:
        """As another user does, on the forge."""
        content = base64.b64encode(text.encode()).decode()
        found = self.find(path)
        body = {"content": content, "message": f"Change {path}", "branch": "main"}
        method = "POST" if found is None else "PUT"
        more = {} if found is None else {"sha": found["sha"]}
        return str(self.repository.request(method, f"/contents/{path}", body | more)["commit"]["sha"])

    def find(self, path: str, ref: str = "main") -> dict[str, Any] | None:
        place = f"/git/trees/{quote(ref, safe='')}?recursive=true&per_page=1000"
        listed = self.repository.request("GET", place)["tree"]
        return next((one for one in listed if one["path"] == path), None)

    def edit(self, text: str) -> None:
        """As a designer does, on the gateway."""
        (self.pod.data_dir / VIEW).write_text(text)

    def requests(self, state: str = "all") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.repository.request("GET", f"/pulls?state={state}")
        return found

    def until_request(self, count: int = 1) -> dict[str, Any]:
        found = eventually(
            lambda: [one for one in [self.requests()] if len(one) >= count],
            PATIENCE,
            self.describe,
            interval=0.05,
        )[0]
        assert len(found) == count, found
        return max(found, key=lambda one: int(one["number"]))

    def merge(self, request: dict[str, Any]) -> None:
        body = {"Do": "merge"}
        eventually(
            lambda: self.repository.request("GET", f"/pulls/{request['number']}")["mergeable"],
            PATIENCE,
            "a request that can be merged",
        )
        self.repository.request("POST", f"/pulls/{request['number']}/merge", body)

    def content(self, ref: str, path: str = IN_GIT) -> str:
        result = self.repository.request("GET", f"/contents/{path}?ref={ref}")
        return base64.b64decode(result["content"]).decode()

    def entry(self) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.site.status("Stoker", "line").get("discoveredGateways", [])
        return found[0] if found else {}

    def describe(self) -> str:
        status = self.site.status("Stoker", "line")
        return f"{status}\n--- agent\n{self.pod.tail()}\n--- controller\n{self.site.tail()}"

    def until(self, what: str, check: Any) -> None:
        eventually(check, PATIENCE, lambda: f"{what}: {self.describe()}")

    def nothing_waits(self) -> bool:
        names = [f"stoker-changes-{number}-line" for number in range(8)]
        return not any(self.site.get("ConfigMap", name).get("binaryData") for name in names)


@pytest.fixture
def plant(kinds: ClusterAccess, namespace: str, tmp_path: Path, gitea: GiteaServer) -> Iterator[Plant]:
    site = Site.prepare(kinds, namespace, tmp_path)
    made = Plant(site, gitea, tmp_path)
    yield made
    made.pod.stop()
    site.stop()


def test_an_edit_becomes_a_request_is_merged_and_comes_back_as_nothing_to_do(plant: Plant) -> None:
    plant.start()
    plant.edit("designed\n")
    request = plant.until_request()
    assert (request["title"], request["base"]["ref"], request["head"]["ref"]) == (
        "Changes from gateway press",
        "main",
        plant.branch,
    )
    labels = ["auto-generated", "gateway-change"]
    plant.until("its labels", lambda: sorted(one["name"] for one in plant.requests()[0]["labels"]) == labels)
    assert f"`{IN_GIT}`" in request["body"]
    assert plant.content(plant.branch) == "designed\n"
    plant.until("the request in the status", lambda: plant.entry()["changes"].get("pullRequest"))
    assert plant.entry()["changes"]["branch"] == plant.branch
    plant.site.until_event("PRCreated", str(request["number"]))
    plant.site.until("Stoker", "line", "BidirectionalReady", "WatchersActive")
    plant.until("empty maps", plant.nothing_waits)

    plant.merge(request)
    merged = plant.repository.request("GET", "/branches/main")["commit"]["id"]
    plant.until("the merge on the gateway", lambda: plant.entry().get("syncedCommit") == merged)
    assert plant.pod.file(VIEW) == "designed\n"
    plant.until("nothing left to tell", lambda: "branch" not in (plant.entry().get("changes") or {}))
    beside = plant.pod.data_dir / "beside"
    beside.write_text("again\n")
    beside.chmod(0o755)
    beside.rename(plant.pod.data_dir / VIEW)
    second = plant.until_request(2)
    assert second["number"] != request["number"]
    assert plant.content(plant.branch) == "again\n"
    found = plant.find(IN_GIT, plant.branch)
    assert found is not None
    assert found["mode"] == "100755", "it may be executed there as well"
    assert len(plant.pod.logged("changes.sent")) == 2, "what was merged is not captured again"


@pytest.mark.parametrize("strategy", ["gitWins", "gatewayWins", "manual"])
def test_both_sides_edit_one_view(plant: Plant, strategy: str) -> None:
    plant.start(strategy)
    plant.site.patch(plant.site.path_of("Stoker", "line"), {"spec": {"paused": True}})
    plant.until("a pause", lambda: plant.site.condition("Stoker", "line", "Ready")[1] == "Paused")
    plant.edit("designed\n")
    theirs = plant.commit(IN_GIT, "committed\n")
    plant.site.patch(plant.site.path_of("Stoker", "line"), {"spec": {"paused": False}})

    request = plant.until_request()
    assert plant.content(plant.branch) == "designed\n"
    assert plant.content("main") == "committed\n"
    plant.site.until("Stoker", "line", "ConflictDetected", "ConflictDetected")
    plant.site.until_event("ConflictDetected", VIEW)
    plant.until("a word about it", lambda: "in conflict" in plant.requests()[0]["body"])
    if strategy == "gitWins":
        plant.pod.until_file(VIEW, "committed\n")
        plant.until("at the commit", lambda: plant.entry().get("syncedCommit") == theirs)
    else:
        plant.until("held", lambda: plant.entry()["changes"].get("held") == 1)
        plant.commit("services/site/projects/site/other.txt", "more\n")
        plant.pod.until_file("projects/site/other.txt", "more\n")
        assert plant.pod.file(VIEW) == "designed\n", "the file of the open request is left alone"

    plant.repository.request("PATCH", f"/pulls/{request['number']}", {"state": "closed"})
    plant.pod.until_file(VIEW, "committed\n")
    plant.until("peace", lambda: plant.site.condition("Stoker", "line", "ConflictDetected")[0] == "False")
    assert len(plant.requests()) == 1, "what was turned down is not asked again"


def test_a_file_that_came_after_the_request_was_opened_is_deleted_with_its_merge(plant: Plant) -> None:
    plant.start()
    plant.edit("designed\n")
    request = plant.until_request()
    late = "projects/site/late.txt"
    plant.commit(f"services/site/{late}", "late\n")
    plant.pod.until_file(late, "late\n")
    (plant.pod.data_dir / late).unlink()

    def branch_says() -> str:
        result = plant.repository.request("GET", f"/branches/{plant.branch}")
        return str(result["commit"]["message"])

    plant.until("the deletion on the branch", lambda: f"deleted: services/site/{late}" in branch_says())
    assert plant.content(plant.branch) == "designed\n"
    plant.merge(request)
    merged = plant.repository.request("GET", "/branches/main")["commit"]["id"]
    plant.until("the merge on the gateway", lambda: plant.entry().get("syncedCommit") == merged)
    assert plant.find(f"services/site/{late}") is None
    assert not (plant.pod.data_dir / late).exists()
    assert plant.pod.file(VIEW) == "designed\n"


def test_what_may_not_flow_back_is_named_and_stays(plant: Plant) -> None:
    plant.start(guardrails={"maxFileSize": "1Ki", "excludePatterns": ["**/secret/**"]})
    place = plant.pod.data_dir / "projects/site"
    (place / "secret").mkdir()
    (place / "secret/key").write_text("k")
    (place / "large.txt").write_text("x" * 2000)
    plant.edit("designed\n")
    request = plant.until_request()
    plant.until("a refusal", lambda: plant.entry()["changes"].get("refused") == 1)
    tree = plant.repository.request("GET", f"/git/trees/{request['head']['sha']}?recursive=true")["tree"]
    assert not any("large" in one["path"] or "secret" in one["path"] for one in tree)
    assert (place / "large.txt").exists()

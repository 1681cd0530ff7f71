"""Our objects through their lives as other tools see them: kstatus, Argo CD, and `kubectl wait`.

Controller and reverser are real processes on a real API server. At every look the object
is judged by the published rules of kstatus, and by the script that is shipped for Argo CD,
run by a real Lua. The recipes of the documentation are run as they are.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.intent.intent import SyncResourceKind
from stoker_testkit.cluster.argocd_health import ArgoHealth
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.kstatus import (
    CURRENT,
    FAILED,
    IN_PROGRESS,
    TERMINATING,
    contradictions,
    kstatus,
)
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.reverser_environment import ReverserSite
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

ROOT = Path(__file__).parents[3]
HEALTH = ROOT / "deploy" / "argocd" / "health.lua"
PAGE = ROOT / "docs" / "kstatus.md"
SILENT = {"filesOnly": True}
"""For gateways without a client."""


class Life:
    """One object, looked at again and again."""

    def __init__(self, get: Callable[[], dict[str, Any]], tail: Callable[[], str]) -> None:
        self._get = get
        self._tail = tail
        self._argo = ArgoHealth(HEALTH.read_text())

    def expect(self, status: str, health: str, ready: str | None = None) -> None:
        """Wait until both say so, and for this reason; no look may show what cannot be."""
        eventually(
            lambda: self._look() == (status, health, ready or self._look()[2]),
            PATIENCE,
            lambda: f"{status} and {health}; it is {self._look()} of {self._get()}\n{self._tail()}",
        )

    def expect_gone(self) -> None:
        eventually(lambda: not self._get(), PATIENCE, "the object is gone")

    def _look(self) -> tuple[str, str, str]:
        found = self._get()
        assert contradictions(found) == [], found
        conditions = (found.get("status") or {}).get("conditions") or []
        reason = next((one["reason"] for one in conditions if one["type"] == "Ready"), "")
        return kstatus(found).status, self._argo.of(found)[0], reason


@pytest.fixture
def plain(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Site]:
    made = Site.prepare(kinds, namespace, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def repository(repositories: Path, git_http: GitHttpServer) -> Repository:
    made = Repository.create(repositories / "plant.git")
    made.commit({"services/site/projects/site/project.json": "{}"})
    return made


@pytest.mark.parametrize(
    "door", [SyncResourceKind.STOKER, pytest.param(SyncResourceKind.IGNITION_SYNC, marks=pytest.mark.long)]
)
def test_the_life_of_a_resource(
    door: SyncResourceKind, plain: Site, repository: Repository, git_http: GitHttpServer
) -> None:
    kind, source = str(door), {"repo": git_http.url("plant.git"), "ref": "main"}
    plain.apply(kind, "line", gateway=SILENT, git=source)
    life = Life(lambda: plain.get(kind, "line"), plain.tail)
    life.expect(IN_PROGRESS, "Progressing")
    pod = plain.pod("filler-0", "line", kind=door, gateway="filler")
    plain.start()
    life.expect(IN_PROGRESS, "Progressing", "GatewaysSyncing")
    pod.report(plain.until_metadata("line", door, commit=repository.tip()).commit or "")
    life.expect(CURRENT, "Healthy", "GatewaysSynced")

    plain.apply(kind, "line", gateway=SILENT, git={**source, "ref": "no-such-ref"})
    life.expect(FAILED, "Degraded", "RefNotFound")
    plain.apply(kind, "line", gateway=SILENT, git={**source, "ref": "no-such-ref"}, paused=True)
    life.expect(IN_PROGRESS, "Suspended", "Paused")
    plain.apply(kind, "line", gateway=SILENT, git=source, paused=False)
    life.expect(CURRENT, "Healthy", "GatewaysSynced")

    plain.patch(plain.path_of(kind, "line"), {"metadata": {"finalizers": ["example.com/held"]}})
    plain.delete(kind, "line")
    life.expect(TERMINATING, "Progressing")
    plain.patch(plain.path_of(kind, "line"), {"metadata": {"finalizers": None}})
    life.expect_gone()


def test_the_life_of_a_profile(plain: Site) -> None:
    mapping = [{"source": "services/site", "destination": "projects"}]
    plain.apply("SyncProfile", "one", mappings=mapping)
    life = Life(lambda: plain.get("SyncProfile", "one"), plain.tail)
    life.expect(IN_PROGRESS, "Progressing")
    plain.start()
    life.expect(CURRENT, "Healthy")
    plain.apply("SyncProfile", "two", mappings=mapping, dependsOn=[{"profileName": "one"}])
    plain.apply("SyncProfile", "one", mappings=mapping, dependsOn=[{"profileName": "two"}])
    life.expect(FAILED, "Degraded", "DependencyCycle")
    plain.apply("SyncProfile", "one", mappings=mapping)
    plain.apply("SyncProfile", "two", mappings=mapping)
    life.expect(CURRENT, "Healthy", "ProfileUsable")
    plain.delete("SyncProfile", "one")
    life.expect_gone()


def test_the_lives_of_what_the_reverser_works_on(site: ReverserSite, git_http: GitHttpServer) -> None:
    cluster_rule = f"nodes-{site.namespace}"
    site.follow_maps()
    site.cluster_rule(cluster_rule, ["namespaces"])
    names = {
        "GitRepoConfig": "repo",
        "GitDestination": "production",
        "WatchRule": "maps",
        "ClusterWatchRule": cluster_rule,
    }
    lives = {
        kind: Life(lambda kind=kind, name=name: site.get(kind, name), site.tail)  # type: ignore[misc]
        for kind, name in names.items()
    }
    for life in lives.values():
        life.expect(IN_PROGRESS, "Progressing")
    site.start()
    for life in lives.values():
        life.expect(CURRENT, "Healthy")

    site.repo_config(allowedBranches=["other"])
    lives["GitDestination"].expect(FAILED, "Degraded")
    lives["WatchRule"].expect(FAILED, "Degraded")
    lives["ClusterWatchRule"].expect(FAILED, "Degraded")
    site.repo_config(suspend=True)
    lives["GitRepoConfig"].expect(IN_PROGRESS, "Suspended", "Suspended")
    git_http.users["bot"] = planted("git-password")
    site.repo_config(push={"maxCommits": 1})
    lives["GitRepoConfig"].expect(FAILED, "Degraded", "AuthFailed")
    git_http.users.clear()
    site.repo_config()
    for life in lives.values():
        life.expect(CURRENT, "Healthy")
    for kind, name in reversed(names.items()):
        site.delete(kind, name)
        lives[kind].expect_gone()


def recipes() -> list[str]:
    """Every `kubectl wait` of the page, as it is."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("kubectl wait ")]


def test_every_recipe_of_the_page_works(
    plain: Site, site: ReverserSite, repository: Repository, git_http: GitHttpServer
) -> None:
    source = {"repo": git_http.url("plant.git"), "ref": "main"}
    cluster_rule = f"recipe-{site.namespace}"
    for kind in SyncResourceKind:
        plain.apply(str(kind), "plant", gateway=SILENT, git=source, labels={"area": "bottling"})
    plain.apply("SyncProfile", "line", mappings=[{"source": "services/site", "destination": "projects"}])
    plain.apply("Stoker", "broken", git={**source, "ref": "no-such-ref"})
    plain.apply("Stoker", "leaving", git=source)
    site.follow_maps()
    site.cluster_rule(cluster_rule, ["namespaces"])
    pod = plain.pod("filler-0", "plant", gateway="filler")
    plain.start()
    site.start()
    plain.until("Stoker", "leaving", "Ready", "RefResolved")
    pod.report(plain.until_metadata("plant", commit=repository.tip()).commit or "")
    plain.delete("Stoker", "leaving")

    known = {"$COMMIT": str(repository.tip()), "$CLUSTER_RULE": cluster_rule}
    assert len(recipes()) >= 14
    for recipe in recipes():
        words = [_filled(word, known) for word in shlex.split(recipe)[1:]]
        plain.cluster.kubectl("-n", plain.namespace, *words)
    ready = ("wait", "stoker/broken", "--for=condition=Ready", "--timeout=1s")
    done = plain.cluster.kubectl("-n", plain.namespace, *ready, check=False)
    assert done.returncode == 1, "a wait for what is not ready times out"
    site.delete("ClusterWatchRule", cluster_rule)


def _filled(word: str, known: Mapping[str, str]) -> str:
    for name, value in known.items():
        word = word.replace(name, value)
    return word

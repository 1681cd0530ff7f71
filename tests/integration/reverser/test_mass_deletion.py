"""Very many objects that go at once: git follows, the queue stays bounded, no other object waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from stoker.kube.client.client import KubeClient
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.kube.config.config import load_config
from stoker.reverser.writer.batch import QueueCapacity
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.reverser_environment import BASE, ReverserSite, metric_of
from stoker_testkit.wait_until import eventually

"""Seconds after which a change of another namespace is to be in git, whatever else goes on."""
PATIENCE = 120.0
MANY = [1_000, pytest.param(10_000, marks=[pytest.mark.long])]


@pytest.fixture
def elsewhere(site: ReverserSite) -> ReverserSite:
    """Another namespace of the same cluster."""
    other = ReverserSite(site.cluster, f"{site.namespace}-b", site.folder, site.url)
    site.cluster.create_namespace(other.namespace)
    return other


@pytest.fixture
def both(site: ReverserSite, elsewhere: ReverserSite) -> Iterator[None]:
    """One rule, one watch and one folder for both namespaces."""
    names = [site.namespace, elsewhere.namespace]
    chosen = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": names}]}
    site.repo_config()
    site.destination(deletionBudget={"files": 100_000, "percent": 100})
    site.cluster_rule(site.namespace, ["configmaps"], scope="Namespaced", namespaceSelector=chosen)
    yield
    site.delete("ClusterWatchRule", site.namespace)


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("count", MANY)
def test_very_many_deletions_at_once_arrive_and_hold_up_no_other_object(
    site: ReverserSite, elsewhere: ReverserSite, prod: Repository, count: int
) -> None:
    (port,) = free_ports(1)
    _fill(site, count)
    elsewhere.config_map("changes", {"turn": "0"})
    site.start(f"--metrics-port={port}")
    eventually(lambda: _count(prod, site) == count, PATIENCE, site.tail, interval=0.2)
    before = prod.tip()
    turns = 0
    depths: list[float] = []
    with ThreadPoolExecutor(1) as hand:
        deletion = hand.submit(_delete_all, site)
        while not deletion.done() or _count(prod, site):
            turns += 1
            _change(elsewhere, prod, turns)
            depths.append(metric_of(port, "repo_branch_queue_depth"))
        deletion.result()
    assert max(depths) <= QueueCapacity().changes
    log = prod.git("log", "--format=format:#", "--name-status", f"{before}..main").decode()
    commits = log.split("#")[::-1]
    pushed = [part.count("D\t") for part in commits]
    first_change = next(n for n, part in enumerate(commits) if elsewhere.map_path("changes") in part)
    assert any(pushed[first_change:]), "changes elsewhere arrive between the deletions, not after them"
    assert sum(pushed) == count
    assert max(pushed) <= 200, "a commit has no more files than it may have"
    site.until("GitDestination", "production", "Initialized")


@pytest.mark.long
@pytest.mark.usefixtures("both")
def test_very_many_objects_that_went_while_no_watch_ran_are_swept(
    site: ReverserSite, elsewhere: ReverserSite, prod: Repository
) -> None:
    _fill(site, 10_000)
    elsewhere.config_map("changes", {"turn": "0"})
    first = site.start()
    eventually(lambda: _count(prod, site) == 10_000, PATIENCE, site.tail, interval=0.2)
    first.stop()
    _delete_all(site)
    site.start()
    eventually(lambda: _count(prod, site) < 10_000, PATIENCE, site.tail, interval=0.1)
    _change(elsewhere, prod, 1)
    eventually(lambda: _count(prod, site) == 0, PATIENCE, site.tail, interval=0.2)
    _change(elsewhere, prod, 2)


def _fill(site: ReverserSite, count: int) -> None:
    async def create() -> None:
        numbers = iter(range(count))
        async with KubeClient(load_config(site.cluster.kubeconfig()), user_agent="test") as client:

            async def one_after_another() -> None:
                for number in numbers:
                    body = {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "metadata": {"name": f"map-{number}"},
                        "data": {"number": str(number)},
                    }
                    await client.create(CONFIG_MAPS, body, site.namespace, into=ObjectHeader)

            await asyncio.gather(*(one_after_another() for _ in range(16)))

    asyncio.run(create())


def _delete_all(site: ReverserSite) -> None:
    """One request for all of them."""
    answer = site.cluster.request("DELETE", site.path_of("ConfigMap"), timeout=PATIENCE)
    assert answer.status == 200, answer.body[:500]


def _change(elsewhere: ReverserSite, prod: Repository, turn: int) -> None:
    """Change an object of the other namespace, and wait until Git has it."""
    elsewhere.config_map("changes", {"turn": str(turn)})
    path, text = elsewhere.map_path("changes"), f'turn: "{turn}"'.encode()
    eventually(lambda: text in prod.read(path), PATIENCE, f"{text!r} in git", interval=0.05)


def _count(prod: Repository, site: ReverserSite) -> int:
    if not prod.has_branch("main"):
        return 0
    folder = f"{BASE}/core/v1/configmaps/{site.namespace}/"
    return prod.git("ls-tree", "--name-only", "main", folder).decode().count("\n")

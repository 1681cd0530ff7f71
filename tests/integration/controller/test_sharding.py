"""Controllers that divide the namespaces: everything is worked on once, also while their number changes."""

from __future__ import annotations

import hashlib
import hmac
import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from stoker.domain.shards import shard_of_namespace
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.controller_environment import PATIENCE
from stoker_testkit.environments.sharding_environment import ShardedSite, ShardProcess
from stoker_testkit.processes import Process
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

KINDS = ("Stoker", "IgnitionSync")


def named(home: str, *owners: tuple[int, int]) -> list[str]:
    """One namespace for each pair of owners: which shard of two and which of three it belongs to."""
    candidates = [f"{home}-{number}" for number in range(200)]
    found: list[str] = []
    for of_two, of_three in owners:
        fits = (
            each
            for each in candidates
            if (shard_of_namespace(each, 2), shard_of_namespace(each, 3)) == (of_two, of_three)
            and each not in found
        )
        found.append(next(fits))
    return found


@pytest.fixture
def site(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[ShardedSite]:
    names = named(namespace, (0, 0), (0, 2), (1, 1), (1, 1))
    with ShardedSite.prepare(kinds, namespace, names, tmp_path, shards=3) as made:
        yield made


@pytest.fixture
def plant(repositories: Path) -> Repository:
    repository = Repository.create(repositories / "plant.git")
    repository.commit({"README.md": "one"})
    return repository


@pytest.fixture
def resources(site: ShardedSite, plant: Repository, git_http: GitHttpServer) -> ShardedSite:
    """A resource called line in each namespace, open to webhooks."""
    for each in site.sites.values():
        each.secret("hook", hmac=planted("webhook-key"))
        each.apply(
            "Stoker",
            "line",
            git={"repo": git_http.url(plant.path.name), "ref": "main"},
            polling={"interval": "1h"},
            gateway={"filesOnly": True},
            webhook={"secretRef": {"name": "hook", "key": "hmac"}, "allowedRefs": ["v*"]},
        )
    return site


def call(shard: ShardProcess, namespace: str, ref: str) -> int:
    content = json.dumps({"ref": ref}).encode()
    signed = hmac.new(planted("webhook-key").encode(), content, hashlib.sha256).hexdigest()
    request = urllib.request.Request(
        f"http://127.0.0.1:{shard.ports['receiver-bind-address']}/webhook/{namespace}/line",
        data=content,
        headers={"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={signed}"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own server
        return int(answer.status)


def all_metadata_has(site: ShardedSite, **wanted: object) -> None:
    for each in site.sites.values():
        each.until_metadata("line", **wanted)  # type: ignore[arg-type]


def holder(site: ShardedSite, index: int) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{site.home.namespace}/leases/stoker-controller-{index}"
    found = site.home.cluster.request("GET", path).json()
    assert isinstance(found, dict)
    return str(found["spec"].get("holderIdentity") or "")


def test_two_shards_serve_everything_once_and_stop_together(
    resources: ShardedSite, plant: Repository
) -> None:
    site, names = resources, list(resources.sites)
    shards = [site.start(f"{index}/2") for index in range(2)]
    all_metadata_has(site, commit=plant.tip())

    # Webhooks are not divided: whichever replica they reach, they are answered for every namespace.
    numbers = count(2)
    for shard in shards:
        for name in names:
            ref = f"v{next(numbers)}"
            plant.tag(ref, plant.commit({"README.md": ref}))
            eventually(lambda: call(shard, name, ref) == 202, PATIENCE, site.home.tail)  # noqa: B023
            site.sites[name].until_metadata("line", ref=ref, commit=plant.tip())

    # What stops everything stops every shard, each through its own look at the map.
    pause = {"metadata": {"name": "ignition-sync-global-pause"}, "data": {"paused": "true"}}
    site.home.post("/api/v1", "configmaps", pause)
    all_metadata_has(site, paused=True)
    site.home.delete("ConfigMap", "ignition-sync-global-pause")
    all_metadata_has(site, paused=False)

    # The sum of what both did is all there is to do, and nothing of it was done by both.
    assert [shard.namespaces() for shard in shards] == [set(names[:2]), set(names[2:])]
    of_resources = [shard.readings("ignition_sync_shard_resources") for shard in shards]
    assert of_resources == [{f'{{controller="stoker-controller-{index}"}}': 2.0} for index in range(2)]
    ready = Counter(labels for shard in shards for labels in shard.readings("ignition_sync_resource_ready"))
    assert ready == {f'{{cr="line",namespace="{name}"}}': 1 for name in names}


def test_the_standby_of_a_shard_takes_over_what_its_killed_leader_had_and_nothing_else(
    resources: ShardedSite, plant: Repository
) -> None:
    site, names = resources, list(resources.sites)
    first = site.start("0/2")
    killed = site.start("1/2")
    all_metadata_has(site, commit=plant.tip())
    standby = site.start("1/2")
    eventually(lambda: "lease.held_elsewhere" in standby.process.log.read_text(), PATIENCE, site.home.tail)
    leader = holder(site, 1)
    killed.process.kill()
    moved = plant.commit({"README.md": "two"})
    plant.tag("v2", moved)
    for name in names:
        eventually(lambda name=name: call(first, name, "v2") == 202, PATIENCE, site.home.tail)  # type: ignore[misc]
    all_metadata_has(site, ref="v2", commit=moved)
    assert holder(site, 1) not in ("", leader)
    # A ConfigMap is written in the middle of a reconcile, which is logged when it has ended.
    eventually(lambda: standby.namespaces() == set(names[2:]), PATIENCE, site.home.tail)
    assert first.namespaces() == set(names[:2])


def test_a_third_shard_takes_its_namespaces_when_their_shards_are_gone(
    resources: ShardedSite, plant: Repository
) -> None:
    """As an update does it: the new one comes first, and the old ones are replaced one after the other."""
    site, (kept, moved, *others) = resources, resources.sites
    old = [site.start(f"{index}/2") for index in range(2)]
    all_metadata_has(site, commit=plant.tip())
    third = site.start("2/3")
    eventually(
        lambda: third.process.running and "shards.waited_for" in third.process.log.read_text(),
        PATIENCE,
        site.home.tail,
    )
    assert third.readings("ignition_sync_shard_waits") == {'{controller="stoker-controller-2"}': 2.0}
    assert "ok" in third.ask("health-probe-bind-address", "/readyz"), "or the update would wait for ever"
    released = plant.commit({"README.md": "two"})
    plant.tag("v2", released)
    for name in site.sites:
        assert call(third, name, "v2") == 202, "it answers webhooks while it waits"
    all_metadata_has(site, commit=released)
    assert third.namespaces() == set()
    assert old[0].namespaces() == {kept, moved}

    new = [site.start(f"{index}/3") for index in range(2)]
    for each in old:
        each.process.stop()
    eventually(lambda: third.namespaces() == {moved}, PATIENCE, site.home.tail)
    eventually(lambda: [each.namespaces() for each in new] == [{kept}, set(others)], PATIENCE, site.home.tail)
    last = max(at for at, namespace in old[0].passes() if namespace == moved)
    assert last < min(at for at, namespace in third.passes() if namespace == moved)
    plant.tag("v3", plant.commit({"README.md": "three"}))
    for name in site.sites:
        assert call(new[0], name, "v3") == 202
    all_metadata_has(site, ref="v3", commit=plant.tip())
    assert third.namespaces() == {moved}
    assert new[0].namespaces() == {kept}


def test_without_namespaces_to_choose_from_a_shard_keeps_only_its_own_objects(
    resources: ShardedSite, plant: Repository
) -> None:
    """All pass by in one watch; what is another shard's is neither kept nor worked on."""
    site, names = resources, list(resources.sites)
    label = {"metadata": {"labels": {"site": site.home.namespace}}}
    for each in site.sites.values():
        each.patch(each.path_of("Stoker", "line"), label)
    admin = site.home.cluster.kubeconfig()
    everywhere = ("--watch-namespaces=", f"--watch-label-selector=site={site.home.namespace}")
    shard = site.start("1/2", *everywhere, f"--kubeconfig={admin}")
    for name in names[2:]:
        site.sites[name].until_metadata("line", commit=plant.tip())
    eventually(lambda: call(shard, names[0], "main") == 202, PATIENCE, site.home.tail)
    for name in names[:2]:
        assert site.sites[name].metadata("line") is None
    # It sees the whole cluster, and so the namespaces of tests that run at the same time.
    assert shard.namespaces() & set(names) == set(names[2:])


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--shard=3/3"], "--shard: shard 3/3: shards are counted from 0, so the last of 3 is 2/3"),
        (["--shard=0/2", "--leader-elect=false"], "--shard 0/2 needs --leader-elect"),
    ],
)
def test_a_shard_that_cannot_be_is_refused_at_the_start(
    flags: list[str], sentence: str, site: ShardedSite
) -> None:
    process: Process = site.home.start(*flags)
    assert process.wait(30)
    assert process.returncode == 2
    assert sentence in process.tail()

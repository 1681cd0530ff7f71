"""The sample manifests, applied as people apply them: everything is Ready and everything is in git."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.api.kinds.watchrules import ClusterWatchRule, WatchRule
from stoker.api.manifests.files import read_manifests
from stoker.reverser.selection.preset import PRESET, GroupResource
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.preset_round_trip import preset_objects
from stoker_testkit.reverser.reverser_environment import ReverserSite, files_of
from stoker_testkit.wait_until import eventually

SAMPLES = Path(__file__).parents[3] / "config" / "samples" / "reverser"
URL = "https://git.example.com/platform/cluster-state.git"


@pytest.fixture
def shop(site: ReverserSite) -> Iterator[str]:
    """A namespace with an object of every kind of the preset."""
    name = f"{site.namespace}-shop"
    objects = json.dumps({"apiVersion": "v1", "kind": "List", "items": preset_objects(name)})
    site.cluster.create_namespace(name)
    site.cluster.kubectl("create", "-f", "-", stdin=objects)
    yield name
    site.cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=objects)


@pytest.fixture
def samples(site: ReverserSite, shop: str, tmp_path: Path) -> Iterator[Path]:
    """The samples with the names of the test in the place of the well-known ones."""
    own = shutil.copytree(SAMPLES, tmp_path / "samples")
    names = {
        "reverser-config": site.namespace,
        "shop": shop,
        URL: site.url,
        "name: platform": f"name: {shop}",
    }
    for file in own.iterdir():
        text = file.read_text()
        for shown, mine in names.items():
            text = text.replace(shown, mine)
        file.write_text(text)
    yield own
    site.delete("ClusterWatchRule", shop)


def test_the_samples_name_every_kind_of_the_preset() -> None:
    named = {
        GroupResource.of(name)
        for file in ("watchrule.yaml", "clusterwatchrule.yaml")
        for resource in read_manifests((SAMPLES / file).read_bytes(), file)
        if isinstance(resource, WatchRule | ClusterWatchRule)
        for rule in resource.spec.rules
        for name in rule.resources
    }
    assert named == set(PRESET)


def test_the_samples_work_as_they_are_shown(
    site: ReverserSite, prod: Repository, samples: Path, shop: str
) -> None:
    flags = ("--include-secrets", "--qps=100", "--burst=100")
    site.start(f"--watch-namespaces={site.namespace},{shop}", *flags)
    site.cluster.kubectl("apply", "--server-side", "-k", str(samples))
    at_shop = ReverserSite(site.cluster, shop, site.folder, running=site.running)
    site.until("GitRepoConfig", "state", "Initialized")
    site.until("GitDestination", "east", "Initialized")
    at_shop.until("WatchRule", shop, "Initialized")
    site.until("ClusterWatchRule", shop, "Initialized")
    for kind, name, where in (
        ("gitrepoconfig", "state", site.namespace),
        ("gitdestination", "east", site.namespace),
        ("watchrule", shop, shop),
        ("clusterwatchrule", shop, site.namespace),
    ):
        ready = ("--for=condition=Ready", "--timeout=20s", f"{kind}.configbutler.ai/{name}")
        site.cluster.kubectl("-n", where, "wait", *ready)
    wanted = {(made["kind"], made["metadata"]["name"]) for made in preset_objects(shop)}

    def missing() -> set[tuple[str, str]]:
        files = [path for path in files_of(prod) if path.startswith("clusters/east/")]
        return {(kind, name) for kind, name in wanted if not any(_file(name) in path for path in files)}

    eventually(lambda: not missing(), 45.0, lambda: f"{missing()} in git\n{site.tail()}", interval=0.2)


def _file(name: str) -> str:
    return f"/{name.replace(':', '%3a')}."

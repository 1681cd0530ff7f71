"""A namespace that refuses a controller everything keeps it from no other, and is taken up when it opens.

As after somebody deleted a watched namespace: our Role went with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_testkit.chart.controller_rbac import CONTROLLER, controller_rules
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.wait_until import eventually

NOWHERE = {"repo": "http://127.0.0.1:9/plant.git", "ref": "main"}


@pytest.fixture
def site(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Site]:
    """Where the controller is at home and may work."""
    with Site.prepare(kinds, namespace, tmp_path) as made:
        made.apply("Stoker", "line", git=NOWHERE)
        yield made
    untie(made)


@pytest.fixture
def dark(kinds: ClusterAccess, site: Site) -> Iterator[Site]:
    """A namespace of which the controller may see nothing."""
    name = f"dark-{uuid.uuid4().hex[:8]}"
    kinds.create_namespace(name)
    made = Site(kinds, name, site.folder)
    made.apply("Stoker", "line", git=NOWHERE)
    yield made
    site.stop()
    untie(made)


def untie(site: Site) -> None:
    site.patch(site.path_of("Stoker", "line"), {"metadata": {"finalizers": None}})


def is_worked_on(site: Site) -> bool:
    return bool(site.get("Stoker", "line")["metadata"].get("finalizers"))


def start(site: Site, *namespaces: str) -> None:
    site.start(f"--watch-namespaces={','.join((site.namespace, *namespaces))}")


def test_the_others_are_worked_on(site: Site, dark: Site) -> None:
    start(site, dark.namespace, "gone")
    eventually(lambda: is_worked_on(site), PATIENCE, site.tail)
    output = [line for line in site.running[-1].log.read_text().splitlines() if '"namespace.unseen"' in line]
    assert len(output) == 2
    assert not is_worked_on(dark)


def test_one_that_opens_is_taken_up(site: Site, dark: Site) -> None:
    start(site, dark.namespace)
    eventually(lambda: is_worked_on(site), PATIENCE, site.tail)
    dark.grant(CONTROLLER, CONTROLLER, controller_rules().watched, home=site.namespace)
    eventually(lambda: is_worked_on(dark), 2 * PATIENCE, site.tail)


def test_one_that_refuses_a_part_is_waited_for(site: Site, dark: Site) -> None:
    """Without its pods all gateways would seem to be gone."""
    rules = controller_rules().watched
    blind = [rule for rule in rules if "pods" not in rule["resources"]]
    assert blind != list(rules)
    dark.grant("blind", CONTROLLER, blind, home=site.namespace)
    start(site, dark.namespace)
    eventually(lambda: _refused(site) >= 2, PATIENCE, site.tail)
    assert not is_worked_on(dark)
    assert not is_worked_on(site)
    dark.grant(CONTROLLER, CONTROLLER, rules, home=site.namespace)
    for one in (site, dark):
        eventually(lambda one=one: is_worked_on(one), 2 * PATIENCE, site.tail)  # type: ignore[misc]


def _refused(site: Site) -> int:
    return site.running[-1].log.read_text().count('"watch.failed"')

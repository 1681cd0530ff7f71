"""Resources lose our finalizer when this controller will not see their deletion, and only our own ones.

A real controller with the rights that the chart grants, on a real API server. Another
release is another home: a namespace of its own with a Lease in it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from stoker_testkit.chart.controller_rbac import CONTROLLER, LEASE, controller_rules
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.processes import Process
from stoker_testkit.wait_until import eventually

FINALIZER = "stoker.io/finalizer"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
NOWHERE = {"repo": "http://127.0.0.1:9/plant.git", "ref": "main"}


@pytest.fixture
def site(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Site]:
    with Site.prepare(kinds, namespace, tmp_path) as made:
        yield made
    for one in made.listed("Stoker"):
        made.patch(made.path_of("Stoker", one["metadata"]["name"]), {"metadata": {"finalizers": None}})


@pytest.fixture
def other_home(site: Site) -> str:
    """Where another release lives, which runs as the same account."""
    name = f"home-{uuid.uuid4().hex[:8]}"
    site.cluster.create_namespace(name)
    home = Site(site.cluster, name, site.folder)
    home.grant(CONTROLLER, CONTROLLER, controller_rules().home, home=site.namespace)
    home.post("/apis/coordination.k8s.io/v1", "leases", {"metadata": {"name": LEASE, "namespace": name}})
    return name


def finalizers(site: Site, name: str) -> list[str]:
    found: list[str] = site.get("Stoker", name)["metadata"].get("finalizers", [])
    return found


def tied_by(site: Site, name: str) -> set[str]:
    """As whom it was, by the API server's own notes."""
    noted: Any = site.get("Stoker", name)["metadata"]["managedFields"]
    mark = f'v:"{FINALIZER}"'
    return {one["manager"] for one in noted if mark in str(one["fieldsV1"].get("f:metadata", {}))}


def tie(site: Site, team: str, *more: str, name: str = "") -> Process:
    """Have a controller work on the resource of a team, and wait until it is tied."""
    site.apply("Stoker", name or team, git=NOWHERE, labels={"team": team})
    process = site.start(f"--watch-label-selector=team={team}", *more)
    until(site, name or team, tied=True)
    return process


def until(site: Site, name: str, *, tied: bool) -> None:
    eventually(
        lambda: finalizers(site, name) == [FINALIZER] * tied,
        PATIENCE,
        lambda: f"{name} has {finalizers(site, name)}:\n{site.tail()}",
    )


def remove_finalizers(site: Site, *flags: str, namespaces: Sequence[str] = ()) -> tuple[int | None, str]:
    """The exit code, and the whole output."""
    watched = ",".join((site.namespace, *namespaces))
    process = site.start("--remove-finalizers", f"--watch-namespaces={watched}", *flags)
    assert process.wait(PATIENCE), process.tail()
    return process.returncode, process.log.read_text()


def test_a_changed_selector_removes_the_finalizer_of_what_no_longer_fits(site: Site) -> None:
    tie(site, "north").stop()
    tie(site, "south")
    until(site, "north", tied=False)
    assert "deletionTimestamp" not in site.get("Stoker", "north")["metadata"]
    assert "resource.unselected" in site.tail()
    assert finalizers(site, "south") == [FINALIZER]


def test_a_label_that_is_lost_while_no_watch_runs_is_noticed_later(site: Site) -> None:
    tie(site, "north").stop()
    site.patch(site.path_of("Stoker", "north"), {"metadata": {"labels": {"team": "none"}}})
    site.start("--watch-label-selector=team=north")
    until(site, "north", tied=False)


def test_a_changed_selector_leaves_what_another_release_has_tied(site: Site, other_home: str) -> None:
    tie(site, "east", f"--lease-namespace={other_home}").stop()
    tie(site, "north").stop()
    assert [tied_by(site, name) for name in ("east", "north")] == [
        {f"stoker-controller/{other_home}"},
        {f"stoker-controller/{site.namespace}"},
    ]
    tie(site, "south")
    until(site, "north", tied=False)  # of all that are found it is the last
    assert finalizers(site, "east") == [FINALIZER]
    code, result = remove_finalizers(site, "--watch-label-selector=team=west")
    assert code == 0, result
    assert [finalizers(site, name) for name in ("east", "south")] == [[FINALIZER], []]


def test_what_another_release_works_on_by_now_is_tied_by_that_one(site: Site, other_home: str) -> None:
    tie(site, "north").stop()
    taking = site.start("--watch-label-selector=team=north", f"--lease-namespace={other_home}")
    eventually(lambda: '"pass.ended"' in taking.tail(), PATIENCE, taking.tail)
    assert tied_by(site, "north") == {f"stoker-controller/{site.namespace}"}
    tie(site, "south")
    eventually(lambda: tied_by(site, "north") == {f"stoker-controller/{other_home}"}, PATIENCE, site.tail)
    assert finalizers(site, "north") == [FINALIZER]


def test_an_uninstall_after_a_changed_selector_removes_both_finalizers(site: Site) -> None:
    tie(site, "north").stop()
    site.apply("Stoker", "stranger", git=NOWHERE, labels={"team": "east"})
    site.patch(site.path_of("Stoker", "stranger"), {"metadata": {"finalizers": [FINALIZER]}})
    site.apply("Stoker", "south", git=NOWHERE, labels={"team": "south"})
    site.patch(site.path_of("Stoker", "south"), {"metadata": {"finalizers": [FINALIZER]}})
    code, result = remove_finalizers(site, "--watch-label-selector=team=south")
    assert code == 0, result
    left = {name: finalizers(site, name) for name in ("north", "south", "stranger")}
    assert left == {"north": [], "south": [], "stranger": [FINALIZER]}


@pytest.fixture
def neighbour(kinds: ClusterAccess, site: Site) -> Iterator[Site]:
    """A namespace with a resource of ours in it, and without the Role that we had there."""
    name = f"neighbour-{uuid.uuid4().hex[:8]}"
    kinds.create_namespace(name)
    made = Site(kinds, name, site.folder)
    for one in (made, site):
        one.apply("Stoker", "line", git=NOWHERE)
        one.patch(one.path_of("Stoker", "line"), {"metadata": {"finalizers": [FINALIZER]}})
    yield made
    made.patch(made.path_of("Stoker", "line"), {"metadata": {"finalizers": None}})


def may_look_at(site: Site, *namespaces: str) -> None:
    """What the chart grants while a release is uninstalled."""
    rule = {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": namespaces, "verbs": ["get"]}
    meta = {"metadata": {"name": f"{site.namespace}-remove-finalizers"}}
    subject = {"kind": "ServiceAccount", "name": CONTROLLER, "namespace": site.namespace}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **meta["metadata"]}
    for plural, body in (
        ("clusterroles", {"rules": [rule]}),
        ("clusterrolebindings", {"roleRef": ref, "subjects": [subject]}),
    ):
        assert site.cluster.request("POST", f"{RBAC}/{plural}", {**meta, **body}).status == 201


def test_a_namespace_that_is_gone_holds_up_no_letting_go(site: Site, neighbour: Site) -> None:
    may_look_at(site, "gone", neighbour.namespace)
    code, result = remove_finalizers(site, namespaces=["gone"])
    assert code == 0, result
    assert finalizers(site, "line") == []
    assert '"namespace.gone"' in result


def test_a_terminating_namespace_holds_up_no_finalizer_removal_and_is_reported(
    site: Site, neighbour: Site
) -> None:
    may_look_at(site, neighbour.namespace)
    gone = site.cluster.request("DELETE", f"/api/v1/namespaces/{neighbour.namespace}")
    assert gone.status in (200, 202), gone.body
    code, result = remove_finalizers(site, namespaces=[neighbour.namespace])
    assert code == 0, result
    [lines] = [line for line in result.splitlines() if '"namespace.ending"' in line]
    assert neighbour.namespace in lines
    assert finalizers(site, "line") == []


@pytest.mark.parametrize("sees", [True, False])
def test_a_namespace_that_is_there_and_refuses_is_named_and_the_rest_remove_finalizers(
    site: Site, neighbour: Site, sees: bool
) -> None:
    if sees:
        may_look_at(site, neighbour.namespace)
    code, result = remove_finalizers(site, namespaces=[neighbour.namespace])
    assert code not in (0, None), result
    why = (
        "exists and denies access"
        if sees
        else "denies access, and it is unknown whether the namespace still exists"
    )
    assert f"namespace {neighbour.namespace} {why}" in result
    assert (finalizers(site, "line"), finalizers(neighbour, "line")) == ([], [FINALIZER])

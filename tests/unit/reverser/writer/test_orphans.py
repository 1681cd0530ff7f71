"""Orphans in a branch, and files that are never called one."""

from __future__ import annotations

from typing import Any

from stoker.kube.client.resources import ApiResource
from stoker.kube.client.served_kinds import KindCatalog, ServedResource, UnavailableGroupVersion, prefer_first
from stoker.reverser.manifest.path import ManifestKey, manifest_path
from stoker.reverser.selection.rules import (
    ChangeOperation,
    DestinationRef,
    RuleRef,
    RuleResource,
    SelectionRule,
)
from stoker.reverser.selection.selection import Selection, WatchedKind, select_objects
from stoker.reverser.writer.orphans import OrphanSweep, find_orphans

TO = DestinationRef("system", "prod")
BASE = "clusters/prod"
VERBS = frozenset({"list", "watch"})
MAPS = ApiResource("", "v1", "configmaps", "ConfigMap", namespaced=True)
WEB = ApiResource("example.test", "v2", "webs", "Web", namespaced=True)


def selection(
    *, rules: list[SelectionRule] | None = None, complete: bool = True, served: Any = (MAPS, WEB)
) -> Selection:
    gone = () if complete else (UnavailableGroupVersion("down.test/v1", "it is down"),)
    catalog = KindCatalog(tuple(prefer_first([ServedResource(each, VERBS) for each in served])), gone)
    return select_objects(
        rules if rules is not None else [rule("configmaps"), rule("webs.example.test")], catalog
    )


def rule(name: str, **more: Any) -> SelectionRule:
    source = RuleRef("WatchRule", "shop", "r")
    return SelectionRule(source, TO, (RuleResource.of(name),), namespaced=True, namespace="shop", **more)


def path(
    resource: str = "configmaps", name: str = "gone", group: str = "", version: str = "v1", ns: str = "shop"
) -> str:
    return manifest_path(ManifestKey(group, version, resource, ns, name), BASE)


def swept(paths: list[str], chosen: Selection | None = None, *, shows: bool | None = False) -> OrphanSweep:
    def is_shown(watched: WatchedKind, key: ManifestKey) -> bool | None:
        return shows

    return find_orphans(paths, BASE, TO, chosen or selection(), is_shown)


def test_a_file_that_its_list_does_not_show_is_an_orphan() -> None:
    found = swept([path()])
    assert [orphan.path for orphan in found.orphans] == [path()]
    assert found.orphans[0].kind == "ConfigMap"


def test_a_living_object_keeps_its_file() -> None:
    assert swept([path()], shows=True).orphans == ()


def test_a_list_that_is_not_in_says_nothing() -> None:
    found = swept([path()], shows=None)
    assert (found.orphans, found.undecided) == ((), 1)


def test_foreign_files_are_never_looked_at() -> None:
    foreign = [f"{BASE}/README.md", f"{BASE}/core/v1/configmaps/shop/x.txt", "elsewhere/core/v1/a/b/c.yaml"]
    assert swept([*foreign, f"{BASE}/.configbutler/owner.yaml"]).orphans == ()


def test_a_rule_that_went_leaves_its_files() -> None:
    assert swept([path("services")]).orphans == ()
    assert swept([path()], selection(rules=[])).orphans == ()


def test_another_namespace_is_not_ours() -> None:
    assert swept([path(ns="elsewhere")]).orphans == ()


def test_a_rule_without_delete_keeps_files() -> None:
    keeping = rule("configmaps", operations=frozenset({ChangeOperation.CREATE}))
    assert swept([path()], selection(rules=[keeping])).orphans == ()


def test_a_kind_that_is_gone_takes_its_files_along_only_after_a_complete_discovery() -> None:
    things = [path("things", group="down.test")]
    rules = [rule("things.down.test")]
    found = swept(things, selection(rules=rules, served=(MAPS,)), shows=None)
    assert [orphan.kind for orphan in found.orphans] == [""]
    assert swept(things, selection(rules=rules, served=(MAPS,), complete=False), shows=None).orphans == ()


def test_a_file_of_an_older_version_is_judged_by_the_list_of_the_version_of_now() -> None:
    old = path("webs", group="example.test", version="v1")
    asked: list[str] = []

    def shows(watched: WatchedKind, key: ManifestKey) -> bool | None:
        asked.append(watched.resource.version)
        return False

    assert find_orphans([old], BASE, TO, selection(), shows).orphans != ()
    assert asked == ["v2"]


def test_orphans_come_in_the_order_of_their_paths() -> None:
    found = swept([path(name=f"n{n}") for n in (3, 1, 2)])
    assert [orphan.key.name for orphan in found.orphans] == ["n1", "n2", "n3"]

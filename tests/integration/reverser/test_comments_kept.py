"""People's comments in a written file stay as long as the object does not change."""

from __future__ import annotations

import pytest

from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.reverser_environment import ReverserSite, files_of


@pytest.mark.smoke
def test_a_comment_stays_until_the_object_changes(site: ReverserSite, prod: Repository) -> None:
    site.follow_maps()
    for name in ("prices", "hours"):
        site.config_map(name, {"bread": "2"})
    site.start("--branch-refresh=1s")
    path, other = site.map_path("prices"), site.map_path("hours")
    files = site.until_files(prod, {path: "bread", other: "bread"})
    commented = b"# ask Ada before you change this\n" + files[path]
    # Both in one push: when the other file is ours again, the reverser has looked at this one, too.
    prod.commit({path: commented.decode(), other: files[other].decode().replace('"2"', '"9"')})
    site.until_files(prod, {other: 'bread: "2"'})
    assert files_of(prod)[path] == commented
    site.config_map("probe")
    site.until_files(prod, {site.map_path("probe"): "value"})
    assert files_of(prod)[path] == commented
    site.config_map("prices", {"bread": "3"})
    files = site.until_files(prod, {path: 'bread: "3"'})
    assert b"Ada" not in files[path]


@pytest.mark.smoke
def test_a_comment_survives_a_restart_of_the_reverser(site: ReverserSite, prod: Repository) -> None:
    site.follow_maps()
    site.config_map("prices", {"bread": "2"})
    first = site.start()
    path = site.map_path("prices")
    content = site.until_files(prod, {path: "bread"})[path]
    first.stop()
    prod.commit({path: "# mine\n" + content.decode()})
    site.config_map("probe")
    site.start()
    site.until_files(prod, {site.map_path("probe"): "value"})
    site.until("WatchRule", "maps", "Initialized")
    site.config_map("probe", {"key": "second"})
    site.until_files(prod, {site.map_path("probe"): "second"})
    assert files_of(prod)[path].startswith(b"# mine\n")

"""Ignored drift: neither reported nor restored; over real git and a real disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.jobs import SyncJob, SyncOptions
from stoker.agent.sync.open_source import open_keeper
from stoker.domain.intent.files import FileMapping, FilesIntent
from stoker.domain.intent.policies import DriftIgnorePolicy
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.refs import GitRef, RepoUrl
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer

SETTINGS = {"name": "{{.GatewayName}}", "lastSeen": 1, "nested": {"a/b": [1, 2], "kept": True}}


class Site:
    def __init__(self, folder: Path, server: GitHttpServer) -> None:
        self.repository = Repository.create(server.root / "plant.git")
        self.data = folder / "data"
        self.data.mkdir()
        self.job = SyncJob(
            SourceIntent(RepoUrl(server.url("plant.git")), GitRef("main")),
            FilesIntent((FileMapping("s", "projects"), FileMapping("t", "config", template=True))),
            TemplateValues(gateway_name="filler"),
            self.data,
            folder / "cache",
        )

    def folder_sync(self, *rules: DriftIgnorePolicy) -> FolderSync:
        return open_keeper(self.job._replace(ignore=rules))

    def write(self, path: str, content: str) -> None:
        (self.data / path).parent.mkdir(parents=True, exist_ok=True)
        (self.data / path).write_text(content)

    def read(self, path: str) -> str | None:
        place = self.data / path
        return place.read_text() if place.exists() else None


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with GitHttpServer.start(tmp_path / "served") as server:
        yield Site(tmp_path, server)


async def test_an_ignored_file_is_neither_reported_nor_restored(site: Site) -> None:
    site.repository.commit({"s/a/log.txt": "1", "s/a/gone.txt": "1", "s/a/view.json": "1"})
    folder_sync = site.folder_sync(DriftIgnorePolicy("projects/**/*.txt"))
    await folder_sync.sync()
    site.write("projects/a/log.txt", "theirs")
    (site.data / "projects/a/gone.txt").unlink()
    site.write("projects/a/new.txt", "theirs")
    assert not (await folder_sync.verify()).drift
    report = await folder_sync.sync()
    assert not report.plan.actions
    assert not report.drift
    site.write("projects/a/view.json", "theirs")
    site.write("projects/a/stranger.json", "theirs")
    found = (await folder_sync.verify()).drift
    assert (found.modified, found.extra) == (("projects/a/view.json",), ("projects/a/stranger.json",))
    report = await folder_sync.sync()
    assert (report.done.modified, report.done.deleted) == (("projects/a/view.json",), ())
    assert report.drift_left.extra == ("projects/a/stranger.json",)
    assert (site.read("projects/a/log.txt"), site.read("projects/a/new.txt")) == ("theirs", "theirs")
    assert site.read("projects/a/gone.txt") is None


async def test_what_a_first_contact_keeps_is_no_drift(site: Site) -> None:
    site.repository.commit({"s/a/view.json": "1"})
    folder_sync = site.folder_sync()
    await folder_sync.sync()
    site.write("projects/a/made.json", "by the gateway's first boot")
    report = await folder_sync.sync(SyncOptions(walk=True, first_contact=True))
    assert (report.plan.not_ours, bool(report.drift)) == (("projects/a/made.json",), False)


async def test_without_the_rule_the_same_is_drift(site: Site) -> None:
    site.repository.commit({"s/a/log.txt": "1"})
    folder_sync = site.folder_sync()
    await folder_sync.sync()
    site.write("projects/a/log.txt", "theirs")
    assert (await folder_sync.verify()).drift.modified == ("projects/a/log.txt",)
    await folder_sync.sync()
    assert site.read("projects/a/log.txt") == "1"


async def test_what_the_source_changes_is_written_although_it_is_ignored(site: Site) -> None:
    site.repository.commit({"s/log.txt": "1", "s/other.txt": "1", "s/x": "1"})
    folder_sync = site.folder_sync(DriftIgnorePolicy("**/*.txt"))
    await folder_sync.sync()
    site.write("projects/log.txt", "theirs")
    site.write("projects/other.txt", "theirs")
    site.repository.commit({"s/log.txt": "2", "s/other.txt": None})
    await folder_sync.sync()
    assert site.read("projects/log.txt") == "2"
    assert site.read("projects/other.txt") is None


async def test_a_change_of_settings_restores_nothing_that_is_ignored(site: Site) -> None:
    site.repository.commit({"s/log.txt": "1", "t/log.txt": "{{.GatewayName}}", "s/x": "1"})
    await site.folder_sync().sync()
    site.write("projects/log.txt", "theirs")
    site.write("config/log.txt", "theirs")
    site.job = site.job._replace(values=TemplateValues(gateway_name="filler", vars={"line": "7"}))
    await site.folder_sync(DriftIgnorePolicy("**/*.txt")).sync()
    assert (site.read("projects/log.txt"), site.read("config/log.txt")) == ("theirs", "theirs")


@pytest.mark.parametrize("place", ["projects", "config"], ids=["as it is", "made from a template"])
async def test_only_the_value_at_a_pointer_is_ignored(site: Site, place: str) -> None:
    folder = {"projects": "s", "config": "t"}[place]
    text = json.dumps(SETTINGS)
    site.repository.commit({f"{folder}/set.json": text, f"{folder}/x": "1"})
    path = f"{place}/set.json"
    folder_sync = site.folder_sync(
        DriftIgnorePolicy(path, "/lastSeen"), DriftIgnorePolicy(path, "/nested/a~1b/1")
    )
    await folder_sync.sync()
    before = site.read(path)
    assert before is not None
    live = {**json.loads(before), "lastSeen": 99}
    live["nested"] = {"kept": True, "a/b": [1]}
    site.write(path, json.dumps(live, indent=2))
    assert not (await folder_sync.verify()).drift
    report = await folder_sync.sync()
    assert not report.plan.actions
    assert site.read(path) == json.dumps(live, indent=2)
    assert not (await folder_sync.sync(SyncOptions(walk=True))).plan.actions
    live["nested"]["kept"] = 1  # which is not true, although Python thinks so
    site.write(path, json.dumps(live))
    assert (await folder_sync.verify()).drift.modified == (path,)
    report = await folder_sync.sync()
    assert report.done.modified == (path,)
    assert site.read(path) == before, "the file is restored as a whole"


@pytest.mark.parametrize("content", ["{", '{"lastSeen": 1, "lastSeen": 2}', "[]", ""])
async def test_what_is_no_such_document_is_drift(site: Site, content: str) -> None:
    site.repository.commit({"s/set.json": json.dumps(SETTINGS), "s/x": "1"})
    folder_sync = site.folder_sync(DriftIgnorePolicy("**/set.json", "/lastSeen"))
    await folder_sync.sync()
    site.write("projects/set.json", content)
    assert (await folder_sync.verify()).drift.modified == ("projects/set.json",)
    await folder_sync.sync()
    assert site.read("projects/set.json") == json.dumps(SETTINGS)

"""A gateway's own files are safe in every direction, also where its folder mirrors git."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.agent.rollback import scope
from stoker.agent.sync.folder import FolderSync, verify_folder
from stoker.agent.sync.jobs import SyncJob, SyncOptions
from stoker.agent.sync.open_source import open_keeper
from stoker.domain.git_objects import FileVersion, blob_of
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.files import DeletionPolicy, ExcludePolicy, FileMapping, FilesIntent, OrphanPolicy
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.refs import GitRef, RepoUrl
from stoker.engine.layout.reverse_map import CapturablePaths, gateway_changes
from stoker.engine.plan.ledger import Ledger, encode_record
from stoker.fs.data_folder import DataFolder
from stoker_testkit.gateway.simulated_gateway import SimulatedGateway
from stoker_testkit.repositories.bare_repository import Repository

KEYS = "config/ignition/keys/gateway.key"
VALUES = "config/ignition/tags/valueStore.idb"
OWN = (KEYS, VALUES, f"{VALUES}-wal", "gateway.xml", "ignition.conf", "modules.json", "var/state")
MIRROR = DeletionPolicy(orphans=OrphanPolicy.MIRROR)


class Site:
    """A gateway that was started on a folder, and the repository of its configuration."""

    def __init__(self, place: Path) -> None:
        self.repository = Repository.create(place / "plant.git")
        self.data = place / "data"
        self.cache = place / "cache"
        for name in OWN[2:]:
            self.put(name, "the gateway's")

    def put(self, path: str, text: str) -> None:
        (self.data / path).parent.mkdir(parents=True, exist_ok=True)
        (self.data / path).write_text(text)

    def folder_sync(self, *mappings: FileMapping) -> FolderSync:
        source = SourceIntent(RepoUrl(self.repository.path.as_uri()), GitRef("main"))
        files = FilesIntent(mappings, deletion=MIRROR)
        return open_keeper(SyncJob(source, files, TemplateValues(), self.data, self.cache))

    def own(self) -> dict[str, bytes]:
        return {path: (self.data / path).read_bytes() for path in OWN}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with SimulatedGateway.start(tmp_path / "data", scan_seconds=0.0, commissions=True):
        yield Site(tmp_path)


async def test_a_mirrored_config_folder_keeps_the_keys_and_tag_values_of_the_gateway(site: Site) -> None:
    site.repository.commit({"config/resources/core/a/resource.json": "{}", "config/b": "1"})
    folder_sync = site.folder_sync(FileMapping("config", "config"))
    before = site.own()
    await folder_sync.sync()
    site.put("config/theirs", "x")
    site.repository.commit({"config/b": None})
    report = await folder_sync.sync()
    assert [str(path) for path in report.done.deleted] == ["config/b", "config/theirs"]
    kept = report.plan.orphans_kept
    assert kept, "what was there before the first sync is deleted only by its approved plan"
    assert not set(OWN).intersection(kept)
    planned = await folder_sync.sync(SyncOptions(dry_run=True))
    assert (
        await folder_sync.sync(SyncOptions(approved=frozenset({PlanApproval(planned.plan.digest)})))
    ).done.deleted == kept
    assert site.own() == before
    assert not (await verify_folder(site.data)).drift, "nor is it drift"


async def test_what_git_holds_of_it_is_left_out_by_name(site: Site) -> None:
    site.repository.commit(dict.fromkeys(OWN, "from git") | {"projects/P/project.json": "{}"})
    before = site.own()
    report = await site.folder_sync(FileMapping(".", ".")).sync()
    assert {note.path for note in report.plan.skipped} >= set(OWN)
    assert all(note.why.startswith("is never written: ") for note in report.plan.skipped)
    assert site.own() == before
    assert (site.data / "projects/P/project.json").exists()


def test_no_snapshot_holds_it(site: Site) -> None:
    ledger = Ledger(dict.fromkeys(OWN, encode_record(FileVersion(blob_of(b"1")))))
    with DataFolder.opened(site.data) as folder:
        all_of_it = scope.all_reachable_files(folder, ledger, lambda _: True, lambda: False)
        managed = scope.managed_files(folder, ledger, ("projects/x", *OWN), lambda _: True, lambda: False)
    held = {one.path for one in (*all_of_it.files, *managed.files)}
    assert held.isdisjoint(OWN)
    assert held, "the gateway's other files are there"


def test_no_change_of_it_flows_back_to_git() -> None:
    seen = dict.fromkeys((*OWN, "config/resources/core/x"), encode_record(FileVersion(blob_of(b"2"))))
    changes = gateway_changes(seen, Ledger(), CapturablePaths(("**",), (), ExcludePolicy()))
    assert set(changes) == {"config/resources/core/x"}

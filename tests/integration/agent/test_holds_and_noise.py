"""Syncs that leave paths alone: because a Designer works there, or because a difference means nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.hooks import SyncChange
from stoker.agent.sync.jobs import SyncJob, SyncOptions, SyncResult
from stoker.agent.sync.open_source import open_keeper
from stoker.domain import failpoints
from stoker.domain.clock import SystemClock
from stoker.domain.errors import Stalled
from stoker.domain.git_objects import HeldPath, PathNote
from stoker.domain.intent.files import BinaryPolicy, FileMapping, FilesIntent
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.fs.apply_plan import ApplyResult
from stoker.fs.data_folder import DataFolder
from stoker.fs.ledger_store import LedgerStore
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.gateway import GatewayClient
from stoker.ignition.content.noise import ResourceNoise
from stoker.ignition.sync.first_boot import FirstBoot
from stoker.ignition.sync.gateway_hook import GatewayHook
from stoker.ignition.sync.readiness import GatewayReadiness
from stoker.ignition.sync.state_files import StateFiles
from stoker_testkit.faults.failpoints import FailpointAction, arm
from stoker_testkit.repositories.bare_repository import Repository


@dataclass
class FakeDesignerSessions:
    """Who has which project open; counts how often it was asked."""

    busy: dict[str, str] = field(default_factory=dict)
    asked: int = 0
    needs_second_sync: bool = False
    first_boot: FirstBoot = field(default_factory=lambda: first_boot_at(Path("nowhere")))
    meanwhile: Callable[[], None] = lambda: None
    changes: list[tuple[str, ...]] = field(default_factory=list)

    async def hold(self, change: SyncChange) -> tuple[HeldPath, ...]:
        return tuple(
            HeldPath(f"projects/{name}", f"{user} has it open", user) for name, user in self.busy.items()
        )

    @asynccontextmanager
    async def around(self, change: SyncChange) -> AsyncIterator[None]:
        self.changes.append(tuple(str(action) for action in change.plan.actions))
        self.meanwhile()
        yield

    async def after(self, change: SyncChange, applied: ApplyResult) -> tuple[PathNote, ...]:
        return ()

    async def settle(self) -> tuple[PathNote, ...]:
        return ()

    async def still_held(self, held: Sequence[HeldPath]) -> bool:
        self.asked += 1
        return {one.place for one in held} <= {f"projects/{name}" for name in self.busy}

    async def fitting(self, files: FilesIntent, *, dry_run: bool) -> FilesIntent:
        return files

    def commissioned(self) -> None:
        self.needs_second_sync = False

    async def aclose(self) -> None:
        return None


def first_boot_at(state_dir: Path) -> FirstBoot:
    """A first boot that was watched and has just ended."""
    address = GatewayAddress.parse("http://127.0.0.1:1")
    readiness = GatewayReadiness(GatewayClient(address, lambda: Secret("")), SystemClock())
    readiness.not_running()
    readiness.answered()
    return FirstBoot(StateFiles(state_dir), readiness)


@dataclass
class Plant:
    repository: Repository
    job: SyncJob
    designers: FakeDesignerSessions = field(default_factory=FakeDesignerSessions)

    def folder_sync(self, *, noise: bool = False, gateway: bool = False) -> FolderSync:
        return open_keeper(
            self.job,
            hooks=(self.designers,),
            gateway=cast("GatewayHook", self.designers) if gateway else None,
            noise=ResourceNoise() if noise else None,
        )

    def read(self, path: str) -> str:
        return (self.job.data_dir / path).read_text()

    def write(self, path: str, content: str) -> None:
        (self.job.data_dir / path).write_text(content)

    def held(self) -> Collection[str]:
        with DataFolder.opened(self.job.data_dir) as folder:
            ledger = LedgerStore.load(folder).ledger
        assert ledger is not None
        return ledger.held


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    repository = Repository.create(tmp_path / "plant.git")
    (tmp_path / "data").mkdir()
    job = SyncJob(
        SourceIntent(RepoUrl(f"file://{repository.path}"), GitRef("main")),
        FilesIntent((FileMapping("projects", "projects"),)),
        TemplateValues(gateway_name="filler"),
        tmp_path / "data",
        tmp_path / "cache",
    )
    return Plant(repository, job)


async def test_a_busy_project_waits_while_the_others_go_on(plant: Plant) -> None:
    first = plant.repository.commit({"projects/A/x": "1", "projects/B/x": "1", "projects/B/gone": "1"})
    folder_sync = plant.folder_sync()
    await folder_sync.sync()
    plant.repository.commit({"projects/A/x": "2", "projects/B/x": "2", "projects/B/gone": None})
    plant.designers.busy["B"] = "anna"
    report = await folder_sync.sync(SyncOptions(walk=False))
    assert report.result is SyncResult.HELD
    assert (plant.read("projects/A/x"), plant.read("projects/B/x")) == ("2", "1")
    assert plant.read("projects/B/gone") == "1"
    assert plant.held() == {f"{first} projects/B"}
    assert json.loads(json.dumps(report.as_json()))["held"] == [
        {"path": "projects/B", "message": "anna has it open", "user": "anna"}
    ]
    assert "held projects/B: anna has it open" in list(report.lines())


async def test_what_was_held_follows_when_it_is_free(plant: Plant) -> None:
    plant.repository.commit({"projects/A/x": "1", "projects/B/x": "1", "projects/B/gone": "1"})
    await plant.folder_sync().sync()
    plant.repository.commit({"projects/A/x": "2", "projects/B/x": "2", "projects/B/gone": None})
    plant.designers.busy["B"] = "anna"
    await plant.folder_sync().sync(SyncOptions(walk=False))
    plant.designers.busy.clear()
    report = await plant.folder_sync().sync(SyncOptions(walk=False))
    assert report.result is SyncResult.DONE
    assert plant.read("projects/B/x") == "2"
    assert not (plant.job.data_dir / "projects/B/gone").exists()
    assert plant.held() == frozenset()


async def test_a_project_held_over_several_commits_is_known_by_the_one_that_it_is_at(plant: Plant) -> None:
    first = plant.repository.commit({"projects/A/x": "1", "projects/B/x": "1"})
    await plant.folder_sync().sync()
    plant.designers.busy["B"] = "anna"
    for number in "234":
        plant.repository.commit({"projects/A/x": number, "projects/B/x": number})
        await plant.folder_sync().sync(SyncOptions(walk=False))
    assert plant.held() == {f"{first} projects/B"}
    assert (plant.read("projects/A/x"), plant.read("projects/B/x")) == ("4", "1")


async def test_while_the_same_designers_work_no_sync_is_made(plant: Plant) -> None:
    plant.repository.commit({"projects/A/x": "1", "projects/B/x": "1"})
    await plant.folder_sync().sync()
    commit = CommitId(plant.repository.commit({"projects/A/x": "2", "projects/B/x": "2"}))
    plant.designers.busy["B"] = "anna"
    folder_sync = plant.folder_sync(gateway=True)
    options = SyncOptions(walk=False, commit=commit)
    report = await folder_sync.sync(options)
    assert await folder_sync.sync(options) is report
    assert plant.designers.asked == 1
    plant.designers.busy.clear()
    assert (await folder_sync.sync(options)).result is SyncResult.DONE
    assert plant.read("projects/B/x") == "2"


async def test_files_that_a_first_boot_left_behind_are_met_once_and_never_deleted(plant: Plant) -> None:
    plant.repository.commit({"projects/A/x": "1"})
    folder_sync = plant.folder_sync(gateway=True)
    await folder_sync.sync(SyncOptions())
    plant.write("projects/A/x", "made by the boot")
    plant.write("projects/A/stranger", "made by the boot")
    plant.designers.first_boot = first_boot_at(plant.job.data_dir / ".sync-state")
    plant.designers.needs_second_sync = True
    report = await folder_sync.sync(SyncOptions(walk=False))
    assert plant.read("projects/A/x") == "1"
    assert list(report.plan.not_ours) == ["projects/A/stranger"]
    assert not report.drift.extra, "it was there before the gateway's second sync"
    assert not plant.designers.needs_second_sync
    assert not (await folder_sync.sync(SyncOptions())).drift
    assert plant.read("projects/A/stranger") == "made by the boot"


async def test_code_for_the_gateway_is_written_only_where_the_policy_allows_it(plant: Plant) -> None:
    plant.repository.commit({"projects/A/data.bin": "1", "projects/A/x": "1"})
    for policy in (BinaryPolicy.REFUSE, BinaryPolicy.REQUIRE_SIGNED):
        with pytest.raises(Stalled, match=r"projects/A/data\.bin") as refused:
            await open_keeper(plant.job._replace(binaries=policy)).sync()
        assert refused.value.reason is Reason.BINARY_REFUSED
        assert not (plant.job.data_dir / "projects").exists()
    await plant.folder_sync().sync()
    plant.repository.commit({"projects/A/x": "2"})
    report = await open_keeper(plant.job._replace(binaries=BinaryPolicy.REFUSE)).sync()
    assert report.files_changed == 1, "what was there before may stay"


async def test_a_sync_that_forgets_its_ledger_while_it_runs_still_knows_what_it_wrote(plant: Plant) -> None:
    plant.repository.commit({"projects/A/x": "1"})
    folder_sync = plant.folder_sync()
    plant.designers.meanwhile = folder_sync.forget
    await folder_sync.sync()
    assert folder_sync.ledger is not None
    assert set(folder_sync.ledger.files) == {"projects/A/x"}


def manifest(actor: str, **more: object) -> str:
    attributes = {
        "lastModification": {"actor": actor, "timestamp": "2026-01-01T00:00:00Z"},
        "lastModificationSignature": actor * 4,
    }
    content: Mapping[str, object] = {
        "scope": "G",
        "version": 1,
        "restricted": False,
        "overridable": True,
        "files": ["view.json"],
        "attributes": attributes,
    }
    return json.dumps({**content, **more})


VIEW = "projects/A/views/main"


async def test_a_resource_of_which_only_the_last_actor_changed_is_not_written(plant: Plant) -> None:
    plant.repository.commit({f"{VIEW}/resource.json": manifest("anna"), f"{VIEW}/view.json": "{}"})
    folder_sync = plant.folder_sync(noise=True)
    await folder_sync.sync()
    plant.repository.commit({f"{VIEW}/resource.json": manifest("bert"), "projects/A/x": "1"})
    report = await folder_sync.sync(SyncOptions(walk=False))
    assert (list(report.done.added), list(report.done.modified)) == (["projects/A/x"], [])
    assert "anna" in plant.read(f"{VIEW}/resource.json")
    report = await folder_sync.sync()
    assert not report.files_changed
    assert not report.drift
    plant.repository.commit({f"{VIEW}/resource.json": manifest("bert", documentation="new")})
    assert (await folder_sync.sync(SyncOptions(walk=False))).files_changed == 1
    assert "documentation" in plant.read(f"{VIEW}/resource.json")


async def test_a_gateway_that_signs_its_resources_anew_has_not_drifted(plant: Plant) -> None:
    plant.repository.commit({f"{VIEW}/resource.json": manifest("anna"), f"{VIEW}/view.json": "{}"})
    folder_sync = plant.folder_sync(noise=True)
    await folder_sync.sync()
    plant.write(f"{VIEW}/resource.json", manifest("external"))
    assert (await folder_sync.verify()).clean
    report = await folder_sync.sync()
    assert (report.files_changed, bool(report.drift)) == (0, False)
    assert "external" in plant.read(f"{VIEW}/resource.json")


async def test_a_real_change_beside_the_noise_takes_all_of_the_resource_back(plant: Plant) -> None:
    plant.repository.commit({f"{VIEW}/resource.json": manifest("anna"), f"{VIEW}/view.json": "{}"})
    folder_sync = plant.folder_sync(noise=True)
    await folder_sync.sync()
    plant.write(f"{VIEW}/resource.json", manifest("external"))
    await folder_sync.sync()
    plant.write(f"{VIEW}/resource.json", manifest("carl"))
    plant.write(f"{VIEW}/view.json", '{"mine": 1}')
    found = (await folder_sync.verify()).drift
    assert set(found.modified) == {f"{VIEW}/resource.json", f"{VIEW}/view.json"}
    report = await folder_sync.sync()
    assert report.files_changed == 2
    assert "anna" in plant.read(f"{VIEW}/resource.json")
    assert plant.read(f"{VIEW}/view.json") == "{}"


async def test_data_that_came_without_its_announcement_is_no_noise(plant: Plant) -> None:
    """A gateway takes a resource up when its `resource.json` changes, whatever else it says."""
    plant.repository.commit({f"{VIEW}/resource.json": manifest("anna"), f"{VIEW}/view.json": "{}"})
    await plant.folder_sync(noise=True).sync()
    plant.repository.commit({f"{VIEW}/resource.json": manifest("bert"), f"{VIEW}/view.json": '{"new": 1}'})
    arm(FailpointAction("rename.before", 2, "eio"))
    try:
        assert (
            await plant.folder_sync(noise=True).sync(SyncOptions(walk=False))
        ).result is SyncResult.PARTIAL
    finally:
        failpoints.listen(None)
    assert "new" in plant.read(f"{VIEW}/view.json")
    assert "anna" in plant.read(f"{VIEW}/resource.json")
    report = await plant.folder_sync(noise=True).sync(SyncOptions(walk=False))
    assert list(report.done.modified) == [f"{VIEW}/resource.json"]
    assert "bert" in plant.read(f"{VIEW}/resource.json")


async def test_without_a_gateway_every_byte_counts(plant: Plant) -> None:
    plant.repository.commit({f"{VIEW}/resource.json": manifest("anna"), f"{VIEW}/view.json": "{}"})
    folder_sync = plant.folder_sync()
    await folder_sync.sync()
    plant.repository.commit({f"{VIEW}/resource.json": manifest("bert")})
    assert (await folder_sync.sync(SyncOptions(walk=False))).files_changed == 1

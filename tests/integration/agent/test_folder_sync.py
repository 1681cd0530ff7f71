"""A folder sync over many runs: real git over http, a real disk, and only as much work as there is to do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stoker.agent.sync.contents import FEW
from stoker.agent.sync.folder import FolderSync, verify_folder
from stoker.agent.sync.hooks import SyncChange
from stoker.agent.sync.jobs import SyncJob, SyncOptions
from stoker.agent.sync.open_source import open_keeper
from stoker.domain.errors import Retry, Stalled
from stoker.domain.git_objects import HeldPath, PathNote
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.files import (
    DeletionPolicy,
    ExcludePolicy,
    FieldTemplate,
    FileMapping,
    FilePatch,
    FilesIntent,
    OrphanPolicy,
    TransformPolicy,
)
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.fs.apply_plan import SYNC_EACH, ApplyResult
from stoker_testkit.repositories.bare_repository import WHEN, Repository, executable, submodule, symlink
from stoker_testkit.repositories.git_http_server import GitHttpServer

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 1\n"


MIRROR = DeletionPolicy(orphans=OrphanPolicy.MIRROR)


class Plant:
    """A repository behind a server, and a gateway's data folder that follows it."""

    def __init__(self, folder: Path, server: GitHttpServer) -> None:
        self.server = server
        self.repository = Repository.create(server.root / "plant.git")
        self.data = folder / "data"
        self.data.mkdir()
        self.job = SyncJob(
            SourceIntent(RepoUrl(server.url("plant.git")), GitRef("main")),
            FilesIntent((FileMapping("s", "projects"), FileMapping("overlay", "projects"))),
            TemplateValues(gateway_name="filler", vars={"line": "7"}),
            self.data,
            folder / "cache",
        )

    def folder_sync(self, **changes: object) -> FolderSync:
        return open_keeper(self.job._replace(files=self.job.files._replace(**changes)))  # type: ignore[arg-type]

    def stamps(self) -> dict[Path, tuple[int, int, int]]:
        """What any write would change; looking at a folder changes its access time alone."""
        found = {path: path.stat() for path in self.data.rglob("*")}
        return {path: (one.st_ino, one.st_size, one.st_ctime_ns) for path, one in found.items()}

    def files(self) -> dict[str, str]:
        """What a gateway sees."""
        found = (path for path in self.data.rglob("*") if path.is_file())
        below = {str(path.relative_to(self.data)): path for path in found}
        return {name: path.read_text() for name, path in below.items() if not name.startswith(".sync-")}

    def requests(self) -> int:
        """How many were made since this was last asked."""
        count = len(self.server.requests)
        self.server.requests.clear()
        return count


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    with GitHttpServer.start(tmp_path / "served") as server:
        yield Plant(tmp_path, server)


async def test_an_unchanged_commit_costs_one_lookup_and_no_byte(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1", "s/b/c": "2"})
    folder_sync = plant.folder_sync()
    await folder_sync.sync()
    state = plant.stamps()
    plant.requests()
    report = await folder_sync.sync(SyncOptions(walk=False))
    assert not report.plan.actions
    assert plant.requests() == 2  # one ls-remote: the advertisement and the listing
    await folder_sync.sync()
    assert plant.stamps() == state


async def test_staged_files_of_a_killed_sync_are_removed_although_nothing_is_left_to_do(plant: Plant) -> None:
    plant.repository.commit({f"s/{number}": "1" for number in range(SYNC_EACH + 1)})
    folder_sync = plant.folder_sync()
    await folder_sync.sync()
    staging = plant.data / ".sync-staging"
    staging.mkdir()
    (staging / "0").write_text("of a commit that was rolled back")
    await folder_sync.sync(SyncOptions(dry_run=True))
    assert staging.exists()
    await folder_sync.sync()
    assert not staging.exists()


async def test_a_change_is_fetched_and_written_alone(plant: Plant) -> None:
    plant.repository.commit({f"s/d{n}/{n}": str(n) for n in range(50)})
    folder_sync = plant.folder_sync()
    await folder_sync.sync()
    plant.repository.commit({"s/d1/1": "new", "s/d2/2": None, "s/added": "x"})
    plant.requests()
    report = await folder_sync.sync(SyncOptions(walk=False))
    assert (report.done.added, report.done.modified, report.done.deleted) == (
        ("projects/added",),
        ("projects/d1/1",),
        ("projects/d2/2",),
    )
    assert plant.requests() <= 5
    assert not (plant.data / "projects/d2").exists()
    assert plant.files()["projects/d1/1"] == "new"


async def test_an_overlay_gives_way_and_comes_back_by_changes_alone(plant: Plant) -> None:
    plant.repository.commit({"s/a": "base", "s/b": "base", "overlay/a": "over"})
    folder_sync = plant.folder_sync()
    await folder_sync.sync()
    assert plant.files() == {"projects/a": "over", "projects/b": "base"}
    plant.repository.commit({"overlay/a": None, "overlay/b": "over"})
    await folder_sync.sync(SyncOptions(walk=False))
    assert plant.files() == {"projects/a": "base", "projects/b": "over"}
    plant.repository.commit({"s/a": None, "overlay/a": "over"})
    await folder_sync.sync(SyncOptions(walk=False))
    assert plant.files() == {"projects/a": "over", "projects/b": "over"}


async def test_a_change_by_hand_is_found_and_restored_only_by_a_walk(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1", "s/b": "2", "s/c": "3"})
    folder_sync = plant.folder_sync(deletion=MIRROR)
    await folder_sync.sync()
    (plant.data / "projects/a").write_text("edited")
    (plant.data / "projects/b").unlink()
    (plant.data / "projects/mine").write_text("theirs")
    trusting = await folder_sync.sync(SyncOptions(walk=False))
    assert not trusting.plan.actions
    drift = (await verify_folder(plant.data)).drift
    assert tuple(drift.kinds.values()) == (("projects/a",), ("projects/b",), ("projects/mine",))
    report = await folder_sync.sync()
    assert report.drift == drift
    assert plant.files() == {"projects/a": "1", "projects/b": "2", "projects/c": "3"}
    assert (await verify_folder(plant.data)).clean


async def test_files_from_before_the_first_sync_stay_until_their_deletion_is_approved(plant: Plant) -> None:
    (plant.data / "projects").mkdir()
    (plant.data / "projects/before").write_text("theirs")
    plant.repository.commit({"s/a": "1"})
    folder_sync = plant.folder_sync(deletion=MIRROR)
    wanted = await folder_sync.sync(SyncOptions(dry_run=True))
    assert "\n".join(wanted.lines()).count(wanted.plan.digest) == 1
    first = await folder_sync.sync()
    assert first.plan.orphans_kept == ("projects/before",)
    again = await folder_sync.sync()
    assert again.plan.orphans_kept == ("projects/before",)
    assert (await verify_folder(plant.data)).clean
    digest = again.plan.digest
    for report in (first, again):  # what the first did is done, and not to be approved
        assert f"approve plan {digest}" in "\n".join(report.lines())
    await folder_sync.sync(SyncOptions(approved=frozenset({PlanApproval("0" * 64)})))
    assert "projects/before" in plant.files()
    approved = await folder_sync.sync(SyncOptions(approved=frozenset({PlanApproval(digest)})))
    assert approved.done.deleted == ("projects/before",)
    assert plant.files() == {"projects/a": "1"}


async def test_with_owned_orphans_a_file_of_others_is_drift_and_is_never_deleted(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1"})
    folder_sync = plant.folder_sync(deletion=DeletionPolicy(orphans=OrphanPolicy.OWNED))
    await folder_sync.sync()
    (plant.data / "projects/mine").write_text("theirs")
    report = await folder_sync.sync()
    assert not report.plan.actions
    assert "projects/mine" in plant.files()
    assert (await verify_folder(plant.data)).drift.extra == report.drift_left.extra == ("projects/mine",)


async def test_contents_are_transformed_and_their_drift_is_restored(plant: Plant) -> None:
    config = '{\n  "systemName": "x",\n  "port" : 1,\n  "made": 0\n}\n'
    plant.repository.commit(
        {"s/config.json": config, "t/line.txt": "line {{.Vars.line}} of {{.GatewayName}}"}
    )
    transforms = TransformPolicy(
        "{{.GatewayName}}",
        (FieldTemplate(".made", "{{.Timestamp}}"),),
        (FilePatch("projects/config.json", ((".port", "8088"),)),),
    )
    mappings = (FileMapping("s", "projects"), FileMapping("t", "texts", template=True))
    folder_sync = plant.folder_sync(mappings=mappings, transforms=transforms)
    await folder_sync.sync()
    shaped = config.replace('"x"', '"filler"').replace(": 1,", ": 8088,").replace(": 0", f": {WHEN}")
    wanted = {"projects/config.json": shaped, "texts/line.txt": "line 7 of filler"}
    assert plant.files() == wanted
    assert not (await folder_sync.sync()).plan.actions
    (plant.data / "projects/config.json").write_text("{}")
    await folder_sync.sync()
    assert plant.files() == wanted
    assert not (await folder_sync.sync()).plan.actions


async def test_a_change_of_settings_maps_everything_anew(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1", "s/b": "2"})
    await plant.folder_sync().sync()
    report = await plant.folder_sync(excludes=ExcludePolicy(("projects/b",))).sync(SyncOptions(walk=False))
    assert not report.plan.actions  # what is excluded is not managed any more
    plant.repository.commit({"s/b": "3"})
    await plant.folder_sync(excludes=ExcludePolicy(("projects/b",))).sync()
    assert plant.files()["projects/b"] == "2"


async def test_json_that_is_none_changes_nothing_and_is_named(plant: Plant) -> None:
    plant.repository.commit({"s/a.json": "{}", "s/b": "1"})
    folder_sync = plant.folder_sync()
    await folder_sync.sync()
    before = plant.files()
    plant.repository.commit({"s/a.json": '{"a": 1,}', "s/b": "2", "s/empty.json": ""})
    with pytest.raises(Stalled, match=r"projects/a\.json is not JSON: .*projects/empty\.json") as stalled:
        await folder_sync.sync()
    assert stalled.value.reason is Reason.CONFIG_SYNTAX_ERROR
    assert plant.files() == before
    dry = await folder_sync.sync(SyncOptions(dry_run=True))
    assert dry.stalled is not None
    assert dry.stalled.reason is Reason.CONFIG_SYNTAX_ERROR
    plant.repository.commit({"s/a.json": '{"a": 1}', "s/empty.json": None})
    await folder_sync.sync()
    assert plant.files() == {"projects/a.json": '{"a": 1}', "projects/b": "2"}


async def test_json_that_is_none_is_found_among_many(plant: Plant) -> None:
    plant.repository.commit({**{f"s/{n}.json": "{}" for n in range(FEW)}, "s/bad.json": "[NaN]"})
    with pytest.raises(Stalled, match=r"projects/bad\.json is not JSON: line 1"):
        await plant.folder_sync().sync()
    assert plant.files() == {}


async def test_a_pointer_is_named_and_all_else_is_delivered(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1", "s/big.bin": POINTER})
    folder_sync = plant.folder_sync()
    for _ in range(2):
        report = await folder_sync.sync()
        assert [note.path for note in report.errors] == ["projects/big.bin"]
        assert report.partial
        assert plant.files() == {"projects/a": "1"}
    plant.repository.commit({"s/big.bin": "content"})
    assert not (await folder_sync.sync()).partial
    assert plant.files() == {"projects/a": "1", "projects/big.bin": "content"}


async def test_a_file_of_which_only_the_mode_changes_is_reported(plant: Plant) -> None:
    plant.repository.commit({"s/run.sh": "1"})
    folder_sync = plant.folder_sync()
    await folder_sync.sync()
    plant.repository.commit({"s/run.sh": executable("1")})
    wanted = await folder_sync.sync(SyncOptions(dry_run=True))
    done = await folder_sync.sync()
    for report in (wanted, done):
        assert "modified projects/run.sh" in report.lines()
        assert "1 modified" in report.summary()
        assert report.as_json()["modified"] == ["projects/run.sh"]
    assert (plant.data / "projects/run.sh").stat().st_mode & 0o111


async def test_a_plan_is_printed_line_by_line(plant: Plant) -> None:
    plant.repository.commit({"s/a": "one\ntwo\n", "s/b": "x\n"})
    folder_sync = plant.folder_sync()
    await folder_sync.sync()
    plant.repository.commit({"s/a": "one\n2\n", "s/b": None})
    report = await folder_sync.sync(SyncOptions(dry_run=True, diff=True))
    assert "-two" in report.diff
    assert "+2" in report.diff
    assert any("projects/b" in line for line in report.diff)
    assert plant.files() == {"projects/a": "one\ntwo\n", "projects/b": "x\n"}


async def test_two_syncs_of_one_folder_follow_each_other(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1"})
    one, other = plant.folder_sync(), plant.folder_sync()
    await one.sync()
    plant.repository.commit({"s/b": "2"})
    await other.sync()
    plant.repository.commit({"s/a": None})
    await one.sync(SyncOptions(walk=False))
    assert plant.files() == {"projects/b": "2"}


class Witness:
    """A hook that writes down what it saw."""

    def __init__(self, plant: Plant, *, refuses: bool = False) -> None:
        self._plant = plant
        self._refuses = refuses
        self.seen: list[tuple[str, dict[str, str]]] = []

    async def hold(self, change: SyncChange) -> tuple[HeldPath, ...]:
        return ()

    @asynccontextmanager
    async def around(self, change: SyncChange) -> AsyncIterator[None]:
        self.seen.append(("before", self._plant.files()))
        if self._refuses:
            raise Retry("not now")
        yield
        self.seen.append(("left", {}))

    async def after(self, change: SyncChange, applied: ApplyResult) -> tuple[PathNote, ...]:
        self.seen.append(("after", self._plant.files()))
        return (PathNote("gateway", "did not load it"),)


async def test_a_hook_runs_around_the_moment_of_change_and_nothing_else(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1"})
    witness = Witness(plant)
    folder_sync = open_keeper(plant.job, hooks=(witness,))
    report = await folder_sync.sync()
    assert witness.seen == [("before", {}), ("after", {"projects/a": "1"}), ("left", {})]
    assert [note.why for note in report.unverified] == ["did not load it"]
    assert json.loads(json.dumps(report.as_json()))["unverified"]
    await folder_sync.sync()
    assert len(witness.seen) == 3


async def test_a_hook_that_refuses_keeps_everything_as_it_is(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1"})
    with pytest.raises(Retry, match="not now"):
        await open_keeper(plant.job, hooks=(Witness(plant, refuses=True),)).sync()
    assert plant.files() == {}
    assert not (plant.data / ".sync-staging").exists()
    await plant.folder_sync().sync()
    assert plant.files() == {"projects/a": "1"}


# --- skipped content ----------------------------------------------------------------------------------------

SKIPPED = (
    "none -> config/none: gives no file: its source 'none' is not in the repository",
    "patches[0] (projects/none.json): is for no file that is delivered",
    "s/link: is a symlink in the repository, which is never followed",
    "s/module: is a submodule, which is never fetched",
)


def job_changes() -> dict[str, object]:
    return {
        "mappings": (FileMapping("s", "projects"), FileMapping("none", "config/none")),
        "transforms": TransformPolicy(patches=(FilePatch("projects/none.json", ((".a", "1"),)),)),
        "excludes": ExcludePolicy(("**/*.bak",)),
    }


def skipping(plant: Plant) -> FolderSync:
    plant.repository.commit(
        {"s/a": "1", "s/x.bak": "1", "s/link": symlink("a"), "s/module": submodule("1" * 40)}
    )
    return plant.folder_sync(**job_changes())


async def test_skipped_content_is_named_in_every_report_until_it_is_gone(plant: Plant) -> None:
    folder_sync = skipping(plant)
    assert (await folder_sync.sync()).skipped.lines == SKIPPED
    at_rest = await folder_sync.sync(SyncOptions(walk=False))
    assert not at_rest.plan.actions
    assert at_rest.skipped.lines == SKIPPED
    shown = list(at_rest.lines())
    assert all(f"skipped {line}" in shown for line in SKIPPED)
    plant.repository.commit({"s/a": "2"})
    by_changes = await folder_sync.sync(SyncOptions(walk=False))
    assert by_changes.done.modified == ("projects/a",)
    assert by_changes.skipped.lines == SKIPPED
    restarted = plant.folder_sync(**job_changes())
    assert (await restarted.sync(SyncOptions(walk=False))).skipped.lines == SKIPPED
    plant.repository.commit({"s/link": None, "s/module": None})
    assert (await restarted.sync(SyncOptions(walk=False))).skipped.lines == SKIPPED[:2]


async def test_a_patch_that_finds_its_file_is_no_longer_skipped(plant: Plant) -> None:
    folder_sync = skipping(plant)
    await folder_sync.sync()
    plant.repository.commit({"s/none.json": "{}"})
    report = await folder_sync.sync(SyncOptions(walk=False))
    assert report.skipped.lines == (SKIPPED[0], *SKIPPED[2:])
    assert json.loads(plant.files()["projects/none.json"]) == {"a": 1}
    plant.repository.commit({"s/none.json": None, "s/link": None, "s/module": None, "none/x": "1"})
    assert (await folder_sync.sync(SyncOptions(walk=False))).skipped.lines == (SKIPPED[1],)


async def test_many_skipped_entries_are_named_to_ten_and_counted(plant: Plant) -> None:
    links = {f"s/link-{number:02}": symlink("a") for number in range(25)}
    plant.repository.commit({"s/a": "1", **links})
    folder_sync = plant.folder_sync(mappings=(FileMapping("s", "projects"),))
    await folder_sync.sync()
    report = await folder_sync.sync(SyncOptions(walk=False))
    assert len(report.skipped.notes) == 10
    assert report.skipped.lines[-1] == "and 15 more"
    assert "25 skipped" in report.summary()

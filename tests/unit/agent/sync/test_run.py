"""A sync beyond its files: when hooks run, what is rebuilt, and what is reported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path

import pytest

from stoker.agent.sync.folder import FolderSync, verify_folder
from stoker.agent.sync.hooks import SyncChange
from stoker.agent.sync.jobs import SyncJob, SyncOptions, SyncWait
from stoker.agent.sync.open_source import open_keeper
from stoker.domain import failpoints
from stoker.domain.clock import SystemClock
from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.git_objects import HeldPath, PathNote
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.files import (
    DeletionPolicy,
    ExcludePolicy,
    FileMapping,
    FilePatch,
    FilesIntent,
    OrphanPolicy,
    TransformPolicy,
)
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.engine.plan.drift import FolderDrift
from stoker.engine.plan.guards import HeldPlan
from stoker.fs.apply_plan import ApplyResult
from stoker.fs.ledger_store import MANIFEST
from stoker.fs.stat_stamp import wait_until_at_rest
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.source.git import GitSource
from stoker_testkit.repositories.bare_repository import WHEN, Repository

FILES = FilesIntent((FileMapping("s", "p"),))
MIRRORED = FILES._replace(deletion=DeletionPolicy(orphans=OrphanPolicy.MIRROR))
CLOSED = SyncWait(Reason.WAITING_FOR_WINDOW)


class Plant:
    """A repository, and a gateway's data folder that follows it."""

    def __init__(self, folder: Path, object_format: str = "sha1") -> None:
        self.repository = Repository.create(folder / "plant.git", object_format=object_format)
        self.data = folder / "data"
        self.data.mkdir()
        self.job = SyncJob(
            SourceIntent(RepoUrl(self.repository.path.as_uri()), GitRef("main")),
            FILES,
            TemplateValues(gateway_name="filler"),
            self.data,
            folder / "cache",
        )

    def keeper(self, *hooks: Hook, files: FilesIntent = FILES, ref: str = "main") -> FolderSync:
        source = self.job.source._replace(ref=GitRef(ref), allow_rewrite=False)
        return open_keeper(self.job._replace(source=source, files=files), hooks=hooks)

    async def settle(self, keeper: FolderSync) -> None:
        """Until the ledger knows every file so well that the next look need not read it again."""
        for path in self.data.rglob("*"):
            wait_until_at_rest(path.stat().st_ctime_ns)
        await keeper.sync()

    def files(self, below: str = "") -> dict[str, str]:
        """What a gateway sees, or the files of one managed folder."""
        found = {str(path.relative_to(self.data)): path for path in self.data.rglob("*") if path.is_file()}
        return {
            name: path.read_text()
            for name, path in found.items()
            if (name.startswith(below) if below else not name.startswith(".sync-"))
        }


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    return Plant(tmp_path)


class Hook:
    """Writes down when it was called; `meanwhile` is done as it is entered."""

    def __init__(self, name: str, told: list[str], meanwhile: Callable[[], None] = lambda: None) -> None:
        self._name = name
        self._told = told
        self._meanwhile = meanwhile

    async def hold(self, change: SyncChange) -> tuple[HeldPath, ...]:
        return ()

    @asynccontextmanager
    async def around(self, change: SyncChange) -> AsyncIterator[None]:
        self._told.append(f"{self._name} entered")
        self._meanwhile()
        yield
        self._told.append(f"{self._name} left")

    async def after(self, change: SyncChange, applied: ApplyResult) -> tuple[PathNote, ...]:
        self._told.append(f"{self._name} after")
        return (PathNote(self._name, "is not sure"),)


class Holding(Hook):
    """Has a place open, as a Designer has."""

    def __init__(self, place: str) -> None:
        super().__init__(place, [])
        self._place = place

    async def hold(self, change: SyncChange) -> tuple[HeldPath, ...]:
        return (HeldPath(self._place, "is open"),)


@contextmanager
def killed_at(name: str) -> Iterator[None]:
    """Nothing is written any more from this place on, as after a kill."""
    dead = False

    def look(reached: str) -> None:
        nonlocal dead
        dead = dead or reached == name
        if dead:
            raise RuntimeError("killed")

    failpoints.listen(look)
    try:
        yield
    finally:
        failpoints.listen(None)


# --- hooks --------------------------------------------------------------------------------------------------


async def test_a_hook_is_entered_when_every_content_is_staged_and_none_is_live(plant: Plant) -> None:
    seen: list[tuple[list[str], dict[str, str]]] = []

    def look() -> None:
        seen.append((sorted(plant.files(".sync-staging/").values()), plant.files()))

    plant.repository.commit({"s/a": "one", "s/b": "two"})
    await plant.keeper(Hook("scan", [], look)).sync()
    assert seen == [(["one", "two"], {})]
    assert plant.files() == {"p/a": "one", "p/b": "two"}


async def test_every_hook_is_entered_asked_afterwards_and_left_in_the_opposite_order(plant: Plant) -> None:
    told: list[str] = []
    plant.repository.commit({"s/a": "1"})
    keeper = plant.keeper(Hook("one", told))
    keeper.add_hook(Hook("two", told))
    report = await keeper.sync()
    assert told == ["one entered", "two entered", "one after", "two after", "two left", "one left"]
    assert [note.path for note in report.unverified] == ["one", "two"]


async def test_a_commit_that_changes_no_file_here_is_remembered_and_calls_no_hook(plant: Plant) -> None:
    told: list[str] = []
    plant.repository.commit({"s/a": "1"})
    keeper = plant.keeper(Hook("scan", told))
    await keeper.sync()
    told.clear()
    other = plant.repository.commit({"elsewhere": "1"})
    assert not (await keeper.sync()).unverified
    assert told == []
    assert keeper.ledger is not None
    assert keeper.ledger.commit == other


WHOSE: ContextVar[str] = ContextVar("WHOSE", default="nobody's")


async def test_a_hook_knows_the_pass_that_it_is_entered_for(plant: Plant) -> None:
    """What it logs has to carry the id of the pass."""
    seen: list[str] = []
    plant.repository.commit({"s/a": "1"})
    WHOSE.set("this pass's")
    await plant.keeper(Hook("scan", [], lambda: seen.append(WHOSE.get()))).sync()
    assert seen == ["this pass's"]


class Waits(Hook):
    """Is entered only when the test allows it, and records how its wait ended."""

    def __init__(self, told: list[str]) -> None:
        super().__init__("lock", told)
        self.begun = asyncio.Event()

    @asynccontextmanager
    async def around(self, change: SyncChange) -> AsyncIterator[None]:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._told.append("gave up")
            raise
        yield


async def test_a_pass_that_is_stopped_while_a_hook_waits_gives_up_the_hook_and_changes_nothing(
    plant: Plant,
) -> None:
    told: list[str] = []
    plant.repository.commit({"s/a": "1"})
    hook = Waits(told)
    call = asyncio.ensure_future(plant.keeper(hook).sync())
    await hook.begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert told == ["gave up"]
    assert plant.files() == {}
    assert not (plant.data / ".sync-staging").exists()


# --- the copy of the source ---------------------------------------------------------------------------------


class Broken(GitSource):
    """A repository whose local copy fails whenever it is fetched into."""

    reason = Reason.GIT_FAILED
    fetched = 0
    discarded = 0

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        self.fetched += 1
        raise Retry("an object is damaged", reason=self.reason)

    def discard(self) -> None:
        self.discarded += 1
        super().discard()


@pytest.mark.parametrize(
    ("reason", "fetched", "discarded"), [(Reason.GIT_FAILED, 2, 1), (Reason.SOURCE_UNREACHABLE, 1, 0)]
)
async def test_a_damaged_copy_is_built_anew_once_and_one_that_is_only_out_of_reach_stays(
    plant: Plant, reason: Reason, fetched: int, discarded: int
) -> None:
    plant.repository.commit({"s/a": "1"})
    remote = Remote(GitRunner(plant.job.cache_dir), plant.job.source.url, fixed_access(RepoAccess()))
    source = Broken(remote, plant.job.cache_dir, SystemClock())
    source.reason = reason
    with pytest.raises(Retry, match="damaged") as failed:
        await FolderSync(plant.job, source).sync()
    assert failed.value.reason is reason
    assert (source.fetched, source.discarded) == (fetched, discarded)
    assert plant.files() == {}


async def test_what_a_hook_refuses_is_not_tried_again_within_the_pass(plant: Plant) -> None:
    told: list[str] = []

    def refuse() -> None:
        raise Retry("not now")

    plant.repository.commit({"s/a": "1"})
    with pytest.raises(Retry, match="not now"):
        await plant.keeper(Hook("scan", told, refuse)).sync()
    assert told == ["scan entered"]


async def test_history_that_was_rewritten_changes_nothing(plant: Plant) -> None:
    first = plant.repository.commit({"s/a": "1"})
    plant.repository.commit({"s/a": "2"})
    keeper = plant.keeper()
    await keeper.sync()
    plant.repository.commit({"s/a": "3"}, onto=first)
    with pytest.raises(StokerError, match=r"rewritten|does not follow|descend"):
        await keeper.sync()
    assert plant.files() == {"p/a": "2"}


async def test_another_branch_need_not_follow_the_commit_of_the_one_before(plant: Plant) -> None:
    first = plant.repository.commit({"s/a": "1"})
    plant.repository.commit({"s/a": "2"})
    plant.repository.commit({"s/a": "other"}, branch="other", onto=first)
    await plant.keeper().sync()
    await plant.keeper(ref="other").sync()
    assert plant.files() == {"p/a": "other"}


# --- what is written, what is left, what is reported --------------------------------------------------------


@pytest.mark.parametrize("orphans", OrphanPolicy)
async def test_a_destination_that_no_mapping_covers_any_more_is_emptied_only_by_its_approved_plan(
    plant: Plant, orphans: OrphanPolicy
) -> None:
    plant.repository.commit({"s/a": "1", "t/b": "2"})
    files = FILES._replace(deletion=DeletionPolicy(orphans=orphans))
    await plant.keeper(files=files).sync(SyncOptions(walk=False))
    more = files._replace(mappings=(*FILES.mappings, FileMapping("t", "q")))
    await plant.keeper(files=more).sync(SyncOptions(walk=False))
    assert plant.files() == {"p/a": "1", "q/b": "2"}
    keeper = plant.keeper(files=files)
    with pytest.raises(Stalled, match="the mapping that gave q/b was removed") as held:
        await keeper.sync(SyncOptions(walk=False))
    assert held.value.reason is Reason.DESTINATION_UNMAPPED
    assert plant.files() == {"p/a": "1", "q/b": "2"}, "nothing was changed"
    planned = await keeper.sync(SyncOptions(dry_run=True))
    assert planned.plan.digest in held.value.message
    with pytest.raises(Stalled, match=planned.plan.digest):
        await keeper.sync(SyncOptions(approved=frozenset({PlanApproval("0" * 64)})))
    await keeper.sync(SyncOptions(walk=False, approved=frozenset({PlanApproval(planned.plan.digest)})))
    assert plant.files() == {"p/a": "1"}
    again = await keeper.sync(SyncOptions(approved=frozenset({PlanApproval(planned.plan.digest)})))
    assert not again.plan.actions, "a used approval that is still there is harmless"


async def test_an_approval_counts_once(plant: Plant) -> None:
    given = "resource 2026-03-02T08:15:00Z"
    digest, keeper = await q_is_unmapped(plant)
    approval = PlanApproval(digest, given)
    await keeper.sync(SyncOptions(approved=frozenset({approval})))
    assert plant.files() == {"p/a": "1"}
    again, keeper = await q_is_unmapped(plant, approval)
    assert again == digest, "the same files would be deleted once more"
    for _ in range(2):
        with pytest.raises(HeldPlan, match="its approval was used") as held:
            await keeper.sync(SyncOptions(approved=frozenset({approval})))
        assert held.value.plan.digest == digest
    assert plant.files() == {"p/a": "1", "q/b": "2"}
    later = approval._replace(given="resource 2026-03-02T09:00:00Z")
    await keeper.sync(SyncOptions(approved=frozenset({later})))
    assert plant.files() == {"p/a": "1"}, "another approval of the same plan is another one"


async def test_an_approval_that_was_withdrawn_after_its_use_may_be_given_again(
    plant: Plant,
) -> None:
    digest, keeper = await q_is_unmapped(plant)
    approval = PlanApproval(digest, "pod")
    await keeper.sync(SyncOptions(approved=frozenset({approval})))
    await keeper.sync(SyncOptions(walk=False))
    _, keeper = await q_is_unmapped(plant, approval)
    await keeper.sync(SyncOptions(approved=frozenset({approval})))
    assert plant.files() == {"p/a": "1"}


async def test_an_approval_for_one_run_is_never_stored(plant: Plant) -> None:
    digest, keeper = await q_is_unmapped(plant)
    await keeper.sync(SyncOptions(approved=frozenset({PlanApproval(digest)}), approval_must_match=True))
    assert keeper.ledger is not None
    assert keeper.ledger.approvals_used == frozenset()
    again, keeper = await q_is_unmapped(plant)
    with pytest.raises(HeldPlan):
        await keeper.sync()
    await keeper.sync(SyncOptions(approved=frozenset({PlanApproval(again)}), approval_must_match=True))
    assert plant.files() == {"p/a": "1"}


@pytest.mark.parametrize("name", ["journal.sync.after", "unlink.before", "unlink.after", "carry.after"])
async def test_an_approval_whose_plan_was_cut_short_is_used_by_the_next_sync_and_by_no_later_one(
    plant: Plant, name: str
) -> None:
    digest, keeper = await q_is_unmapped(plant)
    approved = SyncOptions(approved=frozenset({PlanApproval(digest, "pod")}))
    with killed_at(name), pytest.raises(RuntimeError, match="killed"):
        await keeper.sync(approved)
    keeper = plant.keeper()
    await keeper.sync(approved)
    assert plant.files() == {"p/a": "1"}, "the plan that was begun is carried out"
    await q_is_unmapped(plant, PlanApproval(digest, "pod"))
    with pytest.raises(HeldPlan):
        await plant.keeper().sync(approved)
    assert plant.files() == {"p/a": "1", "q/b": "2"}


async def test_an_approved_plan_that_a_designer_holds_as_a_whole_keeps_its_approval(plant: Plant) -> None:
    digest, _ = await q_is_unmapped(plant)
    approved = SyncOptions(approved=frozenset({PlanApproval(digest, "pod")}))
    await plant.keeper(Holding("q")).sync(approved)
    assert plant.files() == {"p/a": "1", "q/b": "2"}
    await plant.keeper().sync(approved)
    assert plant.files() == {"p/a": "1"}


async def q_is_unmapped(plant: Plant, *given: PlanApproval) -> tuple[str, FolderSync]:
    """Write to q, and map it no more: the digest of the plan that would empty it, and who would do so."""
    plant.repository.commit({"s/a": "1", "t/b": "2"})
    both = FILES._replace(mappings=(*FILES.mappings, FileMapping("t", "q")))
    await plant.keeper(files=both).sync(SyncOptions(approved=frozenset(given)))
    assert plant.files() == {"p/a": "1", "q/b": "2"}
    keeper = plant.keeper()
    return (await keeper.sync(SyncOptions(dry_run=True))).plan.digest, keeper


async def test_a_mapping_that_goes_elsewhere_holds_everything(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1"})
    await plant.keeper().sync()
    elsewhere = plant.keeper(files=FilesIntent((FileMapping("s", "q"),)))
    with pytest.raises(Stalled) as held:
        await elsewhere.sync()
    assert held.value.reason is Reason.DESTINATION_UNMAPPED
    assert plant.files() == {"p/a": "1"}


async def test_files_of_a_mapping_removed_beside_another_of_the_same_destination_wait_for_approval(
    plant: Plant,
) -> None:
    plant.repository.commit({"s/a": "1", "t/b": "2"})
    await plant.keeper(files=FilesIntent((*FILES.mappings, FileMapping("t", "p")))).sync()
    keeper = plant.keeper()
    with pytest.raises(Stalled, match="the mapping that gave p/b was removed") as held:
        await keeper.sync()
    assert held.value.reason is Reason.DESTINATION_UNMAPPED
    assert plant.files() == {"p/a": "1", "p/b": "2"}
    digest = (await keeper.sync(SyncOptions(dry_run=True))).plan.digest
    await keeper.sync(SyncOptions(approved=frozenset({PlanApproval(digest)})))
    assert plant.files() == {"p/a": "1"}
    plant.repository.commit({"s/a": None, "s/c": "3"})
    await keeper.sync()
    assert plant.files() == {"p/c": "3"}, "what the commit deletes needs no approval"


async def test_an_excluded_file_of_a_removed_mapping_waits_for_approval_once_it_is_excluded_no_more(
    plant: Plant,
) -> None:
    plant.repository.commit({"s/a": "1", "s/c": "3", "t/b": "2"})
    await plant.keeper(files=FilesIntent((*FILES.mappings, FileMapping("t", "p")))).sync()
    excluding = plant.keeper(files=FILES._replace(excludes=ExcludePolicy(("p/b",))))
    await excluding.sync()
    plant.repository.commit({"s/c": None})
    await excluding.sync()
    assert plant.files() == {"p/a": "1", "p/b": "2"}, "what the commit deletes beside it needs no approval"
    with pytest.raises(Stalled, match="the mapping that gave p/b was removed"):
        await plant.keeper().sync()
    assert plant.files() == {"p/a": "1", "p/b": "2"}


async def test_a_file_of_a_removed_mapping_that_its_resource_kept_waits_for_approval_later(
    plant: Plant,
) -> None:
    plant.repository.commit({"s/a": "1", "s/resource.json": "{}", "t/b": "2"})
    await plant.keeper(files=FilesIntent((*FILES.mappings, FileMapping("t", "p")))).sync()
    (plant.data / "p/c").mkdir()
    (plant.data / "p/c/of others").touch()
    plant.repository.commit({"s/c": "3"})
    await plant.keeper().sync()
    (plant.data / "p/c/of others").unlink()
    (plant.data / "p/c").rmdir()
    keeper = plant.keeper()
    with pytest.raises(Stalled, match="the mapping that gave p/b was removed") as held:
        await keeper.sync()
    assert isinstance(held.value, HeldPlan)
    assert plant.files() == {"p/a": "1", "p/b": "2", "p/resource.json": "{}"}
    await keeper.sync(SyncOptions(approved=frozenset({PlanApproval(held.value.plan.digest)})))
    assert plant.files() == {"p/a": "1", "p/c": "3", "p/resource.json": "{}"}


async def test_a_wider_destination_leaves_files_of_others_until_its_plan_is_approved(plant: Plant) -> None:
    plant.repository.commit({"s/Line1/a": "1", "s/Line2/a": "2"})
    await plant.keeper(files=FilesIntent((FileMapping("s/Line1", "p/Line1"),))).sync()
    (plant.data / "p/Line2").mkdir()
    (plant.data / "p/Line2/a").write_text("made on the gateway")
    keeper = plant.keeper()
    with pytest.raises(Stalled, match="p/Line2/a that others made would be overwritten") as held:
        await keeper.sync()
    assert held.value.reason is Reason.DESTINATION_WIDENED
    assert plant.files() == {"p/Line1/a": "1", "p/Line2/a": "made on the gateway"}
    digest = (await keeper.sync(SyncOptions(dry_run=True))).plan.digest
    await keeper.sync(SyncOptions(approved=frozenset({PlanApproval(digest)})))
    assert plant.files() == {"p/Line1/a": "1", "p/Line2/a": "2"}


async def test_a_brand_new_destination_takes_the_files_of_the_commit_as_a_first_sync_does(
    plant: Plant,
) -> None:
    plant.repository.commit({"s/a": "1", "t/b": "2"})
    await plant.keeper().sync()
    (plant.data / "q").mkdir()
    (plant.data / "q/b").write_text("of others")
    (plant.data / "q/c").write_text("of others")
    report = await plant.keeper(files=FilesIntent((*FILES.mappings, FileMapping("t", "q")))).sync()
    assert plant.files() == {"p/a": "1", "q/b": "2", "q/c": "of others"}
    assert [str(path) for path in report.plan.not_ours] == ["q/c"]


async def test_an_approval_for_one_sync_alone_must_name_the_plan_that_there_is(plant: Plant) -> None:
    wrong = SyncOptions(approved=frozenset({PlanApproval("0" * 64)}), approval_must_match=True)
    plant.repository.commit({"s/a": "1"})
    keeper = plant.keeper()
    digest = (await keeper.sync(SyncOptions(dry_run=True))).plan.digest
    with pytest.raises(Stalled, match=digest) as stale:
        await keeper.sync(wrong)
    assert stale.value.reason is Reason.APPROVAL_STALE
    assert plant.files() == {}
    assert (await keeper.sync(wrong._replace(dry_run=True))).stalled is not None
    await keeper.sync(wrong._replace(approved=frozenset({PlanApproval(digest)})))
    assert plant.files() == {"p/a": "1"}
    with pytest.raises(Stalled, match="nothing to do"):
        await keeper.sync(wrong)
    with pytest.raises(Stalled, match="nothing to do"):
        await keeper.sync(wrong._replace(approved=frozenset({PlanApproval(digest)})))


async def test_with_owned_a_file_of_others_is_named_counts_as_drift_and_is_never_deleted(
    plant: Plant,
) -> None:
    (plant.data / "p").mkdir()
    (plant.data / "p/before").write_text("theirs")
    plant.repository.commit({"s/a": "1"})
    keeper = plant.keeper()
    first = await keeper.sync()
    assert first.plan.not_ours == ("p/before",)
    assert not first.drift
    await plant.settle(keeper)
    (plant.data / "p/mine").write_text("theirs")
    for _ in range(2):
        report = await keeper.sync()
        assert not report.plan.actions
        assert report.plan.not_ours == ("p/before", "p/mine")
        assert report.drift == report.drift_left == FolderDrift(extra=("p/mine",))
        assert (await keeper.verify()).drift.extra == ("p/mine",)
    plant.repository.commit({"s/a": "2"})
    report = await keeper.sync(SyncOptions(approved=frozenset({PlanApproval("0" * 64)})))
    assert report.drift_left == FolderDrift(extra=("p/mine",))
    assert plant.files() == {"p/a": "2", "p/before": "theirs", "p/mine": "theirs"}


async def test_a_strangers_file_alone_is_reason_enough_to_act_where_the_source_is_mirrored(
    plant: Plant,
) -> None:
    plant.repository.commit({"s/a": "1"})
    keeper = plant.keeper(files=MIRRORED)
    await keeper.sync()
    await plant.settle(keeper)
    (plant.data / "p/mine").write_text("theirs")
    (plant.data / "beside").write_text("theirs")
    assert (await keeper.sync()).done.deleted == ("p/mine",)
    assert plant.files() == {"p/a": "1", "beside": "theirs"}


async def test_a_kept_file_that_its_owner_removed_is_not_reported_any_more(plant: Plant) -> None:
    (plant.data / "p").mkdir()
    for name in ("stays", "goes"):
        (plant.data / "p" / name).write_text("theirs")
    plant.repository.commit({"s/a": "1"})
    keeper = plant.keeper(files=MIRRORED)
    assert (await keeper.sync()).plan.orphans_kept == ("p/goes", "p/stays")
    await plant.settle(keeper)
    (plant.data / "p/goes").unlink()
    assert (await keeper.sync()).plan.orphans_kept == ("p/stays",)
    assert plant.files() == {"p/a": "1", "p/stays": "theirs"}


@pytest.mark.parametrize(
    "transforms",
    [
        TransformPolicy("{{.Timestamp}}"),
        TransformPolicy(patches=(FilePatch("p/config.json", ((".systemName", "{{.Timestamp}}"),)),)),
    ],
    ids=["system name", "patch"],
)
async def test_the_time_that_a_content_names_is_that_of_its_commit(
    plant: Plant, transforms: TransformPolicy
) -> None:
    plant.repository.commit({"s/config.json": '{"systemName": "x"}'})
    await plant.keeper(files=FILES._replace(transforms=transforms)).sync()
    assert str(WHEN) in plant.files()["p/config.json"]


async def test_a_shaped_file_that_was_touched_is_made_again_from_its_source(plant: Plant) -> None:
    plant.repository.commit({"s/config.json": '{"systemName": "x"}', "s/a": "1"})
    keeper = plant.keeper(files=FILES._replace(transforms=TransformPolicy("filler")))
    await keeper.sync()
    (plant.data / "p/config.json").write_text("{}")
    await keeper.sync()
    assert plant.files() == {"p/config.json": '{"systemName": "filler"}', "p/a": "1"}


def ledger_file(plant: Plant) -> Path:
    (found,) = (path for path in (plant.data / ".sync-state").iterdir() if path.name == Path(MANIFEST).name)
    return found


async def test_an_unreadable_ledger_is_reported_and_is_not_a_first_sync(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1"})
    await plant.keeper().sync()
    plant.repository.commit({"s/a": "2"})
    ledger_file(plant).write_bytes(b"damaged")
    held = await plant.keeper().sync(SyncOptions(waits=CLOSED))
    assert held.waits == CLOSED
    assert plant.files() == {"p/a": "1"}
    report = await plant.keeper().sync()
    assert [note.path for note in report.errors] == [MANIFEST]
    assert plant.files() == {"p/a": "2"}


async def test_what_waits_to_be_restored_is_not_forgotten_over_a_dry_run(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1"})
    keeper = plant.keeper()
    await keeper.sync()
    (plant.data / "p/a").write_text("theirs")
    await keeper.sync(SyncOptions(waits=CLOSED))
    await keeper.sync(SyncOptions(dry_run=True))
    assert plant.files() == {"p/a": "theirs"}
    await keeper.sync(SyncOptions(walk=False))
    assert plant.files() == {"p/a": "1"}


async def test_a_folder_whose_repository_has_long_ids_is_verified_by_them(tmp_path: Path) -> None:
    plant = Plant(tmp_path, "sha256")
    plant.repository.commit({"s/a": "1"})
    await plant.keeper().sync()
    (plant.data / "p/a").touch()
    assert (await verify_folder(plant.data)).clean
    (plant.data / "p/a").write_text("2")
    assert (await verify_folder(plant.data)).drift.modified == ("p/a",)

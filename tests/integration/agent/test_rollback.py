"""Going back: copies before syncs, the way from a copy to the files that were, and changes that a gateway
does not bear."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.rollback.rollback import FolderRollback
from stoker.agent.rollback.setup import open_rollback
from stoker.agent.rollback.state import HAND, QuarantineRecord, RollbackRecords
from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.jobs import SyncJob, SyncOptions, SyncResult
from stoker.agent.sync.open_source import open_keeper
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain import failpoints
from stoker.domain.errors import Retry, Stalled, StokerError, Wait
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.delivery import RollbackTrigger
from stoker.domain.intent.files import DeletionPolicy, FileMapping, FilesIntent, OrphanPolicy
from stoker.domain.intent.intent import ResourceIdentity, SyncResourceKind
from stoker.domain.intent.policies import IgnitionPolicy, PerspectivePolicy, SnapshotPolicy, SnapshotScope
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.engine.plan.guards import HeldPlan
from stoker.engine.plan.ledger import Ledger
from stoker.fs.data_folder import DataFolder
from stoker.fs.ledger_store import LedgerStore
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.gateway import GatewayClient
from stoker.ignition.content.noise import ResourceNoise
from stoker.ignition.sync.gateway_hook import GatewayHook, GatewayHookOptions
from stoker_testkit.fast_clock import FastClock
from stoker_testkit.faults.http_fault_proxy import AnsweredFault, HttpFaultProxy
from stoker_testkit.gateway.runtime import State
from stoker_testkit.gateway.sessions import Designer
from stoker_testkit.gateway.simulated_gateway import KEY, SimulatedGateway
from stoker_testkit.repositories.bare_repository import Files, Repository, executable
from stoker_testkit.repositories.sample_ignition_repository import VIEWS, view

ALL_TRIGGERS = tuple(RollbackTrigger)
KEPT = SnapshotPolicy(enabled=True)
OFF = SnapshotPolicy()
OURS = (".sync-state", ".sync-staging")


def project(name: str, version: int, views: int = 2) -> dict[str, str]:
    files = {f"projects/{name}/project.json": json.dumps({"title": f"{name} {version}", "enabled": True})}
    for number in range(views):
        for file, text in view(f"{name} {number}, version {version}").items():
            files[f"projects/{name}/{VIEWS}/v{number}/{file}"] = text
    return files


def broken(name: str) -> dict[str, str]:
    """A project that no gateway loads, although all of it is JSON."""
    return {f"projects/{name}/project.json": "[]"}


@dataclass
class RollbackSite:
    """A repository, a data folder, maybe its gateway, and processes that come and go."""

    folder: Path
    repository: Repository
    gateway: SimulatedGateway | None = None
    clock: FastClock = field(default_factory=lambda: FastClock(40.0))
    opened: list[GatewayHook] = field(default_factory=list)
    orphans: OrphanPolicy = OrphanPolicy.MIRROR
    more: tuple[FileMapping, ...] = ()

    def refuse(self, *, not_any_more: bool = False) -> None:
        """Let a script of the user say no to each change."""
        script = self.folder / "hooks" / "pre-sync.sh"
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\nexit {0 if not_any_more else 1}\n")
        script.chmod(0o755)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def job(self) -> SyncJob:
        mappings = (
            FileMapping("projects", "projects"),
            FileMapping("config", "config/resources/core"),
            *self.more,
        )
        return SyncJob(
            SourceIntent(RepoUrl(f"file://{self.repository.path}"), GitRef("main"), allow_rewrite=True),
            FilesIntent(mappings, deletion=DeletionPolicy(self.orphans)),
            TemplateValues(),
            self.data,
            self.folder / "cache",
            hooks=(self.folder / "hooks",),
        )

    def commit(self, files: Files, **how: Any) -> CommitId:
        return self.repository.commit(files, **how)

    def process(
        self,
        policy: SnapshotPolicy = KEPT,
        triggers: tuple[RollbackTrigger, ...] = (),
        *,
        url: str = "",
        mount: Path | None = None,
        resource: ResourceIdentity | None = None,
    ) -> FolderSync:
        """Everything anew, as after a restart."""
        attendant = self._attendant(url) if self.gateway is not None else None
        noise = ResourceNoise()
        undoing = open_rollback(
            policy,
            triggers,
            data_dir=self.data,
            gateway="filler",
            clock=self.clock,
            attendant=attendant,
            noise=noise,
            mount=mount,
            asked=True,
            resource=resource,
        )
        assert undoing is not None
        hooks = (*undoing.hooks, *(() if attendant is None else (attendant,)))
        return open_keeper(
            self.job, hooks=hooks, gateway=attendant, rollback=undoing, noise=noise, clock=self.clock
        )

    def _attendant(self, url: str) -> GatewayHook:
        assert self.gateway is not None
        client = GatewayClient(GatewayAddress.parse(url or self.gateway.url), lambda: Secret(KEY))
        options = GatewayHookOptions(
            data_dir=self.data,
            state_dir=self.data / ".sync-state",
            policy=IgnitionPolicy(perspective_sessions=PerspectivePolicy.NONE),
        )
        self.opened.append(GatewayHook(client, options, self.clock))
        return self.opened[-1]

    def tree(self) -> dict[str, tuple[int, str]]:
        """Everything but our own notes: modes of files and folders, and contents by digest."""
        return {
            str(path.relative_to(self.data)): (
                path.lstat().st_mode,
                hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            )
            for path in self.data.rglob("*")
            if path.relative_to(self.data).parts[0] not in OURS
        }

    def ledger(self) -> Ledger:
        with DataFolder.opened(self.data) as folder:
            found = LedgerStore.load(folder).ledger
        assert found is not None
        return found

    @property
    def notes(self) -> RollbackRecords:
        return RollbackRecords(self.data / ".sync-state")

    def packs(self) -> list[Path]:
        return sorted((self.data / ".sync-state/snapshots/filler").glob("*.pack"))


@contextmanager
def breaking(name: str, turn: int = 1) -> Iterator[None]:
    """Whatever is done ends when it comes to this place for the so many-th time."""
    turns = count(1)

    def look(reached: str) -> None:
        if reached == name and next(turns) == turn:
            raise RuntimeError("broken off")

    failpoints.listen(look)
    try:
        yield
    finally:
        failpoints.listen(None)


@pytest.fixture
def site(tmp_path: Path) -> RollbackSite:
    (tmp_path / "data").mkdir()
    site = RollbackSite(tmp_path, Repository.create(tmp_path / "repo.git"))
    site.commit({**project("filler", 1), "README.md": "one"})
    return site


@pytest.fixture
async def with_gateway(site: RollbackSite) -> AsyncIterator[RollbackSite]:
    with SimulatedGateway.start(site.data, scan_seconds=0.0) as gateway:
        site.gateway = gateway
        yield site
        for one in site.opened:
            await one.aclose()


async def synced(tended: FolderSync, commit: CommitId | None = None, **options: Any) -> SyncReport:
    report = await tended.sync(SyncOptions(commit=commit)._replace(**options))
    assert report.result is SyncResult.DONE, report
    return report


async def refused(tended: FolderSync, commit: CommitId | None = None, **options: Any) -> StokerError:
    with pytest.raises(StokerError) as raised:
        await tended.sync(SyncOptions(commit=commit)._replace(**options))
    return raised.value


def undoing(tended: FolderSync) -> FolderRollback:
    assert tended.rollback is not None
    return tended.rollback


def snapshots_of(tended: FolderSync) -> list[str]:
    return [one.id for one in undoing(tended).stores()[0].listed()]


# Copies.


async def test_each_sync_that_changes_something_leaves_a_copy_of_what_was(site: RollbackSite) -> None:
    tended = site.process()
    await synced(tended)
    assert undoing(tended).standing.kept is None, "before the first files there was nothing"
    first = site.ledger().commit
    site.commit(project("filler", 2))
    await synced(tended)
    standing = undoing(tended).standing
    assert standing.kept is not None
    assert standing.kept.last is not None
    assert (standing.taken, standing.kept.count) == (standing.kept.last.id, 1)
    assert standing.kept.last.origin.commit == first
    assert standing.kept.last.files == len(project("filler", 1))
    await synced(tended)
    assert snapshots_of(tended) == [standing.taken], "nothing was done, nothing was copied"


async def test_only_as_many_copies_are_kept_as_asked_for(site: RollbackSite) -> None:
    tended = site.process(SnapshotPolicy(enabled=True, retention_count=2))
    for version in range(5):
        site.commit(project("filler", version + 1))
        await synced(tended)
    assert len(snapshots_of(tended)) == 2
    kept = undoing(tended).standing.kept
    assert kept is not None
    assert kept.count == 2


async def test_a_copy_that_fails_stops_the_sync_with_nothing_changed(site: RollbackSite) -> None:
    tended = site.process()
    await synced(tended)
    before, commit = site.tree(), site.commit(project("filler", 2))
    place = site.data / ".sync-state" / "snapshots"
    place.write_text("in the way")
    error = await refused(tended, commit)
    assert (type(error), error.reason) == (Retry, Reason.SNAPSHOT_FAILED)
    assert site.tree() == before
    place.unlink()
    await synced(tended, commit)


async def test_a_claim_that_is_not_mounted_stops_the_sync(site: RollbackSite, tmp_path: Path) -> None:
    policy = SnapshotPolicy(enabled=True, claim_name="copies")
    tended = site.process(policy, mount=tmp_path / "snapshots")
    await synced(site.process())
    site.commit(project("filler", 2))
    error = await refused(tended)
    assert error.reason is Reason.SNAPSHOT_FAILED
    assert "copies" in error.message
    (tmp_path / "snapshots").mkdir()
    await synced(tended)
    assert list((tmp_path / "snapshots" / "filler").glob("*.manifest"))


async def test_gateways_of_the_same_name_keep_their_copies_apart_on_one_claim(
    site: RollbackSite, tmp_path: Path
) -> None:
    claim = tmp_path / "snapshots"
    claim.mkdir()
    policy = SnapshotPolicy(enabled=True, claim_name="copies", retention_count=1)
    here, there = (
        ResourceIdentity(SyncResourceKind.STOKER, "a", "plant"),
        ResourceIdentity(SyncResourceKind.STOKER, "b", "plant"),
    )
    await synced(site.process(policy, mount=claim, resource=here))
    site.commit(project("filler", 2))
    mine = site.process(policy, mount=claim, resource=here)
    await synced(mine)
    (taken,) = snapshots_of(mine)
    assert (claim / "a" / "Stoker" / "plant" / "filler" / f"{taken}.manifest").is_file()
    theirs = site.process(policy, mount=claim, resource=there)
    assert snapshots_of(theirs) == []
    site.commit(project("filler", 3))
    await synced(theirs)
    assert snapshots_of(mine) == [taken], "no other process removes it"
    (claim / "c" / "Stoker").mkdir(parents=True)
    shutil.copytree(claim / "a" / "Stoker" / "plant", claim / "c" / "Stoker" / "plant")
    before = site.tree()
    copied = site.process(
        policy, mount=claim, resource=ResourceIdentity(SyncResourceKind.STOKER, "c", "plant")
    )
    with pytest.raises(Stalled, match="belongs to a/Stoker/plant"):
        await undoing(copied).go_back(site.job, "r1", taken)
    assert site.tree() == before


async def test_a_sync_that_is_tried_again_and_again_pushes_no_copy_out(site: RollbackSite) -> None:
    policy = SnapshotPolicy(enabled=True, retention_count=2)
    tended = site.process(policy)
    for version in range(3):
        site.commit(project("filler", version + 1))
        await synced(tended)
    kept = snapshots_of(tended)
    site.commit(project("filler", 4))
    site.refuse()
    for _ in range(4):
        for process in (tended, site.process(policy)):
            assert (await refused(process)).reason is Reason.HOOK_FAILED
    new, *old = snapshots_of(tended)
    assert old == kept, "one copy of what is there, however often"
    site.refuse(not_any_more=True)
    await synced(site.process(policy))
    assert snapshots_of(tended) == [new, kept[0]]


async def test_a_sync_that_breaks_off_half_way_pushes_no_copy_out(site: RollbackSite) -> None:
    policy = SnapshotPolicy(enabled=True, retention_count=2)
    await synced(site.process(policy))
    before = site.tree()
    site.commit(project("filler", 2))
    for _ in range(3):
        with breaking("rename.after"), pytest.raises(RuntimeError, match="broken off"):
            await site.process(policy).sync(SyncOptions())
    await synced(site.process(policy))
    (taken,) = snapshots_of(site.process(policy))
    await undoing(site.process(policy)).go_back(site.job, "r1", taken)
    assert site.tree() == before


# Back to a copy.


async def test_a_snapshot_that_would_delete_many_files_waits_for_the_approval_of_that_plan(
    site: RollbackSite,
) -> None:
    tended = site.process()
    await synced(tended)
    before = site.tree()
    site.commit({f"projects/filler/{number}": "1" for number in range(60)})
    await synced(tended)
    taken = undoing(tended).standing.taken
    after = site.tree()
    with pytest.raises(Stalled, match="more than 50 files") as held:
        await undoing(tended).go_back(site.job, "r1", taken)
    assert held.value.reason is Reason.DELETION_BUDGET_EXCEEDED
    assert site.tree() == after, "nothing was changed"
    digest = held.value.message.partition("approve plan ")[2][:64]
    with pytest.raises(Stalled, match=digest):
        await undoing(tended).go_back(site.job, "r1", taken, approved=(PlanApproval("0" * 64),))
    approved = (PlanApproval(digest, "resource"),)
    await undoing(tended).go_back(site.job, "r1", taken, approved=approved)
    assert site.tree() == before
    undoing(tended).release()
    await synced(tended, approved=frozenset(approved))
    assert site.tree() == after
    with pytest.raises(HeldPlan) as again:
        await undoing(tended).go_back(site.job, "r2", taken, approved=approved)
    assert again.value.plan.digest == digest, "the approval of a restore counts once as well"


async def test_a_rollback_to_a_snapshot_is_bit_for_bit_and_stays(with_gateway: RollbackSite) -> None:
    site, tended = with_gateway, with_gateway.process()
    site.commit({"projects/filler/run.sh": executable("#!/bin/sh\n"), "config/a/x.txt": "1"})
    await synced(tended)
    before, first = site.tree(), site.ledger()
    new = site.commit({**project("filler", 2), **project("packer", 1), "projects/filler/run.sh": None})
    await synced(tended)
    taken = undoing(tended).standing.taken
    assert site.tree() != before
    pin, done = await undoing(tended).go_back(site.job, "r1", taken)
    assert done is not None
    assert done.unverified == (), "the gateway was asked, and shows it"
    assert site.tree() == before
    ledger = site.ledger()
    assert (ledger.commit, ledger.ref, ledger.settings) == (first.commit, first.ref, first.settings)
    assert ledger.files.keys() == first.files.keys()
    assert (pin.commit, pin.snapshot) == (first.commit, taken)
    assert site.gateway is not None
    assert "packer" not in site.gateway.projects
    requests = len(site.gateway.requests)
    assert await undoing(tended).go_back(site.job, "r1", taken) == (pin, None), "once for each request"
    assert len(site.gateway.requests) == requests
    restarted = site.process()
    assert await undoing(restarted).go_back(site.job, "r1", taken) == (pin, None)
    await synced(restarted, new)
    assert site.ledger().commit == new, "released: the ref is followed again"
    assert site.notes.pin is None


async def test_a_copy_is_taken_of_what_a_rollback_replaces(site: RollbackSite) -> None:
    tended = site.process()
    await synced(tended)
    site.commit(project("filler", 2))
    await synced(tended)
    taken, newer = undoing(tended).standing.taken, site.tree()
    await undoing(tended).go_back(site.job, "r1", taken)
    (undo,) = [one for one in snapshots_of(tended) if one != taken]
    await undoing(tended).go_back(site.job, "r2", undo)
    assert site.tree() == newer


async def test_the_oldest_snapshot_is_there_until_a_rollback_to_it_is_finished(site: RollbackSite) -> None:
    policy = SnapshotPolicy(enabled=True, retention_count=2)
    tended = site.process(policy)
    await synced(tended)
    before = site.tree()
    for version in (2, 3):
        site.commit(project("filler", version))
        await synced(tended)
    *_, oldest = snapshots_of(tended)
    for number in range(1, 3):
        with breaking("rename.after", number), pytest.raises(RuntimeError, match="broken off"):
            await undoing(site.process(policy)).go_back(site.job, "r1", oldest)
    with breaking("rollback.settle.before"), pytest.raises(RuntimeError, match="broken off"):
        await undoing(site.process(policy)).go_back(site.job, "r1", oldest)
    assert oldest in snapshots_of(tended)
    await undoing(site.process(policy)).go_back(site.job, "r1", oldest)
    assert site.tree() == before


async def test_a_snapshot_that_is_corrupt_is_refused_before_anything_is_touched(site: RollbackSite) -> None:
    tended = site.process()
    await synced(tended)
    site.commit(project("filler", 2))
    await synced(tended)
    taken, before, ledger = undoing(tended).standing.taken, site.tree(), site.ledger()
    (pack,) = site.packs()
    content = bytearray(pack.read_bytes())
    content[len(content) // 2] ^= 1
    pack.write_bytes(content)
    for _ in range(2):
        with pytest.raises(Stalled) as raised:
            await undoing(tended).go_back(site.job, "r1", taken)
        assert raised.value.reason is Reason.SNAPSHOT_CORRUPT
    assert site.tree() == before
    assert site.ledger() == ledger
    assert not (site.data / ".sync-staging").exists()


async def test_a_snapshot_is_checked_wholly_before_a_rollback_to_it(site: RollbackSite) -> None:
    site.commit({"projects/filler/same.txt": "never changed"})
    tended = site.process()
    await synced(tended)
    site.commit(project("filler", 2))
    await synced(tended)
    taken, before = undoing(tended).standing.taken, site.tree()
    manifest = undoing(tended).stores()[0].open(taken).manifest
    place = manifest.contents[manifest.files["projects/filler/same.txt"].blob]
    (pack,) = site.packs()
    content = bytearray(pack.read_bytes())
    content[place.offset + place.stored // 2] ^= 1
    pack.write_bytes(content)
    with pytest.raises(Stalled) as raised:
        await undoing(tended).go_back(site.job, "r1", taken)
    assert raised.value.reason is Reason.SNAPSHOT_CORRUPT
    assert site.tree() == before


async def test_a_snapshot_that_is_not_there_is_refused_by_name(site: RollbackSite) -> None:
    tended = site.process()
    await synced(tended)
    with pytest.raises(Stalled, match="filler-20200101-000000") as raised:
        await undoing(tended).go_back(site.job, "r1", "filler-20200101-000000")
    assert raised.value.reason is Reason.SNAPSHOT_NOT_FOUND


async def test_files_of_others_are_put_back_and_stay_theirs(site: RollbackSite) -> None:
    theirs = site.data / "projects" / "filler" / "notes.txt"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine")
    theirs.chmod(0o600)
    site.orphans = OrphanPolicy.OWNED
    tended = site.process()
    await synced(tended)
    before = site.tree()
    commit = site.commit({"projects/filler/notes.txt": "from git"})
    await synced(tended)
    assert theirs.read_text() == "from git"
    await undoing(tended).go_back(site.job, "r1", undoing(tended).standing.taken)
    assert site.tree() == before, "with its mode"
    assert "projects/filler/notes.txt" not in site.ledger().files
    site.commit({"projects/filler/notes.txt": None})
    await synced(site.process())
    assert theirs.read_text() == "mine", "what is not ours is not deleted"
    assert commit != site.ledger().commit


OWN_CORNER = FileMapping("corner", "projects/filler/corner", orphans=OrphanPolicy.OWNED)


@pytest.mark.parametrize(
    ("orphans", "more"), [(OrphanPolicy.OWNED, ()), (OrphanPolicy.MIRROR, (OWN_CORNER,))]
)
async def test_what_was_welcome_since_a_snapshot_stays_when_its_place_is_mirrored_again(
    site: RollbackSite, orphans: OrphanPolicy, more: tuple[FileMapping, ...]
) -> None:
    site.commit({"corner/ours.txt": "1"})
    tended = site.process()
    await synced(tended)
    site.commit(project("filler", 2))
    await synced(tended)
    taken = undoing(tended).standing.taken
    site.orphans, site.more = orphans, more
    await synced(site.process())
    theirs = site.data / "projects/filler/corner/notes.txt"
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("mine")
    await undoing(site.process()).go_back(site.job, "r1", taken)
    site.notes.release()
    site.orphans, site.more = OrphanPolicy.MIRROR, ()
    report = await synced(site.process(), site.commit(project("filler", 3)))
    assert theirs.read_text() == "mine"
    assert report.plan.orphans_kept == ("projects/filler/corner/notes.txt",)


async def test_a_snapshot_of_everything_leaves_the_gateways_own_alone(site: RollbackSite) -> None:
    own = {"db/config.idb": "live", "config/local/key": "secret", "other/own.txt": "1", ".uuid": "u"}
    for path, text in own.items():
        (site.data / path).parent.mkdir(parents=True, exist_ok=True)
        (site.data / path).write_text(text)
    tended = site.process(SnapshotPolicy(enabled=True, scope=SnapshotScope.ALL))
    await synced(tended)
    site.commit(project("filler", 2))
    await synced(tended)
    taken = undoing(tended).standing.taken
    manifest = undoing(tended).stores()[0].verify(taken)
    assert {path for path in manifest.files if not path.startswith("projects/")} == {"other/own.txt"}
    for path in own:
        (site.data / path).write_text("later")
    await undoing(tended).go_back(site.job, "r1", taken)
    output = {path: (site.data / path).read_text() for path in own}
    assert output == {**dict.fromkeys(own, "later"), "other/own.txt": "1"}
    assert site.ledger().files.keys() == project("filler", 1).keys()
    await synced(site.process())
    assert (site.data / "other/own.txt").exists()


async def test_something_in_the_way_keeps_everything_as_it_is(site: RollbackSite) -> None:
    site.commit({"projects/filler/x.txt": "1"})
    tended = site.process()
    await synced(tended)
    site.commit({**project("filler", 2), "projects/filler/x.txt": None})
    await synced(tended)
    (site.data / "projects/filler/x.txt").symlink_to("/etc/passwd")
    before = site.tree()
    with pytest.raises(Stalled, match=r"x\.txt") as raised:
        await undoing(tended).go_back(site.job, "r1", undoing(tended).standing.taken)
    assert raised.value.reason is Reason.ROLLBACK_FAILED
    assert site.tree() == before


async def test_a_rollback_waits_for_a_designer(with_gateway: RollbackSite) -> None:
    site, tended = with_gateway, with_gateway.process()
    await synced(tended)
    site.commit({**project("filler", 2), "config/a/x.txt": "1"})
    await synced(tended)
    taken, before = undoing(tended).standing.taken, site.tree()
    assert site.gateway is not None
    site.gateway.open_designer(Designer("d1", "anna", "filler"))
    with pytest.raises(Wait, match="filler"):
        await undoing(tended).go_back(site.job, "r1", taken)
    assert site.tree() == before
    site.gateway.close_designer("d1")
    await undoing(tended).go_back(site.job, "r1", taken)
    assert site.tree() != before


# A gateway that does not bear a change.


async def test_a_change_that_a_gateway_cannot_load_is_rolled_back_bit_for_bit(
    with_gateway: RollbackSite,
) -> None:
    site = with_gateway
    site.commit({"projects/filler/run.sh": executable("#!/bin/sh\n")})
    tended = site.process(OFF, ALL_TRIGGERS)
    await synced(tended)
    before, first = site.tree(), site.ledger()
    bad = site.commit({**project("filler", 2), **broken("packer"), "projects/filler/run.sh": None})
    error = await refused(tended, bad)
    assert (type(error), error.reason) == (Stalled, Reason.AUTO_ROLLBACK)
    assert "projects/packer" in error.message
    assert site.tree() == before
    assert (site.ledger().commit, site.ledger().settings) == (first.commit, first.settings)
    assert site.opened[-1].outcome.verified
    assert not site.opened[-1].owes
    note = site.notes.quarantine
    assert note is not None
    assert (note.commit, note.reason, note.restored) == (bad, Reason.AUTO_ROLLBACK, True)
    assert undoing(tended).standing.quarantine == note


async def test_a_commit_that_was_rolled_back_stays_out_until_the_ref_moves(
    with_gateway: RollbackSite,
) -> None:
    site, tended = with_gateway, with_gateway.process(OFF, ALL_TRIGGERS)
    await synced(tended)
    before, bad = site.tree(), site.commit(broken("packer"))
    await refused(tended, bad)
    assert site.gateway is not None
    scans = site.gateway.scans_done
    for process in (tended, site.process(OFF, ALL_TRIGGERS), site.process(OFF)):
        for commit in (bad, None):
            assert (await refused(process, commit)).reason is Reason.AUTO_ROLLBACK
    assert (site.tree(), site.gateway.scans_done) == (before, scans)
    good = site.commit(project("packer", 1))
    await synced(tended, good)
    assert site.notes.quarantine is None
    assert "packer" in site.gateway.projects


async def test_a_commit_that_was_rolled_back_can_be_released(with_gateway: RollbackSite) -> None:
    site, tended = with_gateway, with_gateway.process(OFF, ALL_TRIGGERS)
    await synced(tended)
    bad = site.commit(broken("packer"))
    await refused(tended, bad)
    first = site.ledger().commit
    await synced(tended, CommitId(first), goes_back=True)
    assert site.notes.quarantine is not None, "who goes back by hand does not release it"
    error = await refused(tended, bad, released=frozenset({str(bad)}))
    assert error.reason is Reason.AUTO_ROLLBACK, "tried again, and rolled back again"
    site.process(OFF)
    report = await site.process(OFF).sync(SyncOptions(commit=bad, released=frozenset({str(bad)})))
    assert report.result is SyncResult.UNVERIFIED
    assert site.ledger().commit == bad


async def test_a_scan_that_is_refused_takes_the_change_back(with_gateway: RollbackSite) -> None:
    site = with_gateway
    assert site.gateway is not None
    with HttpFaultProxy.start(site.gateway.url) as proxy:
        tended = site.process(OFF, (RollbackTrigger.SCAN_FAILURE,), url=proxy.url)
        await synced(tended)
        before, commit = site.tree(), site.commit(project("filler", 2))
        proxy.arm(AnsweredFault(500), "/scan/projects", times=8)
        error = await refused(tended, commit)
        assert error.reason is Reason.SCAN_FAILURE_AUTO_ROLLBACK
        assert site.tree() == before
        assert site.opened[-1].outcome.verified


async def test_one_refusal_is_no_failure(with_gateway: RollbackSite) -> None:
    site = with_gateway
    assert site.gateway is not None
    with HttpFaultProxy.start(site.gateway.url) as proxy:
        tended = site.process(OFF, ALL_TRIGGERS, url=proxy.url)
        await synced(tended)
        commit = site.commit(project("filler", 2))
        proxy.arm(AnsweredFault(500), "/scan/projects", times=4)
        report = await tended.sync(SyncOptions(commit=commit))
        assert report.result is SyncResult.UNVERIFIED
        assert site.ledger().commit == commit
        assert site.notes.quarantine is None
        await synced(tended, commit)
        assert site.notes.probation is None, "it has proved itself"


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(lambda gateway: gateway.go_down(), id="down"),
        pytest.param(lambda gateway: setattr(gateway, "state", State.STARTING), id="starting"),
        pytest.param(lambda gateway: gateway.settings.keys.clear(), id="key"),
    ],
)
async def test_a_gateway_that_cannot_be_asked_blames_no_commit(
    with_gateway: RollbackSite, trouble: Callable[[SimulatedGateway], None]
) -> None:
    site, tended = with_gateway, with_gateway.process(OFF, ALL_TRIGGERS)
    await synced(tended)
    assert site.gateway is not None
    before = site.ledger().commit
    trouble(site.gateway)
    commit = site.commit(project("filler", 2))
    for _ in range(3):
        with pytest.raises(StokerError, match="nothing was written"):
            await tended.sync(SyncOptions(commit=commit))
    assert site.ledger().commit == before
    assert site.notes.quarantine is None


async def test_only_the_triggers_that_are_named_count(with_gateway: RollbackSite) -> None:
    site = with_gateway
    tended = site.process(OFF, (RollbackTrigger.SCAN_FAILURE, RollbackTrigger.CONFIG_ERROR))
    await synced(tended)
    commit = site.commit(broken("packer"))
    report = await tended.sync(SyncOptions(commit=commit))
    assert report.result is SyncResult.UNVERIFIED
    assert site.ledger().commit == commit


async def test_what_failed_before_a_change_is_not_its_fault(with_gateway: RollbackSite) -> None:
    site = with_gateway
    odd = site.data / "projects" / "odd" / "project.json"
    odd.parent.mkdir(parents=True)
    odd.write_text("[]")
    site.orphans = OrphanPolicy.OWNED
    await site.process(OFF).sync(SyncOptions())
    commit = site.commit(project("filler", 2))
    report = await site.process(OFF, ALL_TRIGGERS).sync(SyncOptions(commit=commit))
    assert [note.path for note in report.unverified] == ["projects/odd"]
    assert site.ledger().commit == commit
    bad = site.commit(broken("packer"))
    error = await refused(site.process(OFF, ALL_TRIGGERS), bad)
    assert "projects/packer" in error.message


async def test_a_failure_that_shows_later_is_rolled_back_to_what_worked(with_gateway: RollbackSite) -> None:
    """The gateway went down during two commits; only when it is up again it shows that they do not work."""
    site = with_gateway
    assert site.gateway is not None
    with HttpFaultProxy.start(site.gateway.url) as proxy:
        tended = site.process(OFF, ALL_TRIGGERS, url=proxy.url)
        await synced(tended)
        before = site.tree()
        proxy.arm(AnsweredFault(503), "/scan/projects", times=None)
        await tended.sync(SyncOptions(commit=site.commit(broken("packer"))))
        bad = site.commit({"projects/filler/more.txt": "1"})
        await tended.sync(SyncOptions(commit=bad))
    error = await refused(site.process(OFF, ALL_TRIGGERS), bad)
    assert error.reason is Reason.AUTO_ROLLBACK
    assert site.tree() == before
    note = site.notes.quarantine
    assert note is not None
    assert note.commit == bad


async def test_an_impossible_rollback_is_reported_and_the_commit_stays_out(
    with_gateway: RollbackSite,
) -> None:
    site = with_gateway
    assert site.gateway is not None
    with HttpFaultProxy.start(site.gateway.url) as proxy:
        tended = site.process(OFF, ALL_TRIGGERS, url=proxy.url)
        await synced(tended)
        bad = site.commit({**project("filler", 2), **broken("packer")})
        proxy.arm(AnsweredFault(503), "/scan/projects", times=None)
        await tended.sync(SyncOptions(commit=bad))
    (pack,) = site.packs()
    pack.write_bytes(pack.read_bytes()[:-1])
    tree = site.tree()
    restarted = site.process(OFF, ALL_TRIGGERS)
    for _ in range(2):
        error = await refused(restarted, bad)
        assert error.reason is Reason.ROLLBACK_FAILED
        assert bad[:8] in error.message
    assert site.tree() == tree
    await synced(restarted, site.commit(project("packer", 1)))


@pytest.mark.parametrize("standing", [QuarantineRecord("a" * 40), None])
async def test_a_folder_stays_pinned_without_a_cluster_until_it_is_released(
    site: RollbackSite, standing: QuarantineRecord | None
) -> None:
    tended = site.process()
    await synced(tended)
    new = site.commit(project("filler", 2))
    await synced(tended)
    if standing is not None:
        site.notes.keep(standing)
    before = site.tree()
    await undoing(tended).go_back(site.job, "r1", undoing(tended).standing.taken, HAND)
    error = await refused(site.process())
    assert error.reason is Reason.ROLLED_BACK
    assert "--release" in error.message
    report = await site.process().sync(SyncOptions(dry_run=True))
    assert report.plan.actions, "looking is allowed"
    site.notes.release()
    await synced(site.process())
    assert (site.tree(), site.ledger().commit) == (before, new)


def test_notes_of_others_count_as_none(site: RollbackSite) -> None:
    state = site.data / ".sync-state"
    state.mkdir()
    bad: Mapping[str, bytes] = {
        "quarantine.json": b'{"commit": 7}',
        "probation.json": b"[" * 5000,
        "rollback.json": b'{"snapshot": "x"}',
    }
    for name, content in bad.items():
        (state / name).write_bytes(content)
    notes = site.notes
    assert (notes.quarantine, notes.probation, notes.pin) == (None, None, None)

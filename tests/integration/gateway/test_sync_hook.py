"""The gateway's part of a sync: readiness, scan lock, sessions, scans, restarts, and their failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from stoker.agent.sync.hooks import SyncChange
from stoker.agent.sync.jobs import SyncJob, SyncOptions, SyncResult
from stoker.agent.sync.open_source import open_keeper
from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.git_objects import FileVersion, HeldPath, PathNote, blob_of
from stoker.domain.intent.files import FileMapping, FilesIntent
from stoker.domain.intent.policies import DesignerPolicy, IgnitionPolicy, PerspectivePolicy, ScanOrder
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.engine.plan.plan import DeleteFile, SyncPlan, WriteFile
from stoker.fs.apply_plan import ApplyResult
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.gateway import GatewayClient, ScanKind
from stoker.ignition.client.responses import ScanLockRefused
from stoker.ignition.sync.gateway_hook import GatewayHook, GatewayHookOptions
from stoker.ignition.sync.readiness import FRESH_SECONDS, TOLD_SECONDS
from stoker_testkit.fast_clock import FastClock
from stoker_testkit.faults.http_fault_proxy import AnsweredFault, HttpFaultProxy
from stoker_testkit.gateway.runtime import State
from stoker_testkit.gateway.scan_lock import ScanLockKind
from stoker_testkit.gateway.sessions import Designer, PerspectiveBrowser
from stoker_testkit.gateway.settings import ApiKey, Paths
from stoker_testkit.gateway.simulated_gateway import KEY, SECRET, SimulatedGateway
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.wait_until import eventually, eventually_async

PROVIDER = "config/resources/core/ignition/tag-provider"
MODULE = "user-lib/modules/pump.modl"
RESOURCE = json.dumps({"scope": "G", "version": 1, "files": [], "attributes": {}})
ANNA = Designer("d1", "anna", "filler")


@dataclass
class Site:
    """A gateway, its folder, and attendants that come and go as processes do."""

    gateway: SimulatedGateway
    data: Path
    clock: FastClock = field(default_factory=FastClock)
    opened: list[GatewayHook] = field(default_factory=list)

    def attendant(
        self,
        policy: IgnitionPolicy | None = None,
        *,
        url: str = "",
        order: ScanOrder = ScanOrder.PROJECTS_FIRST,
    ) -> GatewayHook:
        client = GatewayClient(GatewayAddress.parse(url or self.gateway.url), lambda: Secret(KEY))
        options = GatewayHookOptions(
            data_dir=self.data, state_dir=self.data / ".sync-state", order=order, policy=policy or CALM
        )
        self.opened.append(GatewayHook(client, options, self.clock))
        return self.opened[-1]

    def change(self, files: Mapping[str, str | None], *, initial: bool = False) -> SyncChange:
        version = FileVersion(blob_of(b"x"))
        plan = SyncPlan(
            writes=tuple(
                WriteFile(RelPath(path), version, (self.data / path).exists())
                for path, text in files.items()
                if text is not None
            ),
            deletions=tuple(DeleteFile(RelPath(path)) for path, text in files.items() if text is None),
        )
        return SyncChange(CommitId("a" * 40), GitRef("main"), plan, initial)

    async def carry(
        self,
        attending: GatewayHook,
        files: Mapping[str, str | None],
        *,
        initial: bool = False,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> tuple[tuple[HeldPath, ...], tuple[PathNote, ...]]:
        """A pass, as the agent makes it: what was held, and what was not verified."""
        change = self.change(files, initial=initial)
        held = await attending.hold(change)
        change = replace(change, plan=change.plan.holding(held, None))
        if not change.plan.actions:
            return held, await attending.settle()
        async with attending.around(change):
            meanwhile()
            for action in change.plan.actions:
                self.put(action.path, files[action.path])
        return held, await attending.after(change, ApplyResult())

    def put(self, path: str, text: str | None) -> None:
        place = self.data / path
        if text is None:
            place.unlink()
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)

    def posts(self) -> list[str]:
        return [
            one.path.removeprefix("/data/api/v1/") for one in self.gateway.requests if one.method == "POST"
        ]

    def pending(self) -> bool:
        return (self.data / ".sync-state" / "scan-owed").exists()


CALM = IgnitionPolicy(perspective_sessions=PerspectivePolicy.NONE)
FILLER: Mapping[str, str | None] = {"projects/filler/x": "1"}
PACKER: Mapping[str, str | None] = {"projects/packer/project.json": "{}"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for path, text in {
        "projects/filler/project.json": "{}",
        f"{PROVIDER}/plant/resource.json": RESOURCE,
    }.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture
async def site(data: Path) -> AsyncIterator[Site]:
    with SimulatedGateway.start(data) as gateway:
        site = Site(gateway, data)
        yield site
        for one in site.opened:
            await one.aclose()


@pytest.fixture
def proxy(site: Site) -> Iterator[HttpFaultProxy]:
    with HttpFaultProxy.start(site.gateway.url) as running:
        yield running


# Lock, write, scan, verify.


@pytest.mark.parametrize(
    ("order", "kinds"),
    [(ScanOrder.PROJECTS_FIRST, ("projects", "config")), (ScanOrder.CONFIG_FIRST, ("config", "projects"))],
)
async def test_locks_writes_scans_and_verifies(site: Site, order: ScanOrder, kinds: tuple[str, str]) -> None:
    attending = site.attendant(order=order)

    def is_locked() -> None:
        assert site.gateway.locked(ScanLockKind.PROJECTS)
        assert site.gateway.locked(ScanLockKind.CONFIG)

    assert await site.carry(attending, PACKER, meanwhile=is_locked) == ((), ())
    assert site.posts() == [*(f"scan-lock/{one}" for one in kinds), *(f"scan/{one}" for one in kinds)]
    outcome = attending.outcome
    assert (outcome.lock, outcome.result) == ("held", f"{kinds[0]}=200 {kinds[1]}=200")
    assert (outcome.applied, outcome.verified, outcome.warnings) == (True, True, ())
    assert outcome.trust == "plain HTTP"
    assert not attending.owes
    assert attending.settle_in is None
    before = len(site.gateway.requests)
    assert await attending.settle() == ()
    assert len(site.gateway.requests) == before, "nothing is pending, nothing is asked"


async def done_a_moment_later(clock: ManualClock, task: asyncio.Task[object]) -> bool:
    await clock.advance(0.01)
    return task.done()


async def test_a_gateway_that_has_just_answered_is_not_asked_how_it_is(site: Site) -> None:
    clock = ManualClock()
    options = GatewayHookOptions(data_dir=site.data, state_dir=site.data / ".sync-state", policy=CALM)
    attending = GatewayHook(
        GatewayClient(GatewayAddress.parse(site.gateway.url), lambda: Secret(KEY)), options, clock
    )
    site.opened.append(attending)
    asked = []
    for number, seconds in enumerate((0.0, 1.0, 2 * FRESH_SECONDS, TOLD_SECONDS)):
        await clock.advance(seconds)
        passing = asyncio.create_task(site.carry(attending, {"projects/filler/x": str(number)}))
        ended = partial(done_a_moment_later, clock, passing)
        await eventually_async(ended, 30.0, "the pass ends", interval=0.01)
        assert passing.result() == ((), ())
        asked.append(len(site.gateway.asked("GET", "/system/gwinfo")))
    assert asked == [1, 1, 1, 2], "who answers runs; what it is, is asked for now and then"
    await clock.advance(1.0)
    site.gateway.go_down()
    with pytest.raises(Retry, match="nothing was written") as away:
        await site.carry(attending, {f"{PROVIDER}/plant/x": "1"})
    assert away.value.reason is Reason.GATEWAY_UNREACHABLE, "an answer of before this pass tells nothing"
    assert not (site.data / f"{PROVIDER}/plant/x").exists()


async def test_a_lock_of_another_client_stops_the_sync_before_anything_is_written(site: Site) -> None:
    other = GatewayClient(GatewayAddress.parse(site.gateway.url), lambda: Secret(KEY))
    await other.lock(ScanKind.CONFIG, acquire=0, hold=60)
    await other.aclose()
    with pytest.raises(ScanLockRefused) as refused:
        await site.carry(site.attendant(), PACKER)
    assert isinstance(refused.value, Retry)
    assert not (site.data / "projects" / "packer").exists()
    assert site.gateway.locked(ScanLockKind.CONFIG), "theirs is not ended"
    assert not site.pending()


async def test_a_lock_that_a_killed_process_left_is_taken_over(site: Site) -> None:
    killed = site.attendant()
    with pytest.raises(OSError, match="killed"):
        async with killed.around(site.change(PACKER)):
            raise OSError("killed")
    assert site.gateway.locked(ScanLockKind.PROJECTS)
    attending = site.attendant()
    assert await site.carry(attending, PACKER) == ((), ())
    assert attending.outcome.lock == "held"


async def test_an_expired_scan_lock_is_reported(site: Site) -> None:
    attending = site.attendant()

    def slow_disk() -> None:
        site.clock.skipped += 1000

    assert await site.carry(attending, PACKER, meanwhile=slow_disk) == ((), ())
    assert "the scan lock ran out before all files were in place" in attending.outcome.warnings


async def test_an_older_gateway_is_synced_without_the_lock_with_a_warning(site: Site) -> None:
    site.gateway.settings.scan_lock = False
    attending = site.attendant()
    assert await site.carry(attending, PACKER) == ((), ())
    assert attending.outcome.lock == "not offered by this gateway"


async def test_a_scan_is_tried_again_three_times_with_growing_pauses(
    site: Site, proxy: HttpFaultProxy
) -> None:
    attending = site.attendant(url=proxy.url)
    proxy.arm(AnsweredFault(500), "/scan/projects", times=3)
    assert await site.carry(attending, PACKER) == ((), ())
    assert site.clock.slept[:3] == [1.0, 2.0, 4.0]
    proxy.arm(AnsweredFault(500), "/scan/projects", times=4)
    _, (note,) = await site.carry(attending, FILLER)
    assert note.why.startswith("GatewayError: ")
    assert not attending.outcome.applied
    assert attending.outcome.result == ""


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (ApiKey("another-secret"), Reason.TOKEN_REJECTED),
        (ApiKey(SECRET, read=False, write=False), Reason.LEVEL_NOT_GRANTED),
        (ApiKey(SECRET, write=False), Reason.LEVEL_NOT_GRANTED),
    ],
)
@pytest.mark.parametrize("files", [PACKER, {f"{PROVIDER}/plant/x": "1"}], ids=["project", "config"])
async def test_a_key_that_the_gateway_rejects_means_that_nothing_is_written(
    site: Site, key: ApiKey, reason: Reason, files: Mapping[str, str | None]
) -> None:
    site.gateway.settings.keys["stoker"] = key
    with pytest.raises(Stalled, match=r"nothing was written: .* \(40[13]\).*--files-only") as refused:
        await site.carry(site.attendant(), files)
    assert refused.value.reason is reason
    assert not (site.data / next(iter(files))).exists()
    assert not site.pending()
    assert "scan/projects" not in site.posts()


async def test_a_key_that_ends_while_files_change_is_reported_and_the_scan_stays_pending(site: Site) -> None:
    def ends() -> None:
        site.gateway.settings.keys["stoker"] = ApiKey(SECRET, write=False)

    _, (note,) = await site.carry(site.attendant(), PACKER, meanwhile=ends)
    assert note.why.startswith("LevelNotGranted: ")
    assert site.pending()


async def test_a_polite_no_is_a_no(site: Site) -> None:
    site.gateway.settings.scan_refusal = "a restore is under way"
    attending = site.attendant()
    _, (note,) = await site.carry(attending, PACKER)
    assert note.why.endswith("a restore is under way")
    assert not attending.outcome.applied


# Health, grace, and pending work.


async def test_a_scan_stays_pending_until_it_succeeds(site: Site) -> None:
    attending = site.attendant()
    _, (note,) = await site.carry(attending, PACKER, meanwhile=site.gateway.go_down)
    assert note.why.startswith("GatewayUnreachable: ")
    assert (attending.outcome.applied, attending.outcome.verified) == (False, False)
    site.gateway.come_up()
    assert await attending.settle() == (note,), "it is not asked all the time"
    assert 0 < (attending.settle_in or 0) <= 5
    assert site.posts() == ["scan-lock/projects", "scan-lock/config"]
    site.clock.skipped += 5
    assert await attending.settle() == ()
    assert (attending.outcome.applied, attending.outcome.verified) == (True, True)
    assert attending.outcome.result == "projects=200 config=200"
    assert not site.pending()


async def test_another_process_completes_the_pending_work_of_a_killed_one(site: Site) -> None:
    async with site.attendant().around(site.change(PACKER)):
        site.put("projects/packer/project.json", "{}")
    assert site.pending()
    assert await site.attendant().settle() == ()
    assert "packer" in site.gateway.projects
    assert not site.pending()


async def test_pauses_grow_and_after_them_it_is_a_warning(site: Site) -> None:
    attending = site.attendant()
    await site.carry(attending, PACKER, meanwhile=site.gateway.go_down)
    pauses = []
    for _ in range(4):
        assert not any("attempts" in one for one in attending.outcome.warnings)
        pauses.append(round(attending.settle_in or 0))
        site.clock.skipped += pauses[-1]
        assert len(await attending.settle()) == 1
    assert pauses == [5, 10, 30, 60]
    assert "in 5 attempts" in attending.outcome.warnings[-1]
    site.clock.skipped += 60
    await attending.settle()
    (warning,) = (one for one in attending.outcome.warnings if "attempts" in one)
    assert "in 6 attempts" in warning
    site.gateway.come_up()
    site.clock.skipped += 60
    assert await attending.settle() == ()
    assert not any("attempts" in one for one in attending.outcome.warnings)


async def test_a_gateway_that_has_just_started_is_not_scanned_in_its_first_seconds(site: Site) -> None:
    attending = site.attendant()

    def starts_again() -> None:
        site.gateway.state = State.STARTING

    await site.carry(attending, PACKER, meanwhile=starts_again)
    site.gateway.state = State.RUNNING
    site.clock.skipped += 5
    site.clock.slept.clear()
    assert await attending.settle() == ()
    assert site.clock.slept[0] == pytest.approx(10.0)
    site.clock.slept.clear()
    assert await site.carry(attending, FILLER) == ((), ())
    assert max(site.clock.slept, default=0.0) <= 1.0, "once"


async def test_a_gateway_that_ran_before_us_is_scanned_at_once(site: Site) -> None:
    assert await site.carry(site.attendant(), PACKER) == ((), ())
    assert max(site.clock.slept, default=0.0) <= 1.0


@pytest.mark.parametrize("initial", [False, True], ids=["a later sync", "the first sync"])
@pytest.mark.parametrize("state", [State.FAULTED, State.STARTING, None])
async def test_nothing_is_written_beside_a_gateway_that_does_not_run(
    site: Site, state: State | None, initial: bool
) -> None:
    if state is None:
        site.gateway.go_down()
    else:
        site.gateway.state = state
    with pytest.raises(Retry, match="nothing was written: ") as away:
        await site.carry(site.attendant(), PACKER, initial=initial)
    assert str(away.value.reason).startswith("Gateway")
    assert not (site.data / "projects/packer").exists()
    assert not site.pending()
    assert max(site.clock.slept, default=0.0) <= 1.0


async def test_files_are_written_for_a_gateway_that_has_never_been_started(tmp_path: Path) -> None:
    data = tmp_path / "new"
    data.mkdir()
    with SimulatedGateway.start(tmp_path / "elsewhere") as gateway:
        gateway.go_down()
        site = Site(gateway, data)
        _, (note,) = await site.carry(site.attendant(), PACKER, initial=True)
        assert note.why.startswith("GatewayUnreachable: ")
        assert (data / "projects/packer/project.json").exists()
        site.put("db/config.idb", "a gateway has been started here")
        with pytest.raises(Retry, match="nothing was written: "):
            await site.carry(site.attendant(), FILLER, initial=True)
        for one in site.opened:
            await one.aclose()


# The first sync, and the second.


async def test_nothing_is_asked_of_a_gateway_that_was_not_started(site: Site) -> None:
    attending = site.attendant()
    attending.initial = True
    assert await site.carry(attending, PACKER, initial=True) == ((), ())
    assert await attending.settle() == ()
    assert site.gateway.requests == []
    assert (attending.outcome.applied, attending.outcome.verified) == (False, False)


async def test_a_new_process_without_pending_work_knows_that_everything_was_verified(site: Site) -> None:
    await site.carry(site.attendant(), PACKER)
    before = len(site.gateway.requests)
    later = site.attendant()
    assert await later.settle() == ()
    assert (later.outcome.applied, later.outcome.verified) == (True, True)
    assert len(site.gateway.requests) == before, "and does not ask again"


async def test_after_its_first_boot_it_is_verified_without_a_scan_and_synced_once_more(
    tmp_path: Path,
) -> None:
    data = tmp_path / "new"
    data.mkdir()
    with SimulatedGateway.start(data) as gateway:
        gateway.go_down()
        site = Site(gateway, data)
        attending = site.attendant()
        attending.initial = True
        await site.carry(attending, PACKER, initial=True)
        assert not attending.needs_second_sync
        attending.initial = False  # the agent has released the gateway's start
        (note,) = await attending.settle()
        assert note.why.startswith("GatewayStarting"), "it was released a moment ago: silence is no error yet"
        assert not attending.needs_second_sync
        gateway.come_up()
        site.clock.skipped += 5
        site.clock.slept.clear()
        assert await attending.settle() == ()
        assert site.clock.slept[0] == pytest.approx(10.0)
        assert site.posts() == []
        assert (attending.outcome.applied, attending.outcome.verified) == (True, True)
        assert attending.needs_second_sync
        later = site.attendant()  # and a new process knows it too
        assert later.settle_in == 0.0
        assert await later.settle() == ()
        assert later.needs_second_sync
        later.commissioned()
        assert not attending.needs_second_sync
        assert attending.settle_in is None
        for one in site.opened:
            await one.aclose()


@pytest.mark.parametrize("watched", [True, False], ids=["the boot was watched", "the boot was not watched"])
async def test_a_restart_before_the_second_sync_is_not_taken_for_the_first_boot(
    tmp_path: Path, watched: bool
) -> None:
    data, repository = tmp_path / "new", Repository.create(tmp_path / "plant.git")
    data.mkdir()
    repository.commit({"projects/filler/person": "git"})
    job = SyncJob(
        SourceIntent(RepoUrl(f"file://{repository.path}"), GitRef("main")),
        FilesIntent((FileMapping("projects", "projects"),)),
        TemplateValues(gateway_name="filler"),
        data,
        tmp_path / "cache",
    )
    with SimulatedGateway.start(tmp_path / "elsewhere") as gateway:
        gateway.go_down()
        site = Site(gateway, data)
        attending = site.attendant()
        tended = open_keeper(job, hooks=(attending,), gateway=attending)
        attending.initial = True
        await tended.sync(SyncOptions())
        attending.initial = False
        await tended.sync(SyncOptions(walk=False))
        gateway.come_up()
        site.clock.skipped += 5
        if not watched:
            attending = site.attendant()
            tended = open_keeper(job, hooks=(attending,), gateway=attending)
        await tended.sync(SyncOptions(walk=False))
        assert attending.needs_second_sync, "the boot changed nothing"
        away = repository.path.rename(tmp_path / "away.git")
        with pytest.raises(StokerError):
            await tended.sync(SyncOptions())
        (data / "projects/filler/person").write_text("changed by a person")
        gateway.go_down()
        site.clock.skipped += 900
        await attending.settle()
        gateway.come_up()
        site.clock.skipped += 5
        await attending.settle()
        assert attending.first_boot.ended_just_now, "this start was watched as the first one was"
        away.rename(repository.path)
        assert attending.needs_second_sync
        await tended.sync(SyncOptions())
        assert (data / "projects/filler/person").read_text() == "changed by a person"
        for one in site.opened:
            await one.aclose()


@pytest.mark.parametrize("watched", [True, False], ids=["the boot was watched", "the boot was not watched"])
async def test_what_people_change_after_the_first_boot_stays_and_what_the_boot_made_is_put_back(
    tmp_path: Path, watched: bool
) -> None:
    data, repository = tmp_path / "new", Repository.create(tmp_path / "plant.git")
    data.mkdir()
    repository.commit({f"projects/filler/{name}": "git" for name in ("boot", "person", "gone", "same")})
    job = SyncJob(
        SourceIntent(RepoUrl(f"file://{repository.path}"), GitRef("main")),
        FilesIntent((FileMapping("projects", "projects"),)),
        TemplateValues(gateway_name="filler"),
        data,
        tmp_path / "cache",
    )
    with SimulatedGateway.start(tmp_path / "elsewhere") as gateway:
        gateway.go_down()
        site = Site(gateway, data)
        attending = site.attendant()
        tended = open_keeper(job, hooks=(attending,), gateway=attending)
        attending.initial = True
        assert (await tended.sync(SyncOptions())).result is SyncResult.DONE
        attending.initial = False
        await tended.sync(SyncOptions(walk=False))
        (data / "projects/filler/boot").write_text("rewritten by the boot")
        gateway.come_up()
        site.clock.skipped += 5
        if not watched:
            attending = site.attendant()
            tended = open_keeper(job, hooks=(attending,), gateway=attending)
        await tended.sync(SyncOptions(walk=False))
        assert attending.needs_second_sync
        away = repository.path.rename(tmp_path / "away.git")
        with pytest.raises(StokerError):
            await tended.sync(SyncOptions())  # the second sync has to wait, and people do not
        away.rename(repository.path)
        (data / "projects/filler/person").write_text("changed by a person")
        (data / "projects/filler/gone").unlink()
        repository.commit({"projects/filler/new": "git"})
        report = await tended.sync(SyncOptions())
        found = {path.name: path.read_text() for path in (data / "projects/filler").iterdir()}
        boot = "git" if watched else "rewritten by the boot"
        assert found == {"boot": boot, "person": "changed by a person", "same": "git", "new": "git"}
        assert report.drift_restored == (("projects/filler/boot",) if watched else ())
        left = report.drift_left
        assert left.modified == tuple(
            f"projects/filler/{name}" for name in (["person"] if watched else ["boot", "person"])
        )
        assert left.missing == ("projects/filler/gone",)
        assert not attending.needs_second_sync
        for one in site.opened:
            await one.aclose()


async def test_a_gateway_that_ran_already_needs_no_second_sync(site: Site) -> None:
    attending = site.attendant()
    await site.carry(attending, PACKER, initial=True)
    assert not attending.needs_second_sync


# Designers.

WAIT = IgnitionPolicy(designer_sessions=DesignerPolicy.WAIT, perspective_sessions=PerspectivePolicy.NONE)


async def test_a_busy_project_waits_and_the_others_go_on(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    attending = site.attendant(WAIT)
    held, notes = await site.carry(attending, {**FILLER, **PACKER})
    assert held == (HeldPath("projects/filler", "anna has it open in a Designer", "anna"),)
    assert notes == ()
    assert attending.outcome.held == held
    assert (site.data / "projects/packer/project.json").exists()
    assert not (site.data / "projects/filler/x").exists()
    assert await attending.still_held(held)
    site.gateway.close_designer("d1")
    assert not await attending.still_held(held)
    assert await site.carry(attending, FILLER) == ((), ())
    assert (site.data / "projects/filler/x").exists()


async def test_still_held_asks_for_designers_and_nothing_else(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    attending = site.attendant(WAIT)
    held, _ = await site.carry(attending, FILLER)
    before = len(site.gateway.requests)
    assert await attending.still_held(held)
    assert [one.path for one in site.gateway.requests[before:]] == ["/data/api/v1/designers"]


async def test_one_of_two_designers_that_closes_triggers_a_sync(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    site.gateway.open_designer(Designer("d2", "bert", "packer"))
    attending = site.attendant(WAIT)
    held, _ = await site.carry(attending, {**FILLER, **PACKER})
    assert [(one.place, one.user) for one in held] == [
        ("projects/filler", "anna"),
        ("projects/packer", "bert"),
    ]
    site.gateway.close_designer("d2")
    assert not await attending.still_held(held)


async def test_a_designer_elsewhere_holds_nothing(site: Site) -> None:
    site.gateway.open_designer(Designer("d1", "anna", "other"))
    site.gateway.open_designer(Designer("d2", "bert", ""))
    assert await site.carry(site.attendant(WAIT), FILLER) == ((), ())


async def test_a_change_of_configuration_alone_asks_for_no_designer(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    await site.carry(site.attendant(WAIT), {f"{PROVIDER}/plant/config.json": "{}"})
    assert site.gateway.asked("GET", "/designers") == []


async def test_after_the_timeout_it_is_an_error_and_never_an_overwrite(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    attending = site.attendant(WAIT)
    held, _ = await site.carry(attending, FILLER)
    site.clock.skipped += 301
    assert not await attending.still_held(held), "the error has to be reported by a sync"
    for _ in range(3):
        with pytest.raises(Retry, match="anna has project filler open") as late:
            await site.carry(attending, FILLER)
        assert late.value.reason is Reason.DESIGNER_SESSION_ACTIVE
        site.clock.skipped += 600
    assert attending.outcome.held == held
    assert not (site.data / "projects/filler/x").exists()
    site.gateway.close_designer("d1")
    assert await site.carry(attending, FILLER) == ((), ())
    site.gateway.open_designer(ANNA)
    assert len((await site.carry(attending, FILLER))[0]) == 1, "the next wait begins anew"


async def test_other_projects_do_not_wait_for_a_designer_who_stays_too_long(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    attending = site.attendant(WAIT)
    await site.carry(attending, FILLER)
    site.clock.skipped += 301
    held, _ = await site.carry(attending, {**FILLER, **PACKER})
    assert [one.place for one in held] == ["projects/filler"]
    assert (site.data / "projects/packer/project.json").exists()
    with pytest.raises(Retry):
        await site.carry(attending, FILLER)


async def test_a_restart_of_the_agent_does_not_restart_the_wait(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    await site.carry(site.attendant(WAIT), FILLER)
    site.clock.skipped += 200
    assert len((await site.carry(site.attendant(WAIT), FILLER))[0]) == 1
    site.clock.skipped += 101
    with pytest.raises(Retry):
        await site.carry(site.attendant(WAIT), FILLER)


async def test_a_designer_that_comes_while_contents_are_fetched_is_not_overwritten(site: Site) -> None:
    attending = site.attendant(WAIT)
    change = site.change(FILLER)
    assert await attending.hold(change) == ()
    site.gateway.open_designer(ANNA)
    with pytest.raises(Retry, match="anna has project filler open") as late:
        async with attending.around(change):
            pytest.fail("the pass went on")
    assert late.value.reason is Reason.DESIGNER_SESSION_ACTIVE
    assert site.posts() == []
    assert not site.pending()
    assert [one.user for one in (await site.carry(attending, FILLER))[0]] == ["anna"]


async def test_a_wait_that_is_no_longer_needed_is_forgotten(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    attending = site.attendant(WAIT)
    await site.carry(attending, FILLER)
    await site.carry(attending, PACKER)  # the change of the other project was reverted
    site.clock.skipped += 301
    assert len((await site.carry(attending, FILLER))[0]) == 1
    site.clock.skipped += 86_400  # reverted again, and nothing else happened since
    assert len((await site.carry(attending, FILLER))[0]) == 1


async def test_a_long_wait_that_was_only_looked_at_ends_in_the_error_too(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    attending = site.attendant(replace(WAIT, designer_timeout=7200.0))
    held, _ = await site.carry(attending, FILLER)
    for _ in range(7):
        site.clock.skipped += 1000
        assert await attending.still_held(held)
    site.clock.skipped += 1000
    assert not await attending.still_held(held)
    with pytest.raises(Retry, match="for longer than 7200 s"):
        await site.carry(attending, FILLER)


async def test_pending_work_is_done_although_a_designer_stays_too_long(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    attending = site.attendant(WAIT)
    site.gateway.settings.scan_refusal = "a restore is under way"
    _, notes = await site.carry(attending, {**FILLER, **PACKER})
    assert len(notes) == 1
    site.gateway.settings.scan_refusal = ""
    site.clock.skipped += 301
    with pytest.raises(Retry):
        await site.carry(attending, FILLER)
    assert not site.pending()
    assert attending.outcome.verified


async def test_a_designer_outlives_the_restart_of_its_gateway(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    attending = site.attendant(WAIT)
    held, _ = await site.carry(attending, FILLER)
    site.gateway.restart()
    site.gateway.state = State.STARTING
    assert not await attending.still_held(held), "a pass says why nothing is written"
    for _ in range(2):
        with pytest.raises(Retry, match="nothing was written: "):
            await site.carry(attending, FILLER)
        site.clock.skipped += 301
    assert not (site.data / "projects/filler/x").exists()


async def test_one_that_answers_with_an_error_is_asked_again_before_anything_is_written(
    site: Site, proxy: HttpFaultProxy
) -> None:
    site.gateway.open_designer(ANNA)
    attending = site.attendant(WAIT, url=proxy.url)
    proxy.arm(AnsweredFault(500), "/designers", times=2)
    held, _ = await site.carry(attending, FILLER)
    assert [one.user for one in held] == ["anna"]
    assert site.clock.slept[:2] == [5.0, 10.0]


@pytest.mark.parametrize(("status", "reason"), [(500, Reason.GATEWAY_ERROR), (404, Reason.DESIGNERS_UNKNOWN)])
@pytest.mark.parametrize("policy", [DesignerPolicy.WAIT, DesignerPolicy.FAIL])
async def test_designers_that_are_not_listed_mean_that_nothing_is_written(
    site: Site, proxy: HttpFaultProxy, status: int, reason: Reason, policy: DesignerPolicy
) -> None:
    attending = site.attendant(replace(WAIT, designer_sessions=policy), url=proxy.url)
    proxy.arm(AnsweredFault(status), "(designers|sessions)", times=None)
    site.clock.leaps = lambda: True
    with pytest.raises(StokerError, match="nothing was written: ") as unknown:
        await site.carry(attending, FILLER)
    assert unknown.value.reason is reason
    assert not (site.data / "projects/filler/x").exists()
    assert site.clock.slept[:4] == ([5.0, 10.0, 30.0, 60.0] if status == 500 else [])


async def test_a_gateway_that_ran_a_moment_ago_is_waited_for_before_the_sync_fails(site: Site) -> None:
    attending = site.attendant(WAIT)
    assert await site.carry(attending, PACKER) == ((), ())
    site.gateway.go_down()
    site.clock.slept.clear()
    site.clock.leaps = lambda: True
    with pytest.raises(Retry, match="nothing was written: ") as away:
        await site.carry(attending, FILLER)
    assert away.value.reason is Reason.GATEWAY_UNREACHABLE
    assert site.clock.slept[:4] == [5.0, 10.0, 30.0, 60.0]
    assert not (site.data / "projects/filler/x").exists()


async def test_designers_that_cannot_be_listed_when_files_are_about_to_change_stop_the_sync(
    site: Site, proxy: HttpFaultProxy
) -> None:
    attending = site.attendant(WAIT, url=proxy.url)
    change = site.change(FILLER)
    assert await attending.hold(change) == ()
    proxy.arm(AnsweredFault(500), "/designers", times=None)
    with pytest.raises(Retry, match="nothing was written: "):
        async with attending.around(change):
            pytest.fail("the pass went on")
    assert not site.pending()


async def test_with_proceed_designers_need_not_be_listed_and_a_warning_says_so(
    site: Site, proxy: HttpFaultProxy
) -> None:
    proxy.arm(AnsweredFault(404), "(designers|sessions)", times=None)
    attending = site.attendant(replace(WAIT, designer_sessions=DesignerPolicy.PROCEED), url=proxy.url)
    assert await site.carry(attending, FILLER) == ((), ())
    (warning,) = attending.outcome.warnings
    assert warning.startswith("who has a project open in a Designer is not known: DesignersUnknown")


@pytest.mark.parametrize("paths", [Paths.V83, Paths.V2])
async def test_both_generations_of_paths_are_understood(site: Site, paths: Paths) -> None:
    site.gateway.settings.paths = paths
    site.gateway.open_designer(ANNA)
    held, _ = await site.carry(site.attendant(WAIT), FILLER)
    assert [one.user for one in held] == ["anna"]


async def test_with_fail_nothing_at_all_is_written(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    policy = replace(WAIT, designer_sessions=DesignerPolicy.FAIL)
    with pytest.raises(Stalled, match="anna has project filler open") as stalled:
        await site.carry(site.attendant(policy), {**FILLER, **PACKER})
    assert stalled.value.reason is Reason.DESIGNER_SESSION_ACTIVE
    assert not (site.data / "projects/packer").exists()
    assert site.posts() == []


async def test_with_proceed_there_is_only_a_warning(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    attending = site.attendant(replace(WAIT, designer_sessions=DesignerPolicy.PROCEED))
    assert await site.carry(attending, FILLER) == ((), ())
    assert (site.data / "projects/filler/x").exists()
    assert attending.outcome.warnings == (
        "anna has project filler open in a Designer; the sync went on, as its policy says",
    )


async def test_a_whole_agent_sync_holds_open_projects(site: Site, tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "plant.git")
    repository.commit({"projects/filler/project.json": "{}", "projects/packer/project.json": "{}"})
    job = SyncJob(
        SourceIntent(RepoUrl(f"file://{repository.path}"), GitRef("main")),
        FilesIntent((FileMapping("projects", "projects"),)),
        TemplateValues(gateway_name="filler"),
        site.data,
        tmp_path / "cache",
    )
    attending = site.attendant(WAIT)
    tended = open_keeper(job, hooks=(attending,), gateway=attending)
    assert (await tended.sync(SyncOptions())).result is SyncResult.DONE
    commit = CommitId(repository.commit({"projects/filler/x": "1", "projects/packer/x": "1"}))
    site.gateway.open_designer(ANNA)
    report = await tended.sync(SyncOptions(walk=False, commit=commit))
    assert report.result is SyncResult.HELD
    assert [(one.place, one.user) for one in report.plan.held] == [("projects/filler", "anna")]
    assert await tended.sync(SyncOptions(walk=False, commit=commit)) is report
    site.clock.skipped += 301
    with pytest.raises(Retry, match="anna"):
        await tended.sync(SyncOptions(walk=False, commit=commit))
    site.gateway.close_designer("d1")
    assert (await tended.sync(SyncOptions(walk=False, commit=commit))).result is SyncResult.DONE
    assert (site.data / "projects/filler/x").read_text() == "1"


# Perspective sessions.

GRACEFUL = IgnitionPolicy(perspective_sessions=PerspectivePolicy.GRACEFUL)
CLOSE = IgnitionPolicy(perspective_sessions=PerspectivePolicy.CLOSE)


async def test_graceful_notifies_waits_and_closes_the_remaining_sessions(site: Site) -> None:
    site.gateway.settings.paths = Paths.BOTH
    site.gateway.open_session(PerspectiveBrowser("listens", "anna", "filler"))
    site.gateway.open_session(PerspectiveBrowser("deaf", "bert", "filler", leaves_after=None))
    site.gateway.open_session(PerspectiveBrowser("elsewhere", "carl", "other", leaves_after=None))
    attending = site.attendant(GRACEFUL)

    def has_closed() -> None:
        assert site.gateway.sessions == ["elsewhere"]

    assert await site.carry(attending, FILLER, meanwhile=has_closed) == ((), ())
    shown_sessions = attending.outcome.sessions
    assert (
        shown_sessions.active,
        shown_sessions.closed,
        shown_sessions.projects,
        shown_sessions.warnings,
    ) == (2, 1, ("filler",), ())
    assert shown_sessions.longest >= 0.0
    assert {one.session for one in site.gateway.messages} == {"listens", "deaf"}
    assert 4.0 <= sum(one for one in site.clock.slept if one == 1.0) <= 11.0, "real time passes as well"


async def test_a_session_that_leaves_early_is_not_waited_for(site: Site) -> None:
    site.gateway.settings.paths = Paths.BOTH
    site.gateway.open_session(PerspectiveBrowser("listens", "anna", "filler", leaves_after=0.0))
    await site.carry(site.attendant(GRACEFUL), FILLER)
    assert site.clock.slept.count(1.0) <= 2


async def test_graceful_leaves_a_session_open_that_cannot_be_shown_a_message(site: Site) -> None:
    site.gateway.open_session(PerspectiveBrowser("b", "anna", "filler", leaves_after=None))
    attending = site.attendant(GRACEFUL)
    assert await site.carry(attending, FILLER) == ((), ())
    assert site.gateway.sessions == ["b"]
    assert site.gateway.asked("DELETE", "sessions") == []
    assert attending.outcome.warnings == (
        "Perspective sessions: 1 of 1 were left open: this gateway showed them no message",
    )
    assert attending.outcome.sessions.closed == 0


def test_by_default_no_session_is_closed() -> None:
    assert IgnitionPolicy().perspective_sessions is PerspectivePolicy.NONE


async def test_sessions_of_a_project_that_inherits_are_notified_too(site: Site) -> None:
    site.put("projects/heir/project.json", '{"parent": "filler"}')
    site.gateway.open_session(PerspectiveBrowser("b", "anna", "heir"))
    await site.carry(site.attendant(CLOSE), FILLER)
    assert site.gateway.sessions == []


async def test_close_waits_and_closes_with_a_message(site: Site) -> None:
    site.gateway.open_session(PerspectiveBrowser("b", "anna", "filler", leaves_after=None))
    attending = site.attendant(CLOSE)
    assert await site.carry(attending, FILLER) == ((), ())
    assert site.gateway.sessions == []
    (message,) = site.gateway.messages
    assert "updated" in message.text
    assert site.clock.slept.count(1.0) >= 4, "real time passes as well"
    assert (attending.outcome.sessions.closed, attending.outcome.warnings) == (1, ())


async def test_the_grace_is_given_also_where_sessions_are_not_listed_meanwhile(
    site: Site, proxy: HttpFaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.gateway.open_session(PerspectiveBrowser("b", "anna", "filler", leaves_after=None))
    sleep = site.clock.sleep

    async def list_no_more(seconds: float) -> None:
        if seconds == 1.0 and 1.0 not in site.clock.slept:
            proxy.arm(AnsweredFault(500), "sessions", method="GET", times=None)
        await sleep(seconds)

    monkeypatch.setattr(site.clock, "sleep", list_no_more)
    await site.carry(site.attendant(CLOSE, url=proxy.url), FILLER)
    assert site.clock.slept.count(1.0) >= 4, "real time passes as well"
    assert site.gateway.sessions == []


async def test_none_only_counts(site: Site) -> None:
    site.gateway.open_session(PerspectiveBrowser("b", "anna", "filler"))
    attending = site.attendant(CALM)
    await site.carry(attending, FILLER)
    assert site.gateway.sessions == ["b"]
    assert (attending.outcome.sessions.active, attending.outcome.sessions.closed) == (1, 0)


async def test_a_change_of_configuration_disturbs_no_session(site: Site) -> None:
    site.gateway.open_session(PerspectiveBrowser("b", "anna", "filler"))
    attending = site.attendant(CLOSE)
    await site.carry(attending, {f"{PROVIDER}/plant/config.json": "{}"})
    assert site.gateway.sessions == ["b"]


async def test_a_held_project_disturbs_no_session_either(site: Site) -> None:
    site.gateway.open_designer(ANNA)
    site.gateway.open_session(PerspectiveBrowser("b", "anna", "filler"))
    await site.carry(site.attendant(CLOSE), {**FILLER, **PACKER})
    assert site.gateway.sessions == ["b"]


async def test_no_session_is_closed_for_a_sync_that_cannot_have_the_lock(site: Site) -> None:
    other = GatewayClient(GatewayAddress.parse(site.gateway.url), lambda: Secret(KEY))
    await other.lock(ScanKind.CONFIG, acquire=0, hold=60)
    await other.aclose()
    site.gateway.open_session(PerspectiveBrowser("b", "anna", "filler"))
    with pytest.raises(ScanLockRefused):
        await site.carry(site.attendant(CLOSE), FILLER)
    assert site.gateway.sessions == ["b"]


@pytest.mark.parametrize("status", [403, 500])
async def test_what_goes_wrong_with_sessions_is_a_warning(
    site: Site, proxy: HttpFaultProxy, status: int
) -> None:
    site.gateway.open_session(PerspectiveBrowser("b", "anna", "filler"))
    proxy.arm(AnsweredFault(status), "sessions", method="DELETE", times=None)
    attending = site.attendant(CLOSE, url=proxy.url)
    assert await site.carry(attending, FILLER) == ((), ())
    assert (site.data / "projects/filler/x").exists()
    assert any(one.startswith("Perspective sessions: ") for one in attending.outcome.warnings)
    proxy.arm(AnsweredFault(status), "sessions", times=None)
    assert await site.carry(attending, PACKER) == ((), ())
    assert attending.outcome.warnings[0].startswith("Perspective sessions are not known: ")


# Verification.


async def test_a_project_that_is_not_shown_is_named_and_looked_for_until_it_is(site: Site) -> None:
    attending = site.attendant()
    _, (note,) = await site.carry(attending, {"projects/packer/project.json": "{"})
    assert note == PathNote("projects/packer", "the gateway does not show it after the scan")
    assert (attending.outcome.applied, attending.outcome.verified) == (True, False)
    site.clock.skipped += 5
    before = site.posts().count("scan/projects")
    assert await attending.settle() == (note,)
    assert site.posts().count("scan/projects") == before + 1, "a scan may have been lost"
    site.put("projects/packer/project.json", "{}")
    site.clock.skipped += 10
    assert await attending.settle() == ()
    assert (attending.outcome.applied, attending.outcome.verified) == (True, True)


async def test_a_project_that_was_shown_before_is_not_verified_while_the_scan_goes_on(site: Site) -> None:
    """The list of before the scan holds it; the gateway drops it when it reads what was written."""
    _, notes = await site.carry(site.attendant(), {"projects/filler/project.json": "["})
    assert notes == (PathNote("projects/filler", "the gateway does not show it after the scan"),)


async def test_a_gateway_without_scan_status_is_verified_all_the_same(
    site: Site, proxy: HttpFaultProxy
) -> None:
    attending = site.attendant(url=proxy.url)
    assert await site.carry(attending, PACKER) == ((), ())
    for answer in (
        AnsweredFault(404),
        AnsweredFault(500),
        AnsweredFault(200, b'"?"', {"Content-Type": "application/json"}),
    ):
        proxy.arm(answer, "/scan/projects", times=1, method="GET")
        assert await site.carry(attending, {"projects/packer/x": str(answer)}) == ((), ())


async def test_what_is_never_shown_is_not_scanned_for_ever(site: Site) -> None:
    attending = site.attendant()
    await site.carry(attending, {"projects/packer/project.json": "{"})
    for _ in range(8):
        site.clock.skipped += 60
        assert len(await attending.settle()) == 1
    assert 5 <= site.posts().count("scan/projects") <= 6


async def test_a_project_that_was_removed_has_to_be_gone(site: Site, proxy: HttpFaultProxy) -> None:
    shown = AnsweredFault(200, b'["filler"]', {"Content-Type": "application/json"})
    proxy.arm(shown, "projects/list", times=None)
    attending = site.attendant(url=proxy.url)
    _, (note,) = await site.carry(attending, {"projects/filler/project.json": None})
    assert note == PathNote("projects/filler", "the gateway still shows it after the scan")
    later = site.attendant(url=proxy.url)
    assert await later.settle() == (note,), "the next process knows what to look for"
    proxy.lift()
    site.clock.skipped += 60
    assert await later.settle() == ()


async def test_tag_providers_are_read_back(site: Site, proxy: HttpFaultProxy) -> None:
    attending = site.attendant(url=proxy.url)
    assert await site.carry(attending, {f"{PROVIDER}/line/resource.json": RESOURCE}) == ((), ())
    nothing = AnsweredFault(200, b'{"items": [{"name": "plant"}]}', {"Content-Type": "application/json"})
    proxy.arm(nothing, "tag-provider", times=None)
    _, notes = await site.carry(attending, {f"{PROVIDER}/plant/resource.json": None})
    assert notes == (
        PathNote(f"{PROVIDER}/line", "the gateway does not show it after the scan"),
        PathNote("tag provider plant", "the gateway still shows it after the scan"),
    )
    assert not attending.outcome.verified


async def test_a_gateway_that_lists_no_tag_providers_is_accepted_with_a_warning(
    site: Site, proxy: HttpFaultProxy
) -> None:
    proxy.arm(AnsweredFault(404), "tag-provider", times=None)
    attending = site.attendant(url=proxy.url)
    assert await site.carry(attending, FILLER) == ((), ())
    assert attending.outcome.verified
    assert attending.outcome.warnings == ("tag providers were not verified: this gateway does not list them",)


async def test_a_module_that_is_put_aside_by_a_change_is_named(site: Site) -> None:
    site.gateway.settings.quarantined = ("com.example.sick",)
    attending = site.attendant()

    def breaks() -> None:
        site.gateway.settings.quarantined += ("com.inductiveautomation.opcua",)

    _, (note,) = await site.carry(attending, {f"{PROVIDER}/plant/config.json": "{}"}, meanwhile=breaks)
    assert note.path == "module com.inductiveautomation.opcua"
    assert note.why == "the gateway has put it aside: its certificate was not accepted"
    assert not attending.outcome.verified


# Modules and restarts.


async def test_a_new_module_restarts_the_gateway_before_the_scan(site: Site) -> None:
    attending = site.attendant()
    site.gateway.needs_restart("module pump")
    assert await site.carry(attending, {MODULE: "a module"}) == ((), ())
    asked = [one for one in site.posts() if "lock" not in one]
    assert asked == ["restart-tasks/restart", "scan/projects", "scan/config"]
    assert attending.outcome.restarted == (MODULE,)
    assert attending.outcome.verified
    assert attending.outcome.warnings == ()
    assert site.clock.slept[-1] <= 10.0
    assert 10.0 in [round(one) for one in site.clock.slept], "it came up and was left alone for a while"


async def test_a_new_module_that_the_gateway_puts_aside_is_named(site: Site) -> None:
    attending = site.attendant()
    _, (note,) = await site.carry(attending, {MODULE: ""})
    assert (note.path, note.why) == ("module pump", "the gateway has put it aside: the file is empty")
    assert site.posts().count("restart-tasks/restart") == 1
    site.clock.skipped += 60
    assert await attending.settle() == (note,)
    assert site.posts().count("restart-tasks/restart") == 1, "once"


async def test_a_gateway_that_cannot_be_restarted_goes_on_with_a_warning(
    site: Site, proxy: HttpFaultProxy
) -> None:
    proxy.arm(AnsweredFault(404), "/restart(-tasks/restart)?($|\\?)", method="POST", times=None)
    site.gateway.needs_restart("module pump")
    attending = site.attendant(url=proxy.url)
    assert await site.carry(attending, {MODULE: "a module"}) == ((), ())
    assert attending.outcome.restarted == ()
    assert attending.outcome.warnings == (
        "this gateway cannot be restarted over its API; its next start takes up pump.modl",
        "waits for a restart of the gateway: module pump",
    )


async def test_a_gateway_that_does_not_come_back_in_time_is_scanned_later(site: Site) -> None:
    site.gateway.settings.restart_seconds = 3600.0
    attending = site.attendant()
    site.clock.leaps = lambda: site.gateway.state is State.STARTING
    _, (note,) = await site.carry(attending, {MODULE: "a module"})
    assert "not back after 180 s" in note.why
    assert site.posts().count("scan/projects") == 0
    site.gateway.restart()
    site.clock.skipped += 60
    assert await attending.settle() == ()
    assert site.posts().count("restart-tasks/restart") == 1
    eventually(lambda: site.posts().count("scan/projects") == 1, message="the pending scan")


async def test_other_files_beside_the_modules_restart_nothing(site: Site) -> None:
    await site.carry(site.attendant(), {"user-lib/modules/readme.txt": "x", "projects/filler/x.modl": "x"})
    assert "restart-tasks/restart" not in site.posts()

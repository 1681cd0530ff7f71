"""A gateway's modules, tag providers and types decide which files it gets."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.jobs import SyncJob, SyncOptions, SyncResult
from stoker.agent.sync.open_source import open_keeper
from stoker.cli.exit_codes import ExitCode
from stoker.domain.errors import Retry
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.files import FileMapping, FilesIntent
from stoker.domain.intent.policies import IgnitionPolicy, PerspectivePolicy, TagInheritance
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.refs import GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.gateway import GatewayClient
from stoker.ignition.content.noise import ResourceNoise
from stoker.ignition.sync.gateway_filter import REFRESH_SECONDS
from stoker.ignition.sync.gateway_hook import GatewayHook, GatewayHookOptions
from stoker.ignition.sync.readiness import GRACE_SECONDS
from stoker.ignition.sync.state_files import MAX_FILE_BYTES
from stoker.ignition.sync.stored_inventory import STATE_FILE
from stoker_testkit.gateway.settings import ApiKey, Paths
from stoker_testkit.gateway.simulated_gateway import KEY, SimulatedGateway
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.sample_ignition_repository import resource

CORE = "config/resources/core"
TYPES = f"{CORE}/ignition/tag-type-definition"
PROVIDERS = f"{CORE}/ignition/tag-provider"
ENGINE = "MQTT Engine"
LEFT_OUT = f"filled by modules and not synced: tag provider {ENGINE}"
LEAVES = IgnitionPolicy(perspective_sessions=PerspectivePolicy.NONE, tag_inheritance=TagInheritance.LEAF_ONLY)
ALL = replace(LEAVES, tag_inheritance=TagInheritance.FULL)
WITH_ENGINE = ("com.inductiveautomation.perspective", "com.cirruslink.mqtt.engine.gateway")


def types(provider: str, *names: str) -> dict[str, str]:
    """The types of a provider, by paths of the data folder."""
    listed = json.dumps([{"name": name, "tagType": "UdtType"} for name in names])
    return {f"{TYPES}/{provider}/{file}": text for file, text in resource({"udts.json": listed}).items()}


def provider(name: str) -> dict[str, str]:
    return {f"{PROVIDERS}/{name}/{file}": text for file, text in resource({"config.json": "{}"}).items()}


def put(data: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (data / path).parent.mkdir(parents=True, exist_ok=True)
        (data / path).write_text(text)


class LeapingClock:
    """Real time, in which a sleep yields for a moment and skips its duration."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.skipped)

    def monotonic(self) -> float:
        return time.monotonic() + self.skipped

    async def sleep(self, seconds: float) -> None:
        self.skipped += seconds
        await asyncio.sleep(0.02)

    def advance(self, seconds: float) -> None:
        self.skipped += seconds


@dataclass
class Site:
    """A gateway, the repository of its files, and agents that come and go as processes do."""

    gateway: SimulatedGateway
    repository: Repository
    data: Path
    cache: Path
    clock: LeapingClock = field(default_factory=LeapingClock)
    opened: list[FolderSync] = field(default_factory=list)

    def agent(
        self, policy: IgnitionPolicy = ALL, mappings: tuple[FileMapping, ...] = (FileMapping(CORE, CORE),)
    ) -> tuple[FolderSync, GatewayHook]:
        client = GatewayClient(GatewayAddress.parse(self.gateway.url), lambda: Secret(KEY))
        options = GatewayHookOptions(data_dir=self.data, state_dir=self.data / ".sync-state", policy=policy)
        attending = GatewayHook(client, options, self.clock)
        job = SyncJob(
            SourceIntent(RepoUrl(self.repository.path.as_uri()), GitRef("main")),
            FilesIntent(mappings),
            TemplateValues(gateway_name="filler"),
            self.data,
            self.cache,
        )
        self.opened.append(open_keeper(job, hooks=(attending,), gateway=attending, noise=ResourceNoise()))
        return self.opened[-1], attending

    def read(self, path: str) -> str:
        return (self.data / path).read_text()

    def names(self, provider: str) -> list[str]:
        """The types that lie there for a provider."""
        return [one["name"] for one in json.loads(self.read(f"{TYPES}/{provider}/udts.json"))]

    def questions(self) -> int:
        return len(self.gateway.asked("GET", "/modules/healthy"))


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    repository = Repository.create(tmp_path / "plant.git")
    repository.commit(types("default", "Motor", "Pump") | types(ENGINE, "Edge"))
    with SimulatedGateway.start(tmp_path / "data", scan_seconds=0.0) as gateway:
        made = Site(gateway, repository, tmp_path / "data", tmp_path / "cache")
        yield made
        for one in made.opened:
            await one.aclose()


def bring_engine(site: Site) -> None:
    site.gateway.settings.modules = WITH_ENGINE
    site.gateway.settings.managed_providers = (ENGINE,)


# Providers that a module fills.


@pytest.mark.parametrize("paths", Paths)
async def test_nothing_of_a_provider_that_a_module_fills_is_written_or_deleted(
    site: Site, paths: Paths
) -> None:
    site.gateway.settings.paths = paths
    bring_engine(site)
    put(site.data, {f"{TYPES}/{ENGINE}/udts.json": "the module's own", f"{TYPES}/{ENGINE}/more": "also"})
    tended, attending = site.agent()
    report = await tended.sync(SyncOptions())
    assert report.result is SyncResult.DONE
    assert site.names("default") == ["Motor", "Pump"]
    assert site.read(f"{TYPES}/{ENGINE}/udts.json") == "the module's own"
    assert site.read(f"{TYPES}/{ENGINE}/more") == "also"
    assert report.plan.orphans_kept == ()
    assert attending.outcome.warnings == (LEFT_OUT,)
    site.repository.commit(types(ENGINE, "Edge", "Node"))
    assert (await tended.sync(SyncOptions())).files_changed == 0
    assert site.read(f"{TYPES}/{ENGINE}/udts.json") == "the module's own"


async def test_an_engines_provider_is_known_by_its_name_and_stays_so_when_the_module_is_put_aside(
    site: Site,
) -> None:
    put(site.data, provider(ENGINE))
    site.gateway.load()
    site.gateway.settings.modules, site.gateway.settings.quarantined = WITH_ENGINE[:1], WITH_ENGINE[1:]
    tended, attending = site.agent()
    await tended.sync(SyncOptions())
    assert attending.outcome.warnings[0] == LEFT_OUT
    assert not (site.data / TYPES / ENGINE).exists()


@pytest.mark.parametrize("folders", [(CORE,), (f"{TYPES}/default", f"{TYPES}/{ENGINE}")], ids=["one", "own"])
async def test_what_was_written_before_the_module_came_stays_as_it_is(
    site: Site, folders: tuple[str, ...]
) -> None:
    tended, attending = site.agent(mappings=tuple(FileMapping(one, one) for one in folders))
    await tended.sync(SyncOptions())
    before = site.read(f"{TYPES}/{ENGINE}/udts.json")
    bring_engine(site)
    site.clock.advance(REFRESH_SECONDS)
    report = await tended.sync(SyncOptions())
    assert (report.result, report.plan.actions) == (SyncResult.DONE, ())
    assert site.read(f"{TYPES}/{ENGINE}/udts.json") == before
    assert attending.outcome.warnings == (LEFT_OUT,)
    assert tended.ledger is not None
    assert tended.ledger.complete, "nothing is left over that each pass would have to look at"
    site.repository.commit({f"{TYPES}/{ENGINE}/udts.json": None, f"{TYPES}/{ENGINE}/resource.json": None})
    await tended.sync(SyncOptions())
    assert site.read(f"{TYPES}/{ENGINE}/udts.json") == before, "git has no say in it any more"
    put(site.data, {f"{TYPES}/{ENGINE}/udts.json": "the module's own"})
    assert not (await tended.verify()).drift, "and what the module does is no drift"
    report = await tended.sync(SyncOptions())
    assert (report.plan.actions, bool(report.drift)) == ((), False)


# When it is asked, and what counts while it does not answer.


async def test_it_is_asked_every_few_minutes_and_after_a_start_and_not_on_each_sync(site: Site) -> None:
    tended, attending = site.agent()
    await tended.sync(SyncOptions())
    asked = len(site.gateway.requests)
    for _ in range(3):
        await tended.sync(SyncOptions())
    assert len(site.gateway.requests) == asked
    bring_engine(site)
    site.clock.advance(REFRESH_SECONDS)
    await tended.sync(SyncOptions())
    assert attending.outcome.warnings == (LEFT_OUT,)

    site.gateway.go_down()
    site.repository.commit(types("default", "Motor"))
    with pytest.raises(Retry, match="nothing was written"):  # it is seen to be away
        await tended.sync(SyncOptions())
    site.gateway.come_up()
    site.gateway.settings.managed_providers = (ENGINE, "Other")
    site.clock.advance(5)
    await tended.sync(SyncOptions())
    assert attending.outcome.verified, "it is seen to be back"
    await tended.sync(SyncOptions())
    assert attending.outcome.warnings == (f"{LEFT_OUT}, Other",)


async def test_one_that_has_just_come_up_is_left_alone_at_first(site: Site) -> None:
    site.gateway.go_down()
    tended, _ = site.agent()
    await tended.sync(SyncOptions(dry_run=True))
    site.gateway.come_up()
    site.clock.advance(REFRESH_SECONDS)
    await tended.sync(SyncOptions(dry_run=True))
    assert site.questions() == 0
    site.clock.advance(GRACE_SECONDS)
    await tended.sync(SyncOptions(dry_run=True))
    assert site.questions() == 1


@pytest.mark.parametrize("trouble", ["down", "refuses", "forgets"])
@pytest.mark.parametrize("process", ["the same", "a new one"])
async def test_one_that_does_not_answer_changes_nothing(site: Site, trouble: str, process: str) -> None:
    bring_engine(site)
    put(site.data, provider("parent") | types("parent", "Motor"))
    site.gateway.load()
    tended, attending = site.agent(LEAVES)
    await tended.sync(SyncOptions())
    assert site.names("default") == ["Pump"]
    if trouble == "down":
        site.gateway.go_down()
    elif trouble == "refuses":
        site.gateway.settings.keys["stoker"] = ApiKey("another")
    else:
        site.gateway.settings.paths = Paths.V2
    if process == "a new one":
        tended, attending = site.agent(LEAVES)
    before = _stamps(site.data)
    for _ in range(3):
        site.clock.advance(REFRESH_SECONDS)
        report = await tended.sync(SyncOptions())
        assert report.plan.actions == ()
    assert _stamps(site.data) == before, "no file, the ledger neither, was written anew"
    assert LEFT_OUT in attending.outcome.warnings
    assert any("TokenRejected" in one for one in attending.outcome.warnings) is (trouble == "refuses")


def _stamps(data: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in data.rglob("*") if path.is_file()}


async def test_before_its_first_start_nothing_is_asked_and_what_was_reported_counts(site: Site) -> None:
    first, attending = site.agent()
    attending.initial = True
    await first.sync(SyncOptions())
    assert site.gateway.requests == []
    bring_engine(site)
    attending.initial = False
    await first.sync(SyncOptions())
    assert attending.outcome.warnings == (), "it has just come up"
    site.clock.advance(GRACE_SECONDS)
    await first.sync(SyncOptions())
    requests = len(site.gateway.requests)
    again, attending = site.agent()
    attending.initial = True
    site.repository.commit(types(ENGINE, "Other"))
    assert (await again.sync(SyncOptions())).files_changed == 0
    assert len(site.gateway.requests) == requests
    assert attending.outcome.warnings == (LEFT_OUT,)


async def test_a_dry_run_plans_the_same_and_leaves_no_trace(site: Site) -> None:
    bring_engine(site)
    tended, _ = site.agent()
    planned = await tended.sync(SyncOptions(dry_run=True))
    assert not (site.data / ".sync-state").exists()
    other, _ = site.agent()
    assert (
        await other.sync(SyncOptions(approved=frozenset({PlanApproval(planned.plan.digest)})))
    ).plan.digest == (planned.plan.digest)
    assert not any(ENGINE in str(write.path) for write in planned.plan.writes)


async def test_projects_alone_ask_for_nothing(site: Site) -> None:
    site.repository.commit({"projects/filler/project.json": "{}"})
    tended, _ = site.agent(mappings=(FileMapping("projects", "projects"),))
    await tended.sync(SyncOptions())
    assert site.questions() == 0
    assert not (site.data / ".sync-state" / STATE_FILE).exists()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"managed": "x", "provider": 1}', b"\xff", b"[" * 9999]
)
async def test_a_mark_that_is_not_ours_counts_as_none(site: Site, content: bytes) -> None:
    state = site.data / ".sync-state"
    state.mkdir(mode=0o700)
    (state / STATE_FILE).write_bytes(content)
    tended, attending = site.agent()
    assert (await tended.sync(SyncOptions())).result is SyncResult.DONE
    assert attending.outcome.warnings == ()


# Types that a parent has.


async def test_leaf_only_leaves_out_what_a_parent_has_and_writes_the_others(site: Site) -> None:
    put(site.data, provider("parent") | types("parent", "Motor") | provider("default"))
    site.gateway.load()
    site.repository.commit(provider("parent") | types("parent", "Motor") | provider("default"))
    tended, attending = site.agent(LEAVES)
    assert (await tended.sync(SyncOptions())).result is SyncResult.DONE
    assert site.names("default") == ["Pump"]
    assert site.names("parent") == ["Motor"], "the parent's own are not touched"
    assert attending.outcome.warnings == ()
    put(site.data, types("parent", "Motor", "Pump"))
    site.gateway.load()
    site.repository.commit(types("parent", "Motor", "Pump"))
    site.clock.advance(REFRESH_SECONDS)
    await tended.sync(SyncOptions())
    assert site.names("default") == []
    full, _ = site.agent(ALL)
    await full.sync(SyncOptions())
    assert site.names("default") == ["Motor", "Pump"]


async def test_a_gateway_that_cannot_list_types_gets_all_of_them_with_a_warning(site: Site) -> None:
    site.gateway.settings.paths = Paths.V2
    put(site.data, provider("parent") | types("parent", "Motor"))
    site.gateway.load()
    tended, attending = site.agent(LEAVES)
    await tended.sync(SyncOptions())
    assert site.names("default") == ["Motor", "Pump"]
    found_warnings, waits = attending.outcome.warnings
    assert found_warnings == "this gateway does not say which tag types parent has"
    assert waits.startswith("leaf-only waits for the gateway")


async def test_more_types_than_can_be_remembered_do_not_count(site: Site) -> None:
    long = [f"{number:05} {'x' * 200}" for number in range(MAX_FILE_BYTES // 200)]
    put(site.data, provider("parent") | types("parent", "Motor", *long))
    site.gateway.load()
    tended, attending = site.agent(LEAVES)
    await tended.sync(SyncOptions())
    assert site.names("default") == ["Motor", "Pump"]
    assert any("than can be remembered" in one for one in attending.outcome.warnings)


# Both front doors, and modules.


def test_stoker_sync_asks_the_gateway_and_names_what_it_leaves_out(site: Site, tmp_path: Path) -> None:
    bring_engine(site)
    (tmp_path / "key").write_text(KEY)
    flags = ["--repo", site.repository.path.as_uri(), "--ref", "main", "--map", f"{CORE}:{CORE}"]
    flags += ["--data-dir", str(site.data), "--cache-dir", str(site.cache), "--output", "json"]
    flags += ["--gateway", site.gateway.url, "--api-key-file", str(tmp_path / "key")]
    command = [sys.executable, "-m", "stoker"]
    plan = subprocess.run([*command, "plan", *flags], capture_output=True, text=True, check=False)
    assert plan.stderr == f"stoker plan: warning: {LEFT_OUT}\n"
    done = subprocess.run([*command, "sync", *flags], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (ExitCode.DONE, f"stoker sync: warning: {LEFT_OUT}\n")
    report = json.loads(done.stdout)
    assert json.loads(plan.stdout)["planDigest"] == report["planDigest"]
    assert f"{TYPES}/{ENGINE}/udts.json" in [one["path"] for one in report["skipped"]]
    assert not (site.data / TYPES / ENGINE).exists()


def test_files_only_leaves_out_what_the_gateway_reported_before_and_asks_it_nothing(
    site: Site, tmp_path: Path
) -> None:
    bring_engine(site)
    (tmp_path / "key").write_text(KEY)
    flags = ["--repo", site.repository.path.as_uri(), "--ref", "main", "--map", f"{CORE}:{CORE}"]
    flags += ["--data-dir", str(site.data), "--cache-dir", str(site.cache), "--output", "json"]
    asking = ["--gateway", site.gateway.url, "--api-key-file", str(tmp_path / "key")]
    command = [sys.executable, "-m", "stoker", "sync", *flags]
    subprocess.run([*command, *asking], capture_output=True, text=True, check=True)
    requests = len(site.gateway.requests)
    put(site.data, {f"{TYPES}/{ENGINE}/udts.json": "of the module"})
    site.repository.commit(types("default", "Valve") | types(ENGINE, "Other"))
    done = subprocess.run([*command, "--files-only"], capture_output=True, text=True, check=True)
    assert site.names("default") == ["Valve"]
    assert site.read(f"{TYPES}/{ENGINE}/udts.json") == "of the module"
    assert f"{TYPES}/{ENGINE}/udts.json" in [one["path"] for one in json.loads(done.stdout)["skipped"]]
    assert len(site.gateway.requests) == requests


def module(id_: str, *needs: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as zipped:
        depends = "".join(f"<depends>{one}</depends>" for one in needs)
        zipped.writestr("module.xml", f"<modules><module><id>{id_}</id>{depends}</module></modules>")
        zipped.writestr("filling", os.urandom(5 << 20))
    return made.getvalue()


class FolderObserver:
    """Says in which order files appear in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seen = folder, list[str]()

    def look(self, stage: str, done: int, total: int) -> None:
        if stage == "publishing":
            self.seen += sorted({path.name for path in self.folder.iterdir()} - set(self.seen))


async def test_modules_go_in_after_what_they_need_then_as_listed_and_one_restart_follows(site: Site) -> None:
    folder = site.data / "user-lib/modules"
    folder.mkdir(parents=True)
    files = {"a.modl": module("a", "z"), "b.modl": module("b"), "c.jar": b"c", "z.modl": module("z")}
    site.repository.commit({f"modules/{name}": content for name, content in files.items()})
    tended, attending = site.agent(mappings=(FileMapping("modules", "user-lib/modules"),))
    noticing = FolderObserver(folder)
    job = tended.job._replace(module_order=("c.jar",))
    ordered = open_keeper(job, hooks=(attending,), gateway=attending, progress=noticing.look)
    report = await ordered.sync(SyncOptions())
    assert noticing.seen == ["c.jar", "z.modl", "a.modl", "b.modl"]
    assert [write.path.name for write in report.plan.writes] == noticing.seen
    assert len(site.gateway.asked("POST", "/restart-tasks/restart")) == 1
    assert {name: (folder / name).read_bytes() for name in files} == files

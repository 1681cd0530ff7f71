"""A designer's change on a gateway is captured, mapped, sent and never overwritten before git has it.

Real files under a real inotify, a real repository, a real API server with its limits on maps. The
controller's part is played by the test: it reads the maps and hands in answers.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.bidirectional import state
from stoker.agent.bidirectional.capture import ChangeCapture
from stoker.agent.bidirectional.outbox import OutboxSender
from stoker.agent.bidirectional.types import OutboxAddress
from stoker.agent.bidirectional.watch import CaptureLoop
from stoker.agent.config_maps import MAX_MANAGER_LENGTH, changes_manager, manager_for
from stoker.agent.identity import AgentIdentity
from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.jobs import SyncJob, SyncOptions, SyncResult
from stoker.agent.sync.open_source import open_keeper
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import SystemClock
from stoker.domain.errors import Retry
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.files import ExcludePolicy, FieldTemplate, FileMapping, FilesIntent, TransformPolicy
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.intent.policies import BidirectionalPolicy
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.protocol import (
    CHANGE_MAPS,
    ChangeAction,
    ChangeSet,
    ChangeSetReply,
    ChangeSetResult,
    GatewayChangesReport,
)
from stoker.domain.protocol import changes_map_name as map_name
from stoker.domain.protocol.change_set_codec import CHUNK_BYTES, ChangeSetChunk, decode, is_complete
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.engine.plan.approvals import unused
from stoker.fs.data_folder import DataFolder
from stoker.ignition.content.noise import ResourceNoise
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import load_config
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.agent_environment import FILES_ONLY, SERVICE, AgentEnvironment, project
from stoker_testkit.repositories.bare_repository import Repository, executable
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.sample_ignition_repository import view
from stoker_testkit.wait_until import eventually, eventually_async

PATIENCE = 20.0
VIEW = "projects/line/views/main"
POLICY = BidirectionalPolicy(enabled=True, watch_paths=("projects/**",), debounce=0.0)


class Maps:
    """The eight maps, as a controller sees them."""

    def __init__(self, cluster: ClusterAccess, namespace: str) -> None:
        self._cluster = cluster
        self._place = f"/api/v1/namespaces/{namespace}/configmaps"

    def make(self, numbers: Iterator[int] | range = range(CHANGE_MAPS)) -> None:
        for number in numbers:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.name(number)}}
            assert self._cluster.request("POST", self._place, body).status == 201

    def fill(self, number: int, size: int) -> None:
        body = {"binaryData": {"other.20260101-000000.0": base64.b64encode(b"x" * size).decode()}}
        self._patch(number, body)

    def name(self, number: int) -> str:
        return map_name(SyncResourceKind.STOKER, "plant", number)

    def read(self, number: int) -> dict[str, Any]:
        answer: Any = self._cluster.request("GET", f"{self._place}/{self.name(number)}").json()
        found: dict[str, Any] = answer
        return found

    def chunks(self, key: str = "filler") -> dict[str, tuple[int, bytes]]:
        """By their key in the map: which map, and what."""
        found = {}
        for number in range(CHANGE_MAPS):
            for name, text in (self.read(number).get("binaryData") or {}).items():
                if name.startswith(f"{key}."):
                    found[name] = number, base64.b64decode(text)
        return found

    def sets(self) -> list[ChangeSet]:
        by_id: dict[str, list[ChangeSetChunk]] = {}
        for _, raw in self.chunks().values():
            chunk = ChangeSetChunk.parse(raw)
            by_id.setdefault(chunk.id, []).append(chunk)
        return [decode(parts) for _, parts in sorted(by_id.items()) if is_complete(parts)]

    def empty(self) -> None:
        """As the controller does it once its reply is stored."""
        for name, (number, _) in self.chunks().items():
            self._patch(number, {"binaryData": {name: None}})

    def _patch(self, number: int, body: object) -> None:
        kind = "application/merge-patch+json"
        answer = self._cluster.request("PATCH", f"{self._place}/{self.name(number)}", body, content_type=kind)
        assert answer.status == 200, answer.body


class Gateway:
    """A data folder that follows a repository, and whose own changes go back."""

    def __init__(self, folder: Path, server: GitHttpServer, maps: Maps, sender: OutboxSender) -> None:
        self.repository = Repository.create(server.root / "plant.git")
        self.data = folder / "data"
        self.data.mkdir()
        self.maps = maps
        self.sender = sender
        self.reports: list[GatewayChangesReport | None] = []
        self.policy = POLICY
        self.compare = 300.0
        self.booted = True
        self.job = SyncJob(
            SourceIntent(RepoUrl(server.url("plant.git")), GitRef("main")),
            FilesIntent((FileMapping("s", "projects"),)),
            TemplateValues(gateway_name="filler"),
            self.data,
            folder / "cache",
        )

    async def synced(self, files: dict[str, str | None]) -> None:
        """A commit, and the data folder at it."""
        self.repository.commit({f"s/{path}": text for path, text in files.items()})
        folder_sync = self.folder_sync()
        await folder_sync.sync()

    def folder_sync(self) -> FolderSync:
        return open_keeper(self.job, noise=ResourceNoise())

    @asynccontextmanager
    async def watched(self, folder_sync: FolderSync | None = None) -> AsyncIterator[Site]:
        folder_sync = folder_sync if folder_sync is not None else self.folder_sync()
        capturing = ChangeCapture(
            self.policy,
            folder_sync,
            self.sender,
            OutboxAddress("filler", "filler"),
            SystemClock(),
            noise=ResourceNoise(),
            tell=self.reports.append,
            may=lambda: self.booted,
        )
        folder_sync.add_hook(capturing)
        watch = CaptureLoop(
            capturing, self.data, SystemClock(), debounce=self.policy.debounce, compare=self.compare
        )
        watch.start()
        try:
            site = Site(self, folder_sync, capturing, watch)
            await site.at_rest()
            yield site
        finally:
            await watch.aclose()

    def write(self, path: str, text: str) -> None:
        place = self.data / "projects" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def text(self, path: str) -> str | None:
        place = self.data / "projects" / path
        return place.read_text() if place.exists() else None


class Site:
    """A gateway while it is watched."""

    def __init__(
        self, gateway: Gateway, folder_sync: FolderSync, capturing: ChangeCapture, watch: CaptureLoop
    ) -> None:
        self.gateway = gateway
        self.folder_sync = folder_sync
        self.capturing = capturing
        self.watch = watch
        self.answered: set[str] = set()
        self.walk = True

    async def passed(self, *, walk: bool = True) -> SyncReport:
        """A pass, which takes its turn with the looks."""
        async with self.capturing.lock:
            report = await self.folder_sync.sync(SyncOptions(walk=walk))
        self.capturing.passed(report)
        return report

    async def at_rest(self) -> None:
        """Until the loop has looked at every reported path."""
        await eventually_async(lambda: self.watch.rests, PATIENCE, "the watch rests")

    async def changes_report(self, word: str = "") -> GatewayChangesReport:
        """What the report says, as soon as it says something with this word in it."""

        def reported() -> list[GatewayChangesReport]:
            last = self.gateway.reports[-1] if self.gateway.reports else None
            return [last] if last not in (None, GatewayChangesReport()) and word in last.message else []

        found = await eventually_async(
            reported, PATIENCE, lambda: f"{word!r} is reported: {self.gateway.reports[-3:]}"
        )
        return found[0]

    async def next_set(self) -> ChangeSet:
        def unanswered() -> list[ChangeSet]:
            return [one for one in self.gateway.maps.sets() if one.id not in self.answered]

        found = await eventually_async(
            unanswered, PATIENCE, lambda: f"a set; reported {self.gateway.reports[-3:]}", interval=0.1
        )
        return found[0]

    async def answer(
        self,
        changes: ChangeSet,
        result: ChangeSetResult = ChangeSetResult.RECORDED,
        **more: Any,
    ) -> None:
        self.answered.add(changes.id)
        await self.capturing.told(ChangeSetReply(changes.id, result, **more))
        self.gateway.maps.empty()
        await self.at_rest()

    async def recorded(self) -> ChangeSet:
        found = await self.next_set()
        await self.answer(found)
        return found


@pytest.fixture
async def gateway(control_plane: ClusterAccess, namespace: str, tmp_path: Path) -> AsyncIterator[Gateway]:
    maps = Maps(control_plane, namespace)
    maps.make()
    config = load_config(control_plane.kubeconfig("admin", namespace=namespace))
    identity = AgentIdentity("gateway-0", namespace, "plant", gateway="filler")
    with GitHttpServer.start(tmp_path / "served") as server:
        async with KubeClient(config) as client:
            yield Gateway(tmp_path, server, maps, OutboxSender(client, identity, SystemClock()))


def files_of(changes: ChangeSet) -> dict[str, bytes | None]:
    return {
        one.repo_path: one.content if one.action is ChangeAction.WRITTEN else None for one in changes.files
    }


async def test_a_designers_edit_is_sent_with_its_base_and_comes_back_as_nothing_to_do(
    gateway: Gateway,
) -> None:
    await gateway.synced({"a.txt": "1", "b.txt": "2"})
    commit = gateway.repository.tip()
    async with gateway.watched() as site:
        gateway.write("a.txt", "edited")
        found = await site.recorded()
        (one,) = found.files
        assert (one.path, one.repo_path, one.content) == ("projects/a.txt", "s/a.txt", b"edited")
        assert (found.base_commit, one.action, found.gateway) == (commit, ChangeAction.WRITTEN, "filler")
        assert one.base == gateway.repository.git("rev-parse", "main:s/a.txt").decode().strip()
        assert gateway.reports[-1] == GatewayChangesReport()
        # Merged, it comes back: nothing is written, and nothing is captured again.
        gateway.repository.commit({"s/a.txt": "edited"})
        report = await site.passed()
        assert report.files_changed == 0
        await site.at_rest()
        assert site.gateway.maps.sets() == []
        gateway.write("a.txt", "once more")
        again = await site.recorded()
        assert again.base_commit == gateway.repository.tip()
        assert again.id > found.id


async def test_the_executable_bit_is_sent_with_a_file_and_alone(gateway: Gateway) -> None:
    await gateway.synced({"a.sh": "1"})
    place = gateway.data / "projects/a.sh"
    async with gateway.watched() as site:
        place.chmod(0o755)  # the kernel tells of it, no walk is waited for
        found = await site.next_set()
        (one,) = found.files
        assert (one.mode, one.base_mode, one.blob) == ("100755", "100644", one.base)
        gateway.repository.commit({"s/b": "2"})
        assert (await site.passed()).result is SyncResult.HELD
        assert place.stat().st_mode & 0o777 == 0o755, "not reverted before git has it"
        await site.answer(found)
        gateway.repository.commit({"s/a.sh": executable("1")})  # merged
        report = await site.passed()
        assert (report.result, report.plan.actions) == (SyncResult.DONE, ())
        gateway.write("a.sh", "2")
        (one,) = (await site.recorded()).files
        assert (one.mode, one.base_mode, one.content) == ("100755", "100755", b"2")
        report = await site.passed()  # git wins, and has it on a branch
        assert gateway.text("a.sh") == "1"
        place.chmod(0o644)
        (one,) = (await site.recorded()).files
        assert (one.mode, one.base_mode) == ("100644", "100755")
        await site.passed()
        assert place.stat().st_mode & 0o777 == 0o755
        await site.at_rest()
        assert site.gateway.maps.sets() == []


async def test_a_new_resource_goes_where_its_neighbours_came_from(gateway: Gateway) -> None:
    gateway.job = gateway.job._replace(
        files=FilesIntent((FileMapping("s", "projects"), FileMapping("overlay", "projects/line")))
    )
    gateway.repository.commit({"s/other/project.json": "{}", "overlay/views/main/view.json": "{}"})
    await gateway.synced({"base/x": "1"})
    async with gateway.watched() as site:
        for path, text in view("new").items():
            gateway.write(f"line/views/new/{path}", text)
        gateway.write("other/scripts/code.py", "pass")
        gateway.write("fresh/project.json", "{}")
        found = await site.recorded()
        while len(found.files) < 4:  # the kernel may tell of them in two bursts
            more = await site.recorded()
            found = ChangeSet(found.id, found.gateway, found.base_commit, (*found.files, *more.files))
        where = {one.path.removeprefix("projects/"): one.repo_path for one in found.files}
        assert where["line/views/new/view.json"] == "overlay/views/new/view.json"
        assert where["other/scripts/code.py"] == "s/other/scripts/code.py"
        assert where["fresh/project.json"] == "s/fresh/project.json"
        assert {one.base for one in found.files} == {""}


async def test_a_renamed_view_folder_is_the_old_one_gone_and_the_new_one_there(gateway: Gateway) -> None:
    await gateway.synced({f"line/views/main/{name}": text for name, text in view("v").items()})
    gateway.policy = BidirectionalPolicy(enabled=True, watch_paths=("projects/**",), debounce=0.2)
    async with gateway.watched() as site:
        (gateway.data / VIEW).rename(gateway.data / "projects/line/views/renamed")
        found = files_of(await site.recorded())
        assert {path for path, text in found.items() if text is None} == {
            f"s/line/views/main/{name}" for name in view("v")
        }
        assert {path for path, text in found.items() if text is not None} == {
            f"s/line/views/renamed/{name}" for name in view("v")
        }
        gateway.write("line/views/renamed/view.json", '{"again": 1}')  # its watch went with it
        assert "s/line/views/renamed/view.json" in files_of(await site.recorded())


async def test_a_deletion_by_a_designer_is_captured_and_not_restored_before(gateway: Gateway) -> None:
    await gateway.synced({"a": "1", "b": "2"})
    async with gateway.watched() as site:
        (gateway.data / "projects/a").unlink()
        found = await site.next_set()
        assert files_of(found) == {"s/a": None}
        report = await site.passed()
        assert (report.result, [one.place for one in report.plan.held]) == (SyncResult.HELD, ["projects/a"])
        assert gateway.text("a") is None
        await site.answer(found)
        assert (await site.passed()).result is SyncResult.DONE
        assert gateway.text("a") == "1"  # git wins, and it has the deletion in its branch
        await site.at_rest()
        assert gateway.maps.sets() == []


async def test_nothing_of_a_designers_is_overwritten_before_git_has_exactly_that(gateway: Gateway) -> None:
    await gateway.synced({"a": "1", "b": "2"})
    async with gateway.watched() as site:
        gateway.write("a", "mine")
        found = await site.next_set()
        gateway.repository.commit({"s/a": "git's", "s/b": "git's"})
        report = await site.passed(walk=False)
        assert [one.reason for one in report.plan.held] == [Reason.CHANGE_HELD]
        assert (gateway.text("a"), gateway.text("b")) == ("mine", "git's")
        gateway.write("a", "mine, later")
        await site.at_rest()
        await site.answer(found)  # for what was there before
        assert (await site.passed(walk=False)).result is SyncResult.HELD
        assert gateway.text("a") == "mine, later"
        later = await site.next_set()
        # It was made from what was there, not from what git has by now.
        assert (later.base_commit, later.files[0].base) == (found.base_commit, found.files[0].base)
        await site.answer(later, holds=("projects/a",))
        assert (await site.passed(walk=False)).result is SyncResult.HELD
        assert site.capturing.still_held((await site.passed(walk=False)).plan.held)
        await site.capturing.told(ChangeSetReply(later.id))
        assert (await site.passed(walk=False)).result is SyncResult.DONE
        assert gateway.text("a") == "git's"
        await site.at_rest()
        assert gateway.maps.sets() == []


async def test_a_save_in_the_moment_of_writing_stops_the_sync_before_its_first_byte(gateway: Gateway) -> None:
    await gateway.synced({"a": "1", "b": "2"})
    folder_sync = gateway.folder_sync()

    class Saving:
        async def hold(self, change: object) -> tuple[()]:
            return ()

        @asynccontextmanager
        async def around(self, change: object) -> AsyncIterator[None]:
            gateway.write("a", "saved just now")
            yield

        async def after(self, change: object, applied: object) -> tuple[()]:
            return ()

    folder_sync.add_hook(Saving())
    gateway.policy = BidirectionalPolicy(enabled=True, watch_paths=("projects/**",), debounce=60.0)
    async with gateway.watched(folder_sync) as site:
        gateway.repository.commit({"s/a": "git's", "s/b": "git's"})
        with pytest.raises(Retry, match="while the sync ran") as stopped:
            await site.passed(walk=False)
        assert stopped.value.reason is Reason.CHANGE_HELD
        assert (gateway.text("a"), gateway.text("b")) == ("saved just now", "2")


async def test_a_gateway_is_called_watched_from_the_moment_that_a_change_would_be_held(
    gateway: Gateway,
) -> None:
    await gateway.synced({"a": "1"})
    gateway.booted = False
    async with gateway.watched() as site:
        gateway.write("a", "by the first boot")
        await site.passed()
        assert (gateway.text("a"), set(gateway.reports)) == ("1", {None})
        gateway.booted = True
        await eventually_async(
            lambda: gateway.reports[-1] == GatewayChangesReport(), PATIENCE, "it is watched"
        )
        gateway.write("a", "by a person")
        await site.passed()
        assert gateway.text("a") == "by a person"


async def test_a_resource_is_held_whole(gateway: Gateway) -> None:
    await gateway.synced({f"line/views/main/{name}": text for name, text in view("v").items()})
    async with gateway.watched() as site:
        gateway.write("line/views/main/view.json", '{"mine": 1}')
        await site.next_set()
        changed = {f"s/line/views/main/{name}": text for name, text in view("git").items()}
        gateway.repository.commit(changed)
        report = await site.passed(walk=False)
        assert [one.place for one in report.plan.held] == [VIEW]
        assert gateway.text("line/views/main/resource.json") == view("v")["resource.json"]


async def test_our_own_writes_and_noise_are_never_sent(gateway: Gateway) -> None:
    manifest = {"scope": "G", "version": 1, "files": ["view.json"], "attributes": {}}
    await gateway.synced(
        {"line/views/main/view.json": "{}", "line/views/main/resource.json": json.dumps(manifest), "a": "1"}
    )
    async with gateway.watched() as site:
        gateway.repository.commit({"s/a": "2", **{f"s/many/{n}": str(n) for n in range(300)}})
        assert (await site.passed()).files_changed == 301
        touched = {**manifest, "attributes": {"lastModification": {"actor": "x", "timestamp": "now"}}}
        gateway.write("line/views/main/resource.json", json.dumps(touched, indent=2))
        (gateway.data / VIEW / "thumbnail.png").write_bytes(b"\x89PNG")
        (gateway.data / "projects/.resources").mkdir()
        gateway.write(".resources/cache", "x")
        gateway.write("link-to", "x")
        (gateway.data / "projects/link-to").unlink()
        (gateway.data / "projects/link-to").symlink_to("a")
        await site.at_rest()
        assert gateway.maps.sets() == []
        assert gateway.reports[-1] == GatewayChangesReport()
        gateway.write("line/views/main/view.json", '{"edited": 1}')  # now all of it is a change
        found = files_of(await site.recorded())
        assert set(found) == {
            f"s/line/views/main/{name}" for name in ("view.json", "resource.json", "thumbnail.png")
        }


async def test_noise_is_no_reason_to_hold_what_git_changes(gateway: Gateway) -> None:
    manifest = {"scope": "G", "version": 1, "files": ["view.json"], "attributes": {}}
    await gateway.synced(
        {"line/views/main/view.json": "{}", "line/views/main/resource.json": json.dumps(manifest)}
    )
    async with gateway.watched() as site:
        touched = {**manifest, "attributes": {"lastModification": {"actor": "x", "timestamp": "now"}}}
        gateway.write("line/views/main/resource.json", json.dumps(touched))
        await site.at_rest()
        newer = {**manifest, "version": 2}
        gateway.repository.commit(
            {"s/line/views/main/view.json": "[]", "s/line/views/main/resource.json": json.dumps(newer)}
        )
        report = await site.passed(walk=False)
        assert report.result is SyncResult.DONE
        assert gateway.text("line/views/main/view.json") == "[]"


async def test_a_burst_of_500_files_is_one_set(gateway: Gateway) -> None:
    await gateway.synced({"line/project.json": "{}"})
    gateway.policy = BidirectionalPolicy(
        enabled=True, watch_paths=("projects/**",), debounce=0.5, max_files_per_pr=1000
    )
    async with gateway.watched() as site:
        for number in range(500):
            gateway.write(f"line/scripts/s{number}/code.py", f"print({number})")
        found = await site.recorded()
        assert len(found.files) == 500
        await site.at_rest()
        assert gateway.reports[-1] == GatewayChangesReport()


async def test_a_debounce_is_waited_for_and_ends(gateway: Gateway) -> None:
    await gateway.synced({"a": "1"})
    gateway.policy = BidirectionalPolicy(enabled=True, watch_paths=("projects/**",), debounce=0.3)
    async with gateway.watched() as site:
        gateway.write("a", "one save")
        begun = time.monotonic()
        await site.recorded()
        assert time.monotonic() - begun >= 0.3
        begun, saves = time.monotonic(), 0
        while not gateway.maps.sets():  # it is hardly ever quiet, and goes back all the same
            gateway.write("a", f"save {saves}")
            saves += 1
            await asyncio.sleep(0.15)
            assert time.monotonic() < begun + PATIENCE


async def test_more_files_than_are_allowed_are_refused_as_a_whole(gateway: Gateway) -> None:
    await gateway.synced({"line/project.json": "{}"})
    gateway.policy = BidirectionalPolicy(
        enabled=True, watch_paths=("projects/**",), debounce=0.5, max_files_per_pr=10
    )
    async with gateway.watched() as site:
        for number in range(12):
            gateway.write(f"line/{number}.py", "pass")
        result = await site.changes_report()
        assert (result.reason, result.pending, len(result.paths)) == (Reason.CHANGE_REFUSED, 12, 12)
        assert "12 files" in result.message
        assert gateway.maps.sets() == []
        for number in range(2):
            (gateway.data / f"projects/line/{number}.py").unlink()
        assert len((await site.recorded()).files) == 10


async def test_many_deletions_on_a_gateway_are_sent_to_git_only_when_they_are_approved(
    gateway: Gateway,
) -> None:
    files: dict[str, str | None] = {f"line/{number}.py": "pass" for number in range(20)}
    await gateway.synced({**files, "line/project.json": "{}"})
    async with gateway.watched() as site:
        for number in range(20):
            (gateway.data / f"projects/line/{number}.py").unlink()
        held = await site.changes_report("20 files (first")
        assert held.reason == Reason.CHANGE_HELD
        assert "more than 50 % of 21 managed files" in held.message
        assert gateway.maps.sets() == []
        digest = held.message.partition("approve plan ")[2][:64]
        approved = frozenset({PlanApproval(digest, "resource")})
        await site.capturing.told(None, approved)
        assert len((await site.next_set()).files) == 20
        with DataFolder.opened(gateway.data) as folder:
            assert unused(approved, state.load(folder)) == frozenset(), "it counts once"


@pytest.mark.parametrize("lost", ["overflow", "no notices"])
async def test_changes_without_a_kernel_event_are_found_by_comparing(gateway: Gateway, lost: str) -> None:
    await gateway.synced({"a": "1", "deep/b": "2"})
    gateway.compare = 0.2
    async with gateway.watched() as site:
        notices = site.watch.notices
        if lost == "overflow":
            notices.take()
            for number in range(5000):  # more names than are kept: it says `everything`
                (gateway.data / f"projects/n{number}").touch()
                (gateway.data / f"projects/n{number}").unlink()
        else:
            notices.close()
        gateway.write("deep/b", "edited")
        assert files_of(await site.recorded()) == {"s/deep/b": b"edited"}


async def test_a_restarted_agent_goes_on_where_the_one_before_it_was(gateway: Gateway) -> None:
    await gateway.synced({"a": "1", "b": "2"})
    async with gateway.watched() as site:
        gateway.write("a", "edited")
        first = await site.next_set()
    gateway.write("b", "while nobody looked")
    shutil.rmtree(gateway.job.cache_dir)  # the repository of a pod goes with it
    async with gateway.watched() as site:
        assert [one.id for one in gateway.maps.sets()] == [first.id]  # it still waits for its answer
        await site.answer(first)
        second = await site.recorded()
        assert files_of(second) == {"s/b": b"while nobody looked"}
    async with gateway.watched() as site:  # what git has is not sent again
        assert gateway.maps.sets() == []
        with DataFolder.opened(gateway.data) as folder:
            assert set(state.load(folder).recorded) == {"projects/a", "projects/b"}


async def test_a_set_of_which_only_a_part_arrived_is_sent_anew(gateway: Gateway) -> None:
    await gateway.synced({"a": "1"})
    async with gateway.watched() as site:
        gateway.write("a", "edited")
        first = await site.next_set()
    gateway.maps.empty()
    async with gateway.watched() as site:
        again = await site.next_set()
        assert again.id > first.id
        assert files_of(again) == {"s/a": b"edited"}


async def test_a_change_that_a_designer_reverts_is_reverted_in_git_as_well(gateway: Gateway) -> None:
    await gateway.synced({"a": "1"})
    async with gateway.watched() as site:
        gateway.write("a", "edited")
        gateway.write("new", "n")
        taken: dict[str, bytes | None] = {}
        while len(taken) < 2:
            taken |= files_of(await site.recorded())
        gateway.write("a", "1")
        (gateway.data / "projects/new").unlink()
        back: dict[str, bytes | None] = {}
        while len(back) < 2:
            back |= files_of(await site.recorded())
        assert back == {"s/a": b"1", "s/new": None}


async def test_what_we_restored_ourselves_is_not_taken_for_a_designers_second_thought(
    gateway: Gateway,
) -> None:
    await gateway.synced({"a": "1"})
    async with gateway.watched() as site:
        gateway.write("a", "edited")
        await site.recorded()
        assert (await site.passed()).files_changed == 1
        assert gateway.text("a") == "1"
        await site.at_rest()
    async with gateway.watched():
        assert gateway.maps.sets() == []


async def test_what_the_controller_refuses_is_named_stays_and_is_not_sent_again(gateway: Gateway) -> None:
    await gateway.synced({"a": "1", "b": "2"})
    async with gateway.watched() as site:
        gateway.write("a", "edited")
        found = await site.next_set()
        await site.answer(found, ChangeSetResult.REFUSED, message="the branch is protected")
        report = await site.changes_report()
        assert (report.refused, report.paths, report.reason) == (1, ("projects/a",), Reason.CHANGE_REFUSED)
        assert "protected" in report.message
        assert (await site.passed()).result is SyncResult.HELD
        gateway.write("a", "edited again")
        assert files_of(await site.recorded()) == {"s/a": b"edited again"}
        gateway.write("a", "edited once more")
        again = await site.next_set()
        await site.answer(again, ChangeSetResult.REFUSED, message="merge or close the request first")
        gateway.repository.commit({"s/b": "merged"})
        assert (await site.passed()).result is SyncResult.HELD
        full = await site.next_set()
        assert files_of(full) == {"s/a": b"edited once more"}, "the ref has moved"
        await site.answer(full, ChangeSetResult.REFUSED, message="the open request is full")
        assert gateway.maps.sets() == []
        await site.answer(full, ChangeSetResult.REFUSED, over=full.id)
        assert files_of(await site.recorded()) == {"s/a": b"edited once more"}, "that request is over"


async def test_what_cannot_go_is_named_and_the_rest_goes(gateway: Gateway) -> None:
    gateway.job = gateway.job._replace(
        files=FilesIntent(
            (FileMapping("s/line", "projects/line"),), excludes=ExcludePolicy(patterns=("**/*.bak",))
        )
    )
    gateway.policy = BidirectionalPolicy(
        enabled=True, watch_paths=("projects/**",), debounce=0.3, max_file_bytes=1000
    )
    await gateway.synced({"line/a": "1"})
    async with gateway.watched() as site:
        gateway.write("line/a", "edited")
        gateway.write("line/large", "x" * 1001)
        gateway.write("elsewhere/a", "nobody maps it")
        gateway.write("line/secrets/key", "excluded by a guardrail")
        gateway.write("line/old.bak", "excluded by the resource")
        assert files_of(await site.recorded()) == {"s/line/a": b"edited"}
        result = await site.changes_report()
        assert (result.refused, result.paths) == (2, ("projects/elsewhere/a", "projects/line/large"))


async def test_a_change_beside_a_value_that_we_set_is_carried_over(gateway: Gateway) -> None:
    transforms = TransformPolicy(fields=(FieldTemplate(".name", "{{.GatewayName}}"),))
    gateway.job = gateway.job._replace(files=gateway.job.files._replace(transforms=transforms))
    text = '{\n  "name": "template",\n  "x": 1,\n  "y": 2\n}\n'
    await gateway.synced({"config.json": text, "deep/config.json": text})
    async with gateway.watched() as site:
        live = gateway.text("config.json")
        assert live is not None
        assert "filler" in live
        gateway.write("config.json", live.replace('"y": 2', '"y": 3'))
        assert files_of(await site.recorded()) == {"s/config.json": text.replace('"y": 2', '"y": 3').encode()}
        gateway.write("deep/config.json", live.replace("filler", "by hand"))
        result = await site.changes_report()
        assert (result.refused, result.paths) == (1, ("projects/deep/config.json",))
        # Merged, it comes back as it is on disk.
        gateway.repository.commit({"s/config.json": text.replace('"y": 2', '"y": 3')})
        report = await site.passed()
        assert report.files_changed == 0
        assert [one.place for one in report.plan.held] == ["projects/deep/config.json"]


async def test_a_large_set_is_split_over_maps_with_room_and_waits_where_there_is_none(
    gateway: Gateway,
) -> None:
    await gateway.synced({"a": "1"})
    gateway.maps.fill(0, 1 << 20)
    gateway.maps.fill(1, 500 << 10)
    gateway.policy = BidirectionalPolicy(enabled=True, watch_paths=("projects/**",), debounce=0.3)
    content = os.urandom(1_500_000)
    async with gateway.watched() as site:
        (gateway.data / "projects/large").write_bytes(content)
        found = await site.next_set()
        chunks = gateway.maps.chunks()
        assert [number for number, _ in chunks.values()] == [2, 3]
        assert all(len(raw) <= CHUNK_BYTES for _, raw in chunks.values())
        assert found.files[0].content == content
        owners = {
            entry["manager"]
            for entry in gateway.maps.read(2)["metadata"]["managedFields"]
            if "f:binaryData" in entry["fieldsV1"]
        }
        assert owners == {changes_manager("gateway-0")} != {manager_for("gateway-0")}
        await site.answer(found)
        for number in range(1, CHANGE_MAPS):
            gateway.maps.fill(number, 1000 << 10)
        gateway.write("b", os.urandom(60_000).hex())
        result = await site.changes_report("full")
        assert (result.pending, result.paths) == (1, ("projects/b",))
        assert gateway.maps.chunks() == {}
        gateway.maps.fill(5, 0)
        assert [one.path for one in (await site.recorded()).files] == ["projects/b"]


async def test_maps_that_are_missing_are_not_made_by_an_agent(
    control_plane: ClusterAccess, namespace: str
) -> None:
    maps = Maps(control_plane, namespace)
    maps.make(range(3, 4))
    config = load_config(control_plane.kubeconfig("admin", namespace=namespace))
    identity = AgentIdentity("gateway-0", namespace, "plant", gateway="filler")
    async with KubeClient(config) as client:
        sender = OutboxSender(client, identity, SystemClock())
        await sender.send("filler", "20260101-000000", (b"x", b"y"))
        assert {number for number, _ in maps.chunks().values()} == {3}
        with pytest.raises(Retry, match="full"):
            await sender.send("filler", "20260101-000001", (b"x" * CHUNK_BYTES, b"y" * CHUNK_BYTES))
        assert maps.chunks() == {}  # nothing half, and nothing of the one before


def test_the_field_manager_of_changes_is_short_enough_and_another_than_the_reports() -> None:
    assert len(changes_manager("p" * 253)) == MAX_MANAGER_LENGTH
    assert changes_manager("p") != manager_for("p")


def test_an_agent_sends_what_a_designer_saves_and_obeys_the_answer(plant: AgentEnvironment) -> None:
    maps = Maps(plant.cluster, plant.namespace)
    maps.make()
    pod = plant.pod(talks=False, sync_period="1")
    first = plant.commit(project("filler", 1))
    way_back = {"enabled": True, "watchPaths": ["projects/**"], "debounce": "100ms"}
    drift = {"mode": "restore", "interval": "30s"}
    plant.publish(first, agent_spec=plant.spec(gateway=FILES_ONLY, bidirectional=way_back, drift=drift))
    pod.start(plant.kubeconfig)
    plant.until_converged(pod, first)
    eventually(lambda: pod.logged("changes.watched"), 20.0, pod.tail)

    place = pod.data_dir / "projects/filler/project.json"
    place.write_text('{"title": "by hand"}')
    (found,) = eventually(maps.sets, 20.0, lambda: f"a set arrives: {pod.tail()}")
    assert (found.gateway, found.base_commit) == ("filler", first)
    assert files_of(found) == {f"{SERVICE}/projects/filler/project.json": b'{"title": "by hand"}'}
    second = plant.commit(project("filler", 2))
    plant.publish(second)
    report = plant.maps.until_report(
        pod=pod, reason=Reason.CHANGE_HELD, changes=lambda it: it is not None and it.held
    )
    assert (report.held_projects, report.commit) == ((), second)
    assert report.changes is not None
    assert (report.changes.pending, report.changes.id) == (1, found.id)
    assert place.read_text() == '{"title": "by hand"}'
    assert pod.file("projects/filler/com.inductiveautomation.perspective/views/v0/view.json") is not None

    answer = ChangeSetReply(found.id, holds=("projects/filler/project.json",))
    plant.publish(changes={"filler": answer})
    maps.empty()
    plant.maps.until_report(pod=pod, changes=lambda it: it is not None and not it.pending and it.held == 1)
    assert place.read_text() == '{"title": "by hand"}'
    plant.publish(changes={"filler": ChangeSetReply(found.id)})  # the request was closed
    plant.until_converged(pod, second)
    assert plant.maps.until_report(pod=pod, changes=GatewayChangesReport())
    assert maps.sets() == []

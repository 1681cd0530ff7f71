"""Gates that the agent keeps: windows, the validation webhook; and the witnesses of what was done."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.audit.audit_log import FILE, AuditLog
from stoker.agent.audit.diff_files import MAX_REPORTS, DiffFiles
from stoker.agent.identity import AgentIdentity, AgentPaths
from stoker.agent.sidecar.process import AgentOptions, AgentProcess
from stoker.agent.sync.jobs import GatewayRef, SyncJob, SyncOptions, SyncWait
from stoker.agent.sync.open_source import open_keeper
from stoker.cli.exit_codes import ExitCode
from stoker.domain.clock import SystemClock, parse_rfc3339, rfc3339
from stoker.domain.errors import Stalled
from stoker.domain.intent.files import FileMapping, FilesIntent
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.protocol import RollbackRequest, SyncState
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.kube.config.config import load_config
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.agent_environment import FILES_ONLY, AgentEnvironment
from stoker_testkit.environments.agent_pod import AgentPod
from stoker_testkit.event_loop_thread import LoopThread
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.wait_until import eventually

PROJECT = "projects/filler/project.json"
GATEWAY = GatewayRef("filler", "plant", "line", "gateway-0")


def project(title: str) -> str:
    return json.dumps({"title": title})


class WarpedClock(SystemClock):
    """Real time, of which a test can skip some; a sleep ends early only by that."""

    __slots__ = ("_ahead",)

    def __init__(self) -> None:
        self._ahead = 0.0

    def leap(self, to: datetime) -> None:
        self._ahead += max(0.0, (to - self.now()).total_seconds())

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self._ahead)

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead

    async def sleep(self, seconds: float) -> None:
        end = self.monotonic() + seconds
        while (left := end - self.monotonic()) > 0:  # noqa: ASYNC110 - a leap comes from another thread
            await asyncio.sleep(min(left, 0.02))


@pytest.fixture
def plant(
    kinds: ClusterAccess, namespace: str, git_http: GitHttpServer, tmp_path: Path
) -> Iterator[AgentEnvironment]:
    repository = Repository.create(git_http.root / "plant.git")
    made = AgentEnvironment.create(kinds, namespace, tmp_path, repository, git_http.url("plant.git"))
    yield made
    made.stop()


@contextmanager
def agent_with(clock: WarpedClock, pod: AgentPod, kubeconfig: Path) -> Iterator[None]:
    """A whole agent in this process, for the sake of its clock."""
    settings = AgentOptions(
        config=load_config(kubeconfig, None),
        identity=AgentIdentity(pod.name, pod.namespace, pod.resource, gateway=pod.gateway),
        places=AgentPaths(pod.root),
        health_address="127.0.0.1:0",
        metrics_address="127.0.0.1:0",
    )
    loop = LoopThread("agent")
    tasks: list[asyncio.Task[None]] = []
    loop.call(lambda: tasks.append(asyncio.ensure_future(AgentProcess(settings, clock).run())))
    try:
        yield
    finally:

        async def end() -> None:
            tasks[0].cancel()
            await asyncio.wait(tasks)

        loop.run(end())
        loop.stop()


def audited(data: Path) -> list[dict[str, Any]]:
    path = data / ".sync-state" / FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def at_noon(clock: SystemClock) -> datetime:
    """Some time that is surely not now, at least an hour away and at most a day."""
    return (clock.now() + timedelta(hours=6)).replace(minute=0, second=0, microsecond=0)


def test_a_window_holds_and_then_opens(plant: AgentEnvironment) -> None:
    clock = WarpedClock()
    opens = at_noon(clock)
    windows = [{"cron": f"0 {opens.hour} * * *", "duration": "30m"}]
    first = plant.commit({PROJECT: project("One")})
    pod = plant.pod(talks=False, sync_period="86400")
    plant.publish(
        first, agent_spec=plant.spec(gateway=FILES_ONLY, maintenanceWindows=windows), trigger="webhook"
    )
    with agent_with(clock, pod, plant.kubeconfig):
        plant.until_synced(pod, first)  # the first files of a gateway wait for no approval (C-111)
        second = plant.commit({PROJECT: project("Two")})
        plant.publish(second)
        held = plant.maps.until_report(reason=Reason.WAITING_FOR_WINDOW, commit=second, pod=pod)
        assert (held.sync_status, held.synced_commit) == (SyncState.PENDING, first)
        assert held.waits_until == rfc3339(opens)
        assert held.pending_plan is not None
        assert (held.pending_plan.reason, held.pending_plan.files_modified) == (
            Reason.WAITING_FOR_WINDOW,
            1,
        )
        assert pod.file(PROJECT) == project("One")
        clock.leap(opens)
        done = plant.until_synced(pod, second)
        assert pod.file(PROJECT) == project("Two")
        assert done.waits_until == ""
        assert opens <= parse_rfc3339(done.synced_at) < opens + timedelta(minutes=30)

        clock.leap(opens + timedelta(hours=1))
        third = plant.commit({PROJECT: project("Three")})
        plant.publish(third)
        held = plant.maps.until_report(reason=Reason.WAITING_FOR_WINDOW, commit=third, pod=pod)
        assert held.waits_until == rfc3339(opens + timedelta(days=1))
        plant.publish(rollback=RollbackRequest("r1", first))
        plant.until_synced(pod, first)  # who wants to go back does not wait either
        assert pod.file(PROJECT) == project("One")
    lines = audited(pod.data_dir)
    assert [(one["result"], one["trigger"], one["filesChanged"]) for one in lines] == [
        ("success", "webhook", 1),
        ("WaitingForWindow", "webhook", 0),
        ("success", "webhook", 1),
        ("WaitingForWindow", "webhook", 0),
        ("success", "manual", 1),
    ]


class Validator:
    """A validation service; it checks the request, and returns what the test sets."""

    def __init__(self) -> None:
        self.status, self.answer = 200, {"allowed": True}
        self.asked: list[dict[str, Any]] = []
        self.wrong: list[str] = []
        result = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                result.check(self.path, self.headers["Content-Type"], body)
                answer = json.dumps(result.answer).encode()
                self.send_response(result.status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/validate?token=s3cret"

    def check(self, path: str, kind: str, body: bytes) -> None:
        asked = json.loads(body)
        self.asked.append(asked)
        keys = {"commit", "ref", "gateway", "namespace", "resource", "changedFiles", "planDigest", "counts"}
        if path != "/validate?token=s3cret" or kind != "application/json" or set(asked) != keys:
            self.wrong.append(f"{path} {kind} {sorted(asked)}")

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def validator() -> Iterator[Validator]:
    made = Validator()
    yield made
    made.stop()
    assert made.wrong == []


def test_the_validation_webhook_refuses_and_nothing_changes_until_it_agrees(
    plant: AgentEnvironment, validator: Validator
) -> None:
    first = plant.commit({PROJECT: project("One")})
    spec = plant.spec(gateway=FILES_ONLY, validation={"webhook": {"url": validator.url, "timeout": "5s"}})
    pod = plant.pod(talks=False)
    plant.publish(first, agent_spec=spec)
    pod.start(plant.kubeconfig)
    plant.until_synced(pod, first)
    asked = validator.asked[-1]
    assert (asked["commit"], asked["gateway"], asked["resource"]) == (first, "filler", "plant")
    assert asked["changedFiles"] == [{"path": PROJECT, "action": "added"}]
    validator.answer = {"allowed": False, "reason": "no ticket\nfor this"}  # type: ignore[dict-item]
    second = plant.commit({PROJECT: project("Two")})
    plant.publish(second)
    refused = plant.maps.until_report(reason=Reason.VALIDATION_REJECTED, commit=second, pod=pod)
    assert refused.sync_status is SyncState.ERROR
    assert refused.error_message.endswith("no ticket for this")
    assert pod.file(PROJECT) == project("One")
    assert refused.synced_commit == first
    count = len(validator.asked)
    eventually(lambda: len(validator.asked) > count, message=lambda: "it is asked again")
    assert "s3cret" not in refused.json() + pod.tail()
    validator.answer = {"allowed": True}
    plant.until_synced(pod, second)
    assert pod.file(PROJECT) == project("Two")
    results = [one["result"] for one in audited(pod.data_dir)]
    assert results == ["success", "ValidationRejected", "success"]


class Folder:
    """A data folder that follows a repository, with recording hooks."""

    def __init__(self, place: Path, server: GitHttpServer) -> None:
        self.repository = Repository.create(server.root / "plant.git")
        self.data = place / "data"
        self.data.mkdir()
        self.clock = ManualClock()
        job = SyncJob(
            SourceIntent(RepoUrl(server.url("plant.git")), GitRef("main")),
            FilesIntent((FileMapping("s", "projects"),)),
            TemplateValues(),
            self.data,
            place / "cache",
        )
        hooks = (DiffFiles(self.data, GATEWAY, self.clock),)
        self.folder_sync = open_keeper(job, hooks=hooks)
        self.audit = AuditLog(self.data, GATEWAY, self.clock)

    def reports(self) -> list[Path]:
        return sorted((self.data / ".sync-state/diffs").iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with GitHttpServer.start(tmp_path / "served") as server:
        yield Folder(tmp_path, server)


def checksum(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


async def test_each_sync_leaves_a_report_of_what_it_changed(folder: Folder) -> None:
    first = folder.repository.commit({"s/P/a": "1", "s/P/b": "1", "s/Q/c": "1"})
    await folder.folder_sync.sync()
    folder.clock.jump(61)
    second = folder.repository.commit({"s/P/a": "2", "s/P/b": None, "s/P/d": "4"})
    await folder.folder_sync.sync()
    await folder.folder_sync.sync()
    names = [path.name for path in folder.reports()]
    assert names == ["filler-diff-20260101-000000.000.json", "filler-diff-20260101-000101.000.json"]
    document = json.loads(folder.reports()[-1].read_text())
    assert document == {
        "gateway": "filler",
        "timestamp": "2026-01-01T00:01:01.000Z",
        "fromCommit": first,
        "toCommit": second,
        "ref": "main",
        "filesAdded": 1,
        "filesModified": 1,
        "filesDeleted": 1,
        "projectsAffected": ["P"],
        "changes": [
            {
                "path": "projects/P/a",
                "action": "modified",
                "checksum": {"before": checksum("1"), "after": checksum("2")},
            },
            {
                "path": "projects/P/b",
                "action": "deleted",
                "checksum": {"before": checksum("1"), "after": None},
            },
            {
                "path": "projects/P/d",
                "action": "added",
                "checksum": {"before": None, "after": checksum("4")},
            },
        ],
        "changesLeftOut": 0,
    }


async def test_the_ten_newest_reports_stay(folder: Folder) -> None:
    for number in range(MAX_REPORTS + 3):
        folder.repository.commit({"s/P/a": str(number)})
        folder.clock.jump(1)
        await folder.folder_sync.sync()
    documents = [json.loads(path.read_text()) for path in folder.reports()]
    assert len(documents) == MAX_REPORTS
    assert documents[-1]["changes"][0]["checksum"]["after"] == checksum(str(MAX_REPORTS + 2))


async def test_a_report_that_cannot_be_written_fails_no_sync(folder: Folder) -> None:
    folder.repository.commit({"s/P/a": "1"})
    await folder.folder_sync.sync()
    shelf = folder.data / ".sync-state/diffs"
    for path in folder.reports():
        path.unlink()
    shelf.rmdir()
    shelf.symlink_to(folder.data)
    folder.repository.commit({"s/P/a": "2"})
    report = await folder.folder_sync.sync()
    assert report.files_changed == 1
    assert not report.unverified
    assert [path.name for path in folder.data.iterdir() if path.suffix == ".json"] == []


async def test_drift_that_waits_for_its_window_is_restored_when_nothing_holds_it(folder: Folder) -> None:
    folder.repository.commit({"s/P/a": "1"})
    await folder.folder_sync.sync()
    (folder.data / "projects/P/a").write_text("theirs")
    waits = SyncWait(Reason.WAITING_FOR_WINDOW, datetime(2026, 1, 1, 2, tzinfo=UTC))
    held = await folder.folder_sync.sync(SyncOptions(waits=waits))
    assert (held.waits, held.applied, held.drift.modified) == (waits, None, ("projects/P/a",))
    held = await folder.folder_sync.sync(SyncOptions(walk=False, waits=waits))
    assert held.waits == waits, "it is not forgotten until it was done"
    assert (folder.data / "projects/P/a").read_text() == "theirs"
    done = await folder.folder_sync.sync(SyncOptions(walk=False))
    assert done.files_changed == 1
    assert (folder.data / "projects/P/a").read_text() == "1"


async def test_a_commit_that_changes_nothing_here_does_not_wait(folder: Folder) -> None:
    folder.repository.commit({"s/P/a": "1"})
    await folder.folder_sync.sync()
    other = folder.repository.commit({"elsewhere": "1"})
    report = await folder.folder_sync.sync(SyncOptions(waits=SyncWait(Reason.WAITING_FOR_WINDOW)))
    assert (report.waits, report.commit) == (None, other)
    assert folder.folder_sync.ledger is not None
    assert folder.folder_sync.ledger.commit == other


async def test_a_refusal_of_a_guard_is_reported_although_the_window_is_closed(folder: Folder) -> None:
    folder.repository.commit({"s/P/a": "1"})
    await folder.folder_sync.sync()
    folder.repository.commit({"s/P/a.json": "{"})
    with pytest.raises(Stalled) as refused:
        await folder.folder_sync.sync(SyncOptions(waits=SyncWait(Reason.WAITING_FOR_WINDOW)))
    assert refused.value.reason is Reason.CONFIG_SYNTAX_ERROR


async def test_the_audit_log_is_turned_over_when_it_is_full(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.agent.audit.audit_log.MAX_BYTES", 2000)
    folder.audit.record("success", "manual")
    assert audited(folder.data) == [], "nothing was ever synced, and no trace is left"
    folder.repository.commit({"s/P/a": "1"})
    await folder.folder_sync.sync()
    for number in range(40):
        folder.audit.record("success", "manual", commit=str(number))
    state = folder.data / ".sync-state"
    assert sorted(path.name for path in state.iterdir() if path.name.startswith(FILE)) == [FILE, f"{FILE}.1"]
    sizes = [(state / name).stat().st_size for name in (FILE, f"{FILE}.1")]
    assert max(sizes) <= 2000
    assert audited(folder.data)[-1]["commit"] == "39"


async def test_an_audit_line_has_every_field_and_no_record_is_written_twice(folder: Folder) -> None:
    commit = folder.repository.commit({"s/P/a": "1"})
    report = await folder.folder_sync.sync()
    for _ in range(2):
        folder.audit.passed(replace(report, duration_seconds=3.21), "webhook", "projects=200 config=200")
    again = await folder.folder_sync.sync()
    folder.audit.passed(again, "polling")
    for _ in range(3):
        folder.audit.failed(
            Stalled("no", reason=Reason.CONFIG_SYNTAX_ERROR), "polling", commit=commit, ref="main"
        )
    folder.audit.paused(commit=commit)
    folder.audit.paused(commit=commit)
    lines = audited(folder.data)
    assert lines[0] == {
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cr": "line",
        "namespace": "plant",
        "gateway": "filler",
        "podName": "gateway-0",
        "trigger": "webhook",
        "commit": commit,
        "ref": "main",
        "filesChanged": 1,
        "projectsSynced": ["P"],
        "duration": "3.21s",
        "result": "success",
        "scanResult": "projects=200 config=200",
    }
    assert [one["result"] for one in lines] == ["success", "success", "ConfigSyntaxError", "Paused"]


RESOURCES = """\
apiVersion: stoker.io/v1alpha1
kind: Stoker
metadata: {name: line-1}
spec:
  git: {repo: "URL", ref: main}
  gateway: {filesOnly: true}
  excludePatterns: ["**/.resources/**"]
  MORE
---
apiVersion: stoker.io/v1alpha1
kind: SyncProfile
metadata: {name: filler}
spec: {mappings: [{source: s, destination: projects/P, required: true}]}
"""


class Alone:
    """`stoker sync -f` on a machine without a cluster."""

    def __init__(self, place: Path, server: GitHttpServer) -> None:
        self.place = place
        self.repository = Repository.create(server.root / "plant.git")
        self.url = server.url("plant.git")
        self.data = place / "data"
        self.data.mkdir()

    def sync(self, more: Mapping[str, object], *flags: str) -> tuple[int, str]:
        file = self.place / "line.yaml"
        text = "\n  ".join(f"{name}: {json.dumps(value)}" for name, value in more.items())
        file.write_text(RESOURCES.replace("URL", self.url).replace("MORE", text))
        command = [sys.executable, "-m", "stoker", "sync", f"-f{file}", f"--data-dir={self.data}"]
        done = subprocess.run(
            [*command, f"--cache-dir={self.place / 'cache'}", *flags],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout + done.stderr

    @property
    def content(self) -> str:
        return (self.data / "projects/P/a").read_text()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Alone]:
    with GitHttpServer.start(tmp_path / "served") as server:
        yield Alone(tmp_path, server)


def test_one_sync_outside_of_its_window_changes_nothing_and_says_when(alone: Alone) -> None:
    opens = at_noon(SystemClock())
    closed = {"maintenanceWindows": [{"cron": f"0 {opens.hour} * * *", "duration": "1m"}]}
    alone.repository.commit({"s/a": "1"})
    assert alone.sync(closed)[0] == ExitCode.DONE, "first files wait for no approval"
    alone.repository.commit({"s/a": "2"})
    code, printed = alone.sync(closed)
    assert (code, alone.content) == (ExitCode.STALLED, "1")
    assert (
        f"waits: WaitingForWindow: no maintenance window is open; the next one opens at {rfc3339(opens)}"
        in printed
    )
    code, printed = alone.sync(closed, "--output=json")
    assert json.loads(printed)["waits"]["until"] == rfc3339(opens)
    assert alone.sync({"maintenanceWindows": [{"cron": "* * * * *", "duration": "1h"}]})[0] == ExitCode.DONE
    assert alone.content == "2"
    assert [(one["result"], one["cr"]) for one in audited(alone.data)] == [
        ("success", "line-1"),
        ("WaitingForWindow", "line-1"),
        ("WaitingForWindow", "line-1"),
        ("success", "line-1"),
    ]
    code, printed = alone.sync({"maintenanceWindows": [{"cron": "0 0 31 2 *", "duration": "1h"}]})
    assert code == ExitCode.WRONG_INPUT
    assert "never comes" in printed


def test_one_sync_asks_the_validation_webhook(alone: Alone, validator: Validator) -> None:
    alone.repository.commit({"s/a": "1"})
    more = {"validation": {"webhook": {"url": validator.url}}}
    assert alone.sync(more)[0] == ExitCode.DONE
    validator.answer = {"allowed": False, "reason": "not today"}  # type: ignore[dict-item]
    alone.repository.commit({"s/a": "2"})
    code, output = alone.sync(more)
    assert (code, alone.content) == (ExitCode.STALLED, "1")
    assert "not today" in output
    assert len(validator.asked) == 2
    assert validator.asked[-1]["resource"] == "line-1"
    assert [one["result"] for one in audited(alone.data)] == ["success", "ValidationRejected"]
    assert (alone.data / ".sync-state/diffs").is_dir()

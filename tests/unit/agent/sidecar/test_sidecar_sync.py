"""One sync of the sidecar, with real parts and a folder as its source: what runs with it and what waits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from stoker.agent.audit.audit_log import AuditLog
from stoker.agent.bidirectional.capture import ChangeCapture
from stoker.agent.bidirectional.outbox import OutboxSender
from stoker.agent.bidirectional.types import OutboxAddress
from stoker.agent.desired_state import ReportAddress, build_direction
from stoker.agent.identity import AgentIdentity, AgentPaths
from stoker.agent.sidecar.memory_release import MemoryTrimmer
from stoker.agent.sidecar.sidecar_sync import SidecarSync
from stoker.agent.sidecar.startup import StartupGate
from stoker.agent.status.status_report import AddressedReport, CurrentReport
from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.jobs import GatewayRef, SyncResult
from stoker.api.agent_spec import agent_spec_of
from stoker.api.to_intent import PodFacts
from stoker.domain.clock import SystemClock
from stoker.domain.intent.files import FileMapping, FilesIntent
from stoker.domain.intent.policies import BidirectionalPolicy
from stoker.domain.protocol import AgentMetadata, GatewayChangesReport, SyncState
from stoker.domain.refs import GitRef, RepoUrl
from stoker.fs.folder_source import FolderSource

MAIN = GitRef("main")


class NoSender(OutboxSender):
    """The outbox of a gateway on which nothing changes."""

    def __init__(self) -> None:
        pass


@dataclass
class Pod:
    paths: AgentPaths
    kept: SidecarSync
    reports: list[AddressedReport]
    changes: list[GatewayChangesReport | None]
    capture: ChangeCapture

    @property
    def project(self) -> Path:
        return self.paths.data / "projects/filler/project.json"


@pytest.fixture
async def pod(tmp_path: Path) -> Pod:
    paths, clock = AgentPaths(tmp_path), SystemClock()
    paths.data.mkdir()
    paths.temporary.mkdir()
    (tmp_path / "source/projects/filler").mkdir(parents=True)
    (tmp_path / "source/projects/filler/project.json").write_text("{}")
    source = FolderSource(tmp_path / "source")
    identity = AgentIdentity("gateway-0", "plant", "line", gateway="filler")
    metadata = AgentMetadata(
        commit=await source.resolve(MAIN), ref=MAIN, git_url=RepoUrl("https://git.example.test/p.git")
    )
    spec = agent_spec_of(metadata, identity.owner)
    facts = PodFacts("gateway-0", "plant", annotations={"stoker.io/service-path": "."})
    direction = build_direction(identity, paths, facts, metadata, spec, None)
    files = FilesIntent((FileMapping("projects", "projects"),))
    direction = replace(direction, job=direction.job._replace(files=files))
    folder = FolderSync(direction.job, source, clock=clock)
    changes: list[GatewayChangesReport | None] = []
    policy = BidirectionalPolicy(enabled=True, watch_paths=("projects/**",))
    postal = OutboxAddress("filler", "filler")
    capture = ChangeCapture(policy, folder, NoSender(), postal, clock, tell=changes.append)
    folder.add_hook(capture)
    folder.capture = capture
    reports: list[AddressedReport] = []
    board = CurrentReport(identity, "filler", ReportAddress("m", "filler"), clock, reports.append)
    board.directed(direction)
    audit = AuditLog(paths.data, GatewayRef("filler"), clock, aloud=False)
    kept = SidecarSync(direction, folder, board, StartupGate(paths, clock), MemoryTrimmer(), clock, audit)
    return Pod(paths, kept, reports, changes, capture)


async def test_a_sync_writes_reports_and_opens_the_startup_gate(pod: Pod) -> None:
    report = await pod.kept.sync(walk=True)
    assert report.result is SyncResult.DONE
    assert pod.project.read_text() == "{}"
    assert [one.report.sync_status for one in pod.reports][-1] is SyncState.SYNCED
    assert not pod.kept.startup.initial
    assert pod.changes, "the capture reports after the sync"


async def test_a_sync_waits_for_the_running_capture_step(pod: Pod) -> None:
    async with pod.capture.lock:
        syncing = asyncio.ensure_future(pod.kept.sync(walk=True))
        await asyncio.sleep(0)
        assert (syncing.done(), pod.reports, pod.project.exists()) == (False, [], False)
    assert (await syncing).files_changed == 1
    assert not pod.capture.lock.locked()


async def test_a_drift_check_waits_for_the_running_capture_step(pod: Pod) -> None:
    await pod.kept.sync(walk=True)
    pod.project.write_text("{ }")
    async with pod.capture.lock:
        checking = asyncio.ensure_future(pod.kept.verify())
        for _ in range(3):  # as much time as the same check takes
            await pod.kept.folder.verify()
        assert not checking.done()
    assert (await checking).modified == ("projects/filler/project.json",)
    assert pod.reports[-1].report.drift is not None

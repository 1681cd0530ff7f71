"""The report after a sync, a failure and a pause; repeated values are not written twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from stoker.agent.desired_state import DesiredState, ReportAddress, build_direction
from stoker.agent.identity import AgentIdentity, AgentPaths
from stoker.agent.status.status_report import AddressedReport, CurrentReport
from stoker.agent.sync.jobs import SyncWait
from stoker.agent.sync.sync_report import SyncReport
from stoker.api.agent_spec import agent_spec_of
from stoker.api.to_intent import PodFacts
from stoker.domain.errors import Retry, Stalled, StokerError, Wait
from stoker.domain.git_objects import BlobId, FileVersion, HeldPath, PathNote
from stoker.domain.paths import RelPath
from stoker.domain.protocol import (
    AgentMetadata,
    GatewayReport,
    HeldProjectReport,
    HistoryEntryReport,
    PendingPlanReport,
    RollbackReport,
    RollbackRequest,
    SyncState,
)
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.engine.plan.drift import FolderDrift
from stoker.engine.plan.guards import APPROVABLE_REASONS, HeldPlan
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.plan import DeleteFile, LedgerFacts, SyncPlan, WriteFile
from stoker.engine.plan.skipped import SkippedContent
from stoker.fs.apply_plan import ApplyResult
from stoker.ignition.sync.gateway_hook import GatewayOutcome
from stoker_testkit.manual_clock import ManualClock

FIRST, SECOND = CommitId("1" * 40), CommitId("2" * 40)
VIEW = RelPath("projects/filler/views/main/view.json")
DONE = SyncReport(FIRST, GitRef("main"), SyncPlan(), ApplyResult(added=(VIEW,)), duration_seconds=0.25)
NOTHING = replace(DONE, applied=ApplyResult())


class Written:
    """A board, and what it offered."""

    def __init__(self) -> None:
        self.offered: list[AddressedReport] = []
        self.clock = ManualClock()
        identity = AgentIdentity("gateway-0", "plant", "line", gateway="filler")
        self.board = CurrentReport(
            identity, "filler", ReportAddress("m", "filler"), self.clock, self.offered.append
        )

    @property
    def last(self) -> GatewayReport:
        return self.offered[-1].report


@pytest.fixture
def written() -> Written:
    return Written()


def test_a_pass_without_changes_changes_nothing(written: Written) -> None:
    written.board.passed(DONE, None, Ledger())
    before = written.last
    assert (before.sync_status, before.synced_commit, before.files_added) == (SyncState.SYNCED, FIRST, 1)
    assert (before.projects_synced, before.duration) == (("filler",), "0.25s")
    written.clock.jump(3600)
    written.board.passed(NOTHING, None, Ledger())
    assert written.last == before


@pytest.mark.parametrize(
    ("report", "status", "reason"),
    [
        (replace(DONE, trouble=(PathNote("a", "cannot be read"),)), SyncState.ERROR, Reason.SYNC_PARTIAL),
        (replace(DONE, unverified=(PathNote("gw", "not shown"),)), SyncState.ERROR, Reason.NOT_VERIFIED),
        (
            replace(DONE, unverified=(PathNote("gw", "TokenRejected: the key"),)),
            SyncState.ERROR,
            Reason.TOKEN_REJECTED,
        ),
        (
            replace(DONE, unverified=(PathNote("gw", "GatewayStarting: it boots"),)),
            SyncState.SYNCING,
            Reason.GATEWAY_STARTING,
        ),
    ],
)
def test_what_is_not_whole_has_its_reason(
    written: Written, report: SyncReport, status: SyncState, reason: Reason
) -> None:
    written.board.passed(NOTHING, None, None)
    written.board.passed(replace(report, commit=SECOND), None, None)
    assert (written.last.sync_status, written.last.reason) == (status, reason)
    whole = reason is not Reason.SYNC_PARTIAL
    assert written.last.synced_commit == (SECOND if whole else FIRST), "what is not whole is not synced"
    assert written.last.errors


def test_skipped_content_is_reported_by_name_and_counted(written: Written) -> None:
    skipped = SkippedContent.of([PathNote(f"link-{number:02}", "is a symlink") for number in range(12)])
    plan = SyncPlan(facts=LedgerFacts(skipped=skipped.texts, skipped_total=skipped.total))
    written.board.passed(replace(DONE, plan=plan), None, Ledger())
    assert (written.last.sync_status, written.last.skipped_total) == (SyncState.SYNCED, 12)
    assert written.last.skipped == tuple(f"link-{number:02}: is a symlink" for number in range(10))
    written.board.passed(NOTHING, None, Ledger())
    assert (written.last.skipped, written.last.skipped_total) == ((), 0)


def test_held_paths_leave_the_commit_as_it_was_and_are_reported_once(written: Written) -> None:
    written.board.passed(DONE, None, None)
    held = SyncPlan(held=(HeldPath("projects/filler", "alice has it open", "alice"),))
    waiting = replace(
        DONE, commit=SECOND, plan=held, applied=ApplyResult(added=(RelPath("projects/b/x.json"),))
    )
    written.board.passed(waiting, None, None)
    told = written.last
    assert (told.sync_status, told.reason) == (SyncState.SYNCING, Reason.DESIGNER_SESSION_ACTIVE)
    assert (told.held_projects, told.synced_commit, told.commit) == (
        (HeldProjectReport("filler", "alice"),),
        FIRST,
        SECOND,
    )
    written.clock.jump(60)
    written.board.passed(waiting, None, None)
    assert written.last == told
    late = Retry("alice has had it open for 5 minutes", reason=Reason.DESIGNER_SESSION_ACTIVE)
    written.board.failed(late, GatewayOutcome(held=held.held))
    assert (written.last.sync_status, written.last.held_projects) == (SyncState.ERROR, told.held_projects)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Wait("no map", after=30.0, reason=Reason.METADATA_NOT_FOUND), SyncState.PENDING),
        (Stalled("bad", reason=Reason.METADATA_INVALID), SyncState.ERROR),
        (Retry("away", reason=Reason.SOURCE_UNREACHABLE), SyncState.ERROR),
    ],
)
def test_a_failure_keeps_what_is_there(written: Written, error: StokerError, status: SyncState) -> None:
    written.board.passed(DONE, None, None)
    for _ in range(3):
        written.board.failed(error)
    last = written.last
    assert (last.sync_status, last.reason, last.error_message) == (status, error.reason, error.message)
    assert (last.synced_commit, last.files_added) == (FIRST, 1)
    failures = [entry for entry in last.history if entry.result == error.reason]
    assert len(failures) == (status is SyncState.ERROR), "the same failure is one entry"


def test_ten_syncs_are_remembered_also_across_a_restart(written: Written) -> None:
    for number in range(12):
        written.board.passed(replace(DONE, commit=CommitId(f"{number:040x}")), None, None)
    assert [entry.commit for entry in written.last.history] == [f"{n:040x}" for n in range(11, 1, -1)]
    fresh = Written()
    fresh.board.seed(GatewayReport.parse(written.last.json()))
    fresh.board.passed(replace(NOTHING, commit=CommitId(f"{11:040x}")), None, None)
    assert fresh.last.synced_at == written.last.synced_at
    newest = fresh.last.history[0]
    assert replace(newest, diff=None) == HistoryEntryReport(
        "2026-01-01T00:00:00Z", f"{11:040x}", "main", 1, ("filler",), "0.25s", "success"
    )
    assert newest.diff is not None
    assert (newest.diff.from_commit, newest.diff.to_commit) == (f"{10:040x}", f"{11:040x}")
    assert [(one.path, one.action) for one in newest.diff.changes] == [
        ("projects/filler/views/main/view.json", "added")
    ]


def test_the_oldest_syncs_lose_their_diffs_first(written: Written) -> None:
    long = tuple(RelPath(f"projects/filler/{'x' * 40}/{n}") for n in range(9))
    for number in range(10):
        many = replace(DONE, commit=CommitId(f"{number:040x}"), applied=ApplyResult(added=long))
        written.board.passed(many, None, None)
    told = GatewayReport.parse(written.last.json()).history
    kept = [entry.diff is not None for entry in told]
    assert kept == sorted(kept, reverse=True)
    assert kept[0]
    assert not kept[-1]
    assert all(len(entry.diff.changes) <= 3 for entry in told if entry.diff is not None)


def test_a_wait_for_a_window_is_reported_with_its_plan_and_the_time_it_opens(written: Written) -> None:
    opens = datetime(2026, 1, 3, 2, tzinfo=UTC)
    plan = SyncPlan(writes=(WriteFile(RelPath("projects/a"), FileVersion(BlobId("a" * 40)), replaces=False),))
    held = SyncReport(SECOND, GitRef("main"), plan, waits=SyncWait(Reason.WAITING_FOR_WINDOW, opens))
    written.board.passed(DONE, None, None)
    written.board.passed(held, None, None)
    last = written.last
    assert (last.sync_status, last.reason) == (SyncState.PENDING, Reason.WAITING_FOR_WINDOW)
    assert last.waits_until == "2026-01-03T02:00:00Z"
    assert last.waits_until in last.error_message
    assert last.pending_plan is not None
    assert (last.pending_plan.digest, last.pending_plan.files_added) == (plan.digest, 1)
    assert last.synced_commit == FIRST
    written.board.passed(replace(DONE, commit=SECOND), None, None)
    assert (written.last.waits_until, written.last.pending_plan) == ("", None)


def test_applied_and_verified_are_two_words_and_blind_trust_is_a_warning(written: Written) -> None:
    outcome = GatewayOutcome(result="projects=200 config=200", trust="unverified loopback", applied=True)
    written.board.passed(DONE, outcome, None)
    assert (written.last.applied, written.last.verified) == (True, False)
    assert written.last.warnings == ("unverified loopback",)
    written.board.passed(DONE, None, None)
    files_only = written.last
    assert [files_only.applied, files_only.verified, *files_only.warnings] == [None, None]


def test_a_scan_lock_that_was_not_held_is_reported(written: Written) -> None:
    written.board.passed(DONE, GatewayOutcome(lock="held", applied=True), None)
    assert not written.last.warnings
    written.board.passed(DONE, GatewayOutcome(lock="not offered by this gateway", applied=True), None)
    assert written.last.warnings == ("scan lock: not offered by this gateway",)


def test_a_plan_that_is_only_shown_is_pending_with_its_digest(written: Written) -> None:
    write = WriteFile(VIEW, FileVersion(BlobId("a" * 40)), False)
    plan = SyncPlan(writes=(write,), facts=LedgerFacts(commit=SECOND))
    written.board.passed(DONE, None, None)
    written.board.passed(SyncReport(SECOND, GitRef("main"), plan), None, None)
    pending = written.last.pending_plan
    assert pending is not None
    assert (pending.digest, pending.commit, pending.files_added) == (plan.digest, SECOND, 1)
    assert (written.last.sync_status, written.last.synced_commit) == (SyncState.PENDING, FIRST)
    written.board.passed(SyncReport(FIRST, GitRef("main"), SyncPlan()), None, None)
    assert (written.last.sync_status, written.last.pending_plan) == (SyncState.SYNCED, None)


@pytest.mark.parametrize("reason", sorted(APPROVABLE_REASONS))
def test_a_plan_that_waits_for_approval_is_shown_with_its_digest(written: Written, reason: Reason) -> None:
    plan = SyncPlan(deletions=(DeleteFile(VIEW),), facts=LedgerFacts(commit=SECOND))
    written.board.failed(HeldPlan(plan, "held", reason))
    assert written.last.pending_plan == PendingPlanReport(plan.digest, reason, SECOND, files_deleted=1)
    assert (written.last.sync_status, written.last.reason) == (SyncState.ERROR, reason)


def test_a_rollback_that_waits_for_approval_has_not_failed(written: Written) -> None:
    written.board.directed(replace(wish("line 1"), rollback=RollbackRequest("r", to_snapshot="s")))
    written.board.failed(HeldPlan(SyncPlan(), "held", Reason.DELETION_BUDGET_EXCEEDED))
    assert written.last.rollback == RollbackReport("r", "Pending", "held")


def test_a_source_that_gives_nothing_has_no_plan_to_approve(written: Written) -> None:
    plan = SyncPlan(deletions=(DeleteFile(VIEW),), facts=LedgerFacts(commit=SECOND))
    empty = Stalled("the mappings give no file", reason=Reason.SOURCE_EMPTY)
    written.board.passed(SyncReport(SECOND, GitRef("main"), plan, stalled=empty), None, None)
    pending = written.last.pending_plan
    assert pending is not None
    assert pending.reason not in APPROVABLE_REASONS
    assert written.last.reason == Reason.SOURCE_EMPTY


def test_a_commit_that_was_synced_before_is_not_reported_as_the_wanted_one(written: Written) -> None:
    board = written.board
    board.directed(wish("line 1"))
    board.passed(DONE, None, Ledger())
    board.directed(wish("line 1"))
    board.drifted(FolderDrift())
    assert written.last.sync_status is SyncState.SYNCED
    board.directed(wish("line 2"))
    board.drifted(FolderDrift())
    assert (written.last.sync_status, written.last.service_path) == (SyncState.PENDING, "line 2")
    board.passed(NOTHING, None, Ledger())
    assert written.last.sync_status is SyncState.SYNCED


def wish(path: str) -> DesiredState:
    identity = AgentIdentity("gateway-0", "plant", "line", gateway="filler")
    said = AgentMetadata(commit=FIRST, ref=GitRef("main"), git_url=RepoUrl("https://git.example.test/p.git"))
    pod = PodFacts("gateway-0", "plant", annotations={"stoker.io/service-path": path})
    return build_direction(identity, AgentPaths(), pod, said, agent_spec_of(said, identity.owner), None)


def test_a_pause_makes_nothing_well_that_was_not(written: Written) -> None:
    written.board.passed(
        replace(DONE, unverified=(PathNote("gw", "TokenRejected: the key"),)), None, Ledger()
    )
    failed = written.last
    written.board.paused(FIRST)
    assert written.last == failed, "its files are those of the commit, and yet it is not in step"
    written.board.passed(NOTHING, None, Ledger())
    written.board.paused(FIRST)
    assert (written.last.sync_status, written.last.reason) == (SyncState.SYNCED, Reason.PAUSED)

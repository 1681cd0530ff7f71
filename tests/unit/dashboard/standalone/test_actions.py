"""Orders on a watch's page, and what the watcher finds on the desk."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stoker.dashboard.interfaces import ActionRefused, GatewayKey, VisibleScope, Visitor
from stoker.dashboard.standalone.actions import ACTION_TIMEOUT_SECONDS, LocalActions
from stoker.dashboard.standalone.pending_actions import HeldRollback, PendingActions
from stoker.dashboard.standalone.token_check import FULL_SIGHT, LocalAuth, LocalToken, check_token_length
from stoker.dashboard.standalone.view import FolderHold, FolderSubject, LocalViewSource
from stoker.dashboard.view_models import ActionBody, DashboardAction
from stoker.domain.errors import Misconfigured, Retry, Stalled
from stoker.domain.paths import RelPath
from stoker.domain.protocol import DriftReport, GatewayReport, HeldProjectReport, PendingPlanReport, SyncState
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.engine.plan.guards import HeldPlan
from stoker.engine.plan.plan import DeleteFile, LedgerFacts, SyncPlan
from stoker.ignition.sync.state_files import StateFiles
from stoker_testkit.manual_clock import ManualClock

SUBJECT = FolderSubject("local", "Folder", "filler", "filler", "main")
ME = {"namespace": "local", "kind": "Folder", "name": "filler"}
VISITOR = Visitor("local", (), Secret("t"))
DIGEST = "d" * 64


class Place:
    def __init__(self, state: Path) -> None:
        self.clock = ManualClock()
        self.desk = PendingActions(self.clock, StateFiles(state))
        self.scene = LocalViewSource(self.desk, self.clock, SUBJECT)
        self.nudges = 0
        self.hands = LocalActions(self.desk, self.scene, self.nudge, self.clock)

    def nudge(self) -> None:
        self.nudges += 1

    async def do(self, action: DashboardAction, **more: str) -> str:
        return await self.hands.do(ActionBody(action=action, **{**ME, **more}), VISITOR)

    async def refused(self, action: DashboardAction, **more: str) -> int:
        with pytest.raises(ActionRefused) as refused:
            await self.do(action, **more)
        return refused.value.status


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "state")


async def test_pause_and_resume_are_a_state_and_a_wake_up(place: Place) -> None:
    seen = place.scene.version()
    await place.do(DashboardAction.PAUSE)
    assert place.desk.paused
    changes = place.scene.changes(seen, FULL_SIGHT)
    assert changes is not None
    assert changes.resources[0].paused
    assert await place.refused(DashboardAction.SYNC) == 409
    await place.do(DashboardAction.RESUME)
    assert not place.desk.paused
    assert place.nudges == 2


async def test_what_the_file_says_paused_is_not_resumed_here(place: Place) -> None:
    place.scene.about(SUBJECT._replace(paused=True), FolderHold())
    assert await place.refused(DashboardAction.RESUME) == 409


async def test_a_stop_calls_off_what_waits(place: Place) -> None:
    going = asyncio.create_task(place.do(DashboardAction.ROLLBACK, to_commit="a" * 40))
    await asyncio.sleep(0)
    assert place.desk.goes_back
    await place.hands.do(ActionBody(action=DashboardAction.STOP), VISITOR)
    with pytest.raises(ActionRefused, match="before it began"):
        await going
    assert not place.desk.goes_back
    assert place.scene.picture(FULL_SIGHT).stop.active
    await place.hands.do(ActionBody(action=DashboardAction.GO_ON), VISITOR)
    assert not place.scene.picture(FULL_SIGHT).stop.active
    assert await place.hands.do(ActionBody(action=DashboardAction.GO_ON), VISITOR) == "Nothing was stopped."


async def test_stop_and_pause_outlive_the_process_until_they_are_lifted(tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = Place(state)
    assert "over a restart" in await first.do(DashboardAction.PAUSE)
    assert "over a restart" in await first.do(DashboardAction.STOP)
    await first.clock.advance(60)
    again = Place(state)
    assert again.desk.paused
    assert again.desk.stopped_since == first.desk.stopped_since
    assert again.scene.picture(FULL_SIGHT).stop.active
    await again.do(DashboardAction.GO_ON)
    third = Place(state)
    assert (third.desk.paused, third.desk.stopped) == (True, False)
    await third.do(DashboardAction.RESUME)
    assert list(state.iterdir()) == []


async def test_a_stop_holds_although_it_cannot_be_noted_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    place = Place(tmp_path / "state")
    with pytest.raises(Retry, match="a restart will not know"):
        await place.do(DashboardAction.STOP)
    assert place.desk.stopped
    assert place.nudges == 1


async def test_a_note_that_is_not_ours_stops_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "dashboard-stopped").write_bytes(b"\xff" * 100)
    assert Place(tmp_path).desk.stopped


async def test_one_rollback_at_a_time_and_its_end_is_reported(place: Place) -> None:
    going = asyncio.create_task(place.do(DashboardAction.ROLLBACK, to_snapshot="filler-20260101-000000"))
    await asyncio.sleep(0)
    assert await place.refused(DashboardAction.ROLLBACK, to_commit="a" * 40) == 409
    assert await place.refused(DashboardAction.RELEASE) == 409
    action = place.desk.way_back()
    assert action is not None
    action.fail(Stalled("no such snapshot", reason=Reason.SNAPSHOT_NOT_FOUND))
    with pytest.raises(Stalled, match="no such snapshot"):
        await going


async def test_a_user_who_waits_too_long_reads_that_the_work_goes_on(place: Place) -> None:
    going = asyncio.create_task(place.do(DashboardAction.RELEASE))
    await asyncio.sleep(0)
    assert not place.desk.goes_back, "letting go is no way back"
    await place.clock.advance(ACTION_TIMEOUT_SECONDS)
    assert "on its way" in await going
    action = place.desk.release()
    assert action is not None
    action.succeed("done")


async def test_only_the_plan_that_waits_is_approved(place: Place) -> None:
    assert await place.refused(DashboardAction.APPROVE, digest=DIGEST) == 409
    plan = PendingPlanReport(DIGEST, Reason.DELETION_BUDGET_EXCEEDED, "c" * 40, files_deleted=7)
    report = GatewayReport("filler", sync_status=SyncState.ERROR, reason=plan.reason, pending_plan=plan)
    place.scene.told(report)
    (resource,) = place.scene.picture(FULL_SIGHT).resources
    assert resource.approval is not None
    assert (resource.approval.state, resource.approval.deleted) == ("Pending", 7)
    assert "approve" in resource.may
    assert await place.refused(DashboardAction.APPROVE, digest="e" * 64) == 409
    assert await place.refused(DashboardAction.APPROVE) == 409
    await place.do(DashboardAction.APPROVE, digest=DIGEST)
    assert place.desk.approved == {DIGEST}


async def test_a_rollback_that_is_held_is_approved_by_its_plan_and_begins_again(place: Place) -> None:
    plan = SyncPlan(deletions=(DeleteFile(RelPath("projects/a")),), facts=LedgerFacts(commit="c" * 40))
    held = HeldPlan(plan, "60 files would be deleted", Reason.DELETION_BUDGET_EXCEEDED)
    place.desk.held_rollback = HeldRollback("filler-20260101-000000", held)
    place.scene.told(GatewayReport("filler", sync_status=SyncState.SYNCED))
    (resource,) = place.scene.picture(FULL_SIGHT).resources
    assert resource.approval is not None
    assert (resource.approval.state, resource.approval.digest) == ("Pending", plan.digest)
    assert await place.refused(DashboardAction.APPROVE, digest=DIGEST) == 409
    await place.do(DashboardAction.APPROVE, digest=plan.digest)
    action = place.desk.way_back()
    assert action is not None
    assert (action.to, action.approved) == ("filler-20260101-000000", plan.digest)
    assert place.desk.approved == frozenset(), "it is for this rollback alone"
    assert place.scene.waits_for == ""


async def test_a_stop_forgets_a_rollback_that_is_held(place: Place) -> None:
    place.desk.held_rollback = HeldRollback(
        "s", HeldPlan(SyncPlan(), "held", Reason.DELETION_BUDGET_EXCEEDED)
    )
    await place.hands.do(ActionBody(action=DashboardAction.STOP), VISITOR)
    assert place.desk.held_rollback is None


async def test_foreign_files_wait_for_no_approval(place: Place) -> None:
    plan = PendingPlanReport(DIGEST, Reason.ORPHANS_KEPT, "c" * 40, files_deleted=7)
    place.scene.told(GatewayReport("filler", sync_status=SyncState.SYNCED, pending_plan=plan))
    assert place.scene.picture(FULL_SIGHT).resources[0].approval is None


async def test_the_report_becomes_a_gateway(place: Place) -> None:
    place.scene.told(
        GatewayReport(
            "filler",
            sync_status=SyncState.SYNCING,
            reason=Reason.DESIGNER_SESSION_ACTIVE,
            held_projects=(HeldProjectReport("line", "ada"),),
            drift=DriftReport(2, ("projects/a", "projects/b")),
        )
    )
    past = place.scene.gateway(GatewayKey("local", "Folder", "filler", "filler"), FULL_SIGHT)
    assert past is not None
    assert (past.gateway.held_by[0].user, past.gateway.drift) == ("ada", 2)
    narrow = VisibleScope(False, frozenset({"plant"}), lambda action, namespace: True, False)
    assert place.scene.picture(narrow).resources == ()
    assert place.scene.gateway(GatewayKey("local", "Folder", "filler", "filler"), narrow) is None


async def test_a_file_that_names_another_resource_takes_the_old_one_away(place: Place) -> None:
    seen = place.scene.version()
    place.scene.about(SUBJECT._replace(name="packer"), FolderHold())
    changes = place.scene.changes(seen, FULL_SIGHT)
    assert changes is not None
    assert changes.gone == (SUBJECT.id,)
    assert [one.name for one in changes.resources] == ["packer"]


async def test_one_token_opens_everything_until_it_is_replaced() -> None:
    token = [Secret("right")]
    gate = LocalAuth(lambda: token[0])
    visitor = await gate.admit(Secret("right"))
    assert visitor is not None
    assert await gate.admit(Secret("wrong")) is None
    assert await gate.sight(visitor) is FULL_SIGHT
    token[0] = Secret("other")
    with pytest.raises(ActionRefused) as refused:
        await gate.sight(visitor)
    assert refused.value.status == 401


def test_a_token_that_could_be_guessed_is_refused_by_the_name_of_its_file() -> None:
    assert check_token_length(Secret("x" * 16), Path("/run/token")) == Secret("x" * 16)
    with pytest.raises(Misconfigured, match=r"/run/token has fewer than 16") as refused:
        check_token_length(Secret("y" * 15), Path("/run/token"))
    assert "yyy" not in refused.value.message


def test_own_tokens_differ_and_leave_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state"
    one, two = LocalToken(state), LocalToken(state)
    assert one.value != two.value
    assert len(one.value.reveal()) >= 40
    one.write()
    assert one.file.read_text().strip() == one.value.reveal()
    assert one.file.stat().st_mode & 0o777 == 0o600
    one.clear()
    assert list(state.iterdir()) == []

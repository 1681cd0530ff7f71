"""Reports of gateways in a status, within its size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from stoker.controller.cache.gateways import FleetGateway
from stoker.controller.cache.pods import AgentState, CachedPod
from stoker.controller.status.gateways import MAX_BYTES, gateway_statuses, last_sync_time, rollback_outcome
from stoker.domain.protocol import (
    DiffReport,
    DriftReport,
    FileChangeReport,
    GatewayReport,
    HistoryEntryReport,
    PendingPlanReport,
    RollbackReport,
    RollbackRequest,
    SnapshotReport,
    SyncState,
)

AT = "2026-03-02T08:15:00Z"


def gateway(name: str, report: GatewayReport | None, agent: AgentState = AgentState.READY) -> FleetGateway:
    return FleetGateway(
        CachedPod(name, "plant", {}, {}, "default", agent), name, name, report=report, target=name
    )


def report(name: str = "g", **more: Any) -> GatewayReport:
    said: dict[str, Any] = {
        "sync_status": SyncState.SYNCED,
        "synced_commit": "a" * 40,
        "synced_at": AT,
        **more,
    }
    return GatewayReport(name, pod_name=name, **said)


def test_a_report_becomes_an_entry() -> None:
    said = report(
        files_added=1,
        files_changed=1,
        drift=DriftReport(2, ("a", "b"), AT),
        pending_plan=PendingPlanReport("0123456789abcdef", "DeletionBudgetExceeded", files_deleted=60),
        history=(HistoryEntryReport(AT, "a" * 40, "main", 1, ("site",), "1.5s", "success"),),
    )
    (entry,) = gateway_statuses([gateway("g", said)], "plant")
    assert (entry.name, entry.pod_name, entry.namespace) == ("g", "g", "plant")
    assert (entry.sync_status, entry.last_sync_time, entry.files_changed) == ("Synced", AT, 1)
    assert entry.drift is not None
    assert entry.drift.files == 2
    assert entry.pending_plan is not None
    assert entry.pending_plan.files_deleted == 60
    assert entry.sync_history is not None
    assert entry.sync_history[0].result == "success"


def test_the_changes_of_each_sync_are_in_its_history() -> None:
    diff = DiffReport(
        "a" * 40,
        "b" * 40,
        1,
        2,
        0,
        ("site",),
        (FileChangeReport("p/a", "added"), FileChangeReport("p/b", "eaten")),
    )
    said = report(
        history=(HistoryEntryReport(AT, "b" * 40, diff=diff, snapshot_id="site-1"),), waits_until=AT
    )
    (entry,) = gateway_statuses([gateway("g", said)], "plant")
    assert entry.waits_until == AT
    assert entry.sync_history is not None
    told = entry.sync_history[0].diff
    assert told is not None
    assert (told.from_commit, told.to_commit) == ("a" * 40, "b" * 40)
    assert (told.files_added, told.files_modified, told.files_deleted) == (1, 2, 0)
    assert told.projects_affected == ("site",)
    assert [(one.path, one.action) for one in told.changes or ()] == [("p/a", "added")]
    assert entry.sync_history[0].snapshot_id == "site-1"


def test_what_the_schema_would_refuse_is_left_out() -> None:
    bad = report(
        synced_at="yesterday",
        drift=DriftReport(1, (), "never"),
        history=(HistoryEntryReport("soon"), HistoryEntryReport(AT)),
        reason="x" * 500,
    )
    (entry,) = gateway_statuses([gateway("g", bad)], "plant")
    assert entry.last_sync_time is None
    assert entry.drift is not None
    assert entry.drift.detected_at is None
    assert entry.sync_history is not None
    assert len(entry.sync_history) == 1
    assert len(entry.reason or "") == 253


def test_who_has_not_reported_says_why() -> None:
    entries = gateway_statuses(
        [
            gateway("bare", None, AgentState.NONE),
            gateway("early", None, AgentState.STARTING),
            replace(gateway("wrong", None), mistake="annotation x is bad"),
        ],
        "plant",
    )
    assert [entry.reason for entry in entries] == ["SidecarMissing", "AgentStarting", "InvalidValue"]
    assert all(entry.sync_status == "Pending" for entry in entries)


def test_a_thousand_gateways_fit_and_history_goes_first() -> None:
    entries = tuple(
        HistoryEntryReport(AT, "a" * 40, "main", 3, ("site",) * 5, "1s", "success") for _ in range(10)
    )
    said = report(history=entries, projects_synced=tuple(f"project-{n}" for n in range(20)))
    few = gateway_statuses([gateway(f"g{n}", said) for n in range(20)], "plant")
    assert all(entry.sync_history for entry in few)
    some = gateway_statuses([gateway(f"g{n}", said) for n in range(400)], "plant")
    assert not any(entry.sync_history for entry in some)
    assert all(entry.projects_synced for entry in some)
    many = gateway_statuses([gateway(f"g{n}", said) for n in range(1200)], "plant")
    assert len(many) == 1000
    assert len(msgspec.json.encode(many)) <= MAX_BYTES
    assert all(entry.synced_commit for entry in many)


def test_the_last_sync_is_the_newest() -> None:
    entries = gateway_statuses(
        [gateway("a", report(synced_at=AT)), gateway("b", report(synced_at="2026-03-02T09:15:00+00:00"))],
        "plant",
    )
    assert last_sync_time(entries) == "2026-03-02T09:15:00Z"
    assert last_sync_time(()) is None


def test_a_rollback_succeeded_when_it_did_so_everywhere() -> None:
    asked = RollbackRequest("v1")

    def outcome(*results: str) -> str:
        gateways = [
            gateway(f"g{n}", report(rollback=RollbackReport("v1", result) if result else None))
            for n, result in enumerate(results)
        ]
        made = rollback_outcome(asked, gateways)
        assert made is not None
        return made.result

    assert rollback_outcome(None, ()) is None
    assert outcome("Succeeded", "Succeeded") == "Succeeded"
    assert outcome("Succeeded", "") == "Pending"
    assert outcome("Succeeded", "Pending") == "Pending"
    assert outcome("Succeeded", "Failed") == "Failed"


def test_a_rollback_to_a_snapshot_concerns_only_the_gateway_that_it_names() -> None:
    asked = RollbackRequest("a-20260301-100000", to_snapshot="a-20260301-100000")

    def outcome(**said: str) -> tuple[str, str | None]:
        gateways = [
            gateway(name, report(rollback=RollbackReport(asked.id, result) if result else None))
            for name, result in said.items()
        ]
        made = rollback_outcome(asked, gateways)
        assert made is not None
        return made.result, made.message

    assert outcome(a="Succeeded", b="") == ("Succeeded", None)
    assert outcome(a="", b="Succeeded") == ("Pending", None)
    assert outcome(a="Failed", b="")[0] == "Failed"
    result, message = outcome(b="", c="")
    assert result == "Failed"
    assert "a-20260301-100000" in (message or "")


@pytest.mark.parametrize(
    ("size", "said"), [(0, "0B"), (999, "999B"), (1500, "2kB"), (180_400_000, "180MB"), (3 * 10**9, "3GB")]
)
def test_the_snapshots_to_roll_back_to_are_in_the_status(size: int, said: str) -> None:
    taken = SnapshotReport("a-20260301-100000", size, AT)
    (entry,) = gateway_statuses([gateway("a", report(last_snapshot=taken, snapshots_kept=3))], "plant")
    assert entry.last_snapshot is not None
    assert (entry.last_snapshot.id, entry.last_snapshot.size) == ("a-20260301-100000", said)
    assert entry.snapshots_kept == 3

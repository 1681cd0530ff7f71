"""What gateways reported, within what a status may hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from stoker.controller.fleets import Gateway
from stoker.controller.gathering import MAX_BYTES, gateway_statuses, last_sync, rollback_outcome
from stoker.controller.pods import AgentState, SeenPod
from stoker.domain.protocol import (
    DriftFound,
    GatewayReport,
    HistoryEntry,
    PendingPlan,
    RollbackOutcome,
    RollbackRequest,
    SyncStatus,
)

AT = "2026-03-02T08:15:00Z"


def gateway(name: str, report: GatewayReport | None, agent: AgentState = AgentState.READY) -> Gateway:
    return Gateway(SeenPod(name, "plant", {}, {}, "default", agent), name, name, report=report, target=name)


def report(name: str = "g", **more: Any) -> GatewayReport:
    said: dict[str, Any] = {
        "sync_status": SyncStatus.SYNCED,
        "synced_commit": "a" * 40,
        "synced_at": AT,
        **more,
    }
    return GatewayReport(name, pod_name=name, **said)


def test_a_report_becomes_an_entry() -> None:
    said = report(
        files_added=1,
        files_changed=1,
        drift=DriftFound(2, ("a", "b"), AT),
        pending_plan=PendingPlan("0123456789abcdef", "DeletionBudgetExceeded", files_deleted=60),
        history=(HistoryEntry(AT, "a" * 40, "main", 1, ("site",), "1.5s", "success"),),
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


def test_what_the_schema_would_refuse_is_left_out() -> None:
    bad = report(
        synced_at="yesterday",
        drift=DriftFound(1, (), "never"),
        history=(HistoryEntry("soon"), HistoryEntry(AT)),
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
    entries = tuple(HistoryEntry(AT, "a" * 40, "main", 3, ("site",) * 5, "1s", "success") for _ in range(10))
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
    assert last_sync(entries) == "2026-03-02T09:15:00Z"
    assert last_sync(()) is None


def test_a_way_back_succeeded_when_it_did_so_everywhere() -> None:
    asked = RollbackRequest("v1")

    def outcome(*results: str) -> str:
        gateways = [
            gateway(f"g{n}", report(rollback=RollbackOutcome("v1", result) if result else None))
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

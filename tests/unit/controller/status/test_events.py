"""Events for a new status."""

from __future__ import annotations

import json
from typing import Any

from stoker.api.meta import Condition
from stoker.api.spec.status import (
    DriftRestoreStatus,
    GatewayStatus,
    QuarantineStatus,
    RequestedRef,
    SyncStatus,
)
from stoker.controller.cache.objects import ResourceKey, decode_object
from stoker.controller.context import ReconcileContext
from stoker.controller.status.events import status_events
from stoker.kube.watch.store import ObjectKey

KEY = ResourceKey("Stoker", ObjectKey("plant", "line"))
OLD, NEW = "a" * 40, "b" * 40


def status(*conditions: tuple[str, str, str], **more: Any) -> SyncStatus:
    made = tuple(
        Condition(
            type=kind,
            status=value,  # type: ignore[arg-type]  # tables are shorter with plain text
            reason=reason,
            message=f"about {kind}",
            last_transition_time="2026-03-02T08:15:00Z",
        )
        for kind, value, reason in conditions
    )
    return SyncStatus(conditions=made, last_sync_ref="main", **more)


def told(before: SyncStatus, after: SyncStatus) -> list[tuple[str, str]]:
    kept = decode_object(json.dumps({"metadata": {"name": "line", "namespace": "plant"}}).encode())
    return [
        (str(one.type), str(one.reason)) for one in status_events(ReconcileContext(KEY, kept, before), after)
    ]


def gateway(**more: Any) -> GatewayStatus:
    said: dict[str, Any] = {
        "name": "g",
        "pod_name": "g-0",
        "sync_status": "Synced",
        "synced_commit": OLD,
        **more,
    }
    return GatewayStatus(**said)


def test_a_lasting_state_is_not_recorded_again() -> None:
    same = status(
        ("Ready", "False", "SecretNotFound"),
        ("AgentReady", "False", "AgentUnreachable"),
        last_sync_commit=OLD,
        discovered_gateways=(gateway(), gateway(pod_name="h-0", sync_status="Error", reason="X")),
    )
    assert told(same, same) == []


def test_an_error_is_recorded_when_it_begins_and_when_it_becomes_another() -> None:
    well, missing = status(("Ready", "True", "RefResolved")), status(("Ready", "False", "SecretNotFound"))
    assert told(well, missing) == [("Warning", "SecretNotFound")]
    assert told(missing, status(("Ready", "False", "RefNotFound"))) == [("Warning", "RefNotFound")]
    assert told(missing, well) == []
    assert told(well, status(("Ready", "False", "Paused"))) == [("Normal", "Paused")]
    assert told(well, status(("Ready", "False", "GatewaysSyncing"))) == [], "gateways tell of themselves"


def test_a_commit_is_recorded_once() -> None:
    none, old, new = status(), status(last_sync_commit=OLD), status(last_sync_commit=NEW)
    assert told(none, old) == [("Normal", "RepoCloned")]
    assert told(old, new) == [("Normal", "RefUpdated")]


def test_another_ref_than_the_specs_is_recorded_when_it_begins_and_ends() -> None:
    requested = status(requested_ref=RequestedRef(ref="v2", by="webhook", spec_ref="main"))
    own = status(requested_ref=RequestedRef(ref="main", by="webhook", spec_ref="main"))
    assert told(status(), requested) == [("Normal", "RefRequested")]
    assert told(requested, requested) == []
    assert told(requested, status()) == [("Normal", "RefRequested")]
    assert told(requested, own) == [("Normal", "RefRequested")]
    assert told(status(), own) == []


def test_gateways_are_recorded_when_they_arrive_and_when_they_fail() -> None:
    def step(before: GatewayStatus | None, after: GatewayStatus) -> list[tuple[str, str]]:
        first = status(discovered_gateways=(before,) if before is not None else None)
        return told(first, status(discovered_gateways=(after,)))

    completed, failed = [("Normal", "SyncCompleted")], [("Warning", "SyncFailed")]
    assert step(None, gateway()) == completed
    assert step(gateway(), gateway(synced_commit=NEW)) == completed
    assert step(gateway(sync_status="Syncing"), gateway()) == [], "the same commit again is no change"
    assert step(gateway(), gateway(sync_status="Error", reason="SourceEmpty")) == failed
    assert step(gateway(sync_status="Error", reason="A"), gateway(sync_status="Error", reason="B")) == failed
    assert step(gateway(sync_status="Error", reason="A"), gateway()) == completed


def test_skipped_content_is_recorded_by_name_when_it_changes() -> None:
    def messages(before: GatewayStatus, after: GatewayStatus) -> list[str]:
        kept = decode_object(json.dumps({"metadata": {"name": "line", "namespace": "plant"}}).encode())
        context = ReconcileContext(KEY, kept, status(discovered_gateways=(before,)))
        return [one.message for one in status_events(context, status(discovered_gateways=(after,)))]

    links = gateway(skipped=("s/a: is a symlink", "s/b: is a symlink"), skipped_total=3)
    (message,) = messages(gateway(), links)
    assert message.startswith("Gateway g skipped 3 entries of the repository or its mappings: ")
    assert message.endswith(": s/a: is a symlink; s/b: is a symlink; and 1 more")
    assert messages(links, links) == []
    assert messages(links, gateway()) == []
    assert told(status(discovered_gateways=(gateway(),)), status(discovered_gateways=(links,))) == [
        ("Warning", "ContentSkipped")
    ]


def test_conditions_are_recorded_when_they_turn() -> None:
    quiet = status(("SidecarInjected", "True", "SidecarInjected"), ("DriftDetected", "False", "NoneFound"))
    for condition, expected in (
        (("SidecarInjected", "False", "SidecarMissing"), "SidecarMissing"),
        (("SidecarInjected", "True", "SidecarOutdated"), "SidecarOutdated"),
        (("DriftDetected", "True", "GatewayFilesModified"), "GatewayFilesModified"),
        (("AgentReady", "False", "AgentUnreachable"), "AgentUnreachable"),
        (("Verified", "False", "NotVerified"), "NotVerified"),
    ):
        assert told(quiet, status(condition)) == [("Warning", expected)]
        assert told(status(condition), status(condition)) == []
    assert told(quiet, status(("RefSkew", "True", "RefSkewDetected"))) == [], "they are on their way"
    assert told(quiet, status(("AgentReady", "False", "AgentStarting"))) == []


def test_the_whole_fleet_is_recorded_once() -> None:
    done = ("AllGatewaysSynced", "True", "GatewaysSynced")
    before = status(("AllGatewaysSynced", "False", "SyncInProgress"), last_sync_commit=OLD)
    after = status(done, last_sync_commit=OLD, discovered_gateways=(gateway(),))
    assert told(before, after)[-1] == ("Normal", "SyncCompleted")
    assert told(after, after) == []
    empty = status(("AllGatewaysSynced", "True", "NoGateways"), last_sync_commit=OLD)
    assert told(before, empty) == []


def test_restored_files_are_recorded_once_each_time() -> None:
    def restored(at: str) -> SyncStatus:
        done = DriftRestoreStatus(files=1, paths=("projects/filler/project.json",), restored_at=at)
        return status(discovered_gateways=(gateway(drift_restored=done),))

    well, once = status(discovered_gateways=(gateway(),)), restored("2026-03-02T08:15:00Z")
    assert told(well, once) == [("Warning", "DriftRestored")]
    assert told(once, once) == []
    assert told(once, restored("2026-03-02T09:15:00Z")) == [("Warning", "DriftRestored")]


def test_a_commit_that_was_rolled_back_is_recorded_once() -> None:
    held = QuarantineStatus(
        commit=NEW, reason="ScanFailureAutoRollback", message="no scan", since="2026-03-02T08:15:00Z"
    )
    well, back = (
        status(discovered_gateways=(gateway(),)),
        status(discovered_gateways=(gateway(quarantine=held),)),
    )
    assert told(well, back) == [("Warning", "ScanFailureAutoRollback")]
    assert told(back, back) == []
    assert told(back, well) == []
    other = QuarantineStatus(commit=NEW, reason="AutoRollback", since="2026-03-02T09:15:00Z")
    assert told(back, status(discovered_gateways=(gateway(quarantine=other),))) == [
        ("Warning", "AutoRollback")
    ]

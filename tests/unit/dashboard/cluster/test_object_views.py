"""Objects of the API as pages show them: pure functions over bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from stoker.dashboard.cluster.destinations import decode_config, decode_destination, destination_view
from stoker.dashboard.cluster.emergency_stop import decode_emergency_stop
from stoker.dashboard.cluster.history import unpack_history
from stoker.dashboard.cluster.resources import CachedSyncResource, decode_resource
from stoker.dashboard.view_models import RollbackView, RolloutView

COMMIT = "a" * 40


def resource(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> CachedSyncResource:
    body: dict[str, Any] = {"metadata": {"name": "line-1", "namespace": "plant"}, "spec": spec or {}}
    return decode_resource(
        "Stoker", json.dumps(body | ({"status": status} if status is not None else {})).encode()
    )


def test_before_anybody_has_looked_nothing_is_known() -> None:
    now = resource({"git": {"repo": "x", "ref": "main"}, "paused": True}).now
    assert (now.id, now.ref, now.paused, now.ready) == ("plant/Stoker/line-1", "main", True, "Unknown")
    assert (now.approval, now.rollback, now.release, now.gateways) == (None, None, None, ())


def test_a_resource_without_a_source_of_its_own_has_no_ref_yet() -> None:
    assert resource({"inheritsFrom": {"name": "common"}}).now.ref == ""


@pytest.mark.parametrize("state", [None, "Approved", "Expired"])
def test_a_plan_that_a_gateway_holds_is_shown_for_approval(state: str | None) -> None:
    plan = {"digest": "d" * 64, "reason": "DestinationUnmapped", "filesAdded": 1, "filesDeleted": 7}
    kept = {"digest": "c" * 64, "reason": "OrphansKept", "filesDeleted": 9}
    gateways = [
        {"name": "filler", "podName": "filler-0", "errorMessage": "held", "pendingPlan": plan},
        {"name": "packer", "podName": "packer-0", "pendingPlan": kept},
    ]
    request = {"approval": {"commit": COMMIT, "state": state}} if state else {}
    now = resource({}, {"discoveredGateways": gateways, **request}).now
    assert now.approval is not None
    assert (now.approval.state, now.approval.digest) == ("Pending", "d" * 64)
    assert (now.approval.added, now.approval.deleted, now.approval.message) == (1, 7, "held")
    assert [one.name for one in now.approval.gateways] == ["filler"]


@pytest.mark.parametrize(
    ("asked", "outcome", "shown"),
    [
        (None, {"request": COMMIT, "result": "Succeeded"}, None),
        ({"toCommit": ""}, None, None),
        ({"toCommit": COMMIT}, None, RollbackView(to_commit=COMMIT, state="Pending")),
        (
            {"toCommit": COMMIT},
            {"request": "b" * 40, "result": "Failed", "message": "an older one"},
            RollbackView(to_commit=COMMIT, state="Pending"),
        ),
        (
            {"toSnapshot": "one"},
            {"request": "one", "result": "Failed", "message": "it is gone"},
            RollbackView(to_snapshot="one", state="Failed", message="it is gone"),
        ),
    ],
)
def test_the_rollback_is_shown_while_it_is_requested(
    asked: dict[str, str] | None, outcome: dict[str, str] | None, shown: RollbackView | None
) -> None:
    status = {"rollback": outcome} if outcome else {}
    assert resource({"rollback": asked} if asked else {}, status).now.rollback == shown


@pytest.mark.parametrize(
    ("release", "shown"),
    [
        ({"commit": COMMIT}, None),
        ({"commit": COMMIT, "stages": [{"name": "one", "state": "Passed"}]}, None),
        (
            {
                "commit": COMMIT,
                "stages": [
                    {"name": "one", "state": "Passed"},
                    {"name": "two", "state": "Soaking", "message": "waits until 8:00"},
                ],
            },
            RolloutView(stage="two", message="waits until 8:00"),
        ),
        (
            {"commit": COMMIT, "queued": 3, "syncing": 2},
            RolloutView(message="2 sync now, 3 wait for their turn"),
        ),
    ],
)
def test_a_release_is_shown_while_it_is_under_way(release: dict[str, Any], shown: RolloutView | None) -> None:
    assert resource({}, {"release": release}).now.release == shown


def test_a_gateway_has_its_stage_and_what_is_worst_about_it() -> None:
    gateways = [
        {"name": "filler", "podName": "filler-0", "errorMessage": "no route", "warnings": ["old"]},
        {"name": "packer", "podName": "packer-0", "syncStatus": "Synced", "warnings": ["old"]},
    ]
    spec = {"deployment": {"strategy": "canary", "stages": [{"name": "first", "gateways": ["filler"]}]}}
    filler, packer = resource(spec, {"discoveredGateways": gateways}).now.gateways
    assert (filler.state, filler.stage, filler.message) == ("Pending", "first", "no route")
    assert (packer.state, packer.stage, packer.message) == ("Synced", "", "old")


def test_histories_are_small_and_come_back_whole() -> None:
    changes = [{"path": f"projects/site/view-{number}/view.json", "action": "added"} for number in range(20)]
    entry = {
        "timestamp": "2026-05-01T08:00:00Z",
        "commit": COMMIT,
        "result": "success",
        "snapshotId": "s-1",
        "diff": {"toCommit": COMMIT, "filesAdded": 20, "changes": changes},
    }
    gateway = {"name": "filler", "podName": "filler-0", "snapshotsKept": 2, "syncHistory": [entry] * 10}
    gateway["lastSnapshot"] = {"id": "s-2", "size": "2kB"}
    kept = resource({}, {"discoveredGateways": [gateway]}).past
    assert len(kept) < len(json.dumps(gateway)) / 10
    past = unpack_history("filler", kept)
    assert [one.number for one in past.history] == list(range(1, 11)), "1 is the newest, as in the terminal"
    assert past.history[0].diff is not None
    assert len(past.history[0].diff.changes) == 20
    assert [(one.id, one.size) for one in past.snapshots] == [("s-2", 2000), ("s-1", 0)]
    assert unpack_history("packer", kept).history == unpack_history("filler", b"").history == ()


def test_an_object_that_does_not_fit_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        resource({}, {"discoveredGateways": "many"})


def test_a_destination_is_suspended_by_itself_or_by_its_repository() -> None:
    body = {
        "metadata": {"name": "production", "namespace": "plant"},
        "spec": {"repoRef": {"name": "repo", "namespace": "shared"}, "branch": "main", "baseFolder": "a"},
    }
    one = decode_destination(json.dumps(body).encode())
    config = decode_config(b'{"spec": {"repoUrl": "https://git.example.net/x.git", "suspend": true}}')
    assert (one.config.namespace, one.now.suspended, one.now.lag_seconds) == ("shared", False, None)
    assert destination_view(one, None, may_see=True) == one.now
    assert destination_view(one, config, may_see=True).suspended
    assert destination_view(one, config, may_see=False).repo == ""


def test_what_waits_for_git_is_shown_with_its_age() -> None:
    body = {
        "metadata": {"name": "production", "namespace": "plant"},
        "status": {"pendingChanges": 3, "pendingSince": "2026-05-01T08:00:00Z"},
    }
    now = decode_destination(json.dumps(body).encode()).now
    assert (now.pending, now.pending_since) == (3, "2026-05-01T08:00:00Z")


@pytest.mark.parametrize(
    ("data", "active"),
    [({"paused": "true"}, True), ({"paused": " true\n"}, True), ({"paused": "false"}, False), (None, False)],
)
def test_the_stop_is_read_as_the_controller_reads_it(data: dict[str, str] | None, active: bool) -> None:
    times = [{"time": "2026-05-01T08:00:00Z"}, {"time": "2026-05-01T09:00:00Z"}, {}]
    body = {"metadata": {"managedFields": times}, "data": data}
    found = decode_emergency_stop(json.dumps(body).encode())
    assert (found.active, found.since) == (active, "2026-05-01T09:00:00Z" if active else None)

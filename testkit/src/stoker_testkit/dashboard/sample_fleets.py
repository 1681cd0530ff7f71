"""Fleets made up for the dashboard: one with everything at once, one in step, one of any size.

Pure values of `stoker.dashboard.view_models`. Times are relative to now, because the page shows
ages; everything else is the same each time.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

from stoker.dashboard.view_models import (
    ApprovalView,
    ChangedPathView,
    CommitView,
    DesignerHoldView,
    DestinationView,
    GatewayHistoryView,
    GatewayView,
    PlannedGatewayView,
    ResourceView,
    RollbackView,
    RolloutView,
    SnapshotView,
    SyncDiffView,
    SyncHistoryView,
)
from stoker.domain.clock import SystemClock, rfc3339

PLACES = ("filler", "packer", "labeler", "capper", "palletizer")
EACH = len(PLACES)
"""Gateways of one resource of a large fleet."""


def ago(**span: float) -> str:
    return rfc3339(SystemClock().now() - timedelta(**span))


def commit(name: str) -> str:
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()


def gateway(name: str, state: str = "Synced", ref: str = "v12", **more: Any) -> GatewayView:
    given: dict[str, Any] = {"pod": f"{name}-0", "commit": commit(ref), "synced_at": ago(hours=3), **more}
    return GatewayView(name=name, state=state, ref=ref, **given)


def resource(
    name: str,
    *gateways: GatewayView,
    namespace: str = "plant",
    kind: str = "Stoker",
    ref: str = "v12",
    **more: Any,
) -> ResourceView:
    given: dict[str, Any] = {
        "commit": commit(ref),
        "ready": "True",
        "reason": "GatewaysSynced",
        "message": "all gateways are synced",
        "last_sync": ago(hours=3),
        **more,
    }
    key = f"{namespace}/{kind}/{name}"
    return ResourceView(
        id=key, namespace=namespace, kind=kind, name=name, ref=ref, gateways=gateways, **given
    )


def approval() -> ResourceView:
    """A release that waits for a person."""
    old = [gateway(f"line-3-{place}", "Pending", reason="PendingApproval") for place in PLACES[:4]]
    plans = [
        PlannedGatewayView(name=one.name, added=3, modified=2, deleted=i % 2) for i, one in enumerate(old)
    ]
    waiting = ApprovalView(
        state="Pending",
        commit=commit("v13"),
        ref="v13",
        digest=f"sha256:{commit('plan')}",
        since=ago(minutes=12),
        expires=ago(hours=-23),
        added=12,
        modified=8,
        deleted=2,
        gateways=tuple(plans),
    )
    return resource(
        "line-3",
        *old,
        ref="v13",
        approval=waiting,
        ready="False",
        reason="PendingApproval",
        message="v13 waits for approval",
    )


def failed() -> ResourceView:
    broken = gateway(
        "line-1-filler",
        "Error",
        reason="ScanLockHeld",
        message="the gateway refused the scan of projects: another scan has held the lock for 15 minutes",
        synced_at=ago(days=2),
    )
    fine = [gateway(f"line-1-{place}") for place in PLACES[1:]]
    return resource(
        "line-1", broken, *fine, ready="False", reason="SyncFailed", message="1 of 5 gateways failed"
    )


def drifted() -> ResourceView:
    paths = ("projects/Bottling/views/Main/view.json", "config/resources/core/tags/Line2/tags.json")
    changed = gateway("line-2-packer", drift=2, drift_paths=paths, reason="GatewayFilesModified")
    held = gateway(
        "line-2-filler",
        "Pending",
        held_by=(
            DesignerHoldView(user="anna", project="Bottling"),
            DesignerHoldView(user="ben", project="Reports"),
        ),
        reason="DesignerSessionActive",
        message="the project Bottling is open in a designer",
    )
    return resource("line-2", changed, held, gateway("line-2-capper"))


def source_gone() -> ResourceView:
    return resource(
        "utilities",
        gateway("utilities-boiler", ref="main"),
        namespace="energy",
        ref="main",
        ready="False",
        reason="SourceUnreachable",
        message="git.example.net did not answer within 30 s",
    )


def on_their_way() -> tuple[ResourceView, ...]:
    syncing = [gateway(f"bottling-{place}", "Syncing", ref="v13", stage="canary") for place in PLACES[:2]]
    later = [
        gateway(
            f"bottling-{place}",
            "Pending",
            reason="WaitingForStage",
            message="waits for stage canary to pass",
            stage="rest",
        )
        for place in PLACES[2:]
    ]
    release = RolloutView(stage="canary", message="2 of 2 gateways sync now")
    return (
        resource("bottling", *syncing, *later, kind="IgnitionSync", ref="v13", release=release),
        resource("line-5", *(gateway(f"line-5-{place}") for place in PLACES[:3]), paused=True),
        resource(
            "line-6",
            *(gateway(f"line-6-{place}", ref="v11") for place in PLACES[:2]),
            rollback=RollbackView(
                to_commit=commit("v11"), state="Succeeded", message="both gateways are there"
            ),
        ),
    )


def mixed() -> tuple[ResourceView, ...]:
    """Everything at once."""
    fine = [
        resource(f"line-{n}", *(gateway(f"line-{n}-{place}") for place in PLACES), namespace="packaging")
        for n in range(7, 13)
    ]
    return (*fine, approval(), failed(), drifted(), source_gone(), *on_their_way())


def in_step() -> tuple[ResourceView, ...]:
    return large(240)


def large(gateways: int) -> tuple[ResourceView, ...]:
    """So many, all in step, five to a resource."""
    return tuple(numbered(number) for number in range(gateways // EACH))


def numbered(number: int, state: str = "Synced", **more: Any) -> ResourceView:
    """One resource of a large fleet; its first gateway is in `state`."""
    name = f"line-{number:03}"
    first, *others = PLACES
    return resource(
        name,
        gateway(f"{name}-{first}", state, **more),
        *(gateway(f"{name}-{place}") for place in others),
        namespace=f"site-{number % 8}",
    )


def past_of(of: ResourceView, name: str) -> GatewayHistoryView | None:
    """The sync history of a gateway."""
    found = next((one for one in of.gateways if one.name == name), None)
    if found is None:
        return None
    changes = (
        ChangedPathView(action="added", path="projects/Bottling/views/Alarms/view.json"),
        ChangedPathView(action="modified", path="projects/Bottling/views/Main/view.json"),
        ChangedPathView(action="deleted", path="projects/Bottling/scripts/old.py"),
    )
    history = []
    for number, (ref, hours, result) in enumerate(
        (
            ("v12", 3, "success"),
            ("v12", 4, "GatewayUnreachable"),
            ("v11", 72, "success"),
            ("v10", 900, "success"),
        )
    ):
        diff = SyncDiffView(
            from_commit=commit(f"v{10 - number}"),
            to_commit=commit(ref),
            added=1,
            modified=12,
            deleted=1,
            changes=changes,
        )
        entry = SyncHistoryView(
            number=number + 1,
            timestamp=ago(hours=hours),
            result=result,
            commit=commit(ref),
            ref=ref,
            files_changed=14,
            duration="1.9s",
            snapshot_id=f"{name}-2026030{number + 1}-081500",
            diff=diff if result == "success" else None,
        )
        history.append(entry)
    kept = tuple(
        SnapshotView(id=one.snapshot_id, size=180_000_000, timestamp=one.timestamp) for one in history[:3]
    )
    return GatewayHistoryView(gateway=found, history=tuple(history), snapshots=kept)


def destinations() -> tuple[DestinationView, ...]:
    recent = (
        CommitView(
            commit=commit("a"),
            author="anna",
            subject="ConfigMap plant/recipes: dose 12 ml",
            at=ago(minutes=2),
        ),
        CommitView(
            commit=commit("b"), author="ben", subject="Deployment plant/historian", at=ago(minutes=47)
        ),
        CommitView(commit=commit("c"), author="system:node", subject="Service plant/filler", at=ago(hours=5)),
    )
    place: dict[str, Any] = {"repo": "https://git.example.net/plant/cluster.git", "branch": "main"}
    first = DestinationView(
        id="plant/GitDestination/live",
        namespace="plant",
        name="live",
        folder="clusters/plant",
        commit=commit("a"),
        committed_at=ago(minutes=2),
        authors=("anna", "ben"),
        recent=recent,
        lag_seconds=0.0,
        ready="True",
        reason="Initialized",
        **place,
    )
    behind = DestinationView(
        id="energy/GitDestination/live",
        namespace="energy",
        name="live",
        folder="clusters/energy",
        commit=commit("d"),
        committed_at=ago(minutes=26),
        authors=("carla",),
        recent=(
            CommitView(commit=commit("d"), author="carla", subject="Secret energy/vpn", at=ago(minutes=26)),
        ),
        lag_seconds=12.0,
        pending=7,
        pending_since=ago(minutes=7),
        ready="True",
        **place,
    )
    refused = DestinationView(
        id="qa/GitDestination/archive",
        namespace="qa",
        name="archive",
        folder="clusters/qa",
        lag_seconds=None,
        pending=3,
        pending_since=ago(minutes=3),
        ready="False",
        reason="AuthFailed",
        message="git.example.net did not accept the login of Secret git-credentials",
        **place,
    )
    return (first, behind, refused)

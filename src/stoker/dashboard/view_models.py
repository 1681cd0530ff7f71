"""The values that a page gets, and the orders that it sends, as they stand in JSON.

Names are camelCase on the wire; nothing is left out: what is absent is null or empty.
Times are RFC 3339 in UTC. Text from outside (subjects of commits, paths, users) is data
and stays as it is; the page never reads it as markup. docs/dashboard.md tells the shapes.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

MAX_ORDER = 16 << 10
"""Bytes of a body that asks for something."""


class DashboardAction(StrEnum):
    """What somebody can ask for; also the words in a resource's `may`."""

    APPROVE = "approve"
    PAUSE = "pause"
    RESUME = "resume"
    SYNC = "sync"
    ROLLBACK = "rollback"
    RELEASE = "release"
    STOP = "stop"
    GO_ON = "goOn"


class _ViewShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value of a picture."""


class DesignerHoldView(_ViewShape, frozen=True, kw_only=True):
    """A project that somebody has open in a designer."""

    user: str
    project: str


class GatewayView(_ViewShape, frozen=True, kw_only=True):
    """One gateway of a resource, as it is now (G)."""

    name: str
    pod: str = ""
    state: str = ""
    """Synced, Pending, Syncing, Error …, as `stoker status` says it."""
    ref: str = ""
    commit: str = ""
    synced_at: str | None = None
    drift: int = 0
    drift_paths: tuple[str, ...] = ()
    held_by: tuple[DesignerHoldView, ...] = ()
    taken_back: bool = False
    """It is where a way back led, and does not follow the ref."""
    reason: str = ""
    message: str = ""
    stage: str = ""


class PlannedGatewayView(_ViewShape, frozen=True, kw_only=True):
    """How much of a plan that waits for approval falls on one gateway."""

    name: str
    added: int = 0
    modified: int = 0
    deleted: int = 0


class ApprovalView(_ViewShape, frozen=True, kw_only=True):
    """A plan that waits for somebody, or waited."""

    state: str
    commit: str = ""
    ref: str = ""
    digest: str = ""
    """What an approval must name, so that nobody approves what they have not seen."""
    stage: str = ""
    """The stage of a release that waits; empty: the whole resource."""
    message: str = ""
    """Why an approval that is there does not count."""
    since: str | None = None
    expires: str | None = None
    added: int = 0
    modified: int = 0
    deleted: int = 0
    gateways: tuple[PlannedGatewayView, ...] = ()


class RollbackView(_ViewShape, frozen=True, kw_only=True):
    """The way back that was asked for last."""

    to_commit: str | None = None
    to_snapshot: str | None = None
    state: str = ""
    message: str = ""


class RolloutView(_ViewShape, frozen=True, kw_only=True):
    """How far a release in stages has come."""

    stage: str = ""
    message: str = ""


class ResourceView(_ViewShape, frozen=True, kw_only=True):
    """One resource, or the one data folder of a watch without a cluster (R)."""

    id: str
    """`namespace/Kind/name`"""
    namespace: str
    kind: str
    name: str
    ref: str = ""
    commit: str = ""
    paused: bool = False
    ready: str = "Unknown"
    """True, False or Unknown."""
    reason: str = ""
    message: str = ""
    last_sync: str | None = None
    may: tuple[str, ...] = ()
    """The actions that this visitor has a button for."""
    approval: ApprovalView | None = None
    rollback: RollbackView | None = None
    release: RolloutView | None = None
    gateways: tuple[GatewayView, ...] = ()


class CommitView(_ViewShape, frozen=True, kw_only=True):
    """One commit that a destination got."""

    commit: str
    author: str = ""
    subject: str = ""
    at: str | None = None


class HeldDeletionsView(_ViewShape, frozen=True, kw_only=True):
    """Deletions that a destination holds until a person approves them."""

    count: int
    digest: str
    paths: tuple[str, ...] = ()
    """The first of them."""


class DestinationView(_ViewShape, frozen=True, kw_only=True):
    """Where the cluster is written to in git (D)."""

    id: str
    """`namespace/GitDestination/name`"""
    namespace: str
    name: str
    repo: str = ""
    branch: str = ""
    folder: str = ""
    commit: str = ""
    committed_at: str | None = None
    authors: tuple[str, ...] = ()
    recent: tuple[CommitView, ...] = ()
    lag_seconds: float | None = None
    """How long the last change took to get into git."""
    pending: int = 0
    pending_since: str | None = None
    """When the first of the changes was seen that are not in git yet."""
    ready: str = "Unknown"
    reason: str = ""
    message: str = ""
    stalled: bool = False
    """Somebody has to act before it can get well; otherwise it is tried again by itself."""
    suspended: bool = False
    rules: int | None = None
    """How many rules send objects to it; None: nobody here can know."""
    troubles: tuple[str, ...] = ()
    """Why not everything that its rules select gets to it."""
    warnings: tuple[str, ...] = ()
    """What is well and should be known all the same, such as Secrets that are written in clear."""
    held: HeldDeletionsView | None = None
    may: tuple[str, ...] = ()
    """The actions that this visitor has a button for."""


class EmergencyStopView(_ViewShape, frozen=True, kw_only=True):
    """The emergency stop."""

    active: bool = False
    since: str | None = None
    may: bool = False
    """Whether this visitor may stop everything, or let it go on."""


class VisitorView(_ViewShape, frozen=True, kw_only=True):
    name: str = ""


class DashboardView(_ViewShape, frozen=True, kw_only=True):
    """All that a visitor may see."""

    version: int
    mode: str
    at: str
    you: VisitorView = VisitorView()
    stop: EmergencyStopView = EmergencyStopView()
    resources: tuple[ResourceView, ...] = ()
    destinations: tuple[DestinationView, ...] = ()
    unseen: tuple[str, ...] = ()
    """Kinds, some with a namespace, and `emergency stop`, that can no longer be read."""


class ChangesView(_ViewShape, frozen=True, kw_only=True):
    """What is different since a version that a page has seen."""

    version: int
    resources: tuple[ResourceView, ...] = ()
    gone: tuple[str, ...] = ()
    destinations: tuple[DestinationView, ...] = ()
    gone_destinations: tuple[str, ...] = ()
    stop: EmergencyStopView | None = None
    """None: as it was."""


class ChangedPathView(_ViewShape, frozen=True, kw_only=True):
    action: str
    path: str


class SyncDiffView(_ViewShape, frozen=True, kw_only=True):
    """What one pass changed on disk."""

    from_commit: str = ""
    to_commit: str = ""
    added: int = 0
    modified: int = 0
    deleted: int = 0
    changes: tuple[ChangedPathView, ...] = ()


class SyncHistoryView(_ViewShape, frozen=True, kw_only=True):
    """One entry of a gateway's history; 1 is the newest, as in `stoker history`."""

    number: int
    timestamp: str
    result: str
    commit: str = ""
    ref: str = ""
    files_changed: int = 0
    duration: str = ""
    snapshot_id: str = ""
    diff: SyncDiffView | None = None


class SnapshotView(_ViewShape, frozen=True, kw_only=True):
    """A state that can be gone back to."""

    id: str
    size: int = 0
    timestamp: str | None = None


class GatewayHistoryView(_ViewShape, frozen=True, kw_only=True):
    """One gateway with what happened to it, newest first."""

    gateway: GatewayView
    history: tuple[SyncHistoryView, ...] = ()
    snapshots: tuple[SnapshotView, ...] = ()


class SessionView(_ViewShape, frozen=True, kw_only=True):
    """Who is signed in."""

    mode: str
    signed_in: bool = False
    user: str = ""
    csrf: str = ""
    """Goes into the header X-Stoker-CSRF of everything that changes something."""
    version: str = ""
    """Of the program."""


class SignInBody(_ViewShape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: str


class ActionBody(_ViewShape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that a visitor asks for. Of stop and goOn nothing else needs to be said."""

    action: DashboardAction
    namespace: str = ""
    kind: str = ""
    name: str = ""
    gateway: str | None = None
    digest: str | None = None
    to_snapshot: str | None = None
    to_commit: str | None = None


class ActionDoneView(_ViewShape, frozen=True, kw_only=True):
    message: str


class FailureView(_ViewShape, frozen=True, kw_only=True):
    """Why something was not done: a sentence for people, and a reason where there is one."""

    error: str
    reason: str = ""


def as_json(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value)

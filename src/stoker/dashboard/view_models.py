"""The JSON values of the dashboard's API: what the page receives, and the requests it sends.

Names are camelCase in JSON. No field is omitted: an absent value is null or empty. Times are RFC 3339
in UTC. Text from outside (commit subjects, paths, users) stays unescaped data; the page never
interprets it as markup. docs/dashboard.md describes the shapes.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

MAX_ORDER = 16 << 10
"""The largest body of an action, in bytes."""


class DashboardAction(StrEnum):
    """The actions a visitor can request; also the words in a resource's `may`."""

    APPROVE = "approve"
    PAUSE = "pause"
    RESUME = "resume"
    SYNC = "sync"
    ROLLBACK = "rollback"
    RELEASE = "release"
    STOP = "stop"
    GO_ON = "goOn"


class _ViewShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all values: camelCase names in JSON."""


class DesignerHoldView(_ViewShape, frozen=True, kw_only=True):
    """A project that a user has open in a designer."""

    user: str
    project: str


class GatewayView(_ViewShape, frozen=True, kw_only=True):
    """The current state of a gateway of a resource."""

    name: str
    pod: str = ""
    state: str = ""
    """Synced, Pending, Syncing, Error …, as in `stoker status`."""
    ref: str = ""
    commit: str = ""
    synced_at: str | None = None
    drift: int = 0
    drift_paths: tuple[str, ...] = ()
    held_by: tuple[DesignerHoldView, ...] = ()
    taken_back: bool = False
    """It is at the target of a rollback and does not follow the ref."""
    reason: str = ""
    message: str = ""
    stage: str = ""


class PlannedGatewayView(_ViewShape, frozen=True, kw_only=True):
    """The number of changes that a plan awaiting approval makes on one gateway."""

    name: str
    added: int = 0
    modified: int = 0
    deleted: int = 0


class ApprovalView(_ViewShape, frozen=True, kw_only=True):
    """A plan that waits, or waited, for approval."""

    state: str
    commit: str = ""
    ref: str = ""
    digest: str = ""
    """An approval must name this digest, so that a user approves exactly the plan they have seen."""
    stage: str = ""
    """The stage of a rollout that waits; empty: the whole resource."""
    message: str = ""
    """Why a given approval does not count."""
    since: str | None = None
    expires: str | None = None
    added: int = 0
    modified: int = 0
    deleted: int = 0
    gateways: tuple[PlannedGatewayView, ...] = ()


class RollbackView(_ViewShape, frozen=True, kw_only=True):
    """The last requested rollback."""

    to_commit: str | None = None
    to_snapshot: str | None = None
    state: str = ""
    message: str = ""


class RolloutView(_ViewShape, frozen=True, kw_only=True):
    """The progress of a rollout in stages."""

    stage: str = ""
    message: str = ""


class ResourceView(_ViewShape, frozen=True, kw_only=True):
    """One resource, or the single data folder of `stoker sync --watch`."""

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
    """The actions for which this visitor gets a button."""
    approval: ApprovalView | None = None
    rollback: RollbackView | None = None
    release: RolloutView | None = None
    gateways: tuple[GatewayView, ...] = ()


class CommitView(_ViewShape, frozen=True, kw_only=True):
    """A commit that was pushed to a destination."""

    commit: str
    author: str = ""
    subject: str = ""
    at: str | None = None


class HeldDeletionsView(_ViewShape, frozen=True, kw_only=True):
    """Deletions that a destination holds until a person approves them."""

    count: int
    digest: str
    paths: tuple[str, ...] = ()
    """The first of the held paths."""


class DestinationView(_ViewShape, frozen=True, kw_only=True):
    """A GitDestination: the place in git that the reverser writes the cluster's objects to."""

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
    """How long the last change took to reach git."""
    pending: int = 0
    pending_since: str | None = None
    """When the oldest change that is not in git yet was seen."""
    ready: str = "Unknown"
    reason: str = ""
    message: str = ""
    stalled: bool = False
    """A user has to act before it can recover; otherwise the reverser retries on its own."""
    suspended: bool = False
    rules: int | None = None
    """The number of rules that send objects to it; None if this process cannot know."""
    troubles: tuple[str, ...] = ()
    """Why some objects that its rules select do not reach it."""
    warnings: tuple[str, ...] = ()
    """Facts that are no failure but should be known, such as Secrets that are written in clear."""
    held: HeldDeletionsView | None = None
    may: tuple[str, ...] = ()
    """The actions for which this visitor gets a button."""


class EmergencyStopView(_ViewShape, frozen=True, kw_only=True):
    """The emergency stop."""

    active: bool = False
    since: str | None = None
    may: bool = False
    """Whether this visitor may start and end the emergency stop."""


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
    """Unreadable kinds, some with a namespace, and possibly `emergency stop`."""


class ChangesView(_ViewShape, frozen=True, kw_only=True):
    """The changes since the version that a page has."""

    version: int
    resources: tuple[ResourceView, ...] = ()
    gone: tuple[str, ...] = ()
    destinations: tuple[DestinationView, ...] = ()
    gone_destinations: tuple[str, ...] = ()
    stop: EmergencyStopView | None = None
    """None: unchanged."""


class ChangedPathView(_ViewShape, frozen=True, kw_only=True):
    action: str
    path: str


class SyncDiffView(_ViewShape, frozen=True, kw_only=True):
    """The changes of one sync on disk."""

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
    """A snapshot that a rollback can restore."""

    id: str
    size: int = 0
    timestamp: str | None = None


class GatewayHistoryView(_ViewShape, frozen=True, kw_only=True):
    """One gateway with its syncs and snapshots, newest first."""

    gateway: GatewayView
    history: tuple[SyncHistoryView, ...] = ()
    snapshots: tuple[SnapshotView, ...] = ()


class SessionView(_ViewShape, frozen=True, kw_only=True):
    """The state of the session: the signed-in user, if any."""

    mode: str
    signed_in: bool = False
    user: str = ""
    csrf: str = ""
    """The value of the header X-Stoker-CSRF, which every changing request must carry."""
    version: str = ""
    """The version of Stoker."""


class SignInBody(_ViewShape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: str


class ActionBody(_ViewShape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A requested action; `stop` and `goOn` need no other field."""

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
    """Why a request failed: a sentence for people, and a reason if known."""

    error: str
    reason: str = ""


def as_json(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value)

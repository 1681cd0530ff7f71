"""What the controller reports about a sync and its gateways: `status` of IgnitionSync and Stoker.

The whole status stays below 512 KiB: every list is capped here, and whoever
fills it drops history first. Nothing in it may hold a secret.
"""

from __future__ import annotations

from typing import Annotated, Literal

from stoker.api.field_docs import Block, about, items, text
from stoker.api.meta import ConditionList
from stoker.api.scalars import Count, Generation, ObservedGeneration, Timestamp

StatusWord = Annotated[str, text(253)]
StatusLine = Annotated[str, text(1024)]
_Path = Annotated[str, text(4096)]
_Projects = Annotated[tuple[StatusWord, ...], items(256)]
_PathList = Annotated[tuple[_Path, ...], items(20)]


class FileChangeStatus(Block):
    """One file that a sync changed."""

    path: Annotated[_Path, about("Path below the data folder.")]
    action: Annotated[Literal["added", "modified", "deleted"], about("What happened to it.")]


class DiffSummary(Block):
    """What a sync changed, without the contents."""

    from_commit: Annotated[StatusWord | None, about("Commit before the sync; absent on the first one.")] = (
        None
    )
    to_commit: Annotated[StatusWord | None, about("Commit after the sync.")] = None
    files_added: Annotated[Count | None, about("Files that were new.")] = None
    files_modified: Annotated[Count | None, about("Files that were changed.")] = None
    files_deleted: Annotated[Count | None, about("Files that were deleted.")] = None
    projects_affected: Annotated[_Projects | None, about("Projects with at least one changed file.")] = None
    changes: Annotated[
        Annotated[tuple[FileChangeStatus, ...], items(20)] | None,
        about("The first twenty changed files, by path."),
    ] = None


class SyncHistoryEntry(Block):
    """One sync that has ended."""

    timestamp: Annotated[Timestamp, about("When it ended.")]
    commit: Annotated[StatusWord | None, about("Commit that was synced.")] = None
    ref: Annotated[StatusWord | None, about("Ref that led to the commit.")] = None
    files_changed: Annotated[Count | None, about("Files added, modified and deleted together.")] = None
    projects_synced: Annotated[_Projects | None, about("Projects that were touched.")] = None
    duration: Annotated[StatusWord | None, about("How long it took, such as 1.9s.")] = None
    result: Annotated[StatusWord | None, about("success, or the reason why it was not.")] = None
    snapshot_id: Annotated[StatusWord | None, about("Snapshot taken before it.")] = None
    diff: Annotated[DiffSummary | None, about("What it changed.")] = None


class SnapshotInfo(Block):
    """A snapshot that can be restored."""

    id: Annotated[StatusWord, about("Name to write into spec.rollback.toSnapshot.")]
    size: Annotated[StatusWord | None, about("Size, such as 180MB.")] = None
    timestamp: Annotated[Timestamp | None, about("When it was taken.")] = None


class PendingPlanStatus(Block):
    """A plan that is held back until somebody approves its digest."""

    digest: Annotated[StatusWord, about("Value for the annotation approved-plan.")]
    reason: Annotated[StatusWord | None, about("Why it is held back, such as DeletionBudgetExceeded.")] = None
    files_added: Annotated[Count | None, about("Files that it would add.")] = None
    files_modified: Annotated[Count | None, about("Files that it would change.")] = None
    files_deleted: Annotated[Count | None, about("Files that it would delete.")] = None


class DriftStatus(Block):
    """Files that somebody else has changed."""

    files: Annotated[Count, about("How many files differ from what was synced.")]
    paths: Annotated[_PathList | None, about("The first twenty of them.")] = None
    detected_at: Annotated[Timestamp | None, about("When the difference was first seen.")] = None


class DriftRestoreStatus(Block):
    """Files that were changed on the gateway and put back."""

    files: Annotated[Count, about("How many files were put back.")]
    paths: Annotated[_PathList | None, about("The first twenty of them.")] = None
    restored_at: Annotated[Timestamp | None, about("When they were put back.")] = None


class HeldProjectStatus(Block):
    """A project that waits for a Designer to close."""

    project: Annotated[StatusWord, about("Name of the project.")]
    user: Annotated[StatusWord | None, about("Who has it open.")] = None


class QuarantineStatus(Block):
    """A commit that was taken back on a gateway and is not tried again there."""

    commit: Annotated[StatusWord, about("The commit.")]
    reason: Annotated[StatusWord | None, about("One word for machines: why it was taken back.")] = None
    message: Annotated[StatusLine | None, about("The same in a sentence.")] = None
    since: Annotated[Timestamp | None, about("When it was taken back.")] = None


class GatewayChangesStatus(Block):
    """What somebody changed on a gateway and git does not have."""

    pending: Annotated[Count | None, about("Files on their way to git.")] = None
    refused: Annotated[Count | None, about("Files that do not go to git.")] = None
    held: Annotated[Count | None, about("Files that are not overwritten until somebody decides.")] = None
    paths: Annotated[_PathList | None, about("The first twenty of them.")] = None
    reason: Annotated[StatusWord | None, about("One word for machines: what keeps them.")] = None
    message: Annotated[StatusLine | None, about("The same in a sentence.")] = None
    branch: Annotated[StatusWord | None, about("Branch that the changes were pushed to.")] = None
    pull_request: Annotated[StatusLine | None, about("Address of the open pull request.")] = None


class GatewayStatus(Block):
    """One gateway that refers to the resource."""

    name: Annotated[StatusWord, about("Name of the gateway.")]
    pod_name: Annotated[StatusWord, about("Name of its pod.")]
    namespace: Annotated[StatusWord | None, about("Namespace of its pod.")] = None
    service_path: Annotated[_Path | None, about("Folder of its service in the repository.")] = None
    sync_profile_name: Annotated[StatusWord | None, about("SyncProfile that it uses; empty: none.")] = None
    observed_generation: Annotated[
        Generation | None, about("Generation of the resource that the gateway was last synced at.")
    ] = None
    sync_status: Annotated[
        Literal["Pending", "Syncing", "Synced", "Error"] | None, about("Where the gateway stands.")
    ] = None
    reason: Annotated[StatusWord | None, about("One word for machines: why it stands there.")] = None
    error_message: Annotated[StatusLine | None, about("What went wrong, in a sentence; empty: nothing.")] = (
        None
    )
    errors: Annotated[
        Annotated[tuple[StatusLine, ...], items(10)] | None, about("The first ten errors of the last sync.")
    ] = None
    warnings: Annotated[
        Annotated[tuple[StatusLine, ...], items(10)] | None,
        about("What is not as it should be, such as a certificate that was not verified."),
    ] = None
    last_sync_time: Annotated[Timestamp | None, about("When the last sync ended.")] = None
    last_sync_duration: Annotated[StatusWord | None, about("How long it took, such as 3.2s.")] = None
    synced_commit: Annotated[StatusWord | None, about("Commit that is on the gateway.")] = None
    synced_ref: Annotated[StatusWord | None, about("Ref that led to the commit.")] = None
    agent_version: Annotated[StatusWord | None, about("Version of the agent.")] = None
    last_scan_result: Annotated[
        StatusLine | None, about("What the gateway answered to the scans, such as projects=200 config=200.")
    ] = None
    files_changed: Annotated[Count | None, about("Files added, modified and deleted by the last sync.")] = (
        None
    )
    files_added: Annotated[Count | None, about("Files added by the last sync.")] = None
    files_modified: Annotated[Count | None, about("Files changed by the last sync.")] = None
    files_deleted: Annotated[Count | None, about("Files deleted by the last sync.")] = None
    projects_synced: Annotated[_Projects | None, about("Projects touched by the last sync.")] = None
    held_projects: Annotated[
        Annotated[tuple[HeldProjectStatus, ...], items(20)] | None,
        about("Projects that wait because somebody has them open in a Designer."),
    ] = None
    orphans_kept: Annotated[
        _PathList | None, about("The first twenty files that git does not have and that were not deleted.")
    ] = None
    orphans_kept_total: Annotated[Count | None, about("How many such files there are.")] = None
    skipped: Annotated[
        Annotated[tuple[StatusLine, ...], items(10)] | None,
        about(
            "The first ten things that the repository or the mappings name and the gateway does not get, "
            "each with the reason: symlinks, submodules, mappings without a source, patches without a file."
        ),
    ] = None
    skipped_total: Annotated[Count | None, about("How many such things there are.")] = None
    pending_plan: Annotated[PendingPlanStatus | None, about("A plan that waits for approval.")] = None
    drift: Annotated[DriftStatus | None, about("Files that somebody else has changed.")] = None
    drift_restored: Annotated[
        DriftRestoreStatus | None, about("Files that were changed on the gateway and put back most recently.")
    ] = None
    last_snapshot: Annotated[SnapshotInfo | None, about("The newest snapshot.")] = None
    snapshots_kept: Annotated[Count | None, about("How many snapshots there are.")] = None
    quarantine: Annotated[
        QuarantineStatus | None, about("A commit that was taken back here and is not tried again.")
    ] = None
    waits_until: Annotated[
        Timestamp | None, about("When the next maintenance window opens, while a change waits for it.")
    ] = None
    changes: Annotated[
        GatewayChangesStatus | None, about("What was changed on the gateway and is not in git.")
    ] = None
    sync_history: Annotated[
        Annotated[tuple[SyncHistoryEntry, ...], items(10)] | None, about("The last ten syncs, newest first.")
    ] = None


class RequestedRef(Block):
    """A ref that is followed in place of spec.git.ref, on request; until spec.git.ref is changed."""

    ref: Annotated[StatusWord, about("The ref that was asked for.")]
    at: Annotated[Timestamp | None, about("When it was asked for.")] = None
    by: Annotated[StatusWord | None, about("Who asked for it, such as webhook.")] = None
    source: Annotated[StatusWord | None, about("What sent the request, such as github.")] = None
    spec_ref: Annotated[StatusWord | None, about("What spec.git.ref was at that time.")] = None


class RollbackStatus(Block):
    """What became of the last request in spec.rollback."""

    request: Annotated[StatusWord, about("The snapshot or commit that was asked for.")]
    result: Annotated[Literal["Pending", "Succeeded", "Failed"], about("Whether it was carried out.")]
    message: Annotated[StatusLine | None, about("What happened, in a sentence.")] = None
    time: Annotated[Timestamp | None, about("When it ended.")] = None


class StageStatus(Block):
    """One stage of a release."""

    name: Annotated[StatusWord, about("Name of the stage.")]
    state: Annotated[
        Literal["Waiting", "Approval", "Syncing", "Soaking", "Passed", "Failed"], about("How far it is.")
    ]
    synced_at: Annotated[Timestamp | None, about("When the last of its gateways was synced.")] = None
    checked_at: Annotated[Timestamp | None, about("When its health check passed.")] = None
    message: Annotated[StatusLine | None, about("What it waits for, or why it failed.")] = None


class RolloutStatus(Block):
    """How far a commit has come on its way through the fleet."""

    commit: Annotated[StatusWord, about("The commit.")]
    started_at: Annotated[Timestamp | None, about("When it was first let go.")] = None
    stages: Annotated[
        Annotated[tuple[StageStatus, ...], items(32)] | None, about("Its stages, in their order.")
    ] = None
    queued: Annotated[Count | None, about("Gateways that wait for their turn.")] = None
    syncing: Annotated[Count | None, about("Gateways that sync now.")] = None
    queue: Annotated[
        Annotated[tuple[StatusWord, ...], items(1000)] | None,
        about("Who waits for a turn, the first one first."),
    ] = None
    queued_since: Annotated[Timestamp | None, about("Since when the queue has not become shorter.")] = None
    begun: Annotated[
        Annotated[tuple[Timestamp, ...], items(1000)] | None,
        about("When gateways were last let go, as far as a limit counts them."),
    ] = None
    request: Annotated[StatusWord | None, about("The last request to sync that it has seen.")] = None


class ApprovalRequest(Block):
    """A commit that waits for a person, or was given one."""

    commit: Annotated[StatusWord, about("The commit.")]
    ref: Annotated[StatusWord | None, about("Ref that led to it.")] = None
    stage: Annotated[StatusWord | None, about("Stage that waits; absent: the whole resource.")] = None
    digest: Annotated[
        StatusWord | None,
        about("What is approved: SHA-256 over the sorted lines `gateway digest` of all plans."),
    ] = None
    state: Annotated[Literal["Planning", "Pending", "Approved", "Expired"], about("How far it is.")]
    requested_at: Annotated[Timestamp | None, about("When it began to wait.")] = None
    expires_at: Annotated[Timestamp | None, about("When the request lapses.")] = None
    approved_by: Annotated[StatusWord | None, about("Who approved it.")] = None
    approved_at: Annotated[Timestamp | None, about("When it was approved.")] = None
    files_added: Annotated[Count | None, about("Files that would be added, over all gateways.")] = None
    files_modified: Annotated[Count | None, about("Files that would be changed.")] = None
    files_deleted: Annotated[Count | None, about("Files that would be deleted.")] = None
    announced_at: Annotated[Timestamp | None, about("When the service of approval.webhook was told.")] = None
    request: Annotated[StatusWord | None, about("The last request to sync that was seen when it began.")] = (
        None
    )
    message: Annotated[StatusLine | None, about("Why an approval that is there does not count.")] = None


class SyncStatus(Block):
    """How far the sync has come."""

    observed_generation: Annotated[
        ObservedGeneration | None, about("Generation of the spec that this status speaks about.")
    ] = None
    last_sync_time: Annotated[Timestamp | None, about("When a gateway was last synced.")] = None
    last_sync_ref: Annotated[StatusWord | None, about("Ref that is being delivered.")] = None
    last_sync_commit: Annotated[StatusWord | None, about("Commit that is being delivered.")] = None
    repo_clone_status: Annotated[
        Literal["NotCloned", "Cloning", "Cloned", "Error"] | None,
        about("Cloned: the repository was reached and the ref led to a commit."),
    ] = None
    requested_ref: Annotated[RequestedRef | None, about("A ref that was asked for beside spec.git.ref.")] = (
        None
    )
    rollback: Annotated[RollbackStatus | None, about("What became of spec.rollback.")] = None
    release: Annotated[
        RolloutStatus | None, about("How far the commit has come, where stages, order or limits hold it.")
    ] = None
    approval: Annotated[ApprovalRequest | None, about("What waits for a person.")] = None
    secret_names: Annotated[
        Annotated[tuple[StatusWord, ...], items(256)] | None,
        about(
            "Secrets of its namespace that it uses, by itself, by the base that it inherits from or by the "
            "installation's defaults. The reverser writes none of them to git."
        ),
    ] = None
    discovered_gateways: Annotated[
        Annotated[tuple[GatewayStatus, ...], items(1000, keyed_by=("name", "podName"))] | None,
        about("The gateways that refer to the resource."),
    ] = None
    conditions: Annotated[
        ConditionList | None, about("The state in single aspects; Ready sums them up. There is no phase.")
    ] = None

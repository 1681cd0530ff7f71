"""The controller's report about a sync and its gateways: `status` of IgnitionSync and Stoker.

The whole status stays below 512 KiB: every list is capped here, and the controller drops
history first. No field may hold a secret.
"""

from __future__ import annotations

from typing import Annotated, Literal

from stoker.api.field_docs import Block, describe, list_bounds, text_bounds
from stoker.api.meta import ConditionList
from stoker.api.scalars import Count, Generation, ObservedGeneration, Timestamp

StatusWord = Annotated[str, text_bounds(253)]
StatusLine = Annotated[str, text_bounds(1024)]
_Path = Annotated[str, text_bounds(4096)]
_Projects = Annotated[tuple[StatusWord, ...], list_bounds(256)]
_PathList = Annotated[tuple[_Path, ...], list_bounds(20)]


class FileChangeStatus(Block):
    """One file that a sync changed."""

    path: Annotated[_Path, describe("Path below the data folder.")]
    action: Annotated[
        Literal["added", "modified", "deleted"], describe("Whether it was added, modified or deleted.")
    ]


class DiffSummary(Block):
    """Files and projects that a sync changed, without file contents."""

    from_commit: Annotated[
        StatusWord | None, describe("Commit before the sync; absent on the first one.")
    ] = None
    to_commit: Annotated[StatusWord | None, describe("Commit after the sync.")] = None
    files_added: Annotated[Count | None, describe("Files that were new.")] = None
    files_modified: Annotated[Count | None, describe("Files that were changed.")] = None
    files_deleted: Annotated[Count | None, describe("Files that were deleted.")] = None
    projects_affected: Annotated[_Projects | None, describe("Projects with at least one changed file.")] = (
        None
    )
    changes: Annotated[
        Annotated[tuple[FileChangeStatus, ...], list_bounds(20)] | None,
        describe("The first twenty changed files, by path."),
    ] = None


class SyncHistoryEntry(Block):
    """A finished sync."""

    timestamp: Annotated[Timestamp, describe("When it ended.")]
    commit: Annotated[StatusWord | None, describe("Commit that was synced.")] = None
    ref: Annotated[StatusWord | None, describe("Ref that resolved to the commit.")] = None
    files_changed: Annotated[Count | None, describe("Files added, modified and deleted together.")] = None
    projects_synced: Annotated[_Projects | None, describe("Projects with changed files.")] = None
    duration: Annotated[StatusWord | None, describe("How long it took, such as 1.9s.")] = None
    result: Annotated[StatusWord | None, describe("success, or the reason of the failure.")] = None
    snapshot_id: Annotated[StatusWord | None, describe("Snapshot taken before it.")] = None
    diff: Annotated[DiffSummary | None, describe("What it changed.")] = None


class SnapshotInfo(Block):
    """A snapshot that can be restored."""

    id: Annotated[StatusWord, describe("Name to write into spec.rollback.toSnapshot.")]
    size: Annotated[StatusWord | None, describe("Size, such as 180MB.")] = None
    timestamp: Annotated[Timestamp | None, describe("When it was taken.")] = None


class PendingPlanStatus(Block):
    """A plan that is held until a user approves its digest."""

    digest: Annotated[StatusWord, describe("Value for the annotation approved-plan.")]
    reason: Annotated[
        StatusWord | None, describe("Why the plan is held, such as DeletionBudgetExceeded.")
    ] = None
    files_added: Annotated[Count | None, describe("Files that it would add.")] = None
    files_modified: Annotated[Count | None, describe("Files that it would change.")] = None
    files_deleted: Annotated[Count | None, describe("Files that it would delete.")] = None


class DriftStatus(Block):
    """Files that another process or user has changed."""

    files: Annotated[Count, describe("Number of files that differ from the last sync.")]
    paths: Annotated[_PathList | None, describe("The first twenty of them.")] = None
    detected_at: Annotated[Timestamp | None, describe("When the drift was first detected.")] = None


class DriftRestoreStatus(Block):
    """Files that were changed on the gateway and restored."""

    files: Annotated[Count, describe("Number of restored files.")]
    paths: Annotated[_PathList | None, describe("The first twenty of them.")] = None
    restored_at: Annotated[Timestamp | None, describe("When they were restored.")] = None


class HeldProjectStatus(Block):
    """A project that is not synced while it is open in a Designer."""

    project: Annotated[StatusWord, describe("Name of the project.")]
    user: Annotated[StatusWord | None, describe("User who has it open.")] = None


class QuarantineStatus(Block):
    """A commit that was rolled back on a gateway and is not retried there."""

    commit: Annotated[StatusWord, describe("The commit.")]
    reason: Annotated[StatusWord | None, describe("Machine-readable reason of the rollback.")] = None
    message: Annotated[StatusLine | None, describe("Human-readable message.")] = None
    since: Annotated[Timestamp | None, describe("When it was rolled back.")] = None


class GatewayChangesStatus(Block):
    """Changes on a gateway that are not in git."""

    pending: Annotated[Count | None, describe("Files that are not in git yet.")] = None
    refused: Annotated[Count | None, describe("Files that were refused and are not proposed to git.")] = None
    held: Annotated[Count | None, describe("Files that are not overwritten until a user decides.")] = None
    paths: Annotated[_PathList | None, describe("The first twenty of them.")] = None
    reason: Annotated[StatusWord | None, describe("Machine-readable reason why changes are not in git.")] = (
        None
    )
    message: Annotated[StatusLine | None, describe("Human-readable message.")] = None
    branch: Annotated[StatusWord | None, describe("Branch that the changes were pushed to.")] = None
    pull_request: Annotated[StatusLine | None, describe("Address of the open pull request.")] = None


class GatewayStatus(Block):
    """One gateway that refers to the resource."""

    name: Annotated[StatusWord, describe("Name of the gateway.")]
    pod_name: Annotated[StatusWord, describe("Name of its pod.")]
    namespace: Annotated[StatusWord | None, describe("Namespace of its pod.")] = None
    service_path: Annotated[_Path | None, describe("Folder of the gateway's service in the repository.")] = (
        None
    )
    sync_profile_name: Annotated[StatusWord | None, describe("SyncProfile that it uses; empty: none.")] = None
    observed_generation: Annotated[
        Generation | None, describe("Generation of the resource at the last sync of the gateway.")
    ] = None
    sync_status: Annotated[
        Literal["Pending", "Syncing", "Synced", "Error"] | None, describe("State of the gateway.")
    ] = None
    reason: Annotated[StatusWord | None, describe("Machine-readable reason of the state.")] = None
    error_message: Annotated[StatusLine | None, describe("Error message; empty: no error.")] = None
    errors: Annotated[
        Annotated[tuple[StatusLine, ...], list_bounds(10)] | None,
        describe("The first ten errors of the last sync."),
    ] = None
    warnings: Annotated[
        Annotated[tuple[StatusLine, ...], list_bounds(10)] | None,
        describe("Warnings, such as a certificate that was not verified."),
    ] = None
    last_sync_time: Annotated[Timestamp | None, describe("When the last sync ended.")] = None
    last_sync_duration: Annotated[StatusWord | None, describe("How long it took, such as 3.2s.")] = None
    synced_commit: Annotated[StatusWord | None, describe("Commit that is on the gateway.")] = None
    synced_ref: Annotated[StatusWord | None, describe("Ref that resolved to the commit.")] = None
    agent_version: Annotated[StatusWord | None, describe("Version of the agent.")] = None
    last_scan_result: Annotated[
        StatusLine | None,
        describe("What the gateway answered to the scans, such as projects=200 config=200."),
    ] = None
    files_changed: Annotated[
        Count | None, describe("Files added, modified and deleted by the last sync.")
    ] = None
    files_added: Annotated[Count | None, describe("Files added by the last sync.")] = None
    files_modified: Annotated[Count | None, describe("Files changed by the last sync.")] = None
    files_deleted: Annotated[Count | None, describe("Files deleted by the last sync.")] = None
    projects_synced: Annotated[
        _Projects | None, describe("Projects with files changed by the last sync.")
    ] = None
    held_projects: Annotated[
        Annotated[tuple[HeldProjectStatus, ...], list_bounds(20)] | None,
        describe("Projects that are not synced while they are open in a Designer."),
    ] = None
    orphans_kept: Annotated[
        _PathList | None, describe("The first twenty files that are not in git and were not deleted.")
    ] = None
    orphans_kept_total: Annotated[Count | None, describe("Number of such files.")] = None
    skipped: Annotated[
        Annotated[tuple[StatusLine, ...], list_bounds(10)] | None,
        describe(
            "The first ten entries of the repository or the mappings that are not delivered, each with the "
            "reason: symlinks, submodules, mappings without a source, patches without a file."
        ),
    ] = None
    skipped_total: Annotated[Count | None, describe("Number of such entries.")] = None
    pending_plan: Annotated[PendingPlanStatus | None, describe("A plan that is waiting for approval.")] = None
    drift: Annotated[DriftStatus | None, describe("Files that another process or user has changed.")] = None
    drift_restored: Annotated[
        DriftRestoreStatus | None,
        describe("Files changed on the gateway that the last restore reverted."),
    ] = None
    last_snapshot: Annotated[SnapshotInfo | None, describe("The newest snapshot.")] = None
    snapshots_kept: Annotated[Count | None, describe("Number of snapshots.")] = None
    quarantine: Annotated[
        QuarantineStatus | None, describe("A commit that was rolled back on this gateway and is not retried.")
    ] = None
    waits_until: Annotated[
        Timestamp | None,
        describe("When the next maintenance window opens; set while a change is waiting for it."),
    ] = None
    changes: Annotated[
        GatewayChangesStatus | None, describe("Changes on the gateway that are not in git.")
    ] = None
    sync_history: Annotated[
        Annotated[tuple[SyncHistoryEntry, ...], list_bounds(10)] | None,
        describe("The last ten syncs, newest first."),
    ] = None


class RequestedRef(Block):
    """A requested ref that the resource follows instead of spec.git.ref, until spec.git.ref is changed."""

    ref: Annotated[StatusWord, describe("The requested ref.")]
    at: Annotated[Timestamp | None, describe("When it was requested.")] = None
    by: Annotated[StatusWord | None, describe("Requester, such as webhook.")] = None
    source: Annotated[StatusWord | None, describe("Type of the sender, such as github.")] = None
    spec_ref: Annotated[StatusWord | None, describe("Value of spec.git.ref at that time.")] = None


class RollbackStatus(Block):
    """Result of the last request in spec.rollback."""

    request: Annotated[StatusWord, describe("The requested snapshot or commit.")]
    result: Annotated[Literal["Pending", "Succeeded", "Failed"], describe("State of the rollback.")]
    message: Annotated[StatusLine | None, describe("Human-readable message.")] = None
    time: Annotated[Timestamp | None, describe("When it ended.")] = None


class StageStatus(Block):
    """One stage of a rollout."""

    name: Annotated[StatusWord, describe("Name of the stage.")]
    state: Annotated[
        Literal["Waiting", "Approval", "Syncing", "Soaking", "Passed", "Failed"], describe("Current state.")
    ]
    synced_at: Annotated[Timestamp | None, describe("When the last of its gateways was synced.")] = None
    checked_at: Annotated[Timestamp | None, describe("When its health check passed.")] = None
    message: Annotated[StatusLine | None, describe("What the stage is waiting for, or why it failed.")] = None


class RolloutStatus(Block):
    """Progress of a commit through stages and gateways."""

    commit: Annotated[StatusWord, describe("The commit.")]
    started_at: Annotated[Timestamp | None, describe("When the first gateway was released to sync it.")] = (
        None
    )
    stages: Annotated[
        Annotated[tuple[StageStatus, ...], list_bounds(32)] | None, describe("Its stages, in order.")
    ] = None
    queued: Annotated[Count | None, describe("Number of gateways in the queue.")] = None
    syncing: Annotated[Count | None, describe("Number of gateways that are syncing.")] = None
    queue: Annotated[
        Annotated[tuple[StatusWord, ...], list_bounds(1000)] | None,
        describe("Queued gateways, the next one first."),
    ] = None
    queued_since: Annotated[
        Timestamp | None, describe("Time since which the queue has not become shorter.")
    ] = None
    begun: Annotated[
        Annotated[tuple[Timestamp, ...], list_bounds(1000)] | None,
        describe("When gateways were last released; the rate limit counts these times."),
    ] = None
    request: Annotated[StatusWord | None, describe("The last observed sync request.")] = None


class ApprovalRequest(Block):
    """An approval request for a commit, and its approval if there is one."""

    commit: Annotated[StatusWord, describe("The commit.")]
    ref: Annotated[StatusWord | None, describe("Ref that resolved to it.")] = None
    stage: Annotated[StatusWord | None, describe("Stage that is waiting; absent: the whole resource.")] = None
    digest: Annotated[
        StatusWord | None,
        describe("What is approved: SHA-256 over the sorted lines `gateway digest` of all plans."),
    ] = None
    state: Annotated[Literal["Planning", "Pending", "Approved", "Expired"], describe("Current state.")]
    requested_at: Annotated[Timestamp | None, describe("When the approval was requested.")] = None
    expires_at: Annotated[Timestamp | None, describe("When the request expires.")] = None
    approved_by: Annotated[StatusWord | None, describe("User who approved it.")] = None
    approved_at: Annotated[Timestamp | None, describe("When it was approved.")] = None
    files_added: Annotated[Count | None, describe("Files that would be added, over all gateways.")] = None
    files_modified: Annotated[Count | None, describe("Files that would be changed.")] = None
    files_deleted: Annotated[Count | None, describe("Files that would be deleted.")] = None
    announced_at: Annotated[
        Timestamp | None, describe("When the service of approval.webhook was called.")
    ] = None
    request: Annotated[
        StatusWord | None, describe("The last sync request observed when the approval was requested.")
    ] = None
    message: Annotated[StatusLine | None, describe("Why the given approval is ignored.")] = None


class SyncStatus(Block):
    """Progress of the sync."""

    observed_generation: Annotated[
        ObservedGeneration | None, describe("Generation of the spec that this status describes.")
    ] = None
    last_sync_time: Annotated[Timestamp | None, describe("When a gateway was last synced.")] = None
    last_sync_ref: Annotated[StatusWord | None, describe("Ref that is being delivered.")] = None
    last_sync_commit: Annotated[StatusWord | None, describe("Commit that is being delivered.")] = None
    repo_clone_status: Annotated[
        Literal["NotCloned", "Cloning", "Cloned", "Error"] | None,
        describe("Cloned: the repository was read and the ref resolved to a commit."),
    ] = None
    requested_ref: Annotated[
        RequestedRef | None, describe("A requested ref that overrides spec.git.ref.")
    ] = None
    rollback: Annotated[RollbackStatus | None, describe("Result of spec.rollback.")] = None
    release: Annotated[
        RolloutStatus | None, describe("Progress of the rollout, if stages, an order or limits apply.")
    ] = None
    approval: Annotated[ApprovalRequest | None, describe("The pending approval.")] = None
    secret_names: Annotated[
        Annotated[tuple[StatusWord, ...], list_bounds(256)] | None,
        describe(
            "Secrets of its namespace that are named by the resource, by its base or by the installation's "
            "defaults. The reverser writes none of them to git."
        ),
    ] = None
    discovered_gateways: Annotated[
        Annotated[tuple[GatewayStatus, ...], list_bounds(1000, keyed_by=("name", "podName"))] | None,
        describe("The gateways that refer to the resource."),
    ] = None
    conditions: Annotated[
        ConditionList | None, describe("Conditions of the resource; Ready is the summary. There is no phase.")
    ] = None

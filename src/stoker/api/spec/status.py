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
    action: Annotated[Literal["added", "modified", "deleted"], describe("What happened to it.")]


class DiffSummary(Block):
    """What a sync changed, without the contents."""

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
    """One sync that has ended."""

    timestamp: Annotated[Timestamp, describe("When it ended.")]
    commit: Annotated[StatusWord | None, describe("Commit that was synced.")] = None
    ref: Annotated[StatusWord | None, describe("Ref that led to the commit.")] = None
    files_changed: Annotated[Count | None, describe("Files added, modified and deleted together.")] = None
    projects_synced: Annotated[_Projects | None, describe("Projects that were touched.")] = None
    duration: Annotated[StatusWord | None, describe("How long it took, such as 1.9s.")] = None
    result: Annotated[StatusWord | None, describe("success, or the reason why it was not.")] = None
    snapshot_id: Annotated[StatusWord | None, describe("Snapshot taken before it.")] = None
    diff: Annotated[DiffSummary | None, describe("What it changed.")] = None


class SnapshotInfo(Block):
    """A snapshot that can be restored."""

    id: Annotated[StatusWord, describe("Name to write into spec.rollback.toSnapshot.")]
    size: Annotated[StatusWord | None, describe("Size, such as 180MB.")] = None
    timestamp: Annotated[Timestamp | None, describe("When it was taken.")] = None


class PendingPlanStatus(Block):
    """A plan that is held back until somebody approves its digest."""

    digest: Annotated[StatusWord, describe("Value for the annotation approved-plan.")]
    reason: Annotated[StatusWord | None, describe("Why it is held back, such as DeletionBudgetExceeded.")] = (
        None
    )
    files_added: Annotated[Count | None, describe("Files that it would add.")] = None
    files_modified: Annotated[Count | None, describe("Files that it would change.")] = None
    files_deleted: Annotated[Count | None, describe("Files that it would delete.")] = None


class DriftStatus(Block):
    """Files that another process or user has changed."""

    files: Annotated[Count, describe("How many files differ from what was synced.")]
    paths: Annotated[_PathList | None, describe("The first twenty of them.")] = None
    detected_at: Annotated[Timestamp | None, describe("When the difference was first seen.")] = None


class DriftRestoreStatus(Block):
    """Files that were changed on the gateway and put back."""

    files: Annotated[Count, describe("How many files were put back.")]
    paths: Annotated[_PathList | None, describe("The first twenty of them.")] = None
    restored_at: Annotated[Timestamp | None, describe("When they were put back.")] = None


class HeldProjectStatus(Block):
    """A project that waits for a Designer to close."""

    project: Annotated[StatusWord, describe("Name of the project.")]
    user: Annotated[StatusWord | None, describe("Who has it open.")] = None


class QuarantineStatus(Block):
    """A commit that was taken back on a gateway and is not tried again there."""

    commit: Annotated[StatusWord, describe("The commit.")]
    reason: Annotated[StatusWord | None, describe("One word for machines: why it was rolled back.")] = None
    message: Annotated[StatusLine | None, describe("The same in a sentence.")] = None
    since: Annotated[Timestamp | None, describe("When it was rolled back.")] = None


class GatewayChangesStatus(Block):
    """What somebody changed on a gateway and git does not have."""

    pending: Annotated[Count | None, describe("Files on their way to git.")] = None
    refused: Annotated[Count | None, describe("Files that do not go to git.")] = None
    held: Annotated[Count | None, describe("Files that are not overwritten until a person decides.")] = None
    paths: Annotated[_PathList | None, describe("The first twenty of them.")] = None
    reason: Annotated[StatusWord | None, describe("One word for machines: what keeps them.")] = None
    message: Annotated[StatusLine | None, describe("The same in a sentence.")] = None
    branch: Annotated[StatusWord | None, describe("Branch that the changes were pushed to.")] = None
    pull_request: Annotated[StatusLine | None, describe("Address of the open pull request.")] = None


class GatewayStatus(Block):
    """One gateway that refers to the resource."""

    name: Annotated[StatusWord, describe("Name of the gateway.")]
    pod_name: Annotated[StatusWord, describe("Name of its pod.")]
    namespace: Annotated[StatusWord | None, describe("Namespace of its pod.")] = None
    service_path: Annotated[_Path | None, describe("Folder of its service in the repository.")] = None
    sync_profile_name: Annotated[StatusWord | None, describe("SyncProfile that it uses; empty: none.")] = None
    observed_generation: Annotated[
        Generation | None, describe("Generation of the resource that the gateway was last synced at.")
    ] = None
    sync_status: Annotated[
        Literal["Pending", "Syncing", "Synced", "Error"] | None, describe("State of the gateway.")
    ] = None
    reason: Annotated[StatusWord | None, describe("One word for machines: the reason of the state.")] = None
    error_message: Annotated[
        StatusLine | None, describe("What went wrong, in a sentence; empty: nothing.")
    ] = None
    errors: Annotated[
        Annotated[tuple[StatusLine, ...], list_bounds(10)] | None,
        describe("The first ten errors of the last sync."),
    ] = None
    warnings: Annotated[
        Annotated[tuple[StatusLine, ...], list_bounds(10)] | None,
        describe("What is not as it should be, such as a certificate that was not verified."),
    ] = None
    last_sync_time: Annotated[Timestamp | None, describe("When the last sync ended.")] = None
    last_sync_duration: Annotated[StatusWord | None, describe("How long it took, such as 3.2s.")] = None
    synced_commit: Annotated[StatusWord | None, describe("Commit that is on the gateway.")] = None
    synced_ref: Annotated[StatusWord | None, describe("Ref that led to the commit.")] = None
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
    projects_synced: Annotated[_Projects | None, describe("Projects touched by the last sync.")] = None
    held_projects: Annotated[
        Annotated[tuple[HeldProjectStatus, ...], list_bounds(20)] | None,
        describe("Projects that wait because they are open in a Designer."),
    ] = None
    orphans_kept: Annotated[
        _PathList | None, describe("The first twenty files that git does not have and that were not deleted.")
    ] = None
    orphans_kept_total: Annotated[Count | None, describe("How many such files there are.")] = None
    skipped: Annotated[
        Annotated[tuple[StatusLine, ...], list_bounds(10)] | None,
        describe(
            "The first ten things that the repository or the mappings name and the gateway does not get, "
            "each with the reason: symlinks, submodules, mappings without a source, patches without a file."
        ),
    ] = None
    skipped_total: Annotated[Count | None, describe("How many such things there are.")] = None
    pending_plan: Annotated[PendingPlanStatus | None, describe("A plan that waits for approval.")] = None
    drift: Annotated[DriftStatus | None, describe("Files that another process or user has changed.")] = None
    drift_restored: Annotated[
        DriftRestoreStatus | None,
        describe("Files that were changed on the gateway and put back most recently."),
    ] = None
    last_snapshot: Annotated[SnapshotInfo | None, describe("The newest snapshot.")] = None
    snapshots_kept: Annotated[Count | None, describe("How many snapshots there are.")] = None
    quarantine: Annotated[
        QuarantineStatus | None, describe("A commit that was rolled back here and is not tried again.")
    ] = None
    waits_until: Annotated[
        Timestamp | None, describe("When the next maintenance window opens, while a change waits for it.")
    ] = None
    changes: Annotated[
        GatewayChangesStatus | None, describe("What was changed on the gateway and is not in git.")
    ] = None
    sync_history: Annotated[
        Annotated[tuple[SyncHistoryEntry, ...], list_bounds(10)] | None,
        describe("The last ten syncs, newest first."),
    ] = None


class RequestedRef(Block):
    """A ref that is followed in place of spec.git.ref, on request; until spec.git.ref is changed."""

    ref: Annotated[StatusWord, describe("The ref that was asked for.")]
    at: Annotated[Timestamp | None, describe("When it was asked for.")] = None
    by: Annotated[StatusWord | None, describe("Who asked for it, such as webhook.")] = None
    source: Annotated[StatusWord | None, describe("What sent the request, such as github.")] = None
    spec_ref: Annotated[StatusWord | None, describe("What spec.git.ref was at that time.")] = None


class RollbackStatus(Block):
    """What became of the last request in spec.rollback."""

    request: Annotated[StatusWord, describe("The snapshot or commit that was asked for.")]
    result: Annotated[Literal["Pending", "Succeeded", "Failed"], describe("Whether it was carried out.")]
    message: Annotated[StatusLine | None, describe("What happened, in a sentence.")] = None
    time: Annotated[Timestamp | None, describe("When it ended.")] = None


class StageStatus(Block):
    """One stage of a release."""

    name: Annotated[StatusWord, describe("Name of the stage.")]
    state: Annotated[
        Literal["Waiting", "Approval", "Syncing", "Soaking", "Passed", "Failed"], describe("How far it is.")
    ]
    synced_at: Annotated[Timestamp | None, describe("When the last of its gateways was synced.")] = None
    checked_at: Annotated[Timestamp | None, describe("When its health check passed.")] = None
    message: Annotated[StatusLine | None, describe("What it waits for, or why it failed.")] = None


class RolloutStatus(Block):
    """How far a commit has come on its way through the fleet."""

    commit: Annotated[StatusWord, describe("The commit.")]
    started_at: Annotated[Timestamp | None, describe("When it was first released.")] = None
    stages: Annotated[
        Annotated[tuple[StageStatus, ...], list_bounds(32)] | None, describe("Its stages, in their order.")
    ] = None
    queued: Annotated[Count | None, describe("Gateways that wait for their turn.")] = None
    syncing: Annotated[Count | None, describe("Gateways that sync now.")] = None
    queue: Annotated[
        Annotated[tuple[StatusWord, ...], list_bounds(1000)] | None,
        describe("Who waits for a turn, the first one first."),
    ] = None
    queued_since: Annotated[Timestamp | None, describe("Since when the queue has not become shorter.")] = None
    begun: Annotated[
        Annotated[tuple[Timestamp, ...], list_bounds(1000)] | None,
        describe("When gateways were last released, as far as a limit counts them."),
    ] = None
    request: Annotated[StatusWord | None, describe("The last request to sync that it has seen.")] = None


class ApprovalRequest(Block):
    """A commit that waits for a person, or was given one."""

    commit: Annotated[StatusWord, describe("The commit.")]
    ref: Annotated[StatusWord | None, describe("Ref that led to it.")] = None
    stage: Annotated[StatusWord | None, describe("Stage that waits; absent: the whole resource.")] = None
    digest: Annotated[
        StatusWord | None,
        describe("What is approved: SHA-256 over the sorted lines `gateway digest` of all plans."),
    ] = None
    state: Annotated[Literal["Planning", "Pending", "Approved", "Expired"], describe("How far it is.")]
    requested_at: Annotated[Timestamp | None, describe("When it began to wait.")] = None
    expires_at: Annotated[Timestamp | None, describe("When the request lapses.")] = None
    approved_by: Annotated[StatusWord | None, describe("Who approved it.")] = None
    approved_at: Annotated[Timestamp | None, describe("When it was approved.")] = None
    files_added: Annotated[Count | None, describe("Files that would be added, over all gateways.")] = None
    files_modified: Annotated[Count | None, describe("Files that would be changed.")] = None
    files_deleted: Annotated[Count | None, describe("Files that would be deleted.")] = None
    announced_at: Annotated[
        Timestamp | None, describe("When the service of approval.webhook was called.")
    ] = None
    request: Annotated[
        StatusWord | None, describe("The last request to sync that was seen when it began.")
    ] = None
    message: Annotated[StatusLine | None, describe("Why an approval that is there does not count.")] = None


class SyncStatus(Block):
    """How far the sync has come."""

    observed_generation: Annotated[
        ObservedGeneration | None, describe("Generation of the spec that this status speaks about.")
    ] = None
    last_sync_time: Annotated[Timestamp | None, describe("When a gateway was last synced.")] = None
    last_sync_ref: Annotated[StatusWord | None, describe("Ref that is being delivered.")] = None
    last_sync_commit: Annotated[StatusWord | None, describe("Commit that is being delivered.")] = None
    repo_clone_status: Annotated[
        Literal["NotCloned", "Cloning", "Cloned", "Error"] | None,
        describe("Cloned: the repository was reached and the ref led to a commit."),
    ] = None
    requested_ref: Annotated[
        RequestedRef | None, describe("A ref that was asked for beside spec.git.ref.")
    ] = None
    rollback: Annotated[RollbackStatus | None, describe("What became of spec.rollback.")] = None
    release: Annotated[
        RolloutStatus | None, describe("How far the commit has come, where stages, order or limits hold it.")
    ] = None
    approval: Annotated[ApprovalRequest | None, describe("What waits for a person.")] = None
    secret_names: Annotated[
        Annotated[tuple[StatusWord, ...], list_bounds(256)] | None,
        describe(
            "Secrets of its namespace that it uses, by itself, by the base that it inherits from or by the "
            "installation's defaults. The reverser writes none of them to git."
        ),
    ] = None
    discovered_gateways: Annotated[
        Annotated[tuple[GatewayStatus, ...], list_bounds(1000, keyed_by=("name", "podName"))] | None,
        describe("The gateways that refer to the resource."),
    ] = None
    conditions: Annotated[
        ConditionList | None, describe("The state in single aspects; Ready sums them up. There is no phase.")
    ] = None

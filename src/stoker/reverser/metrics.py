"""The metrics of the reverser, under their documented names, and durations of the main steps.

No label names an object. A repository is labelled by its URL without user and scheme, a worker by its Lease,
so that the number of series grows with the number of destinations and not with the number of objects.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.reverser.destinations import BranchKey
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.rules import DestinationRef
from stoker.reverser.selection.selection import WatchedKind
from stoker.reverser.writer.batch import PlannedCommit
from stoker.telemetry.metrics import Metrics

_KIND = ("gvk", "scope")
_BRANCH = ("repo", "branch")
_TO = ("destination",)


class ReverserMetrics:
    """Counts and times the events of watches, workers and pushes."""

    def __init__(self, metrics: Metrics) -> None:
        counter, gauge, histogram = metrics.counter, metrics.gauge, metrics.histogram
        self._scanned = counter("objects_scanned_total", "Objects that lists and watches brought.", _KIND)
        self._written = counter("objects_written_total", "Objects whose file was pushed.", _KIND)
        self._deleted = counter("files_deleted_total", "Files that were deleted.", _TO)
        self._commits = counter("commits_total", "Commits that were pushed.", _BRANCH)
        self._bytes = counter("commit_bytes_total", "Bytes of new objects that were pushed.", _BRANCH)
        self._replays = counter(
            "rebase_retries_total", "Times that commits were built anew on a branch that had moved.", _BRANCH
        )
        self._push_failures = counter(
            "push_failures_total",
            "Attempts to write a branch that failed, by reason.",
            (*_BRANCH, "reason"),
        )
        self._ownership = counter(
            "ownership_conflicts_total", "Times that a folder was found to be another's, and refused.", _TO
        )
        self._lease_failures = counter(
            "lease_acquire_failures_total", "Requests for a Lease that failed.", ("worker",)
        )
        self._marker = counter(
            "marker_conflicts_total", "Times that a marker was another's or could not be written.", _TO
        )
        self._active = gauge("repo_branch_active_workers", "1 while this replica writes the branch.", _BRANCH)
        self._depth = gauge("repo_branch_queue_depth", "Changes that are not pushed yet.", _BRANCH)
        self._watch_failures = counter(
            "watch_failures_total",
            "Lists and watches that ended with an error, by reason.",
            (*_KIND, "reason"),
        )
        self._watch_seconds = histogram(
            "watch_list_duration_seconds", "From the begin of a watch to the end of its first list.", _KIND
        )
        self._queue_seconds = histogram(
            "change_queue_duration_seconds", "From noticing a change to the commit that holds it.", _BRANCH
        )
        self._push_seconds = histogram("push_duration_seconds", "How long a push took.", _BRANCH)
        self._replay_seconds = histogram(
            "replay_duration_seconds", "How long a push took that others were in the way of.", _BRANCH
        )
        self._delay_seconds = histogram(
            "change_push_delay_seconds", "From noticing a change to its being pushed.", _BRANCH
        )

    def scanned(self, watched: WatchedKind, count: int) -> None:
        resource = watched.resource
        gvk = f"{resource.api_version}/{resource.kind}"
        self._scanned.inc(count, gvk=gvk, scope=_scope_name(resource.namespaced))

    def listed(self, watched: WatchedKind, seconds: float) -> None:
        resource = watched.resource
        gvk = f"{resource.api_version}/{resource.kind}"
        self._watch_seconds.observe(seconds, gvk=gvk, scope=_scope_name(resource.namespaced))

    def watch_failed(self, watched: WatchedKind, reason: str) -> None:
        resource = watched.resource
        gvk = f"{resource.api_version}/{resource.kind}"
        self._watch_failures.inc(gvk=gvk, scope=_scope_name(resource.namespaced), reason=reason)

    def wrote(
        self, ref: DestinationRef, commits: Iterable[PlannedCommit], kinds: dict[tuple[str, ...], str]
    ) -> None:
        """Count the files of pushed commits; `kinds` maps group, version and plural to the kind's name."""
        for commit in commits:
            for change in commit.changes:
                if change.content is None:
                    self._deleted.inc(destination=str(ref))
                else:
                    self._written.inc(
                        gvk=_gvk(change.key, kinds), scope=_scope_name(bool(change.key.namespace))
                    )

    def pushed(self, place: BranchKey, commits: int, size: int, replays: int, seconds: float) -> None:
        labels = _branch_labels(place)
        self._commits.inc(commits, **labels)
        self._bytes.inc(size, **labels)
        self._replays.inc(replays, **labels)
        self._push_seconds.observe(seconds, **labels)
        if replays:
            self._replay_seconds.observe(seconds, **labels)

    def push_failed(self, place: BranchKey, reason: str) -> None:
        self._push_failures.inc(**_branch_labels(place), reason=reason)

    def taken(self, place: BranchKey, seconds: float) -> None:
        self._queue_seconds.observe(seconds, **_branch_labels(place))

    def arrived(self, place: BranchKey, seconds: float) -> None:
        self._delay_seconds.observe(seconds, **_branch_labels(place))

    def active(self, place: BranchKey, active: bool) -> None:
        self._active.set(int(active), **_branch_labels(place))

    def gone(self, place: BranchKey) -> None:
        """Drop the series of a branch that no destination uses any more, so that no worker seems missing."""
        self._active.drop(**_branch_labels(place))
        self._depth.drop(**_branch_labels(place))

    def depth(self, place: BranchKey, changes: int) -> None:
        self._depth.set(changes, **_branch_labels(place))

    def ownership_conflict(self, ref: DestinationRef) -> None:
        self._ownership.inc(destination=str(ref))

    def marker_conflict(self, ref: DestinationRef) -> None:
        self._marker.inc(destination=str(ref))

    def lease_failed(self, place: BranchKey) -> None:
        self._lease_failures.inc(worker=place.lease)


def _branch_labels(place: BranchKey) -> dict[str, str]:
    return {"repo": place.repository.lstrip("/"), "branch": place.branch}


def _scope_name(namespaced: bool) -> str:
    return "Namespaced" if namespaced else "Cluster"


def _gvk(key: ManifestKey, kinds: dict[tuple[str, ...], str]) -> str:
    return f"{key.api_version}/{kinds.get(key[:3], key.resource)}"

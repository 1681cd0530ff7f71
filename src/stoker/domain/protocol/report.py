"""The report of one gateway: the value that its agent writes under its key of the status ConfigMap.

JSON in camel case, at most 4 KiB. Fields that do not fit are dropped, the least important
first, and named in `omitted`; counts are never dropped. The parser also accepts two older
shapes: one with `filesChanged`, `projectsSynced` and a map of checksums, one with
`SyncedAt`, `FilesAdded` and a number of errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, TypeVar

from stoker.domain.protocol.json import compact_json, decode_dataclass, parse_object, to_plain

MAX_REPORT_BYTES = 4096
MAX_READ_BYTES = 32 << 10
"""Agents write 4 KiB; other writers may write more, up to this limit."""
MAX_HISTORY = 10
MAX_LISTED = 20
MAX_ERRORS = 10
MAX_PROJECTS = 64
MAX_LINE_BYTES = 512
MAX_WORD_BYTES = 253
_SHORT_LINE = 200

T = TypeVar("T")

_LINES = frozenset(
    {
        "error_message",
        "errors",
        "warnings",
        "scan_result",
        "service_path",
        "message",
        "path",
        "paths",
        "orphans_kept",
    }
)
_LIST_LIMITS = {
    "history": MAX_HISTORY,
    "errors": MAX_ERRORS,
    "warnings": MAX_ERRORS,
    "skipped": MAX_ERRORS,
    "projects_synced": MAX_PROJECTS,
}


class SyncState(StrEnum):
    """The sync state of a gateway."""

    PENDING = "Pending"
    SYNCING = "Syncing"
    SYNCED = "Synced"
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class HeldProjectReport:
    """A project that waits for a Designer to close."""

    project: str
    user: str = ""


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Managed files that were changed outside of Stoker."""

    files: int
    paths: tuple[str, ...] = ()
    detected_at: str = ""


@dataclass(frozen=True, slots=True)
class DriftRestoreReport:
    """The files that were changed on the gateway and restored, most recently (`drift.mode: restore`)."""

    files: int
    paths: tuple[str, ...] = ()
    restored_at: str = ""


@dataclass(frozen=True, slots=True)
class PendingPlanReport:
    """The plan that would be applied if a user approved it."""

    digest: str
    reason: str = ""
    commit: str = ""
    files_added: int = 0
    files_modified: int = 0
    files_deleted: int = 0


@dataclass(frozen=True, slots=True)
class ChecksumReport:
    """A digest and a count in place of a checksum per file, which would not fit into a ConfigMap."""

    digest: str = ""
    files: int = 0


@dataclass(frozen=True, slots=True)
class FileChangeReport:
    path: str
    action: str


@dataclass(frozen=True, slots=True)
class DiffReport:
    """The changes of the last sync, without contents."""

    from_commit: str = ""
    to_commit: str = ""
    files_added: int = 0
    files_modified: int = 0
    files_deleted: int = 0
    projects_affected: tuple[str, ...] = ()
    changes: tuple[FileChangeReport, ...] = ()


@dataclass(frozen=True, slots=True)
class HistoryEntryReport:
    """One sync that changed something, or failed."""

    timestamp: str
    commit: str = ""
    ref: str = ""
    files_changed: int = 0
    projects_synced: tuple[str, ...] = ()
    duration: str = ""
    result: str = ""
    snapshot_id: str = ""
    diff: DiffReport | None = None


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """A snapshot that can be restored."""

    id: str
    bytes: int = 0
    timestamp: str = ""


@dataclass(frozen=True, slots=True)
class QuarantineReport:
    """A commit that was rolled back on this gateway and is not tried again."""

    commit: str
    reason: str = ""
    message: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class GatewayChangesReport:
    """Changes made on this gateway that git does not have yet, or never gets.

    An agent that watches for such changes always sends it, even if it is empty.
    """

    id: str = ""
    """Id of the set that is being sent; empty: none."""
    pending: int = 0
    refused: int = 0
    held: int = 0
    paths: tuple[str, ...] = ()
    """The first paths only."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class RollbackReport:
    id: str
    result: str
    """Pending, Succeeded or Failed."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class GatewayReport:
    """The state of one gateway."""

    gateway: str
    pod_name: str = ""
    namespace: str = ""
    agent_version: str = ""
    protocol_version: str = ""
    sync_status: SyncState = SyncState.PENDING
    reason: str = ""
    error_message: str = ""
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    synced_at: str = ""
    commit: str = ""
    """The wanted commit; `synced_commit` is the applied one."""
    ref: str = ""
    synced_ref: str = ""
    synced_commit: str = ""
    files_added: int | None = None
    files_modified: int | None = None
    files_deleted: int | None = None
    files_changed: int | None = None
    projects_synced: tuple[str, ...] = ()
    scan_result: str = ""
    scan_durations: tuple[str, ...] = ()
    """How long the gateway took to answer each scan request, such as 0.012s."""
    applied: bool | None = None
    """Whether the gateway accepted the scans; None if the agent does not call the gateway."""
    verified: bool | None = None
    """Whether the gateway was observed to have loaded the files on its disk; acceptance does not imply it."""
    duration: str = ""
    held_projects: tuple[HeldProjectReport, ...] = ()
    drift: DriftReport | None = None
    drift_restored: DriftRestoreReport | None = None
    orphans_kept: tuple[str, ...] = ()
    orphans_kept_total: int = 0
    skipped: tuple[str, ...] = ()
    """The first names of content that the repository or the mappings name and the gateway does not get."""
    skipped_total: int = 0
    pending_plan: PendingPlanReport | None = None
    checksums: ChecksumReport | None = None
    history: tuple[HistoryEntryReport, ...] = ()
    """Newest first."""
    diff: DiffReport | None = None
    generation: int = 0
    sync_profile_name: str = ""
    service_path: str = ""
    heartbeat_at: str = ""
    terminating_ack: bool = False
    rollback: RollbackReport | None = None
    last_snapshot: SnapshotReport | None = None
    snapshots_kept: int = 0
    quarantine: QuarantineReport | None = None
    waits_until: str = ""
    """When the next maintenance window opens, while a change waits for it."""
    changes: GatewayChangesReport | None = None
    omitted: tuple[str, ...] = ()
    """The fields that were dropped because the report would have been too large."""

    def json(self) -> str:
        """Return the value for the key in the ConfigMap."""
        for smaller in _shrinking_reports(_bound_fields(self)):
            # Scripts read these two fields, so they are present even if they have their default value.
            text = compact_json({"gateway": "", "syncStatus": "Pending", **to_plain(smaller)})
            if len(text.encode()) <= MAX_REPORT_BYTES:
                return text
        raise ValueError("a report without any list or long line is larger than a map may hold")

    @classmethod
    def parse(cls, text: str) -> GatewayReport:
        """Parse a report of this or another version; raise `InvalidValue` if it is malformed."""
        said = parse_object(text, "the report", at_most=MAX_READ_BYTES)
        # One older shape is a Go struct without JSON tags, whose keys begin with a capital letter.
        said = {name[:1].lower() + name[1:]: value for name, value in said.items() if name}
        _rename_legacy_fields(said)
        return _bound_fields(decode_dataclass(cls, said, "the report"))

    def without_heartbeat(self) -> GatewayReport:
        """Return the report without the heartbeat, to compare whether anything else changed."""
        return replace(self, heartbeat_at="")


_PARTS = (
    HeldProjectReport
    | DriftReport
    | DriftRestoreReport
    | PendingPlanReport
    | ChecksumReport
    | FileChangeReport
    | DiffReport
    | HistoryEntryReport
    | RollbackReport
    | SnapshotReport
    | QuarantineReport
    | GatewayChangesReport
)


def _rename_legacy_fields(said: dict[str, object]) -> None:
    """Convert the field names of the older shapes into the current ones."""
    said.setdefault("gateway", "")
    count = said.get("errors")
    if isinstance(count, int):
        said["errors"] = [f"{count} errors"] if count else []
    sums = said.get("checksums")
    if isinstance(sums, dict) and not isinstance(sums.get("files"), int):
        said["checksums"] = {"files": len(sums)}
    said.setdefault("syncedRef", said.get("ref", ""))
    if "syncStatus" not in said:
        failed = said["errors"] if isinstance(said.get("errors"), list) else ()
        said["syncStatus"] = "Error" if failed else "Synced" if said.get("commit") else "Pending"
        said.setdefault("syncedCommit", said.get("commit", ""))
    parts = [said.get(name) for name in ("filesAdded", "filesModified", "filesDeleted")]
    if "filesChanged" not in said and any(part is not None for part in parts):
        said["filesChanged"] = sum(part for part in parts if isinstance(part, int))


def _bound_fields(value: T) -> T:
    """Limit every line and every list, also in nested values."""
    if isinstance(value, GatewayReport | _PARTS):
        changed: dict[str, Any] = {
            one.name: _bound_value(one.name, getattr(value, one.name)) for one in fields(value)
        }
        return replace(value, **changed)
    return value


def _bound_value(name: str, said: object) -> object:
    longest = MAX_LINE_BYTES if name in _LINES else MAX_WORD_BYTES
    if isinstance(said, str):
        return said if isinstance(said, SyncState) else _printable_line(said, longest)
    if isinstance(said, tuple):
        kept = said[: _LIST_LIMITS.get(name, MAX_LISTED)]
        return tuple(
            _printable_line(one, longest) if isinstance(one, str) else _bound_fields(one) for one in kept
        )
    return _bound_fields(said)


def _shrinking_reports(report: GatewayReport) -> Iterator[GatewayReport]:
    """Yield the report, then smaller versions with one more part dropped each time."""
    yield report
    left = report
    for told in range(len(report.history) - 1, -1, -1):
        if report.history[told].diff is not None:
            briefly = tuple(replace(one, diff=None) for one in report.history[told:])
            left = replace(left, history=(*report.history[:told], *briefly))
            yield left
    report = left
    for kept in range(len(report.history) - 1, 0, -1):  # drop the oldest entry first
        left = replace(left, history=report.history[:kept])
        yield left
    for name, without in _SHRINK_STEPS:
        smaller = without(left)
        if smaller != left:
            left = replace(smaller, omitted=(*left.omitted, name))
            yield left


_SHRINK_STEPS: tuple[tuple[str, Callable[[GatewayReport], GatewayReport]], ...] = (
    ("history", lambda it: replace(it, history=())),
    ("diff", lambda it: replace(it, diff=None)),
    ("projectsSynced", lambda it: replace(it, projects_synced=())),
    ("errors", lambda it: replace(it, errors=())),
    ("skipped", lambda it: replace(it, skipped=())),
    ("orphansKept", lambda it: replace(it, orphans_kept=())),
    ("drift.paths", lambda it: replace(it, drift=it.drift and replace(it.drift, paths=()))),
    (
        "driftRestored.paths",
        lambda it: replace(it, drift_restored=it.drift_restored and replace(it.drift_restored, paths=())),
    ),
    ("warnings", lambda it: replace(it, warnings=())),
    ("scanDurations", lambda it: replace(it, scan_durations=())),
    ("heldProjects", lambda it: replace(it, held_projects=())),
    (
        "long lines",
        lambda it: replace(
            it,
            error_message=_printable_line(it.error_message, _SHORT_LINE),
            scan_result=_printable_line(it.scan_result, _SHORT_LINE),
            service_path=_printable_line(it.service_path, _SHORT_LINE),
            quarantine=it.quarantine
            and replace(it.quarantine, message=_printable_line(it.quarantine.message, _SHORT_LINE)),
            changes=it.changes
            and replace(it.changes, paths=(), message=_printable_line(it.changes.message, _SHORT_LINE)),
            rollback=it.rollback
            and replace(it.rollback, message=_printable_line(it.rollback.message, _SHORT_LINE)),
        ),
    ),
)


def _printable_line(text: str, longest: int = MAX_LINE_BYTES) -> str:
    """Return one printable line of at most `longest` bytes on the wire; an ellipsis marks a cut."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    while _wire_size(text) > longest:
        text = text[: min(len(text) - 2, longest * len(text) // _wire_size(text))] + "…"
    return text


def _wire_size(text: str) -> int:
    return len(compact_json(text).encode()) - 2

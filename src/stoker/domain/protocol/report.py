"""The report of one gateway: what its agent writes under its own key of the status map.

JSON in camel case, at most 4 KiB. What does not fit is left out, the least wanted
first, and named in `omitted`; a count never is. The reader also takes the two shapes
of the papers: one with `filesChanged`, `projectsSynced` and a map of checksums, one
with `SyncedAt`, `FilesAdded` and a number of errors (C-034).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, TypeVar

from stoker.domain.protocol.json import compact_json, decode_dataclass, parse_object, to_plain

MAX_REPORT_BYTES = 4096
MAX_READ_BYTES = 32 << 10
"""Agents write 4 KiB; others may write more, up to here."""
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
    """Where a gateway stands."""

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
    """What somebody else changed."""

    files: int
    paths: tuple[str, ...] = ()
    detected_at: str = ""


@dataclass(frozen=True, slots=True)
class DriftRestoreReport:
    """What was changed on the gateway and put back, most recently (`drift.mode: restore`)."""

    files: int
    paths: tuple[str, ...] = ()
    restored_at: str = ""


@dataclass(frozen=True, slots=True)
class PendingPlanReport:
    """What would be done, if somebody approved it."""

    digest: str
    reason: str = ""
    commit: str = ""
    files_added: int = 0
    files_modified: int = 0
    files_deleted: int = 0


@dataclass(frozen=True, slots=True)
class ChecksumReport:
    """Of the papers' list of checksums what a map can hold (C-036)."""

    digest: str = ""
    files: int = 0


@dataclass(frozen=True, slots=True)
class FileChangeReport:
    path: str
    action: str


@dataclass(frozen=True, slots=True)
class DiffReport:
    """What the last sync changed, without contents."""

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
    """A copy that can be gone back to."""

    id: str
    bytes: int = 0
    timestamp: str = ""


@dataclass(frozen=True, slots=True)
class QuarantineReport:
    """A commit that was taken back here and is not tried again."""

    commit: str
    reason: str = ""
    message: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class GatewayChangesReport:
    """What somebody changed on this gateway and git does not have yet, or never gets.

    Said, also empty, by whoever watches for such changes.
    """

    id: str = ""
    """Of the set that is on its way; empty: none."""
    pending: int = 0
    refused: int = 0
    held: int = 0
    paths: tuple[str, ...] = ()
    """The first of them."""
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
    """Where one gateway stands."""

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
    """The commit that is wanted; `synced_commit` is the one that is there."""
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
    """How long the gateway took to answer each of those requests, such as 0.012s."""
    applied: bool | None = None
    """Whether the gateway accepted the scans; None where nobody asks it."""
    verified: bool | None = None
    """Whether it was seen to have what lies on its disk, which is another thing."""
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
    """What was left out because the report would have been too large."""

    def json(self) -> str:
        """The value of the key in the map."""
        for smaller in _shrinking_reports(_bound_fields(self)):
            # Read by machines as much as by people, so what must always be there is, empty or not.
            text = compact_json({"gateway": "", "syncStatus": "Pending", **to_plain(smaller)})
            if len(text.encode()) <= MAX_REPORT_BYTES:
                return text
        raise ValueError("a report without any list or long line is larger than a map may hold")

    @classmethod
    def parse(cls, text: str) -> GatewayReport:
        """A report of this or another version; raises `InvalidValue` if it is none."""
        said = parse_object(text, "the report", at_most=MAX_READ_BYTES)
        # The newer paper's struct has no names for JSON, and Go's own begin with a capital.
        said = {name[:1].lower() + name[1:]: value for name, value in said.items() if name}
        _rename_legacy_fields(said)
        return _bound_fields(decode_dataclass(cls, said, "the report"))

    def without_heartbeat(self) -> GatewayReport:
        """What tells whether there is something new to say."""
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
    """The papers' spellings into ours."""
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
    """Every line and every list within its own limit, also in what lies inside."""
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
    """The report, and what is left of it when one thing after another is left out."""
    yield report
    left = report
    for told in range(len(report.history) - 1, -1, -1):
        if report.history[told].diff is not None:
            briefly = tuple(replace(one, diff=None) for one in report.history[told:])
            left = replace(left, history=(*report.history[:told], *briefly))
            yield left
    report = left
    for kept in range(len(report.history) - 1, 0, -1):  # the oldest goes first (C-047)
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
    """One printable line of at most so many bytes on the wire; a cut is shown."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    while _wire_size(text) > longest:
        text = text[: min(len(text) - 2, longest * len(text) // _wire_size(text))] + "…"
    return text


def _wire_size(text: str) -> int:
    return len(compact_json(text).encode()) - 2

"""The audit log: one record for each sync, refusal and pause, with trigger, changes and result.

A record goes to the process log as the event `audit`, to `.sync-state/audit.jsonl`, which is rotated at 10
MiB, and to the export (`stoker.agent.audit.audit_export`). A sync without changes is not recorded, and a
repeated refusal is recorded once. It must never raise: auditing must not fail a sync.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.agent.sync.jobs import GatewayRef, SyncResult
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError, Wait
from stoker.domain.reasons import Reason
from stoker.fs.record_files import append_line

if TYPE_CHECKING:
    from stoker.agent.audit.audit_export import AuditExport

FILE = "audit.jsonl"
MAX_BYTES = 10 << 20
MAX_PROJECTS = 64
SUCCESS = "success"
WEBHOOK, POLLING, MANUAL = "webhook", "polling", "manual"


class AuditLog:
    """The audit log of one data folder."""

    def __init__(
        self,
        data_dir: Path,
        gateway: GatewayRef,
        clock: Clock,
        *,
        aloud: bool = True,
        export: AuditExport | None = None,
    ) -> None:
        self.gateway = gateway
        self._data_dir = data_dir
        self._clock = clock
        self._aloud = aloud
        """Whether records also go to the process log."""
        self._export = export
        self._last = ("", "")

    def passed(self, report: SyncReport, trigger: str, scan_result: str = "", gate: str = "") -> None:
        """Record a finished sync; `gate` is the reason why it only planned."""
        result = _result(report, gate)
        changed = report.files_changed if report.applied is not None else 0
        if not changed and (result == SUCCESS or self._is_known(report.commit, result)):
            self._last = report.commit, result
            return
        self.record(
            result,
            trigger,
            commit=report.commit,
            ref=str(report.ref),
            files_changed=changed,
            projects=report.projects if changed else (),
            duration=report.lasted,
            scan_result=scan_result if changed else "",
        )

    def failed(self, error: StokerError, trigger: str, *, commit: str = "", ref: str = "") -> None:
        """Record a refused or failed sync; a sync that only waits was not refused."""
        if not isinstance(error, Wait) and not self._is_known(commit, error.reason):
            self.record(error.reason, trigger, commit=commit, ref=ref)

    def paused(self, *, commit: str = "", ref: str = "") -> None:
        if self._last[1] != Reason.PAUSED:
            self.record(Reason.PAUSED, MANUAL, commit=commit, ref=ref)

    def record(
        self,
        result: str,
        trigger: str,
        *,
        commit: str = "",
        ref: str = "",
        files_changed: int = 0,
        projects: Sequence[str] = (),
        duration: str = "0.00s",
        scan_result: str = "",
    ) -> None:
        """Write one record, even if it equals the last."""
        self._last = commit, result
        now = self._clock.now()
        line = {
            "timestamp": f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03}Z",
            "cr": self.gateway.resource,
            "namespace": self.gateway.namespace,
            "gateway": self.gateway.name,
            "podName": self.gateway.pod,
            "trigger": trigger,
            "commit": commit,
            "ref": ref,
            "filesChanged": files_changed,
            "projectsSynced": list(projects[:MAX_PROJECTS]),
            "duration": duration,
            "result": str(result),
            "scanResult": scan_result,
        }
        if self._aloud:
            self._log("info", "audit", **{name: value for name, value in line.items() if name != "timestamp"})
        if self._export is not None:
            self._export(line)
        try:
            text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
            append_line(
                self._data_dir, FILE, text.encode(errors="surrogateescape") + b"\n", at_most=MAX_BYTES
            )
        except (OSError, StokerError) as error:
            self._log("warning", "audit.unwritten", error=str(error))

    def _log(self, level: str, event: str, **keys: object) -> None:
        from stoker.telemetry.logs import get_logger  # noqa: PLC0415 - a single sync has no log

        if self._aloud:
            getattr(get_logger(__name__), level)(event, **keys)

    def _is_known(self, commit: str, result: str) -> bool:
        return self._last == (commit, result)


def trigger_of(nudged_by: str) -> str:
    """Return the audit log's word for the trigger of a sync."""
    if nudged_by == WEBHOOK:
        return WEBHOOK
    return MANUAL if nudged_by in ("signal", "file", "start", MANUAL) else POLLING


def _result(report: SyncReport, gate: str) -> str:
    waits = report.stalled or report.waits
    if waits is not None:
        return waits.reason
    if report.applied is None:
        return (gate or Reason.DRY_RUN) if report.plan.actions else SUCCESS
    if report.result is SyncResult.DONE:
        return SUCCESS
    from stoker.agent.status.fields import sync_status  # noqa: PLC0415 - only needed for failures

    return sync_status(report)[1]

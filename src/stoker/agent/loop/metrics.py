"""The metrics of one data folder: syncs, files, durations, drift.

A metric with the same name in the controller means the same. The controller counts reported syncs, once each,
and has no series for syncs that found nothing to do.
"""

from __future__ import annotations

from stoker.agent.sync.jobs import SyncResult
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import Clock
from stoker.telemetry.metrics import Metrics

_GATEWAY = ("namespace", "cr", "gateway")


class SyncMetrics:
    """Declares the metrics and records the reports of one gateway."""

    def __init__(self, metrics: Metrics, clock: Clock, *, namespace: str, cr: str, gateway: str) -> None:
        self._clock = clock
        self._labels = {"namespace": namespace, "cr": cr, "gateway": gateway}
        self._passes = metrics.counter(
            "ignition_sync_syncs_total",
            "Syncs of a data folder, by result.",
            (*_GATEWAY, "result"),
        )
        self._failures = metrics.counter(
            "ignition_sync_sync_failures_total", "Failed syncs, by reason.", (*_GATEWAY, "reason")
        )
        self._pass_seconds = metrics.histogram(
            "ignition_sync_pass_duration_seconds", "Duration of a sync, with or without changes.", _GATEWAY
        )
        self._seconds = metrics.histogram(
            "ignition_sync_sync_duration_seconds", "Duration of a sync that changed files.", _GATEWAY
        )
        self._scans = metrics.histogram(
            "ignition_sync_scan_api_duration_seconds",
            "Response time of the gateway to a scan request.",
            _GATEWAY,
        )
        self._files = metrics.counter(
            "ignition_sync_files_changed_total", "Files added, modified or deleted.", _GATEWAY
        )
        self._last = metrics.gauge(
            "ignition_sync_last_sync_timestamp",
            "Unix time of the last complete sync.",
            _GATEWAY,
        )
        self._drifted = metrics.gauge(
            "ignition_sync_drifted_files",
            "Managed files that another process or user changed, as of the last check.",
            _GATEWAY,
        )

    def passed(self, report: SyncReport) -> None:
        self._passes.inc(**self._labels, result=report.result)
        self._pass_seconds.observe(report.duration_seconds, **self._labels)
        if report.applied is not None and report.files_changed:
            self._seconds.observe(report.duration_seconds, **self._labels)
            self._files.inc(report.files_changed, **self._labels)
        if report.result is SyncResult.DONE:
            self._last.set(self._clock.now().timestamp(), **self._labels)

    def scanned(self, seconds: float) -> None:
        self._scans.observe(seconds, **self._labels)

    def failed(self, result: SyncResult, reason: str) -> None:
        self._passes.inc(**self._labels, result=result)
        self._failures.inc(**self._labels, reason=reason)

    def drifted(self, files: int) -> None:
        self._drifted.set(files, **self._labels)

"""Metrics of resources and their gateways.

Gauges follow the status. What happened on a gateway is counted once, when its report is new in the status;
agents export their own metrics separately. Conditions and gateways are collected at scrape time, so that a
removed condition, an old reason or a deleted gateway never stays on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from stoker.api.spec.status import GatewayStatus, SyncStatus
from stoker.controller.cache.objects import ResourceKey
from stoker.domain.clock import parse_rfc3339
from stoker.domain.errors import InvalidValue
from stoker.domain.quantities import parse_duration
from stoker.domain.reasons import ConditionType, Reason
from stoker.kube.runtime.conditions import find_condition
from stoker.telemetry.metrics import MetricReading, Metrics

_VALUES = {"True": 1, "False": 0}
_UNKNOWN = -1
_REASONS = frozenset(str(reason) for reason in Reason)

_RESOURCE = ("namespace", "cr")
_GATEWAY = (*_RESOURCE, "gateway")


class ControllerMetrics:
    """Updates metrics from statuses."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._discovered = metrics.gauge(
            "ignition_sync_gateways_discovered", "Gateways that use a resource.", _RESOURCE
        )
        self._synced = metrics.gauge("ignition_sync_gateways_synced", "Gateways that are synced.", _RESOURCE)
        self._last_sync = metrics.gauge(
            "ignition_sync_last_sync_timestamp", "Unix time of the last successful sync.", _RESOURCE
        )
        self._ready = metrics.gauge(
            "ignition_sync_resource_ready", "1 while the resource is ready, otherwise 0.", _RESOURCE
        )
        self._files = metrics.counter(
            "ignition_sync_files_changed_total", "Files changed by syncs.", _RESOURCE
        )
        self._duration = metrics.histogram(
            "ignition_sync_sync_duration_seconds", "Duration of a sync of a gateway.", _GATEWAY
        )
        self._queued = metrics.gauge(
            "ignition_sync_queue_depth", "Gateways queued by a rate limit.", _RESOURCE
        )
        self._syncing = metrics.gauge(
            "ignition_sync_syncs_in_progress", "Gateways that are syncing.", _RESOURCE
        )
        self._begun = metrics.counter(
            "ignition_sync_syncs_released_total", "Syncs that the rate limit has admitted.", _RESOURCE
        )
        self._fetch = metrics.histogram(
            "ignition_sync_git_fetch_duration_seconds",
            "Duration of resolving a ref.",
            _RESOURCE,
        )

        self._requests = metrics.counter(
            "ignition_sync_bidirectional_prs_created",
            "Pull requests opened for gateway changes.",
            _RESOURCE,
        )
        self._alerts = metrics.counter(
            "ignition_sync_alerts_total",
            "Alerts, by target and result.",
            (*_RESOURCE, "kind", "result"),
        )
        self._scans = metrics.histogram(
            "ignition_sync_scan_api_duration_seconds",
            "Response time of gateways to a scan request.",
            _GATEWAY,
        )
        self._rollbacks = metrics.counter(
            "ignition_sync_rollback_triggered_total",
            "Automatic rollbacks of a commit on a gateway, by reason.",
            (*_GATEWAY, "reason"),
        )
        self._stand: dict[ResourceKey, tuple[MetricReading, ...]] = {}
        metrics.collect_from(lambda: chain.from_iterable(self._stand.values()))

    def opened_request(self, key: ResourceKey) -> None:
        self._requests.inc(1, namespace=key.object.namespace, cr=key.object.name)

    def alerted(self, key: ResourceKey, kind: str, result: str) -> None:
        self._alerts.inc(namespace=key.object.namespace, cr=key.object.name, kind=kind, result=result)

    def asked_git(self, key: ResourceKey, seconds: float) -> None:
        self._fetch.observe(seconds, namespace=key.object.namespace, cr=key.object.name)

    def saw(self, key: ResourceKey, status: SyncStatus) -> None:
        """Update the gauges; called after every reconcile."""
        labels = {"namespace": key.object.namespace, "cr": key.object.name}
        self._stand[key] = tuple(_readings(key, status))
        gateways = status.discovered_gateways or ()
        self._discovered.set(len(gateways), **labels)
        self._synced.set(sum(one.sync_status == "Synced" for one in gateways), **labels)
        if status.last_sync_time:
            self._last_sync.set(parse_rfc3339(status.last_sync_time).timestamp(), **labels)
        release = status.release
        self._queued.set((release.queued or 0) if release is not None else 0, **labels)
        self._syncing.set((release.syncing or 0) if release is not None else 0, **labels)
        ready = find_condition(status.conditions or (), ConditionType.READY)
        self._ready.set(int(ready is not None and ready.status == "True"), **labels)

    def wrote(
        self,
        key: ResourceKey,
        before: SyncStatus,
        after: SyncStatus,
        scans: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Count what is new in a status that was just written; `scans` has response times, by pod."""
        labels = {"namespace": key.object.namespace, "cr": key.object.name}
        known = {one.pod_name: one for one in before.discovered_gateways or ()}
        for new in after.discovered_gateways or ():
            old = known.pop(new.pod_name, None)
            if has_rolled_back(old, new) and new.quarantine is not None:
                reason = _known_reason(new.quarantine.reason)
                self._rollbacks.inc(**labels, gateway=new.name, reason=reason)
            if new.last_sync_time is None or (old is not None and old.last_sync_time == new.last_sync_time):
                continue
            self._files.inc(new.files_changed or 0, **labels)
            if (seconds := _parse_seconds(new.last_sync_duration)) is not None:
                self._duration.observe(seconds, **labels, gateway=new.name)
            for text in (scans or {}).get(new.pod_name, ()):
                if (seconds := _parse_seconds(text)) is not None:
                    self._scans.observe(seconds, **labels, gateway=new.name)
        left = {one.name for one in known.values()} - {one.name for one in after.discovered_gateways or ()}
        for name in left:
            self._metrics.forget(key.object.namespace, key.object.name, name)

    def let_go(self, key: ResourceKey, gateways: int) -> None:
        """Count the gateways that a rate limit let begin."""
        if gateways:
            self._begun.inc(gateways, namespace=key.object.namespace, cr=key.object.name)

    def forget(self, key: ResourceKey) -> None:
        self._stand.pop(key, None)
        self._metrics.forget(key.object.namespace, key.object.name)


def has_rolled_back(before: GatewayStatus | None, now: GatewayStatus) -> bool:
    """Whether a gateway has rolled back since the previous status."""
    old, new = before.quarantine if before is not None else None, now.quarantine
    return new is not None and (old is None or (old.commit, old.since) != (new.commit, new.since))


def _readings(key: ResourceKey, status: SyncStatus) -> Iterator[MetricReading]:
    """Made once for each reconcile, because scrapes are more frequent than status changes."""
    labels = {"namespace": key.object.namespace, "cr": key.object.name}
    for condition in status.conditions or ():
        yield MetricReading(
            "ignition_sync_resource_condition",
            "A condition of a resource: 1 for True, 0 for False, -1 for Unknown.",
            _VALUES.get(condition.status, _UNKNOWN),
            {**labels, "condition": condition.type, "reason": condition.reason},
        )
    for name, one in _worst_by_name(status.discovered_gateways or ()).items():
        yield MetricReading(
            "ignition_sync_gateway_up_to_date",
            "1 while a gateway is up to date, otherwise 0 with the reason.",
            _is_synced(one),
            {**labels, "gateway": name, "reason": _known_reason(one.reason)},
        )


def _worst_by_name(gateways: Sequence[GatewayStatus]) -> dict[str, GatewayStatus]:
    """Gateways by name; of two pods with the same name, the worse state counts."""
    found: dict[str, GatewayStatus] = {}
    for one in gateways:
        if one.name not in found or _is_synced(one) < _is_synced(found[one.name]):
            found[one.name] = one
    return found


def _is_synced(gateway: GatewayStatus) -> int:
    return int(gateway.sync_status == "Synced")


def _known_reason(reason: str | None) -> str:
    """Agents may send any text; a label value is always a known reason."""
    return reason if reason in _REASONS else ""


def _parse_seconds(said: str | None) -> float | None:
    """Parse a duration such as `3.2s` from an agent; None for any other text."""
    text = said or ""
    try:
        return parse_duration(text) if re.fullmatch(r"[0-9.]+(ms|s|m|h).*", text) else None
    except InvalidValue:
        return None

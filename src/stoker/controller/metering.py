"""What is measured of resources and their gateways (R-OBS-06 … -10, C-137).

Gauges follow the status; what happened on a gateway is counted once, when its report
is new in the status, because agents are measured by themselves elsewhere.
"""

from __future__ import annotations

import re

from stoker.api.blocks.status import GatewayStatus, SyncStatus
from stoker.controller.objects import ResourceKey
from stoker.domain.clock import parse_rfc3339
from stoker.domain.errors import InvalidValue
from stoker.domain.quantities import parse_duration
from stoker.domain.reasons import ConditionType
from stoker.kube.conditions import find
from stoker.telemetry.metrics import Metrics

_RESOURCE = ("namespace", "cr")
_GATEWAY = (*_RESOURCE, "gateway")


class Meter:
    """Takes statuses as they are written."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._discovered = metrics.gauge(
            "ignition_sync_gateways_discovered", "Gateways that refer to a resource.", _RESOURCE
        )
        self._synced = metrics.gauge("ignition_sync_gateways_synced", "Gateways that are synced.", _RESOURCE)
        self._last_sync = metrics.gauge(
            "ignition_sync_last_sync_timestamp", "Unix time of the last successful sync.", _RESOURCE
        )
        self._ready = metrics.gauge(
            "ignition_sync_resource_ready", "1 while the resource is ready, else 0.", _RESOURCE
        )
        self._files = metrics.counter(
            "ignition_sync_files_changed_total", "Files that syncs have changed.", _RESOURCE
        )
        self._duration = metrics.histogram(
            "ignition_sync_sync_duration_seconds", "How long a sync of a gateway took.", _GATEWAY
        )
        self._queued = metrics.gauge(
            "ignition_sync_queue_depth", "Gateways that wait for their turn because of a limit.", _RESOURCE
        )
        self._syncing = metrics.gauge(
            "ignition_sync_syncs_in_progress", "Gateways that are on their way to a commit.", _RESOURCE
        )
        self._begun = metrics.counter(
            "ignition_sync_syncs_released_total", "Gateways that a limit has let go.", _RESOURCE
        )
        self._fetch = metrics.histogram(
            "ignition_sync_git_fetch_duration_seconds",
            "How long a repository took to say where a ref is.",
            _RESOURCE,
        )

        self._requests = metrics.counter(
            "ignition_sync_bidirectional_prs_created",
            "Pull requests that were opened with changes of gateways.",
            _RESOURCE,
        )
        self._alerts = metrics.counter(
            "ignition_sync_alerts_total",
            "Alerts by target and by what became of them.",
            (*_RESOURCE, "kind", "result"),
        )

    def opened_request(self, key: ResourceKey) -> None:
        self._requests.inc(1, namespace=key.object.namespace, cr=key.object.name)

    def alerted(self, key: ResourceKey, kind: str, result: str) -> None:
        self._alerts.inc(namespace=key.object.namespace, cr=key.object.name, kind=kind, result=result)

    def asked_git(self, key: ResourceKey, seconds: float) -> None:
        self._fetch.observe(seconds, namespace=key.object.namespace, cr=key.object.name)

    def saw(self, key: ResourceKey, status: SyncStatus) -> None:
        """The gauges, after every pass."""
        labels = {"namespace": key.object.namespace, "cr": key.object.name}
        gateways = status.discovered_gateways or ()
        self._discovered.set(len(gateways), **labels)
        self._synced.set(sum(one.sync_status == "Synced" for one in gateways), **labels)
        if status.last_sync_time:
            self._last_sync.set(parse_rfc3339(status.last_sync_time).timestamp(), **labels)
        release = status.release
        self._queued.set((release.queued or 0) if release is not None else 0, **labels)
        self._syncing.set((release.syncing or 0) if release is not None else 0, **labels)
        ready = find(status.conditions or (), ConditionType.READY)
        self._ready.set(int(ready is not None and ready.status == "True"), **labels)

    def wrote(self, key: ResourceKey, before: SyncStatus, after: SyncStatus) -> None:
        """What is new in a status that was just written."""
        labels = {"namespace": key.object.namespace, "cr": key.object.name}
        known = {one.pod_name: one for one in before.discovered_gateways or ()}
        for new in after.discovered_gateways or ():
            old = known.pop(new.pod_name, None)
            if new.last_sync_time is None or (old is not None and old.last_sync_time == new.last_sync_time):
                continue
            self._files.inc(new.files_changed or 0, **labels)
            seconds = _seconds(new)
            if seconds is not None:
                self._duration.observe(seconds, **labels, gateway=new.name)
        left = {one.name for one in known.values()} - {one.name for one in after.discovered_gateways or ()}
        for name in left:
            self._metrics.forget(key.object.namespace, key.object.name, name)

    def let_go(self, key: ResourceKey, gateways: int) -> None:
        """So many were let go where a limit counts them."""
        if gateways:
            self._begun.inc(gateways, namespace=key.object.namespace, cr=key.object.name)

    def forget(self, key: ResourceKey) -> None:
        self._metrics.forget(key.object.namespace, key.object.name)


def _seconds(gateway: GatewayStatus) -> float | None:
    """An agent writes `3.2s`; whatever else stands there is not measured."""
    text = gateway.last_sync_duration or ""
    try:
        return parse_duration(text) if re.fullmatch(r"[0-9.]+(ms|s|m|h).*", text) else None
    except InvalidValue:
        return None

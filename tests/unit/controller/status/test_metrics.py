"""Metrics of the controller: each value once, under the specified names, and no series of deleted objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from stoker.api.meta import Condition
from stoker.api.spec.status import GatewayStatus, QuarantineStatus, SyncStatus
from stoker.controller.cache.objects import ResourceKey
from stoker.controller.status.metrics import ControllerMetrics
from stoker.kube.watch.store import ObjectKey
from stoker.telemetry.metrics import Metrics

KEY = ResourceKey("Stoker", ObjectKey("plant", "line"))
WHOSE = 'cr="line",namespace="plant"'


class Site:
    """A meter, and what a page says."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.meter = ControllerMetrics(self.metrics)
        self._last = SyncStatus()

    def write(self, *gateways: GatewayStatus, scans: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """One pass that writes a status with these gateways."""
        before, self._last = self._last, SyncStatus(discovered_gateways=gateways)
        self.meter.saw(KEY, self._last)
        self.meter.wrote(KEY, before, self._last, scans)

    def series(self, name: str) -> dict[str, float]:
        text = self.metrics.page(self.metrics.read()).decode()
        return {match[1]: float(match[2]) for match in re.finditer(rf"^{name}{{(.*)}} (\S+)$", text, re.M)}


@pytest.fixture
def site() -> Site:
    return Site()


def gateway(name: str = "north", synced: str = "", **fields: Any) -> GatewayStatus:
    given: dict[str, Any] = {"pod_name": f"{name}-0", "sync_status": "Synced", **fields}
    if synced:
        given["last_sync_time"] = f"2026-03-02T08:15:0{synced}Z"
    return GatewayStatus(name=name, **given)


def condition(type_: str, status: Any, reason: str) -> Condition:
    return Condition(
        type=type_, status=status, reason=reason, message="", last_transition_time="2026-03-02T08:15:00Z"
    )


def test_answers_to_scans_are_measured_once_for_each_sync(site: Site) -> None:
    scans = {"north-0": ("0.012s", "0.2s", "soon")}
    site.write(gateway(synced="1"), scans=scans)
    site.write(gateway(synced="1"), scans=scans)
    name = "ignition_sync_scan_api_duration_seconds"
    of = 'cr="line",gateway="north",namespace="plant"'
    assert site.series(f"{name}_count") == {of: 2}
    assert site.series(f"{name}_sum")[of] == pytest.approx(0.212)
    site.write(gateway(synced="2"), scans=scans)
    assert site.series(f"{name}_count") == {of: 4}


def test_a_commit_that_was_rolled_back_counts_once(site: Site) -> None:
    taken = QuarantineStatus(commit="a" * 40, reason="ScanFailureAutoRollback", since="2026-03-02T08:15:04Z")
    name, of = "ignition_sync_rollback_triggered_total", 'cr="line",gateway="north",namespace="plant"'
    site.write(gateway())
    site.write(gateway(quarantine=taken))
    site.write(gateway(quarantine=taken))
    assert site.series(name) == {f'{of},reason="ScanFailureAutoRollback"': 1}
    site.write(gateway(quarantine=QuarantineStatus(commit="b" * 40, reason="said by a stranger")))
    assert site.series(name) == {f'{of},reason="ScanFailureAutoRollback"': 1, f'{of},reason=""': 1}


def test_conditions_follow_the_status_and_leave_with_it(site: Site) -> None:
    def with_conditions(*conditions: tuple[str, Any, str]) -> SyncStatus:
        return SyncStatus(conditions=tuple(condition(*each) for each in conditions))

    name = "ignition_sync_resource_condition"
    site.meter.saw(KEY, with_conditions(("Ready", "False", "SyncFailed"), ("Stalled", "True", "InvalidSpec")))
    assert site.series(name) == {
        f'condition="Ready",{WHOSE},reason="SyncFailed"': 0,
        f'condition="Stalled",{WHOSE},reason="InvalidSpec"': 1,
    }
    site.meter.saw(KEY, with_conditions(("Ready", "Unknown", "GatewaysSynced")))
    assert site.series(name) == {f'condition="Ready",{WHOSE},reason="GatewaysSynced"': -1}
    site.meter.forget(KEY)
    assert site.series(name) == {}


def test_a_gateway_is_as_up_to_date_as_the_worse_of_its_pods(site: Site) -> None:
    name = "ignition_sync_gateway_up_to_date"
    site.write(
        gateway("north"),
        gateway("north", pod_name="north-1", sync_status="Error", reason="TokenRejected"),
        gateway("south", sync_status="Pending", reason="what an agent may say"),
    )
    assert site.series(name) == {
        'cr="line",gateway="north",namespace="plant",reason="TokenRejected"': 0,
        'cr="line",gateway="south",namespace="plant",reason=""': 0,
    }
    site.write(gateway("south"))
    assert site.series(name) == {'cr="line",gateway="south",namespace="plant",reason=""': 1}

"""The script for Argo CD: in the map for every kind of ours, and right about every standing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.api.registry import KINDS
from stoker_testkit.cluster.argocd_health import ArgoHealth
from stoker_testkit.cluster.kstatus import CURRENT, FAILED, IN_PROGRESS, TERMINATING, kstatus

FOLDER = Path(__file__).parents[3] / "deploy" / "argocd"
SCRIPT = (FOLDER / "health.lua").read_text()


def test_the_map_holds_the_script_for_every_kind() -> None:
    data = yaml.safe_load((FOLDER / "argocd-cm.yaml").read_text())["data"]
    assert data == {f"resource.customizations.health.{kind.group}_{kind.name}": SCRIPT for kind in KINDS}


def found(*conditions: tuple[str, str, str], generation: int = 2, observed: int | None = 2) -> dict[str, Any]:
    listed = [
        {"type": type_, "status": status, "reason": reason, "message": "why"}
        for type_, status, reason in conditions
    ]
    status: dict[str, Any] = {"conditions": listed} if listed else {}
    if observed is not None:
        status["observedGeneration"] = observed
    return {"kind": "Stoker", "metadata": {"generation": generation}, "status": status}


@pytest.mark.parametrize(
    ("seen", "health", "computed"),
    [
        ({"kind": "Stoker", "metadata": {"generation": 1}}, "Progressing", CURRENT),
        (found(observed=-1), "Progressing", IN_PROGRESS),
        (found(("Ready", "True", "GatewaysSynced"), observed=1), "Progressing", IN_PROGRESS),
        (found(("Ready", "True", "GatewaysSynced")), "Healthy", CURRENT),
        (found(("Ready", "Unknown", "Reconciling")), "Progressing", IN_PROGRESS),
        (
            found(("Ready", "False", "GatewaysSyncing"), ("Reconciling", "True", "GatewaysSyncing")),
            "Progressing",
            IN_PROGRESS,
        ),
        (found(("Ready", "False", "RefNotFound"), ("Stalled", "True", "RefNotFound")), "Degraded", FAILED),
        (found(("Ready", "False", "SyncFailed")), "Degraded", IN_PROGRESS),
        (found(("Ready", "False", "Paused")), "Suspended", IN_PROGRESS),
        (found(("Ready", "False", "PendingApproval")), "Suspended", IN_PROGRESS),
        ({"kind": "IgnitionSyncBase", "metadata": {"generation": 1}}, "Healthy", CURRENT),
        ({**found(), "metadata": {"generation": 3, "deletionTimestamp": "x"}}, "Progressing", TERMINATING),
    ],
)
def test_health_and_kstatus_of_every_standing(seen: dict[str, Any], health: str, computed: str) -> None:
    assert ArgoHealth(SCRIPT).of(seen)[0] == health
    assert kstatus(seen).status == computed

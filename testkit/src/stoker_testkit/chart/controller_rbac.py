"""The controller's RBAC rules in the chart, as the real helm renders them.

A test that runs a controller without a release gives its account exactly these rights, so
that there is one list of them and no second one that a test keeps.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from stoker_testkit.chart.helm import Helm

ChartRbacRule = dict[str, Any]

CONTROLLER = "stoker-controller"
LEASE = "stoker-controller-0"
"""The chart makes it; a controller may take it and not make one."""


@dataclass(frozen=True, slots=True)
class ControllerRules:
    """The rules of one component, by where they hold."""

    watched: tuple[ChartRbacRule, ...]
    """In every namespace that is worked on."""
    home: tuple[ChartRbacRule, ...]
    """In the operator's own."""
    cluster: tuple[ChartRbacRule, ...]
    """Only where all namespaces are worked on."""


@cache
def controller_rules(*, shared_volumes: bool = False, shards: int = 1) -> ControllerRules:
    wide = _roles({"sharedVolumes": shared_volumes, "shards": shards})
    narrow = _roles({"sharedVolumes": shared_volumes, "shards": shards, "watchNamespaces": ["watched"]})
    watched = narrow["Role", CONTROLLER]
    everywhere = wide["ClusterRole", CONTROLLER]
    return ControllerRules(
        watched=tuple(watched),
        home=tuple(narrow["Role", f"{CONTROLLER}-own"]),
        cluster=tuple(rule for rule in everywhere if rule not in watched),
    )


def _roles(controller: Mapping[str, object]) -> dict[tuple[str, str], list[ChartRbacRule]]:
    with tempfile.TemporaryDirectory(prefix="stoker-chart-") as folder:
        objects = Helm(Path(folder)).template({"controller": dict(controller)})
    return {
        (one["kind"], one["metadata"]["name"]): one["rules"]
        for one in objects
        if one["kind"] in ("Role", "ClusterRole")
    }

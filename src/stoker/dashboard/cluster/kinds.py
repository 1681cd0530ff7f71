"""The kinds that the dashboard watches, and the ConfigMap of the emergency stop."""

from __future__ import annotations

from stoker.api.registry import KINDS as REGISTERED
from stoker.fleet.pause import PAUSE_MAP
from stoker.fleet.resource_name import KINDS
from stoker.kube.client.kinds import rest_resource
from stoker.kube.client.resources import ApiResource

__all__ = [
    "ACTIONABLE_KINDS",
    "ALL",
    "CLUSTER_RULE",
    "CONFIG",
    "DESTINATION",
    "PAUSE_MAP",
    "RESOURCES_WITH_RULES",
    "RULE",
    "SYNCED",
]

DESTINATION = "GitDestination"
CONFIG = "GitRepoConfig"
RULE = "WatchRule"
CLUSTER_RULE = "ClusterWatchRule"
SYNCED = KINDS
"""Kinds that sync files to gateways."""
ACTIONABLE_KINDS = (*SYNCED, DESTINATION)
"""Kinds that a visitor may act on; the only action on a destination approves held deletions."""

_RESOURCES = {kind.name: rest_resource(kind) for kind in REGISTERED}

ALL: dict[str, ApiResource] = {
    name: one for name, one in _RESOURCES.items() if name in (*KINDS, DESTINATION, CONFIG)
}
RESOURCES_WITH_RULES: dict[str, ApiResource] = {
    **ALL,
    **{name: _RESOURCES[name] for name in (RULE, CLUSTER_RULE)},
}
"""All kinds, for a dashboard that also watches rules."""

"""The kinds that a dashboard looks at, and the map of the emergency stop."""

from __future__ import annotations

from stoker.api.registry import KINDS as REGISTERED
from stoker.fleet.holding import PAUSE_MAP
from stoker.fleet.naming import KINDS
from stoker.kube.kinds import rest
from stoker.kube.resources import Resource

__all__ = ["ALL", "CONFIG", "DESTINATION", "PAUSE_MAP", "SYNCED"]

DESTINATION = "GitDestination"
CONFIG = "GitRepoConfig"
SYNCED = KINDS
"""Kinds that a visitor may act on."""

ALL: dict[str, Resource] = {
    kind.name: rest(kind) for kind in REGISTERED if kind.name in (*KINDS, DESTINATION, CONFIG)
}

"""What agents have reported, read out of the status maps of a resource.

The text of a report comes from a pod, so it may be anything; one that cannot be read
counts as none. Reports are read many times and change seldom, hence they are kept by
their text, which the store holds anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from stoker.controller.cache.objects import ResourceKey, SeenMap
from stoker.controller.cache.store import Shelf
from stoker.domain.errors import InvalidValue
from stoker.domain.protocol import GatewayReport, status_map
from stoker.kube.watch.store import ObjectKey

MOST_SHARDS = 50
"""A thousand gateways, which is what a status may list."""


@lru_cache(maxsize=4096)
def report_in(text: str) -> GatewayReport | None:
    try:
        return GatewayReport.parse(text)
    except InvalidValue:
        return None


def status_maps(
    maps: Shelf[SeenMap], key: ResourceKey, shards: int = MOST_SHARDS
) -> Iterator[tuple[int, SeenMap]]:
    """The status maps of a resource that are there, by number."""
    for shard in range(shards + 1):
        seen = maps.get(ObjectKey(key.object.namespace, status_map(key.door, key.object.name, shard)))
        if seen is not None:
            yield shard, seen


def entries(maps: Shelf[SeenMap], key: ResourceKey) -> Mapping[str, GatewayReport]:
    """All reports by their key; where two maps have the same one, the later sign of life counts."""
    found: dict[str, GatewayReport] = {}
    for _, seen in status_maps(maps, key):
        for name, text in (seen.data or {}).items():
            report = report_in(text)
            if report is not None and (name not in found or found[name].heartbeat_at < report.heartbeat_at):
                found[name] = report
    return found

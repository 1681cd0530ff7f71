"""The agents' reports, parsed out of the status ConfigMaps of a resource.

Each reconcile reads all reports of a resource, and few change between two reconciles, so parsed reports are
cached by the digest of their text. The text comes from a pod and may be anything. A text above the limit is
refused before it is hashed or cached, and a text that cannot be parsed counts as no report. The cache is
bounded by the bytes of the texts that it was made from, not only by their number.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import NamedTuple

from stoker.controller.cache.objects import CachedConfigMap, ResourceKey
from stoker.controller.cache.store import WriteThroughCache
from stoker.domain.errors import InvalidValue
from stoker.domain.protocol import GatewayReport, status_map_name
from stoker.domain.protocol.report import MAX_READ_BYTES
from stoker.kube.watch.store import ObjectKey

MAX_SHARDS = 50
"""Enough for a thousand gateways, the most that a status may list."""
MAX_CACHED_REPORTS = 4096
MAX_CACHED_BYTES = 16 << 20
"""Enough for four thousand reports of the largest size that agents write."""


class _ParsedReport(NamedTuple):
    report: GatewayReport | None
    size: int


class ReportCache:
    """Parsed reports by the digest of their text, the least recently used dropped first."""

    def __init__(self, most: int = MAX_CACHED_REPORTS, most_bytes: int = MAX_CACHED_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._parsed: OrderedDict[bytes, _ParsedReport] = OrderedDict()
        self.bytes = 0
        """Total size of the texts that the cached reports were parsed from."""

    def __len__(self) -> int:
        return len(self._parsed)

    def parse(self, text: str) -> GatewayReport | None:
        """Return the report; None if the text is too large or cannot be parsed."""
        if len(text) > MAX_READ_BYTES:
            return None
        content = text.encode(errors="surrogatepass")
        digest = sha256(content).digest()
        known = self._parsed.get(digest)
        if known is not None:
            self._parsed.move_to_end(digest)
            return known.report
        try:
            report = GatewayReport.parse(text)
        except InvalidValue:
            report = None
        self._parsed[digest] = _ParsedReport(report, len(content))
        self.bytes += len(content)
        while len(self._parsed) > self._most or self.bytes > self._most_bytes:
            _, dropped = self._parsed.popitem(last=False)
            self.bytes -= dropped.size
        return report


_CACHE = ReportCache()
parse_report = _CACHE.parse


def status_maps(
    maps: WriteThroughCache[CachedConfigMap], key: ResourceKey, shards: int = MAX_SHARDS
) -> Iterator[tuple[int, CachedConfigMap]]:
    """The existing status ConfigMaps of a resource, with their numbers."""
    for shard in range(shards + 1):
        seen = maps.get(ObjectKey(key.object.namespace, status_map_name(key.door, key.object.name, shard)))
        if seen is not None:
            yield shard, seen


def reports_by_gateway(
    maps: WriteThroughCache[CachedConfigMap], key: ResourceKey
) -> Mapping[str, GatewayReport]:
    """All reports by key; if two ConfigMaps have the same key, the later heartbeat wins."""
    found: dict[str, GatewayReport] = {}
    for _, seen in status_maps(maps, key):
        for name, text in (seen.data or {}).items():
            report = parse_report(text)
            if report is not None and (name not in found or found[name].heartbeat_at < report.heartbeat_at):
                found[name] = report
    return found

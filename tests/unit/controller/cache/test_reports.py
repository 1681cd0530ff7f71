"""Reports that agents write are kept parsed, within bounds that no agent can move."""

from __future__ import annotations

import json

import pytest

from stoker.controller.cache.objects import MAX_KEYS, decode_config_map
from stoker.controller.cache.reports import ReportCache, parse_report
from stoker.domain.protocol import GatewayReport
from stoker.domain.protocol.report import MAX_READ_BYTES
from stoker_testkit.memory_peak import left_by


def test_a_report_is_parsed_once_for_each_text() -> None:
    cache = ReportCache()
    text = GatewayReport("press").json()
    report = cache.parse(text)
    assert report == GatewayReport("press")
    assert cache.parse("".join(text)) is report
    assert len(cache) == 1


def test_a_text_above_the_limit_is_refused_and_not_kept() -> None:
    kept = left_by(lambda: [parse_report(json.dumps({"x": f"{n:04}" + "y" * (1 << 20)})) for n in range(64)])
    assert kept < 1 << 20, "64 MiB of texts leave nothing behind"
    cache = ReportCache()
    assert cache.parse(json.dumps({"gateway": "x" * MAX_READ_BYTES})) is None
    assert (len(cache), cache.bytes) == (0, 0), "and push no other report out"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"gateway":7}', "\ud800", "[" * 5000])
def test_what_is_no_report_is_parsed_once_and_counts_as_none(text: str) -> None:
    cache = ReportCache()
    assert cache.parse(text) is None
    assert cache.parse(text) is None
    assert len(cache) == 1


def test_the_cache_is_bounded_by_bytes_and_drops_the_least_recently_used() -> None:
    cache = ReportCache(most=100, most_bytes=4 * MAX_READ_BYTES)
    texts = [json.dumps({"gateway": str(n), "message": "x" * (MAX_READ_BYTES - 100)}) for n in range(6)]
    for text in texts:
        cache.parse(text)
        cache.parse(texts[0])
    assert cache.bytes <= 4 * MAX_READ_BYTES
    assert len(cache) == 4
    first = cache.parse(texts[0])
    assert first is cache.parse(texts[0])
    for n in range(200):
        cache.parse(json.dumps({"gateway": f"gateway-{n}"}))
    assert len(cache) == 100


def test_of_a_map_with_very_many_keys_the_first_are_kept() -> None:
    names = {f"k{n:06}": "" for n in range(100_000)}
    raw = json.dumps({"metadata": {"name": "m"}, "data": names, "binaryData": names}).encode()
    seen = decode_config_map(raw)
    assert list(seen.data or {}) == list(names)[:MAX_KEYS]
    assert list(seen.sizes) == list(names)[:MAX_KEYS]

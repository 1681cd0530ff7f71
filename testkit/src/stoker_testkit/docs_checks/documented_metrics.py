"""The metrics of a process, and those that docs/observability.md documents.

Tests compare the two, and look names up in the page that dashboards and alerts use. A
page of `/metrics` tells the labels of a metric only by its series: of one that has
none yet they are not known here, and the module that declares it has to be asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from stoker.telemetry.metrics import DeclaredMetric

_SAMPLE = re.compile(r"(?P<name>[a-z_][a-z0-9_]*)(?:\{(?P<labels>.*)\})? \S+")
_LABEL = re.compile(r'([a-z_]+)="(?:[^"\\]|\\.)*"')
_ROW = re.compile(r"\| `(?P<name>\w+)` \| (?P<type>\w+) \| (?P<labels>[^|]*) \| (?P<meaning>.+) \|")
_PARTS = ("_bucket", "_count", "_sum")
_OWN = "le"
"""The label that distinguishes the buckets of a histogram."""


class DocumentedMetric(NamedTuple):
    """One metric of a page."""

    type: str
    description: str
    labels: frozenset[str] | None
    """None: it has no series yet."""


def shown_on(page: str) -> dict[str, DocumentedMetric]:
    """The metrics of a page by name, without those that the library adds about the process."""
    types: dict[str, str] = {}
    descriptions: dict[str, str] = {}
    labels: dict[str, frozenset[str]] = {}
    for line in page.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            (types if word == "TYPE" else descriptions)[name] = rest
        elif found := _SAMPLE.fullmatch(line):
            family = next((one for one in family_names(found["name"]) if one in types), found["name"])
            labels[family] = frozenset(_LABEL.findall(found["labels"] or "")) - {_OWN}
    return {
        name: DocumentedMetric(type_, descriptions[name], labels.get(name))
        for name, type_ in types.items()
        if not name.startswith("process_")
    }


def family_names(sample: str) -> Iterator[str]:
    """The names of metrics that a sample with this name may belong to."""
    yield sample
    for part in _PARTS:
        if sample.endswith(part):
            yield sample.removesuffix(part)


def documented(text: str) -> dict[str, list[DeclaredMetric]]:
    """The tables of metrics of the page, by the heading above each."""
    tables: dict[str, list[DeclaredMetric]] = {}
    heading = ""
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif row := _ROW.fullmatch(line):
            labels = tuple(re.findall(r"`(\w+)`", row["labels"]))
            tables.setdefault(heading, []).append(
                DeclaredMetric(row["name"], row["type"], labels, row["meaning"])
            )
    return tables

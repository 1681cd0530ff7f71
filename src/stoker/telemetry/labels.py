"""The rules for metric labels: which names exist, and which values are exported.

`stoker.telemetry.metrics` applies them when a metric is declared and each time it is updated. Label values
are names of resources and our own constants. Anything else (a URL with a password, a commit, a path, a
sentence) would leak or grow without limit, so it is replaced and not exported. A wrong declaration is a
bug and raises; a wrong value must never stop the work that is being counted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from stoker.domain.errors import InvalidValue

MetricLabelSet: TypeAlias = tuple[str, ...]

OTHER: Final = "_other"
MAX_VALUE: Final = 128

RESOURCE_LABELS: Final = frozenset({"namespace", "cr", "gateway", "result", "source"})
RUNTIME_LABELS: Final = frozenset({"controller", "queue", "kind", "reason", "condition"})
REVERSER_LABELS: Final = frozenset({"gvk", "scope", "destination", "repo", "branch", "worker"})
KNOWN_LABELS: Final = RESOURCE_LABELS | RUNTIME_LABELS | REVERSER_LABELS

# The last range are surrogates: with one of them, the page could not be encoded, losing all metrics.
_UNSAFE_LABEL_VALUE = re.compile(r"://|@|^/|^[0-9a-f]{40}$|^[0-9a-f]{64}$|[\x00-\x1f\x7f\ud800-\udfff]")


def refuse_unknown_labels(metric: str, labels: Iterable[str]) -> None:
    """Refuse a declaration with an unknown or repeated label name."""
    declared = list(labels)
    unknown = sorted(set(declared) - KNOWN_LABELS)
    if unknown:
        raise InvalidValue(
            f"metric {metric} declares label {unknown[0]!r}, which is none of {sorted(KNOWN_LABELS)}"
        )
    if len(declared) != len(set(declared)):
        raise InvalidValue(f"metric {metric} declares a label twice")


def label_set(metric: str, names: MetricLabelSet, given: Mapping[str, str]) -> MetricLabelSet:
    """Return the values in the order of the declaration, each safe to export."""
    if given.keys() != set(names):
        raise InvalidValue(f"metric {metric} has labels {sorted(names)}, yet {sorted(given)} were given")
    values = (given[name] for name in names)
    return tuple(clean_label(value) if isinstance(value, str) else OTHER for value in values)


@lru_cache(maxsize=4096)
def clean_label(value: str) -> str:
    """Return the value to export. A long value is truncated and gets a digest, so values stay distinct."""
    if _UNSAFE_LABEL_VALUE.search(value):
        return OTHER
    if len(value) <= MAX_VALUE:
        return value
    digest = hashlib.sha256(value.encode(errors="backslashreplace")).hexdigest()[:8]
    return f"{value[: MAX_VALUE - 9]}~{digest}"

"""The rules for labels: which names exist, and what a value may look like.

`stoker.telemetry.metrics` asks here when a metric is declared and each time one
is touched. Label values come from names of resources and from constants of our
own; whatever else slips in (an address with a password, a commit, a path, a
sentence) would leak or grow without bound, so it is replaced rather than
exported. A wrong declaration is a mistake of ours and raises; a wrong value must
never stop the work that is being counted.
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

RESOURCE_LABELS: Final = frozenset({"namespace", "cr", "gateway", "result", "source"})  # C-137
RUNTIME_LABELS: Final = frozenset({"controller", "queue", "kind", "reason", "condition"})
REVERSER_LABELS: Final = frozenset({"gvk", "scope", "destination", "repo", "branch", "worker"})  # R-REV-64
KNOWN_LABELS: Final = RESOURCE_LABELS | RUNTIME_LABELS | REVERSER_LABELS

# The last are halves of characters: the page could not be encoded with one, and all metrics would be gone.
_UNSAFE_LABEL_VALUE = re.compile(r"://|@|^/|^[0-9a-f]{40}$|^[0-9a-f]{64}$|[\x00-\x1f\x7f\ud800-\udfff]")


def refuse_unknown_labels(metric: str, labels: Iterable[str]) -> None:
    """A declaration may use the known label names, each once."""
    declared = list(labels)
    unknown = sorted(set(declared) - KNOWN_LABELS)
    if unknown:
        raise InvalidValue(
            f"metric {metric} declares label {unknown[0]!r}, which is none of {sorted(KNOWN_LABELS)}"
        )
    if len(declared) != len(set(declared)):
        raise InvalidValue(f"metric {metric} declares a label twice")


def label_set(metric: str, names: MetricLabelSet, given: Mapping[str, str]) -> MetricLabelSet:
    """The values in the order of the declaration, each fit to be exported."""
    if given.keys() != set(names):
        raise InvalidValue(f"metric {metric} has labels {sorted(names)}, yet {sorted(given)} were given")
    values = (given[name] for name in names)
    return tuple(clean_label(value) if isinstance(value, str) else OTHER for value in values)


@lru_cache(maxsize=4096)
def clean_label(value: str) -> str:
    """The value as it is exported. A long one is cut and keeps a digest, so that two stay two."""
    if _UNSAFE_LABEL_VALUE.search(value):
        return OTHER
    if len(value) <= MAX_VALUE:
        return value
    digest = hashlib.sha256(value.encode(errors="backslashreplace")).hexdigest()[:8]
    return f"{value[: MAX_VALUE - 9]}~{digest}"

"""Durations and sizes as people write them in a manifest.

Durations follow Go (`300ms`, `60s`, `5m`, `1h30m`), sizes follow Kubernetes
quantities (`10Mi`, `1Gi`, `500M`). Both are bounded: a value such as `1e30h` must be
refused at input and must not stall a loop (Flux CVE-2022-39272).
"""

from __future__ import annotations

import re

from stoker.domain.errors import InvalidValue

MAX_DURATION_SECONDS = 366 * 24 * 3600.0
MAX_BYTES = 1 << 60

DURATION_PATTERN = r"^([0-9]{1,9}(\.[0-9]{1,9})?(ms|s|m|h))+$"
QUANTITY_PATTERN = r"^[0-9]{1,15}(\.[0-9]{1,9})?(k|M|G|T|Ki|Mi|Gi|Ti)?$"

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(.*)")
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
}


def parse_duration(text: str) -> float:
    """Return the seconds of a Go-style duration."""
    if len(text) > 64 or not re.fullmatch(DURATION_PATTERN, text):
        raise InvalidValue(f"{text[:64]!r} is not a duration; write it as 30s, 5m or 1h30m")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if seconds > MAX_DURATION_SECONDS:
        raise InvalidValue(f"duration {text!r} is longer than a year")
    return seconds


def parse_quantity(text: str) -> int:
    """Return the bytes of a Kubernetes quantity."""
    if len(text) > 32 or not re.fullmatch(QUANTITY_PATTERN, text):
        raise InvalidValue(f"{text[:32]!r} is not a size; write it as 500M, 10Mi or 1Gi")
    number, unit = _QUANTITY.fullmatch(text).groups()  # type: ignore[union-attr]
    size = int(float(number) * _FACTORS[unit])
    if size > MAX_BYTES:
        raise InvalidValue(f"size {text!r} is larger than an exbibyte")
    return size

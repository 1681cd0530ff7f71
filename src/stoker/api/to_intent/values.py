"""Helpers to read a block: values with defaults, seconds, bytes, choices, secrets.

Every field of a block is optional. Callers pass the defaults of the intent itself, so that a
spec that was never completed means the same as a completed one.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import TypeVar

from stoker.api.meta import SecretKeyRef
from stoker.domain.intent.source import SecretKey
from stoker.domain.quantities import parse_duration, parse_quantity

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_UNITS = {unit: Decimal(10) ** power for unit, power in _DECIMAL.items()} | {
    f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)
}

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


def value_or_default(value: T | None, default: T) -> T:
    return default if value is None else value


def parse_seconds(text: str | None, default: float) -> float:
    return default if text is None else parse_duration(text)


def parse_size(text: str | None, default: int) -> int:
    return default if text is None else parse_quantity(text)


def parse_amount(text: str) -> Decimal:
    """Parse an amount of a cluster resource: `50m` of a CPU, `64Mi` of memory."""
    number = text.rstrip("numkKMGTPEi")
    return Decimal(number) * _UNITS[text[len(number) :]]


def parse_choice(word: str | None, default: E) -> E:
    """Return the member with this spelling, of the enumeration that the default belongs to."""
    return default if word is None else type(default)(word)


def secret_key(ref: SecretKeyRef | None) -> SecretKey | None:
    return None if ref is None else SecretKey(ref.name, ref.key)

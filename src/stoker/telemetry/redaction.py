"""What may be shown of a value, whatever it holds.

Everything that leaves the process as text for people passes here first: log
lines (`stoker.telemetry.logs`) and the answers of probes. A `Secret` becomes
`<secret>` wherever it is nested, so do values under names such as
`Authorization`, credentials inside addresses and headers, and private keys; the
rest is cut to a size that a log collector can take.

It works on copies and knows no log format. It must never raise: a value that
cannot be shown is named by its type.
"""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import TypeAlias

from stoker.domain.errors import StokerError
from stoker.domain.secrets import HIDDEN, Secret

PlainValue: TypeAlias = "bool | int | float | str | list[PlainValue] | dict[str, PlainValue] | None"

MAX_TEXT = 8 * 1024
MAX_KEY = 128
MAX_DEPTH = 6
MAX_NODES = 500
MAX_FRAMES = 12
MAX_CAUSES = 5
MAX_MESSAGE = 2 * 1024

# Ends of names (lower case, without - and _) whose value opens something.
_SECRET_NAME_PARTS = (
    "authorization", "cookie", "password", "passwd", "passphrase", "token", "apikey", "accesskey",
    "privatekey", "secretkey", "clientsecret", "credential", "credentials", "signature",
)  # fmt: skip

_HEADER = r"(?:proxy-)?authorization|(?:set-)?cookie|(?:private|x-[a-z-]{0,40})-token"
_PARAMETER = r"token|secret|password|passwd|passphrase|signature|api_?key"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # A private key, also one whose end was cut off.
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
        HIDDEN,
    ),
    # user:password@ in an address. A password may hold "@" (cut at the last one) and, against the rules, "/"
    # (so look past it, unless a port stands there). The bound keeps a hostile text from costing n squared.
    (re.compile(r'(?<=://)[^\s/?#@:"<>]*:(?!\d{1,5}(?:[/?#]|$))[^\s"<>]{0,2048}@'), f"{HIDDEN}@"),
    (re.compile(r'(?<=://)[^\s/?#"<>]*@'), f"{HIDDEN}@"),
    # A header, or the repr of a dictionary of headers.
    (re.compile(rf"(?i)\b({_HEADER})([\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?)[^\r\n\"']+"), rf"\1\2{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9+/=._~-]{16,}"), rf"\1 {HIDDEN}"),
    # A parameter of an address or of a command.
    (re.compile(rf"(?i)((?:{_PARAMETER})=)[^&\s\"'<>#]+"), rf"\1{HIDDEN}"),
    # Tokens that tell by their prefix whose they are.
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-)[A-Za-z0-9_-]{10,}"), HIDDEN),
)
# What every pattern above needs; names, numbers and ids have none of it and are let through quickly.
_MAY_HOLD_SECRET = re.compile(r"[\s:=]|gh[a-z]+_|glpat-")


def redact_text(text: str, limit: int = MAX_TEXT) -> str:
    """The text without credentials, cut to `limit` characters and fit to be encoded."""
    # Masking comes before cutting, or a cut between a password and its "@" would uncover it. For the same
    # reason what lies beyond `limit` is only looked at, even where masking made room for it.
    shown = str(text[: 2 * limit])
    if _MAY_HOLD_SECRET.search(shown):
        for pattern, replacement in _PATTERNS:
            shown = pattern.sub(replacement, shown)
    if not shown.isascii():
        shown = shown.encode("utf-8", "backslashreplace").decode()
    if len(text) > 2 * limit:
        shown = shown[: max(0, len(shown) - limit)]
    if len(shown) > limit or len(text) > 2 * limit:
        return f"{shown[:limit]}… ({len(text)} characters)"
    return shown


def redact(value: object) -> PlainValue:
    """A copy of the value made of JSON's types alone, without secrets and of bounded size."""
    return _RedactionWalk().show(value, 0)


def redact_items(items: Mapping[str, object]) -> dict[str, PlainValue]:
    """The same for the keys and values of one event."""
    return _RedactionWalk().mapping(items, 0)


def describe_error(error: BaseException, *, trace: bool) -> dict[str, PlainValue]:
    """An exception as one value: what it is, why, and (bounded) where it came from."""
    described: dict[str, PlainValue] = {"type": type(error).__name__}
    if isinstance(error, StokerError):
        described["reason"] = str(error.reason)
    described["message"] = redact_text(_text_of(error), MAX_MESSAGE)
    if trace:
        described["trace"] = redact_text("".join(_trace(error)))
    return described


class _RedactionWalk:
    """One walk over a value; it carries what is left of the budget."""

    __slots__ = ("_nodes_left",)

    def __init__(self) -> None:
        self._nodes_left = MAX_NODES

    def show(self, value: object, depth: int) -> PlainValue:
        self._nodes_left -= 1
        match value:
            case None | bool():
                return value
            case Secret():
                return HIDDEN
            case str():
                return redact_text(value)
            case int():
                # Beyond 64 bits no reader of JSON agrees with another.
                return value if value.bit_length() < 64 else f"<integer of {value.bit_length()} bits>"
            case float():
                return value if math.isfinite(value) else str(value)
            case bytes() | bytearray() | memoryview():
                return f"<{len(value)} bytes>"
            case datetime():
                return value.isoformat()
            case BaseException():
                return describe_error(value, trace=False)
        return self._container(value, depth)

    def mapping(self, items: Mapping[str, object], depth: int) -> dict[str, PlainValue]:
        shown: dict[str, PlainValue] = {}
        for key, value in items.items():
            if self._nodes_left <= 0:
                shown["…"] = f"{len(items) - len(shown)} more"
                break
            name = redact_text(_text_of(key), MAX_KEY)
            shown[name] = HIDDEN if value is not None and _is_secret_name(name) else self.show(value, depth)
        return shown

    def _container(self, value: object, depth: int) -> PlainValue:
        if isinstance(value, Mapping | list | tuple | AbstractSet):
            if depth >= MAX_DEPTH:
                return f"<{type(value).__name__} of {len(value)}>"
            if isinstance(value, Mapping):
                return self.mapping(value, depth + 1)
            return self._sequence(value, len(value), depth + 1)
        return redact_text(_text_of(value))

    def _sequence(self, values: Iterable[object], size: int, depth: int) -> list[PlainValue]:
        shown: list[PlainValue] = []
        for value in values:
            if self._nodes_left <= 0:
                shown.append(f"… {size - len(shown)} more")
                break
            shown.append(self.show(value, depth))
        return shown


def _is_secret_name(name: str) -> bool:
    bare = name.lower().replace("-", "").replace("_", "")
    return bare == "secret" or bare.endswith(_SECRET_NAME_PARTS)


def _text_of(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def _trace(error: BaseException) -> Iterator[str]:
    for each in _causes(error):
        yield f"{type(each).__name__}: {redact_text(_text_of(each), MAX_MESSAGE // 8)}\n"
        yield from traceback.format_tb(each.__traceback__, limit=-MAX_FRAMES)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it groups and what led to it, nearest first; a ring of causes ends where it began."""
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < MAX_CAUSES:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            waiting.extend(each.exceptions)
        led_by = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        if led_by is not None:
            waiting.append(led_by)

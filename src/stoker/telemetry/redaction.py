"""Redacts values before they leave the process as text.

Log lines (`stoker.telemetry.logs`), responses of probes and trace attributes go through here. A `Secret`
becomes `<secret>` wherever it is nested; so do values under names such as `Authorization`, credentials
inside URLs and headers, and private keys. The rest is truncated to a size that a log collector accepts.

It works on copies and knows no log format. It must never raise: a value that cannot be shown is replaced
by the name of its type.
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

# Suffixes of names (lower case, without - and _) whose values are credentials.
_SECRET_NAME_PARTS = (
    "authorization", "cookie", "password", "passwd", "passphrase", "token", "apikey", "accesskey",
    "privatekey", "secretkey", "clientsecret", "credential", "credentials", "signature",
)  # fmt: skip

_HEADER = r"(?:proxy-)?authorization|(?:set-)?cookie|(?:private|x-[a-z-]{0,40})-token"
_PARAMETER = r"token|secret|password|passwd|passphrase|signature|api_?key"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # A private key, also with its end cut off.
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
        HIDDEN,
    ),
    # user:password@ in a URL. A password may contain "@" (so match up to the last) and, against the rules,
    # "/" (so match beyond it, unless a port precedes it). The bound prevents quadratic time on hostile text.
    (re.compile(r'(?<=://)[^\s/?#@:"<>]*:(?!\d{1,5}(?:[/?#]|$))[^\s"<>]{0,2048}@'), f"{HIDDEN}@"),
    (re.compile(r'(?<=://)[^\s/?#"<>]*@'), f"{HIDDEN}@"),
    # A header, or the repr of a dictionary of headers.
    (re.compile(rf"(?i)\b({_HEADER})([\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?)[^\r\n\"']+"), rf"\1\2{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9+/=._~-]{16,}"), rf"\1 {HIDDEN}"),
    # A parameter of a URL or of a command.
    (re.compile(rf"(?i)((?:{_PARAMETER})=)[^&\s\"'<>#]+"), rf"\1{HIDDEN}"),
    # Tokens with a known prefix: GitHub, GitLab.
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-)[A-Za-z0-9_-]{10,}"), HIDDEN),
)
# A part of every pattern above; plain names, numbers and ids do not contain it and skip the patterns.
_MAY_HOLD_SECRET = re.compile(r"[\s:=]|gh[a-z]+_|glpat-")


def redact_text(text: str, limit: int = MAX_TEXT) -> str:
    """Return the text without credentials, truncated to `limit` characters and safe to encode."""
    # Redact before truncating: a cut between a password and its "@" would reveal it. For the same reason,
    # text beyond `limit` serves only to match patterns, and is not shown even if redaction made room for it.
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
    """Return a copy that has only JSON types, no secrets and a limited size."""
    return _RedactionWalk().show(value, 0)


def redact_items(items: Mapping[str, object]) -> dict[str, PlainValue]:
    """Redact the keys and values of an event."""
    return _RedactionWalk().mapping(items, 0)


def describe_error(error: BaseException, *, trace: bool) -> dict[str, PlainValue]:
    """Return an exception as a value: type, reason, message and, with `trace`, a limited traceback."""
    described: dict[str, PlainValue] = {"type": type(error).__name__}
    if isinstance(error, StokerError):
        described["reason"] = str(error.reason)
    described["message"] = redact_text(_text_of(error), MAX_MESSAGE)
    if trace:
        described["trace"] = redact_text("".join(_trace(error)))
    return described


class _RedactionWalk:
    """One traversal of a value, with the number of nodes that may still be shown."""

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
                # JSON readers disagree about integers beyond 64 bits.
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
    """Yield the error, its grouped errors and its causes, nearest first; a cycle of causes ends."""
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

"""Parsers for the flat values of the metadata ConfigMap, one per form, each with its own error message."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from stoker.domain.errors import InvalidValue
from stoker.domain.protocol.json import quote_value
from stoker.domain.reasons import Reason

PROTOCOL_VERSION = "1"
MAX_WORD = 1024
MAX_JSON = 512 << 10
MAX_PATTERNS = 1024

_VERSION = re.compile(r"(\d{1,6})(\.\d{1,6}){0,2}")


def parse_version(text: str) -> str:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise InvalidValue(f"{quote_value(text)} is not a version")
    if int(match[1]) > int(PROTOCOL_VERSION):
        raise InvalidValue(
            f"the controller speaks protocol {text} and this agent {PROTOCOL_VERSION}: "
            "the agent's image is older than the controller",
            reason=Reason.PROTOCOL_TOO_NEW,
        )
    return text


def parse_word(text: str) -> str:
    if len(text) > MAX_WORD or not text.isprintable():
        raise InvalidValue(f"{quote_value(text)} is not a line of at most {MAX_WORD} characters")
    return text


def parse_text(text: str) -> str:
    if len(text) > MAX_JSON:
        raise InvalidValue(f"it is larger than {MAX_JSON} bytes")
    return text


def enum_parser(kind: type[StrEnum]) -> Callable[[str], Any]:
    def read(text: str) -> StrEnum:
        try:
            return kind(text)
        except ValueError:
            raise InvalidValue(f"{quote_value(text)} is none of {', '.join(kind)}") from None

    return read


def parse_switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise InvalidValue(f"{quote_value(text)} is neither true nor false")
    return text == "true"


def parse_port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65535:
        raise InvalidValue(f"{quote_value(text)} is not a port from 1 to 65535, or 0 for none")
    return int(text)


def parse_patterns(text: str) -> tuple[str, ...]:
    """Split at commas; a comma inside braces belongs to its glob."""
    if len(text) > MAX_JSON:
        raise InvalidValue(f"it is larger than {MAX_JSON} bytes")
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += (letter == "{") - (letter == "}" and depth > 0)
        if letter == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += letter
    kept = tuple(one.strip() for one in (*parts, part) if one.strip())
    if len(kept) > MAX_PATTERNS:
        raise InvalidValue(f"it holds more than {MAX_PATTERNS} globs")
    return kept

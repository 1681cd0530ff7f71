"""The path of a value in a JSON or YAML file: `.gateways[0].hostname`.

A path is a sequence of keys and indexes. A key that contains a dot, a bracket, a quote or a space is
written as a JSON string in brackets: `.units["flow rate"]`, `.["a.b"]`. The leading dot is optional, as is
the `$` before it that other tools write. A key of digits also names the element of a list
(`.gateways.0.hostname`). There are no wildcards, no filters and no counting from the end: a path names one
value.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from stoker.domain.errors import InvalidValue

MAX_LENGTH = 512
MAX_STEPS = 64

# Compiled on first use: most repositories have no such paths.
_STEP = (
    r"\.(?P<key>[^.\[\]\"\s]+)"
    r"|\.?\[(?:(?P<index>[0-9]{1,9})|(?P<quoted>\"(?:[^\"\\]|\\.)*\"))\]"
)

JsonPathStep = str | int


class JsonPath(NamedTuple):
    """The path of one value in a document; never the document itself."""

    text: str
    """In canonical form."""
    steps: tuple[JsonPathStep, ...]

    @classmethod
    def parse(cls, written: str) -> JsonPath:
        if len(written) > MAX_LENGTH:
            raise InvalidValue(f"path {written[:60]!r}… is longer than {MAX_LENGTH} characters")
        text = written.removeprefix("$")
        if not text.startswith((".", "[")):
            text = f".{text}"
        steps: list[JsonPathStep] = []
        at = 0
        while at < len(text):
            step = re.compile(_STEP).match(text, at)
            if step is None or len(steps) == MAX_STEPS:
                raise InvalidValue(
                    f"path {written!r} cannot be read at {text[at : at + 20]!r}; write it like "
                    '.gateways[0].hostname, and a key with dots or spaces like .["a.b"]'
                )
            steps.append(_parse_step(step, written))
            at = step.end()
        return cls(_format_steps(steps), tuple(steps))

    def above(self, depth: int) -> str:
        """Return the first steps as text for a message; zero steps are the whole document."""
        return _format_steps(self.steps[:depth]) if depth else "the document itself"


def element_index(step: JsonPathStep) -> int | None:
    """Return the index that a step means in a list; None if it is not an index."""
    if isinstance(step, int):
        return step
    return int(step) if step.isascii() and step.isdigit() and len(step) < 10 else None


def _parse_step(match: re.Match[str], written: str) -> JsonPathStep:
    if match["key"] is not None:
        return match["key"]
    if match["index"] is not None:
        return int(match["index"])
    try:
        return str(json.loads(match["quoted"]))
    except ValueError:
        raise InvalidValue(f"path {written!r} has the key {match['quoted']}, which cannot be read") from None


def _format_steps(steps: list[JsonPathStep] | tuple[JsonPathStep, ...]) -> str:
    return "".join(map(_format_step, steps))


def _format_step(step: JsonPathStep) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    plain = re.fullmatch(_STEP, f".{step}")
    return f".{step}" if plain and plain["key"] is not None else f"[{json.dumps(step)}]"

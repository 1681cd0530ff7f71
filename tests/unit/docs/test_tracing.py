"""docs/tracing.md names what is traced: every process, every span and every attribute, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "tracing.md").read_text()
SPANS = {"span", "step", "past", "passed", "laps", "lap"}
NOT_ATTRIBUTES = {"parent"}


def modules() -> Iterator[ast.Module]:
    """What uses the traces; where they are made nothing is called by a name of its own."""
    for file in sorted((ROOT / "src" / "stoker").rglob("*.py")):
        text = file.read_text()
        if "import tracing" in text:
            yield ast.parse(text)


def calls(module: ast.Module, names: set[str]) -> Iterator[ast.Call]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
            yield node


def first_words(names: set[str]) -> set[str]:
    """The first argument of these calls, where it is a text."""
    found = (call.args[0] for module in modules() for call in calls(module, names) if call.args)
    return {one.value for one in found if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def attributes() -> set[str]:
    return {
        name
        for module in modules()
        for call in calls(module, SPANS | {"say"})
        for name in span_names(module, call)
    }


def span_names(module: ast.Module, call: ast.Call) -> Iterator[str]:
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg
        elif isinstance(keyword.value, ast.Name):
            yield from keys_of(module, keyword.value.id)


def keys_of(module: ast.Module, name: str) -> Iterator[str]:
    """The keys of the dictionary under a name: `where`, `place`."""
    for node in ast.walk(module):
        match node:
            case ast.Assign(targets=[ast.Name(id=known)], value=ast.Dict(keys=keys)) if known == name:
                yield from (str(key.value) for key in keys if isinstance(key, ast.Constant))


def test_every_process_that_traces_is_named_and_no_other() -> None:
    row = re.search(r"^\| `OTEL_SERVICE_NAME`.*by default (.*) \|$", PAGE, re.MULTILINE)
    assert row
    named = re.findall(r"`([^`]+)`", row[1])
    assert sorted(named) == sorted(first_words({"begin"}))


def test_every_span_is_drawn_and_no_other() -> None:
    pictures = "".join(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL))
    drawn = set(re.findall(r"\b[a-z]+\.[a-z]+\b", pictures))
    assert len(drawn) > 15
    assert drawn == first_words(SPANS)


def test_every_attribute_is_named_and_no_other() -> None:
    named = re.findall(r"`stoker\.(\w+)`", PAGE)
    assert len(named) == len(set(named))
    assert sorted(named) == sorted(attributes() - NOT_ATTRIBUTES)

"""Deep objects, long keys and letters beyond ASCII come back from their file as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from stoker.reverser.manifest.render import render_object

SHAPES: dict[str, Callable[[Any], Any]] = {
    "maps": lambda inner: {"k": inner},
    "lists": lambda inner: [inner],
    "maps in lists": lambda inner: [{"k": inner}],
    "lists in maps": lambda inner: {"k": [inner]},
}


def nested(shape: str, times: int) -> dict[str, Any]:
    value: Any = {"a": ["x", 7], "b": {"c": 1}}
    for _ in range(times):
        value = SHAPES[shape](value)
    return {"apiVersion": "v1", "kind": "ConfigMap", "spec": value}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("times", [1, 10, 40, 70])
def test_a_nested_object_comes_back_as_it_was(shape: str, times: int) -> None:
    obj = nested(shape, times)
    assert yaml.safe_load(render_object(obj)) == obj


def in_blocks(shape: str) -> int:
    """How many levels are written in lines of their own before the short form begins."""
    return next(times for times in range(1, 200) if b"[" in render_object(nested(shape, times)))


def test_maps_and_lists_leave_the_block_form_at_the_same_depth() -> None:
    assert in_blocks("maps") == in_blocks("lists")


@pytest.mark.parametrize("length", [127, 128, 129, 254, 255, 256, 257, 1023, 1024, 1025])
def test_a_long_key_comes_back_as_it_was(length: int) -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k" * length: "v", "é" * length: "v"}}
    assert yaml.safe_load(render_object(obj)) == obj


@pytest.mark.parametrize(
    "letter", ["\x7f", "\x80", "\x85", "\xa0", "\xff", "\u0100", "\u2028", "\ufeff", "\U0001f600"]
)
def test_a_letter_comes_back_as_it_was(letter: str) -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": f"a{letter}b", f"k{letter}": "\n" + letter}}
    assert yaml.safe_load(render_object(obj)) == obj

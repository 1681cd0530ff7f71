"""Laws of an object's file: it reads as the object, and its path is the object's alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.paths import MAX_PART_BYTES, collision_key
from stoker.reverser.manifest.path import ManifestKey, manifest_path, object_at_path
from stoker.reverser.manifest.render import render_object
from stoker.reverser.manifest.sanitize import sanitize

TRAPS: list[str] = json.loads((Path(__file__).parents[1] / "data" / "yaml_traps.json").read_text())

texts = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    | st.sampled_from(TRAPS)
    | st.text(" \t\n-:#,.'\"\\|>{}[]&*!%@`~?=<_+/0189eEnoxyN\r", max_size=16)
)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)
objects = st.dictionaries(texts | st.sampled_from(["apiVersion", "kind", "metadata"]), values, max_size=5)


@given(objects)
def test_a_file_is_read_as_the_object_by_pyyaml(obj: dict[str, Any]) -> None:
    content = render_object(obj)
    assert same(yaml.load(content, yaml.CSafeLoader), obj)
    text = content.decode()
    assert text.endswith("\n")
    assert "\r" not in text


@given(objects, objects)
def test_files_are_equal_only_where_objects_are(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (render_object(one) == render_object(other)) is same(one, other)
    shuffled = dict(sorted(one.items(), reverse=True))
    assert render_object(shuffled) == render_object(one)


@given(objects, objects)
def test_what_the_server_keeps_makes_no_difference(obj: dict[str, Any], status: dict[str, Any]) -> None:
    obj = {**obj, "metadata": {"name": "x"}}
    kept = {"resourceVersion": "9", "uid": "u", "generation": 4, "managedFields": [status]}
    lived = {**obj, "status": status, "metadata": {"name": "x", **kept}}
    assert render_object(sanitize(lived)) == render_object(sanitize(obj))
    assert sanitize(sanitize(lived)) == sanitize(lived)


def same(one: Any, other: Any) -> bool:
    """Equal with their types: true is not 1, and 1 is not 1.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) and str(one) == str(other)


labels = st.from_regex(r"[a-z]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True) | st.sampled_from(
    ["con", "aux", "com1", "core", "v1", "nul"]
)
groups = st.just("") | st.just("core") | st.lists(labels, min_size=1, max_size=3).map(".".join)
# What the API calls a path segment: RBAC lets names be anything but this.
segments = st.text(
    st.characters(exclude_characters="/%", exclude_categories=["Cs"]), min_size=1, max_size=40
).filter(lambda text: text not in (".", ".."))
odd = st.sampled_from(
    [
        ".git",
        "aux",
        "AUX",
        "aux.",
        "a:b",
        "A",
        "a",
        "é",
        "e\u0301",
        "x" * 253,
        "É" * 60,
        "a+",
        "+a",
        "x" * 200 + "aux",
    ]
)
names = (
    labels
    | segments
    | odd
    | st.text("aA.:+é", min_size=1, max_size=260).filter(lambda t: t not in (".", ".."))
)
keys = st.builds(ManifestKey, groups, labels, labels, st.just("") | labels, names)
bases = st.sampled_from(["", "b", "clusters/prod"])


@given(keys, bases)
def test_a_path_leads_back_to_its_object(key: ManifestKey, base: str) -> None:
    path = manifest_path(key, base)
    assert object_at_path(path, base) == key
    assert path == path.lower()
    assert path.isascii()
    assert all(
        len(part) <= MAX_PART_BYTES and part[0] != "." and part[-1] not in ". " for part in path.split("/")
    )
    assert all(
        part.partition(".")[0] not in ("con", "aux", "nul", "com1") for part in path[len(base) :].split("/")
    )


@given(st.lists(keys, min_size=2, max_size=30, unique=True))
def test_two_objects_never_share_a_path_nor_hide_each_other(objects: list[ManifestKey]) -> None:
    paths = [manifest_path(key, "b") for key in objects]
    assert len({collision_key(path) for path in paths}) == len(objects)
    folders = {parent for path in paths for parent in path.ancestors()}
    assert not folders & set(paths)


@given(st.text("abv1/.%+-2ef", max_size=40).map(lambda text: f"b/{text}.yaml"))
def test_a_path_is_ours_only_if_it_is_the_one_we_would_give(path: str) -> None:
    key = object_at_path(path, "b")
    assert key is None or manifest_path(key, "b") == path

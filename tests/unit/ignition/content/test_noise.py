"""Noise: a gateway's rewrites of its own resources, and real changes."""

from __future__ import annotations

import json

import pytest

from stoker.ignition.content.noise import ResourceNoise

NOISE = ResourceNoise()
VIEW = "projects/Line 1/com.inductiveautomation.perspective/views/Overview"


def test_only_folders_in_which_nothing_else_changed_are_doubtful() -> None:
    paths = [
        f"{VIEW}/resource.json",
        f"{VIEW}/thumbnail.png",
        "projects/a/resource.json",
        "projects/a/view.json",
        "projects/b/thumbnail.png",
        "config/c/tags/unary-resource.json",
        "d/config.json",
        "resource.json/x",
    ]
    assert NOISE.doubtful(paths) == {
        VIEW: (f"{VIEW}/resource.json", f"{VIEW}/thumbnail.png"),
        "projects/b": ("projects/b/thumbnail.png",),
        "config/c/tags": ("config/c/tags/unary-resource.json",),
    }


def test_what_changes_deeper_in_the_resource_counts_too() -> None:
    assert NOISE.doubtful(["a/resource.json", "a/files/x.bin"]) == {}
    assert NOISE.doubtful(["a/resource.json", "a/b/resource.json", "ab/x"]).keys() == {"a", "a/b"}
    assert NOISE.doubtful([]) == {}


def manifest(**other: object) -> bytes:
    fields = {
        "scope": "G",
        "version": 1,
        "restricted": False,
        "overridable": True,
        "files": ["view.json"],
        "attributes": {
            "lastModification": {"actor": "ann", "timestamp": "2024-01-01T00:00:00Z"},
            "lastModificationSignature": "aa",
            "hint": {"x": 1},
        },
    }
    return json.dumps({**fields, **other}).encode()


@pytest.mark.parametrize(
    "after",
    [
        manifest(attributes={"hint": {"x": 1}}),
        manifest(
            attributes={
                "hint": {"x": 1},
                "lastModificationSignature": "bb",
                "lastModification": {"actor": "external"},
            }
        ),
        manifest(files=["thumbnail.png", "view.json"]),
        manifest().replace(b" ", b""),
    ],
)
def test_the_last_actor_means_nothing(after: bytes) -> None:
    assert NOISE.means_nothing("resource.json", manifest(), after)
    assert NOISE.means_nothing("unary-resource.json", after, manifest())


@pytest.mark.parametrize(
    "after",
    [
        manifest(scope="A"),
        manifest(version=2),
        manifest(version="1"),
        manifest(version=True),
        manifest(restricted=0),
        manifest(locked=False),
        manifest(files=[]),
        manifest(files=["view.json", "data.bin"]),
        manifest(attributes={}),
        manifest(attributes={"hint": {"x": 2}}),
        manifest(documentation="x"),
        b"{}",
        b"{",
        b"",
        None,
    ],
)
def test_anything_else_is_a_change(after: bytes | None) -> None:
    assert not NOISE.means_nothing("resource.json", manifest(), after)
    assert not NOISE.means_nothing("resource.json", after, manifest())


def test_a_thumbnail_alone_means_nothing_and_no_other_file_does() -> None:
    for before, after in ((b"a", b"b"), (None, b"b"), (b"a", None)):
        assert NOISE.means_nothing("thumbnail.png", before, after)
        assert not NOISE.means_nothing("view.json", before, after)
    assert not NOISE.means_nothing("view.json", b"{}", b"{ }")

"""A file in git says the same as ours, or describes an object, by its values and not by its bytes."""

from __future__ import annotations

import pytest

from stoker.reverser.manifest.compare import describes, has_same_values
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.manifest.render import render_object

KEY = ManifestKey("", "v1", "configmaps", "shop", "prices")
OURS = render_object(
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "prices", "namespace": "shop"},
        "data": {"bread": "2", "milk": "1"},
    }
)
BOMB = b"a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\n" + b"".join(
    b"%c: &%c [*%c, *%c, *%c, *%c]\n" % ((n, n) + (n - 1,) * 4) for n in range(ord("c"), ord("n"))
)


@pytest.mark.parametrize(
    "theirs",
    [
        OURS,
        b"# the bakery's, ask Ada\n" + OURS,
        OURS.replace(b"bread:", b"# since May\n  bread:"),
        (
            b"{kind: ConfigMap, apiVersion: v1, data: {milk: '1', bread: \"2\"}, "
            b"metadata: {namespace: shop, name: prices}}\n"
        ),
        b"---\n" + OURS,
    ],
)
def test_comments_order_and_style_make_no_difference(theirs: bytes) -> None:
    assert has_same_values(theirs, OURS)


@pytest.mark.parametrize(
    "theirs",
    [
        OURS.replace(b'"2"', b'"3"'),
        OURS.replace(b'"2"', b"2"),  # a number is no text
        OURS + b"---\n" + OURS,
        OURS.replace(b"  milk", b"  bread"),  # twice
        b"",
        b"\xff",
        b"- a list\n",
        BOMB,
        b"[" * 100_000,
        b"x: !!python/object:os.system {}\n",
    ],
)
def test_other_values_and_what_cannot_be_read_are_a_difference(theirs: bytes) -> None:
    assert not has_same_values(theirs, OURS)


def test_true_is_not_one_and_one_is_not_a_float() -> None:
    ours = render_object({"apiVersion": "v1", "kind": "X", "spec": {"count": 1}})
    assert not has_same_values(ours.replace(b"count: 1", b"count: true"), ours)
    assert not has_same_values(ours.replace(b"count: 1", b"count: 1.0"), ours)


def test_the_comments_above_a_redacted_secret_are_no_values() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    assert has_same_values(
        render_object(secret), render_object(secret, ["data, whose values are not written: word"])
    )


def test_a_manifest_of_the_object_is_recognised_with_comments_too() -> None:
    assert describes(OURS, KEY, "ConfigMap")
    assert describes(b"# by hand\n" + OURS, KEY)


@pytest.mark.parametrize(
    "content",
    [
        OURS.replace(b"name: prices", b"name: other"),
        OURS.replace(b"namespace: shop", b"namespace: elsewhere"),
        OURS.replace(b"  namespace: shop\n", b""),
        OURS.replace(b"kind: ConfigMap", b"kind: Secret"),
        OURS.replace(b"apiVersion: v1", b"apiVersion: v2"),
        b"apiVersion: v1\n",
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: prices\n",
        OURS + b"---\n" + OURS,
        b"not yaml: [",
        BOMB,
        b"",
    ],
)
def test_everything_else_at_its_path_is_not_the_objects(content: bytes) -> None:
    assert not describes(content, KEY, "ConfigMap")

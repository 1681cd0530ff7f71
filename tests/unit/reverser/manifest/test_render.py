"""The canonical text of an object, character by character."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.domain.errors import InvalidValue
from stoker.reverser.manifest.render import MAX_DEPTH, render_object

TRAPS: list[str] = json.loads((Path(__file__).parents[3] / "data" / "yaml_traps.json").read_text())

DEPLOYMENT = {
    "spec": {
        "template": {
            "spec": {
                "containers": [
                    {"name": "web", "image": "nginx:1.25", "args": ["--on", "yes"], "resources": {}},
                    {"name": "aside", "command": [], "env": [{"name": "A", "value": "1"}]},
                ],
            },
        },
        "replicas": 2,
        "paused": False,
    },
    "kind": "Deployment",
    "metadata": {"namespace": "shop", "name": "web", "annotations": {"note": "a\n\nb\n"}},
    "apiVersion": "apps/v1",
    "aardvark": None,
}


def test_the_head_comes_first_and_the_rest_is_sorted() -> None:
    assert (
        render_object(DEPLOYMENT).decode()
        == """\
apiVersion: apps/v1
kind: Deployment
metadata:
  annotations:
    note: |
      a

      b
  name: web
  namespace: shop
aardvark: null
spec:
  paused: false
  replicas: 2
  template:
    spec:
      containers:
      - args:
        - "--on"
        - "yes"
        image: nginx:1.25
        name: web
        resources: {}
      - command: []
        env:
        - name: A
          value: "1"
        name: aside
"""
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("two words", "two words"),
        ("100m", "100m"),
        ("5Gi", "5Gi"),
        ("YWRtaW4=", "YWRtaW4="),
        ("/usr/bin:/bin", "/usr/bin:/bin"),
        ("Yes", '"Yes"'),
        ("n", '"n"'),
        ("1e3", '"1e3"'),
        ("12:30:45", '"12:30:45"'),
        ("0o7", '"0o7"'),
        ("", '""'),
        ("a: b", '"a: b"'),
        ("a #b", '"a #b"'),
        ("Grüße", '"Grüße"'),
        ("\x85\ufeff\u202e\U0001f600", '"\\x85\\ufeff\\u202e\U0001f600"'),
        ("\U0010ffff", '"\\U0010ffff"'),
        ("a\nb", "|-\n  a\n  b"),
        ("a\n\n", "|+\n  a\n"),
        (" a\nb", '" a\\nb"'),
        ("a\r\nb", '"a\\r\\nb"'),
    ],
)
def test_a_text_has_the_plainest_form_that_every_reader_understands(text: str, line: str) -> None:
    assert render_object({"a": text}).decode() == f"a: {line}\n"


@pytest.mark.parametrize(
    ("number", "line"),
    [(1e30, "1.0e+30"), (1e-7, "1.0e-07"), (1.5e300, "1.5e+300"), (3.0, "3.0"), (-1, "-1")],
)
def test_a_number_has_the_dot_that_some_readers_want(number: float, line: str) -> None:
    assert render_object({"a": number}).decode() == f"a: {line}\n"


@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
def test_every_trap_is_read_as_itself_by_pyyaml(loader: Any) -> None:
    obj = {"kind": "X", "values": TRAPS, "keys": dict.fromkeys(TRAPS, "v"), "maps": [{t: [t]} for t in TRAPS]}
    assert yaml.load(render_object(obj), loader) == obj  # noqa: S506 both are safe


def test_the_order_of_a_map_does_not_matter() -> None:
    turned = dict(reversed(DEPLOYMENT.items()))
    assert render_object(turned) == render_object(DEPLOYMENT)


def test_comments_stay_comments() -> None:
    content = render_object({"kind": "X"}, ["data: a, b", "evil\nkind: Y\x85\u2028"])
    assert content == b"# data: a, b\n# evil kind: Y  \nkind: X\n"


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "\ud800", b"bytes", (1,), {1, 2}])
def test_what_json_does_not_know_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidValue):
        render_object({"a": bad})


def test_an_object_nested_beyond_measure_is_refused_and_its_text_never_explodes() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH - 1):
        deep = {"a": [deep]} if isinstance(deep, int) else {"a": deep}
    assert len(render_object({"a": deep})) < 20_000
    for _ in range(3):
        deep = [deep]
    with pytest.raises(InvalidValue, match="nested deeper"):
        render_object({"a": deep})

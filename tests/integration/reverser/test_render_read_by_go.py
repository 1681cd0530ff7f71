"""Go's parsers, which `kubectl`, Helm, Flux and Argo use, read the rendered YAML as the same values.

Texts that trap readers of YAML are put where objects have texts, alone and in
combination; the documents go through `sigs.k8s.io/yaml` and both generations of the
parser below it, at the versions that the test cluster is pinned to.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from stoker.reverser.manifest.render import render_object
from stoker_testkit.assets.cache import cache_root, pin
from stoker_testkit.assets.go_toolchain import go_command
from stoker_testkit.file_lock import locked

pytestmark = pytest.mark.services

READER = """
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	v3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// Reads documents that a NUL ends; writes a line of JSON for each parser and each document.
func main() {
	all, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	for _, document := range bytes.Split(bytes.TrimSuffix(all, []byte{0}), []byte{0}) {
		text, err := yaml.YAMLToJSONStrict(document)
		report(out, text, err)
		var value any
		err = v3.Unmarshal(document, &value)
		if err == nil {
			text, err = json.Marshal(value)
		}
		report(out, text, err)
	}
}

func report(out *bufio.Writer, text []byte, err error) {
	if err != nil {
		text, _ = json.Marshal(map[string]string{"error of the reader": err.Error()})
	}
	fmt.Fprintf(out, "%s\\n", text)
}
"""

TRAPS: list[str] = [
    *json.loads((Path(__file__).parents[2] / "data" / "yaml_traps.json").read_text()),
    *("x" * 3000, "long " * 600, "x\n" * 600, ("y" * 2000 + "\n") * 2, "a\n" + " " * 900),
]
ATOMS: list[Any] = [
    *(None, True, False, 0, 1, -1, 8, 64, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), 0.5, -0.5),
    *(1.0, 1e16, 1e21, 1e22, -1e22, 1e-7, 1.5e300, 5e-324, 3.14159, 100.0),
    *({}, [], [[]], [{}], {"a": {}}, {"a": []}),
]  # fmt: skip


@pytest.fixture(scope="module")
def reader() -> Path:
    """The program above, built once for these pins and kept beside the cluster's binaries."""
    modules = {file: pin("kubernetes", file) for file in ("go.mod", "go.sum")}
    digest = hashlib.sha256(b"\0".join((READER.encode(), *modules.values()))).hexdigest()[:16]
    binary = cache_root() / "yaml" / digest
    binary.parent.mkdir(parents=True, exist_ok=True)
    with locked(binary.with_suffix(".lock")):
        if not binary.exists():
            with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
                _build(Path(folder), modules, binary)
    return binary


def _build(folder: Path, modules: dict[str, bytes], binary: Path) -> None:
    for name, content in {**modules, "main.go": READER.encode()}.items():
        (folder / name).write_bytes(content)
    own = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    argv: list[str | Path] = [
        go_command(cache_root()),
        "build",
        "-mod=readonly",
        "-o",
        folder / "reader",
        ".",
    ]
    made = subprocess.run(
        argv, cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    (folder / "reader").rename(binary)


def read_back(reader: Path, objects: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    documents = b"".join(render_object(each) + b"\0" for each in objects)
    output = subprocess.run([reader], input=documents, capture_output=True, check=True, timeout=60).stdout
    values = [json.loads(line) for line in output.splitlines()]
    return list(zip(values[::2], values[1::2], strict=True))


def check(reader: Path, objects: list[dict[str, Any]]) -> None:
    wrong = [
        (each, parser, got)
        for each, read in zip(objects, read_back(reader, objects), strict=True)
        for parser, got in zip(("sigs.k8s.io/yaml", "yaml.v3"), read, strict=True)
        if not same(got, each)
    ]
    assert not wrong, (
        f"{len(wrong)} misread, the first: {wrong[0]}\n{render_object(wrong[0][0]).decode()[:2000]}"
    )


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 and 1.0 are one number, true and 1 are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    return type(one) is type(other) and bool(one == other)


def config_map(data: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {}}, "data": data}


def test_every_trap_is_read_as_the_text_that_it_is(reader: Path) -> None:
    places = [
        *(config_map({"a": trap, "b": "after"}) for trap in TRAPS),
        *(config_map({"before": 1, trap: "value"}) for trap in TRAPS),
        *(config_map({trap: {"in": ["x"]}, "other": [{trap: trap}]}) for trap in TRAPS),
        *({"kind": "X", "list": [trap, [trap, [trap]], {"k": trap, "l": 1}], "z": trap} for trap in TRAPS),
        *({"kind": "X", "last": trap} for trap in TRAPS),
    ]
    check(reader, places)


def test_every_value_keeps_its_type_and_its_size(reader: Path) -> None:
    check(reader, [{"kind": "X", "a": atom, "b": [atom, [atom]], "c": {"d": atom}} for atom in ATOMS])


def test_long_keys_and_deep_objects_are_read(reader: Path) -> None:
    deep: Any = "y"
    for level in range(180):
        deep = {"no": deep} if level % 3 else [deep, {"k" * 1500: "v"}]
    keys = ["k" * 253, "k" * 317, "k" * 890, "k" * 1024, "k" * 5000, '"' * 500, "é" * 700]
    shapes: list[Any] = [
        "text",
        "a\nb\n",
        {"a": 1},
        ["a", {"b": 1}],
        [],
        {},
        {"l" * 2000: {"m" * 2000: [1, [2]]}},
    ]
    objects: list[dict[str, Any]] = [
        {"kind": "X", key: shape, "z": [{key: shape}]} for key in keys for shape in shapes
    ]
    check(reader, [*objects, {"kind": "X", "deep": deep}])


def test_thousands_of_random_documents_are_read_as_the_same_values(reader: Path) -> None:
    rng = random.Random(11)  # noqa: S311 the same documents each time
    alphabet = "aZ09 \t\n\n-:#,.'\"\\|>{}[]&*!%@`~?=<_+/é\u2028\x85\ufeff\U0001f600\r\x00"

    def text() -> str:
        if rng.random() < 0.5:
            return rng.choice(TRAPS)
        return "".join(rng.choices(alphabet, k=rng.randrange(1, 24)))

    def value(depth: int) -> Any:
        kind = rng.random()
        if depth > 4 or kind < 0.5:
            return text() if kind < 0.4 else rng.choice(ATOMS)
        if kind < 0.75:
            return {text(): value(depth + 1) for _ in range(rng.randrange(5))}
        return [value(depth + 1) for _ in range(rng.randrange(5))]

    check(reader, [{"kind": "X", "spec": value(0), text(): value(0)} for _ in range(4000)])


def test_the_reader_would_have_noticed(reader: Path) -> None:
    """A plain `no` is read as false: the comparison can fail."""
    output = subprocess.run([reader], input=b"a: no\n\0", capture_output=True, check=True, timeout=60).stdout
    assert json.loads(output.splitlines()[0]) == {"a": False}
    assert not same({"a": False}, {"a": "no"})

"""The manifests that we show are complete and right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.api.codegen.crd import schema_for
from stoker.api.codegen.reference_page import field_rows
from stoker.api.manifests.codec import to_wire
from stoker.api.manifests.files import read_manifests
from stoker.api.manifests.yaml import load_documents
from stoker.api.registry import KINDS, CustomResourceKind

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml")) + sorted((ROOT / "tests" / "data" / "manifests").glob("*.yaml"))


def written(value: Any, path: str) -> Iterator[str]:
    """The path of every field in a manifest, with `[]` for items."""
    if isinstance(value, dict):
        for name, below in value.items():
            at = f"{path}.{name}" if path else name
            yield at
            yield from written(below, at)
    if isinstance(value, list):
        for item in value:
            yield from written(item, f"{path}[]")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_full_example_shows_every_field(kind: CustomResourceKind) -> None:
    shown = {
        path
        for manifest in load_documents((EXAMPLES / f"{kind.singular}.yaml").read_bytes())
        for path in written(manifest, "")
    }
    properties: Any = schema_for(kind)["properties"]
    fields = {
        row.path
        for top in ("spec", "status")
        if top in properties
        for row in field_rows(properties[top], top)
    }
    assert fields - shown == set()


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_a_manifest_survives_the_types(file: Path) -> None:
    data = file.read_bytes()
    documents: list[Any] = list(load_documents(data))
    resources = read_manifests(data, file.name)
    assert len(resources) == len(documents) > 0
    for resource, document in zip(resources, documents, strict=True):
        wire = to_wire(resource)
        assert wire["metadata"] == document["metadata"]
        assert wire.get("status") == document.get("status")
        assert (wire["apiVersion"], wire["kind"]) == (document["apiVersion"], document["kind"])
        assert _without_declared_defaults(wire, document) == document["spec"]


def _without_declared_defaults(wire: Any, document: Any) -> Any:
    spec = dict(wire["spec"])
    if wire["kind"] == "GitDestination":
        spec = {
            name: value
            for name, value in spec.items()
            if name in document["spec"] or value not in (False, "Always", "Exclude")
        }
    if wire["kind"] == "SyncProfile":
        pairs = zip(spec["mappings"], document["spec"]["mappings"], strict=True)
        spec["mappings"] = [{name: ours[name] for name in ours if name in theirs} for ours, theirs in pairs]
    return spec

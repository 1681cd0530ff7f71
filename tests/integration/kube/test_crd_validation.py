"""Invalid objects are refused with the name of the field: by the API server, and in a file just the same."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.inspect import DictType, StructType, VarTupleType

from stoker.api.field_docs import FieldRule
from stoker.api.manifests.files import decode_manifest
from stoker.api.manifests.yaml import load_documents
from stoker.api.registry import KINDS, kind_for
from stoker.api.schema import SchemaNode, fields_of, rules_of, unwrap_type
from stoker.domain.errors import InvalidValue
from stoker_testkit.cluster.cluster_access import ApiAnswer, ClusterAccess

ROOT = Path(__file__).parents[3]

# A manifest is plain JSON; its shape is what these tests are about.
Manifest = dict[str, Any]


def table(file: str) -> list[Manifest]:
    (rows,) = load_documents((ROOT / "tests" / "data" / file).read_bytes())
    assert isinstance(rows, list)
    return [row for row in rows if isinstance(row, dict)]


REFUSED, ACCEPTED = table("refused.yaml"), table("accepted.yaml")


def sentence(row: Manifest) -> str:
    verb = "refuses" if "refuses" in row else "accepts"
    return f"{row['kind']} {verb} {row[verb]}"


def variant(row: Manifest) -> Manifest:
    """The smallest manifest of the kind with the values of the row in it."""
    (found,) = load_documents((ROOT / "examples" / f"{row['kind'].lower()}-minimal.yaml").read_bytes())
    assert isinstance(found, dict)
    manifest: Manifest = copy.deepcopy(found)
    for path, value in row["set"].items():
        *blocks, name = path.split(".")
        block = manifest
        for step in blocks:
            block = block.setdefault(step, {})
        block.pop(name, None)
        if value is not None:
            block[name] = value
    return manifest


def dry_run(cluster: ClusterAccess, manifest: Manifest, namespace: str) -> ApiAnswer:
    kind = kind_for(manifest["apiVersion"], manifest["kind"])
    scope = f"/namespaces/{namespace}" if kind.namespaced else ""
    body = copy.deepcopy(manifest)
    body["metadata"].pop("namespace", None)
    path = f"/apis/{kind.api_version}{scope}/{kind.plural}?dryRun=All&fieldValidation=Strict"
    return cluster.request("POST", path, body)


@pytest.fixture(scope="module")
def place(kinds: ClusterAccess) -> str:
    """Dry runs leave nothing behind, so one namespace serves them all."""
    return "default"


@pytest.mark.parametrize("row", REFUSED, ids=sentence)
def test_refused_by_the_api_server(kinds: ClusterAccess, place: str, row: Manifest) -> None:
    answer = dry_run(kinds, variant(row), place)
    assert answer.status in (400, 422), f"accepted: {answer.body.decode()}"
    assert row["says"] in json.loads(answer.body)["message"]


@pytest.mark.parametrize("row", REFUSED, ids=sentence)
def test_refused_in_a_file(row: Manifest) -> None:
    with pytest.raises(InvalidValue) as refusal:
        decode_manifest(variant(row), file="plant.yaml")
    assert refusal.value.message.startswith("plant.yaml: ")
    assert row["says"] in refusal.value.message


@pytest.mark.parametrize("row", ACCEPTED, ids=sentence)
def test_accepted_by_the_api_server_and_in_a_file(kinds: ClusterAccess, place: str, row: Manifest) -> None:
    manifest = variant(row)
    answer = dry_run(kinds, manifest, place)
    assert answer.status == 201, answer.body.decode()
    assert decode_manifest(manifest).metadata.name == manifest["metadata"]["name"]


def test_every_rule_is_broken_by_a_variant() -> None:
    sentences = {rule.says for kind in KINDS for rule in _rules_below(kind.model)}
    result = ""
    for row in REFUSED:
        with pytest.raises(InvalidValue) as refusal:
            decode_manifest(variant(row))
        result += refusal.value.message
    assert {says for says in sentences if says not in result} == set()
    assert len(sentences) > 40


def _rules_below(model: type[msgspec.Struct]) -> Iterator[FieldRule]:
    """The rules of a kind and of everything in its spec; a status is ours and never refused to a person."""
    yield from rules_of(model)
    for one in fields_of(model):
        if one.name not in ("metadata", "status"):
            yield from _rules_in(unwrap_type(one.type))


def _rules_in(node: SchemaNode) -> Iterator[FieldRule]:
    yield from node.rules
    match node.type:
        case StructType():
            yield from _rules_below(node.type.cls)
        case VarTupleType():
            yield from _rules_in(unwrap_type(node.type.item_type))
        case DictType():
            yield from _rules_in(unwrap_type(node.type.value_type))

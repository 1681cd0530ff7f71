"""The schemas are complete, bounded and teach; what the API server would refuse is refused here first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from stoker.api.codegen.crd import crd_for, schema_for
from stoker.api.codegen.reference_page import field_rows
from stoker.api.registry import KINDS, CustomResourceKind
from stoker.api.schema import JsonSchema

by_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def nodes(schema: Any, path: str = "") -> Iterator[tuple[str, JsonSchema]]:
    """Every schema inside a schema."""
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from nodes(below, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def own(kind: CustomResourceKind) -> Iterator[tuple[str, JsonSchema]]:
    """The parts of a kind's schema that are ours: header and metadata are the server's."""
    properties: Any = schema_for(kind)["properties"]
    for top in ("spec", "status"):
        if top in properties:
            yield from nodes(properties[top], top)


@by_kind
def test_every_field_has_a_description(kind: CustomResourceKind) -> None:
    properties: Any = schema_for(kind)["properties"]
    fields = [
        row for top in ("spec", "status") if top in properties for row in field_rows(properties[top], top)
    ]
    assert len(fields) > 3
    for row in fields:
        text = row.schema["description"]
        assert isinstance(text, str)
        assert len(text) > 10, row.path
        assert text.endswith("."), row.path


@by_kind
def test_everything_is_bounded_so_that_rules_can_be_priced(kind: CustomResourceKind) -> None:
    for path, node in own(kind):
        if node.get("type") == "array":
            assert "maxItems" in node, path
            assert node["x-kubernetes-list-type"] in ("atomic", "set", "map"), path
        if node.get("type") == "string" and "enum" not in node:
            assert "maxLength" in node, path
        if "additionalProperties" in node:
            assert "maxProperties" in node, path


@by_kind
def test_keys_of_a_list_are_required_in_its_items(kind: CustomResourceKind) -> None:
    for path, node in own(kind):
        keys: Any = node.get("x-kubernetes-list-map-keys", [])
        items: Any = node.get("items", {})
        assert set(keys) <= set(items.get("required", [])), path


@by_kind
def test_there_are_no_references_and_no_open_objects(kind: CustomResourceKind) -> None:
    text = json.dumps(crd_for(kind))
    assert "$ref" not in text
    assert "x-kubernetes-preserve-unknown-fields" not in text


@by_kind
def test_a_crd_is_small_enough_for_kubectl_apply(kind: CustomResourceKind) -> None:
    # kubectl apply keeps a copy in an annotation, and annotations together may have 256 KiB.
    assert len(json.dumps(crd_for(kind))) < 200 * 1024


@by_kind
def test_every_refusal_is_a_sentence(kind: CustomResourceKind) -> None:
    for path, node in own(kind):
        rules: Any = node.get("x-kubernetes-validations", [])
        for rule in rules:
            assert 10 < len(rule["message"]) < 300, path
            assert "\n" not in rule["rule"], path


@by_kind
def test_no_pattern_uses_a_class_that_means_something_else_to_python(kind: CustomResourceKind) -> None:
    for path, node in own(kind):
        rules: Any = node.get("x-kubernetes-validations", [])
        assert not [rule for rule in rules if re.search(r"\\[sSwWdDbB]", rule["rule"])], path


def test_only_these_fields_have_a_default_in_the_schema() -> None:
    declared = {
        f"{kind.name} {path}": node["default"]
        for kind in KINDS
        for path, node in own(kind)
        if "default" in node
    }
    assert declared == {
        "GitDestination spec.exclusiveMode": False,
        "GitDestination spec.prune": "Always",
        "GitDestination spec.secretPolicy": "Exclude",
        **{f"{kind.name} status": {"observedGeneration": -1} for kind in KINDS if kind.has_status},
    }


def test_only_these_fields_keep_a_written_null() -> None:
    for name in ("IgnitionSync", "Stoker"):
        (kind,) = (kind for kind in KINDS if kind.name == name)
        assert {path for path, node in own(kind) if node.get("nullable")} == {
            "spec.gateway.tls",
            "spec.snapshots",
            "spec.bidirectional",
            "spec.deployment",
        }


def test_the_schema_requires_only_what_cannot_be_inherited() -> None:
    (kind,) = (kind for kind in KINDS if kind.name == "IgnitionSync")
    parts = dict(own(kind))
    assert parts["spec"]["required"] == ["git"]
    assert parts["spec.git"]["required"] == ["repo", "ref"]


def test_a_base_can_supply_every_policy_of_an_ignition_sync() -> None:
    fields: dict[str, Any] = {kind.name: dict(own(kind))["spec"]["properties"] for kind in KINDS}
    only_its_own = {
        "inheritsFrom",
        "siteNumber",
        "paused",
        "rollback",
        "deployment",
        "autoRollback",
        "webhookNamespaces",
    }
    assert set(fields["IgnitionSync"]) - set(fields["IgnitionSyncBase"]) == only_its_own
    assert set(fields["IgnitionSyncBase"]) <= set(fields["IgnitionSync"])

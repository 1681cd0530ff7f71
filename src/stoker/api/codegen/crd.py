"""The CustomResourceDefinition of a kind."""

from __future__ import annotations

from typing import cast

from stoker.api.registry import CATEGORY, CustomResourceKind, PrinterColumn
from stoker.api.schema import JsonSchema, SchemaBuilder


def crd_for(kind: CustomResourceKind) -> JsonSchema:
    """Return the CustomResourceDefinition for `kubectl apply`."""
    version: JsonSchema = {"name": kind.version, "served": True, "storage": True}
    if kind.has_status:
        version["subresources"] = {"status": {}}
    version["additionalPrinterColumns"] = [_column(one) for one in kind.columns]
    version["schema"] = {"openAPIV3Schema": schema_for(kind)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{kind.group}",
            "labels": {"app.kubernetes.io/part-of": "stoker"},
        },
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short_names),
                "categories": [CATEGORY],
            },
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }


def schema_for(kind: CustomResourceKind) -> JsonSchema:
    """Return the schema of the whole object; the API server itself checks header and metadata."""
    schema = SchemaBuilder(kind.name).block(kind.model)
    properties = cast("dict[str, JsonSchema]", schema["properties"])
    header: JsonSchema = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    parts = header | {name: properties[name] for name in ("spec", "status") if name in properties}
    schema["properties"] = parts
    if kind.has_status:
        status = cast("JsonSchema", parts["status"])
        # kstatus treats an object without conditions as ready, and a new object has none until the
        # controller has seen it. An observed generation of -1 marks it as in progress.
        status["default"] = {"observedGeneration": -1}
    schema["required"] = ["spec"]
    return schema


def _column(one: PrinterColumn) -> JsonSchema:
    column: JsonSchema = {"name": one.name, "type": one.type, "jsonPath": one.path}
    if one.description:
        column["description"] = one.description
    if one.wide:
        column["priority"] = 1
    return column

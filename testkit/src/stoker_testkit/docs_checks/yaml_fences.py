"""Classifies a yaml fence of a page: manifests, values of the chart, a part of either, or third-party YAML.

A first line that is a comment says which (`docs/contributing/documentation.md`). Manifests
are completed here, so that a real API server can be asked about them; asking is the caller's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from stoker.api import registry
from stoker.api.manifests.yaml import load_documents
from stoker.domain.errors import InvalidValue
from stoker_testkit.docs_checks.allowlist import foreign_key
from stoker_testkit.docs_checks.markdown_page import ROOT

VALUES = "values of the chart"
_FILE = re.compile(r"# ([\w./-]+\.(?:ya?ml|json))(?:, part of: \w+)?")
_PART = re.compile(r"# (?:(?:[\w./-]+, )?part of: )?(.+)")
_PODS = {"containers": [{"name": "gateway", "image": "inductiveautomation/ignition:8.3"}]}
_LABELS: dict[str, Any] = {"labels": {"app": "filler"}}
_WORKLOAD = {"selector": {"matchLabels": _LABELS["labels"]}, "template": {"metadata": _LABELS, "spec": _PODS}}
SMALLEST: Mapping[str, dict[str, Any]] = {
    "Pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "filler"}, "spec": _PODS},
    "Deployment": {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "filler"},
        "spec": _WORKLOAD,
    },
    "StatefulSet": {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "filler"},
        "spec": {**_WORKLOAD, "serviceName": "filler"},
    },
    "Application": {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "bottling", "namespace": "argocd"},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://git.example.net/plant/deploy.git", "path": "sites/plant"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "plant"},
        },
    },
    "Namespace": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plant"}},
}


class FenceKind(Enum):
    MANIFESTS = "manifests"
    VALUES = "values"
    FOREIGN = "foreign"


class UnclearFence(Exception):
    """It is unclear what the fence holds."""


@dataclass(frozen=True, slots=True)
class Content:
    sort: FenceKind
    documents: tuple[dict[str, Any], ...] = ()
    foreign: str = ""
    """Its entry of FOREIGN."""


def file_name(text: str) -> str | None:
    """The file that a fence is for its reader, if its first line says so."""
    match = _FILE.fullmatch(text.partition("\n")[0].strip())
    return match[1] if match else None


def content_of(text: str) -> Content:
    """Its kind; raises UnclearFence with the reason where that cannot be decided."""
    try:
        documents: list[Any] = list(load_documents(text.encode()))
    except InvalidValue as error:
        raise UnclearFence(f"it is no YAML: {error.message}") from None
    first = text.partition("\n")[0].strip()
    named = _PART.fullmatch(first)
    name = named[1] if named else ""
    if name == VALUES or re.fullmatch(r"values[\w-]*\.yaml", name):
        return Content(FenceKind.VALUES, tuple(documents))
    if example := smallest(name):
        return Content(FenceKind.MANIFESTS, tuple(merged(example, one) for one in documents))
    if (key := foreign_key(name)) is not None:
        return Content(FenceKind.FOREIGN, foreign=key)
    for one in documents:
        if not isinstance(one, dict) or "kind" not in one or "apiVersion" not in one:
            raise UnclearFence(
                "it has no apiVersion and kind; its first line must say `# part of: KIND`,"
                " `# values of the chart` or a name of FOREIGN"
            )
    return Content(FenceKind.MANIFESTS, tuple(documents))


def smallest(kind: str) -> dict[str, Any] | None:
    """The smallest example of a kind."""
    if kind in SMALLEST:
        return SMALLEST[kind]
    if kind not in {one.name for one in registry.KINDS}:
        return None
    path = ROOT / "examples" / f"{kind.lower()}-minimal.yaml"
    documents: list[Any] = list(load_documents(path.read_bytes()))
    example: dict[str, Any] = next(one for one in documents if one["kind"] == kind)
    return example


def merged(base: Any, part: Any) -> Any:
    """A part laid over a whole; lists of it replace lists."""
    if not isinstance(base, dict) or not isinstance(part, dict):
        return part
    return {**base, **{key: merged(base.get(key), value) for key, value in part.items()}}


def patch_of(kind: str, text: str) -> dict[str, Any] | None:
    """A merge patch laid over the smallest example of a kind of ours; None for other kinds."""
    names = {name: one for one in registry.KINDS for name in (one.name.lower(), one.plural)}
    found = names.get(kind.lower().partition(".")[0])
    if found is None or "…" in text or "$" in text:
        return None
    whole: dict[str, Any] = merged(smallest(found.name), json.loads(text))
    return whole

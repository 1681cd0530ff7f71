"""Secrets that this product's own resources name or own: they are in git under no policy. Pure.

Whoever can read the repository could otherwise log in to other repositories, to gateways or to alert
services. A reference is found by its form, not by a list of fields: an object under a key that ends in
`SecretRef`, or a text under `secretName`. So a field that is added later is covered, and so is an object
that does not fit its schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from stoker.api.kinds.ignitionsync import IgnitionSync, IgnitionSyncBase
from stoker.api.kinds.stoker import Stoker
from stoker.api.registry import KINDS, Kind
from stoker.domain.injection import minted_secret
from stoker.domain.intent.intent import FrontDoor
from stoker.domain.protocol.names import CR_KIND_LABEL, CR_NAME_LABEL

EVERYWHERE = "*"
"""In place of a namespace: a base is used from every namespace, and names Secrets of the user's."""
PART_OF = "app.kubernetes.io/part-of"
"""The label of what belongs to this product; its certificates carry it."""

_GROUPS = frozenset(kind.group for kind in KINDS)
_DOORS: Mapping[str, FrontDoor] = {
    Stoker.__name__: FrontDoor.STOKER,
    IgnitionSync.__name__: FrontDoor.IGNITION_SYNC,
}


class SecretRef(NamedTuple):
    """A Secret by its place."""

    namespace: str
    name: str


def secrets_named_by(kind: Kind, obj: Mapping[str, Any]) -> frozenset[SecretRef]:
    """What an object of ours names, and what the controller makes for it."""
    metadata = obj.get("metadata") or {}
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    home = EVERYWHERE if kind.model is IgnitionSyncBase else namespace
    refs = {SecretRef(elsewhere or home, named) for elsewhere, named in _references(obj.get("spec"))}
    if kind.name in _DOORS:
        refs.add(SecretRef(namespace, minted_secret(_DOORS[kind.name], name)))
    return frozenset(refs)


def is_named(namespace: str, name: str, named: frozenset[SecretRef]) -> bool:
    """Whether a Secret is among those that are named."""
    return SecretRef(namespace, name) in named or SecretRef(EVERYWHERE, name) in named


def is_ours(obj: Mapping[str, Any]) -> bool:
    """Whether a Secret was made by this product, by its labels or by its owner."""
    metadata = obj.get("metadata") or {}
    labels = metadata.get("labels")
    labels = labels if isinstance(labels, Mapping) else {}
    if labels.get(PART_OF) == "stoker" or CR_NAME_LABEL in labels or CR_KIND_LABEL in labels:
        return True
    owners = metadata.get("ownerReferences") or ()
    return any(str(owner.get("apiVersion", "")).partition("/")[0] in _GROUPS for owner in owners)


def _references(value: Any) -> Iterator[tuple[str, str]]:
    """Namespace, as far as one is given, and name of every reference inside a value."""
    if isinstance(value, list):
        for item in value:
            yield from _references(item)
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        form = key.lower()
        if form.endswith("secretname") and isinstance(inner, str) and inner:
            yield "", inner
        elif form.endswith("secretref") and isinstance(inner, dict) and isinstance(inner.get("name"), str):
            yield str(inner.get("namespace") or ""), inner["name"]
        yield from _references(inner)

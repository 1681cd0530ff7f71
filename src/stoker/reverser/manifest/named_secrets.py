"""Secrets that this product's own resources name or own: they are in git under no policy. Pure.

Whoever can read the repository could otherwise log in to other repositories, to gateways or to alert
services. What an object names itself is in its spec. What it uses beside that, by the installation's defaults
or by a base in a namespace that the reverser does not watch, the controller publishes in
`status.secretNames`. Until it has, no Secret of that namespace is written, and their files stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from stoker.api.kinds.ignitionsync import IgnitionSync, IgnitionSyncBase
from stoker.api.kinds.stoker import Stoker
from stoker.api.registry import KINDS, CustomResourceKind
from stoker.api.secret_references import secret_references
from stoker.domain.injection import MANAGED_BY_STOKER, minted_secret_name
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol.names import CR_KIND_LABEL, CR_NAME_LABEL

ALL_NAMESPACES = "*"
"""In place of a namespace: a base is used from every namespace, and names Secrets of the user's."""
ALL_FOR_NOW = "*"
"""In place of a name: which Secrets of the namespace are used is not published yet."""
PART_OF = "app.kubernetes.io/part-of"
"""The label of what belongs to this product; its certificates carry it."""

_GROUPS = frozenset(kind.group for kind in KINDS)
_DOORS: Mapping[str, SyncResourceKind] = {
    Stoker.__name__: SyncResourceKind.STOKER,
    IgnitionSync.__name__: SyncResourceKind.IGNITION_SYNC,
}


class SecretRef(NamedTuple):
    """A Secret by its place."""

    namespace: str
    name: str


def referenced_secrets(kind: CustomResourceKind, obj: Mapping[str, Any]) -> frozenset[SecretRef]:
    """What an object of ours names, and what the controller makes for it."""
    metadata = obj.get("metadata") or {}
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    home = ALL_NAMESPACES if kind.model is IgnitionSyncBase else namespace
    refs = {SecretRef(elsewhere or home, named) for elsewhere, named in secret_references(obj.get("spec"))}
    if kind.name in _DOORS:
        refs.add(SecretRef(namespace, minted_secret_name(_DOORS[kind.name], name)))
        status = obj.get("status")
        published = status.get("secretNames") if isinstance(status, Mapping) else None
        refs |= {
            SecretRef(namespace, str(each)) for each in ((ALL_FOR_NOW,) if published is None else published)
        }
    return frozenset(refs)


def is_referenced(namespace: str, name: str, named: frozenset[SecretRef]) -> bool:
    """Whether a Secret is among those that are named."""
    return SecretRef(namespace, name) in named or SecretRef(ALL_NAMESPACES, name) in named


def why_undecided(namespace: str, named: Collection[SecretRef]) -> str | None:
    """Why no Secret of a namespace can be written yet; None where it is known which are named."""
    if SecretRef(namespace, ALL_FOR_NOW) not in named:
        return None
    return (
        f"a Stoker or IgnitionSync of namespace {namespace} has no status.secretNames yet: until its "
        "controller has written it, it is not known which Secrets must not be written"
    )


def is_own_secret(obj: Mapping[str, Any]) -> bool:
    """Whether a Secret was made by this product, by its labels or by its owner."""
    metadata = obj.get("metadata") or {}
    labels = metadata.get("labels")
    labels = labels if isinstance(labels, Mapping) else {}
    if MANAGED_BY_STOKER.items() <= labels.items() or labels.get(PART_OF) == "stoker":
        return True
    if CR_NAME_LABEL in labels or CR_KIND_LABEL in labels:
        return True
    owners = metadata.get("ownerReferences") or ()
    return any(str(owner.get("apiVersion", "")).partition("/")[0] in _GROUPS for owner in owners)

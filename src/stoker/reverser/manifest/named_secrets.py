"""The Secrets that this product's own resources name or own: no policy writes them to git. Pure.

Otherwise every reader of the repository could log in to other repositories, to gateways or to alert services.
An object's spec holds the names that it sets itself. The names that it uses beyond that, by the
installation's defaults or by a base in a namespace that the reverser does not watch, the controller publishes
in `status.secretNames`. Until the controller has published them, no Secret of that namespace is written, and
the existing files stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from stoker.api.kinds.ignitionsync import IgnitionSync, IgnitionSyncBase
from stoker.api.kinds.stoker import Stoker
from stoker.api.registry import KINDS, CustomResourceKind
from stoker.api.secret_references import secret_references
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.pods.injection import MANAGED_BY_STOKER, minted_secret_name
from stoker.domain.protocol.names import CR_KIND_LABEL, CR_NAME_LABEL

ALL_NAMESPACES = "*"
"""Wildcard for the namespace: any namespace can use a base, which names Secrets of the using namespace."""
ALL_FOR_NOW = "*"
"""Wildcard for the name: the controller has not yet published which Secrets of the namespace are used."""
PART_OF = "app.kubernetes.io/part-of"
"""The label of objects that belong to this product; its certificates carry it."""

_GROUPS = frozenset(kind.group for kind in KINDS)
_DOORS: Mapping[str, SyncResourceKind] = {
    Stoker.__name__: SyncResourceKind.STOKER,
    IgnitionSync.__name__: SyncResourceKind.IGNITION_SYNC,
}


class SecretRef(NamedTuple):
    """A Secret by namespace and name."""

    namespace: str
    name: str


def referenced_secrets(kind: CustomResourceKind, obj: Mapping[str, Any]) -> frozenset[SecretRef]:
    """Return the Secrets that a resource of this product names, and its controller-created Secret."""
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
    """Return whether a Secret is among the named Secrets."""
    return SecretRef(namespace, name) in named or SecretRef(ALL_NAMESPACES, name) in named


def why_undecided(namespace: str, named: Collection[SecretRef]) -> str | None:
    """Return why no Secret of a namespace can be written yet; None if the named Secrets are known."""
    if SecretRef(namespace, ALL_FOR_NOW) not in named:
        return None
    return (
        f"a Stoker or IgnitionSync of namespace {namespace} has no status.secretNames yet: until its "
        "controller has written it, it is not known which Secrets must not be written"
    )


def is_own_secret(obj: Mapping[str, Any]) -> bool:
    """Return whether this product created a Secret, by its labels or by its owner."""
    metadata = obj.get("metadata") or {}
    labels = metadata.get("labels")
    labels = labels if isinstance(labels, Mapping) else {}
    if MANAGED_BY_STOKER.items() <= labels.items() or labels.get(PART_OF) == "stoker":
        return True
    if CR_NAME_LABEL in labels or CR_KIND_LABEL in labels:
        return True
    owners = metadata.get("ownerReferences") or ()
    return any(str(owner.get("apiVersion", "")).partition("/")[0] in _GROUPS for owner in owners)

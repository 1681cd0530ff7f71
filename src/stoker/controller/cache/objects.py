"""The cached form of watched objects: our own kinds as raw bytes, of others only the fields that are read."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec

from stoker.api.kinds.ignitionsync import IgnitionSyncBase
from stoker.api.kinds.resource import CustomResource as Model
from stoker.api.kinds.stoker import SyncProfile
from stoker.api.registry import KINDS
from stoker.api.to_intent import MODELS
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.intent import ResourceIdentity, SyncResourceKind
from stoker.domain.protocol import resource_labels
from stoker.domain.reasons import Reason
from stoker.kube.client.objects import ObjectHeaderMeta
from stoker.kube.events.series import ObjectRef
from stoker.kube.watch.store import ObjectKey

M = TypeVar("M", bound=Model)

SYNCED_KINDS = {kind.name: kind for kind in KINDS if kind.model in MODELS}
BASES = next(kind for kind in KINDS if kind.model is IgnitionSyncBase)
PROFILES = next(kind for kind in KINDS if kind.model is SyncProfile)


class OwnerUid(msgspec.Struct, frozen=True):
    uid: str = ""


class OwnedMeta(ObjectHeaderMeta, frozen=True, rename="camel", gc=False):
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerUid, ...] = ()


class OwnedHeader(msgspec.Struct, frozen=True, gc=False):
    metadata: OwnedMeta = OwnedMeta()


@dataclass(frozen=True, slots=True)
class CachedResource:
    """An object of our own kinds with its raw bytes: an object that cannot be decoded still gets a status."""

    header: OwnedHeader
    raw: bytes


@dataclass(frozen=True, slots=True)
class ResourceKey:
    """The kind, namespace and name of a resource of one of the synced kinds: a work item of the queue."""

    kind: str
    object: ObjectKey

    def __str__(self) -> str:
        return f"{self.kind} {self.object}"

    @property
    def door(self) -> SyncResourceKind:
        return SyncResourceKind(self.kind)

    @property
    def identity(self) -> ResourceIdentity:
        return ResourceIdentity(self.door, self.object.namespace, self.object.name)


class CachedConfigMap(msgspec.Struct, frozen=True):
    """A ConfigMap. Of binary values the cache holds only the names and sizes."""

    metadata: OwnedMeta = OwnedMeta()
    data: dict[str, str] | None = None
    sizes: dict[str, int] = {}


class CachedGlobalPause(NamedTuple):
    """The ConfigMap that pauses all resources, with its raw bytes for the dashboard."""

    paused: bool
    raw: bytes


class _FullConfigMap(msgspec.Struct, frozen=True, rename="camel"):
    metadata: OwnedMeta = OwnedMeta()
    data: dict[str, str] | None = None
    binary_data: dict[str, msgspec.Raw] | None = None


class CachedRole(msgspec.Struct, frozen=True):
    metadata: OwnedMeta = OwnedMeta()
    rules: list[dict[str, Any]] | None = None


class CachedRoleBinding(msgspec.Struct, frozen=True, rename="camel"):
    metadata: OwnedMeta = OwnedMeta()
    role_ref: dict[str, str] = {}
    subjects: list[dict[str, str]] | None = None


class CachedClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    storage_class_name: str | None = None
    resources: dict[str, dict[str, Any]] = {}


class CachedClaim(msgspec.Struct, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: OwnedMeta = OwnedMeta()
    spec: CachedClaimSpec = CachedClaimSpec()


class CachedSecretHeader(msgspec.Struct, frozen=True):
    """The metadata of a Secret. Its data never enters the cache."""

    uid: str
    version: str
    annotations: dict[str, str] = {}


MAX_KEYS = 1000
"""Keys of a ConfigMap that are cached: agents write them, and a short key costs 100 bytes of memory."""

_header = msgspec.json.Decoder(OwnedHeader)
_ANNOTATION_PREFIXES = ("stoker.io/", "sync.ignition.io/")


def decode_object(raw: bytes) -> CachedResource:
    return CachedResource(_header.decode(raw), raw)


_whole_map_decoder = msgspec.json.Decoder(_FullConfigMap)
decode_role = msgspec.json.Decoder(CachedRole).decode
decode_claim = msgspec.json.Decoder(CachedClaim).decode
decode_role_binding = msgspec.json.Decoder(CachedRoleBinding).decode


def decode_config_map(raw: bytes) -> CachedConfigMap:
    """Decode the first `MAX_KEYS` keys of a ConfigMap, with the sizes of its binary values.

    A binary value can have a megabyte, so the controller reads it only when it is needed. Keys beyond the
    limit become visible once earlier keys are removed.
    """
    whole = _whole_map_decoder.decode(raw)
    data = None if whole.data is None else dict(islice(whole.data.items(), MAX_KEYS))
    binary = islice((whole.binary_data or {}).items(), MAX_KEYS)
    return CachedConfigMap(whole.metadata, data, {name: memoryview(value).nbytes for name, value in binary})


def decode_global_pause(raw: bytes) -> CachedGlobalPause:
    data = _whole_map_decoder.decode(raw).data or {}
    return CachedGlobalPause(data.get("paused", "").strip() == "true", raw)


def decode_secret(raw: bytes) -> CachedSecretHeader:
    """Decode the metadata of a Secret with only our own annotations.

    Other annotations, such as `last-applied-configuration`, may hold the Secret itself.
    """
    meta = _header.decode(raw).metadata
    ours = {name: value for name, value in meta.annotations.items() if name.startswith(_ANNOTATION_PREFIXES)}
    return CachedSecretHeader(meta.uid, meta.resource_version, ours)


def decode_resource(kept: CachedResource, model: type[M]) -> M:
    """Decode the whole object; raise InvalidValue with the field's path if it does not fit its schema."""
    try:
        return msgspec.json.decode(kept.raw, type=model)
    except msgspec.ValidationError as error:
        raise InvalidValue(f"the resource cannot be read: {error}", reason=Reason.INVALID_SPEC) from None


def owned_metadata(
    key: ResourceKey, kept: CachedResource, name: str, more: dict[str, str] | None = None
) -> dict[str, Any]:
    """The metadata of an object that a resource owns and that is garbage-collected with it."""
    return {
        "name": name,
        "namespace": key.object.namespace,
        "labels": {**resource_labels(key.door, key.object.name), **(more or {})},
        "ownerReferences": [owner_reference(key, kept)],
    }


def owner_reference(key: ResourceKey, kept: CachedResource) -> dict[str, Any]:
    return {
        "apiVersion": SYNCED_KINDS[key.kind].api_version,
        "kind": key.kind,
        "name": key.object.name,
        "uid": kept.header.metadata.uid,
        "controller": True,
    }


def belongs_to(metadata: OwnedMeta, key: ResourceKey, kept: CachedResource) -> bool:
    """Whether an object has our labels and an owner reference to the resource."""
    owned = any(owner.uid == kept.header.metadata.uid for owner in metadata.owner_references)
    labels = resource_labels(key.door, key.object.name)
    return owned and all(metadata.labels.get(name) == value for name, value in labels.items())


def object_ref(key: ResourceKey, kept: CachedResource) -> ObjectRef:
    """The resource as the involved object of an Event."""
    metadata = kept.header.metadata
    kind = SYNCED_KINDS[key.kind]
    return ObjectRef(kind.api_version, kind.name, metadata.name, metadata.namespace, metadata.uid)

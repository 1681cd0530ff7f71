"""The inbox: eight ConfigMaps of a resource into which its agents write change sets.

They are created before agents learn their names, with the resource as owner. The cache holds only the names
of their keys; the values can have 1 MiB for each ConfigMap and are read when they are processed. Keys are
removed once the reply is in the metadata ConfigMap, each by its name, so that a concurrent write of another
key by an agent causes no conflict.

Keys are `{gateway}.{set}.{number}`. A gateway's own key may contain dots, so keys are parsed from the right.
Keys of any other form belong to no change set and are removed.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from stoker.controller.bidirectional.types import RawChangeSet, ReceivedChangeSet
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import CachedResource, ResourceKey, belongs_to, owned_metadata
from stoker.controller.owned.apply_objects import OwnedObjectWriter
from stoker.domain.protocol import CHANGE_MAPS
from stoker.domain.protocol.change_set_codec import MAX_CHUNKS
from stoker.domain.protocol.names import changes_map_name
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import NotFound
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.kube.watch.store import ObjectKey

DECODING = "stoker.io/decoding-change-set"
"""Annotation of a ConfigMap: the change set being decoded, and the process that decodes it."""

_KEY = re.compile(r"(?P<gateway>.+)\.(?P<set>\d{8}-\d{6}(?:-\d{1,4})?)\.(?P<number>\d)")


class _InboxMeta(msgspec.Struct):
    annotations: dict[str, str] = {}


class _InboxContents(msgspec.Struct, rename="camel"):
    metadata: _InboxMeta = msgspec.field(default_factory=_InboxMeta)
    binary_data: dict[str, msgspec.Raw] = {}


class InboxReader(Protocol):
    """Reads change sets from the ConfigMaps, and marks there the change set that is being decoded."""

    async def read(self, key: ResourceKey, parcel: ReceivedChangeSet) -> RawChangeSet | None:
        """Return the chunks of a change set; None if any is gone meanwhile."""
        ...

    async def mark(self, key: ResourceKey, parcel: ReceivedChangeSet, attempt: str) -> None:
        """Store the mark of an attempt to decode where the next leader sees it; empty: it ended."""
        ...


class ChangeSetInbox:
    """The inbox ConfigMaps of all resources."""

    def __init__(self, observed: ControllerInformers, client: KubeClient, writer: OwnedObjectWriter) -> None:
        self._observed = observed
        self._client = client
        self._writer = writer

    def keys(self, key: ResourceKey) -> dict[str, Collection[str]]:
        """The keys in the inbox ConfigMaps, by ConfigMap."""
        found: dict[str, Collection[str]] = {}
        for name in inbox_names(key):
            seen = self._observed.maps.get(ObjectKey(key.object.namespace, name))
            if seen is not None and seen.sizes:
                found[name] = tuple(seen.sizes)
        return found

    async def prepare(self, key: ResourceKey, kept: CachedResource) -> None:
        """Create the missing ConfigMaps."""
        for name in inbox_names(key):
            where = ObjectKey(key.object.namespace, name)
            seen = self._observed.maps.get(where)
            body = {"metadata": owned_metadata(key, kept, name)}
            if seen is None:
                await self._writer.create(self._observed.maps, CONFIG_MAPS, body)
            elif not belongs_to(seen.metadata, key, kept):
                await self._writer.patch(self._observed.maps, CONFIG_MAPS, where, body)

    async def read(self, key: ResourceKey, parcel: ReceivedChangeSet) -> RawChangeSet | None:
        parts: dict[tuple[str, str], bytes] = {}
        attempt = ""
        for name in dict.fromkeys(name for name, _ in parcel.chunks):
            try:
                found = await self._client.get(CONFIG_MAPS, name, key.object.namespace, into=_InboxContents)
            except NotFound:
                return None
            if name == parcel.chunks[0][0]:
                attempt = found.metadata.annotations.get(DECODING, "")
            for place in parcel.chunks:
                if place[0] == name and place[1] in found.binary_data:
                    parts[place] = _decode_base64(found.binary_data[place[1]])
        if len(parts) < len(parcel.chunks):
            return None
        return RawChangeSet(tuple(parts[place] for place in parcel.chunks), attempt)

    async def mark(self, key: ResourceKey, parcel: ReceivedChangeSet, attempt: str) -> None:
        body = {"metadata": {"annotations": {DECODING: attempt or None}}}
        await self._patch(key, parcel.chunks[0][0], body)

    async def empty(self, key: ResourceKey, keys: Mapping[str, Iterable[str]]) -> None:
        """Remove these keys."""
        for name, gone in keys.items():
            await self._patch(key, name, {"binaryData": dict.fromkeys(gone)})

    async def _patch(self, key: ResourceKey, name: str, body: dict[str, Any]) -> None:
        where = ObjectKey(key.object.namespace, name)
        request = self._client.patch(CONFIG_MAPS, body, where.name, where.namespace, into=msgspec.Raw)
        await self._observed.maps.write(where, request)


def inbox_names(key: ResourceKey) -> tuple[str, ...]:
    return tuple(changes_map_name(key.door, key.object.name, number) for number in range(CHANGE_MAPS))


def change_sets_in(maps: Mapping[str, Collection[str]]) -> tuple[ReceivedChangeSet, ...]:
    """All change sets, oldest first; `maps` has the keys of each ConfigMap."""
    found: dict[tuple[str, str], dict[int, tuple[str, str]]] = {}
    for name, keys in maps.items():
        for key in keys:
            said = _KEY.fullmatch(key)
            if said is not None and int(said["number"]) < MAX_CHUNKS:
                parts = found.setdefault((said["set"], said["gateway"]), {})
                parts.setdefault(int(said["number"]), (name, key))
    return tuple(
        ReceivedChangeSet(
            gateway,
            set_id,
            tuple(parts[number] for number in sorted(parts)),
            set(parts) == set(range(len(parts))),
        )
        for (set_id, gateway), parts in sorted(found.items())
    )


def stray_keys(maps: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Keys that belong to no change set, by ConfigMap."""
    strays = {name: [key for key in keys if not _is_chunk_key(key)] for name, keys in maps.items()}
    return {name: keys for name, keys in strays.items() if keys}


def _is_chunk_key(key: str) -> bool:
    said = _KEY.fullmatch(key)
    return said is not None and int(said["number"]) < MAX_CHUNKS


def _decode_base64(raw: msgspec.Raw) -> bytes:
    """Decode a value; the API server guarantees base64, so anything else counts as damaged."""
    try:
        return base64.b64decode(msgspec.json.decode(raw, type=str), validate=True)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return b""

"""What the controller watches, and which resources a change concerns.

Objects are kept as their header and their bytes: a resource that this version
cannot read must still get a status that says so, which takes no more than its
name. A change of status alone concerns nobody, or writing one would cause the
next pass (C-052).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import msgspec

from stoker.api.adapters import MODELS, base_wanted_by
from stoker.api.kinds.ignitionsync import IgnitionSyncBase
from stoker.api.kinds.resource import Resource as Model
from stoker.api.registry import KINDS, Kind
from stoker.domain.clock import Clock
from stoker.domain.errors import InvalidValue, StokerError
from stoker.domain.reasons import Reason
from stoker.kube.client import Client
from stoker.kube.objects import Header
from stoker.kube.reflector import Reflector
from stoker.kube.resources import Resource
from stoker.kube.store import Change, ObjectKey
from stoker.telemetry.logs import get_logger

M = TypeVar("M", bound=Model)

log = get_logger(__name__)

_HEADER = msgspec.json.Decoder(Header)

SYNCED_KINDS = {kind.name: kind for kind in KINDS if kind.model in MODELS}
BASES = next(kind for kind in KINDS if kind.model is IgnitionSyncBase)


@dataclass(frozen=True, slots=True)
class Kept:
    """One object as it came."""

    header: Header
    raw: bytes


@dataclass(frozen=True, slots=True)
class ResourceKey:
    """One resource of one of the kinds that are synced."""

    kind: str
    object: ObjectKey

    def __str__(self) -> str:
        return f"{self.kind} {self.object}"


def rest(kind: Kind) -> Resource:
    """Where the API server keeps objects of one of our kinds."""
    return Resource(kind.group, kind.version, kind.plural, kind.name, kind.namespaced)


class Observed:
    """The stores behind all passes; `changed` is told which resource to look at.

    Nobody is told anything before every kind has been listed once: a pass that ran
    earlier would take a base for missing that had only not been read yet.
    """

    def __init__(
        self,
        client: Client,
        namespaces: Collection[str],
        changed: Callable[[ResourceKey], None],
        clock: Clock,
    ) -> None:
        self._changed = changed
        self._listed = False
        scopes: Collection[str | None] = namespaces or (None,)

        def reflectors(kind: Kind, on_change: Callable[[Change[Kept]], None]) -> list[Reflector[Kept]]:
            return [
                Reflector(
                    client,
                    rest(kind),
                    namespace=scope,
                    keep=_kept,
                    on_change=on_change,
                    on_error=_unseen,
                    clock=clock,
                )
                for scope in scopes
            ]

        self._synced = {name: reflectors(kind, self._listener(name)) for name, kind in SYNCED_KINDS.items()}
        self._bases = reflectors(BASES, self._on_base)
        self.reflectors = tuple(chain(*self._synced.values(), self._bases))

    async def run(self) -> None:
        """Keep the stores right until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=str(reflector.resource))
            for reflector in self.reflectors:
                await reflector.synced()
            self._listed = True
            for key, _ in self._resources():
                self._changed(key)

    def find(self, key: ResourceKey) -> Kept | None:
        return _find(self._synced[key.kind], key.object)

    def base_for(self, resource: Model) -> IgnitionSyncBase | None:
        """The base that a resource inherits from, where it names one and that exists."""
        wanted = base_wanted_by(resource)
        kept = wanted and _find(self._bases, ObjectKey(wanted.namespace or "", wanted.name))
        return read(kept, IgnitionSyncBase) if kept else None

    def _listener(self, kind: str) -> Callable[[Change[Kept]], None]:
        def on_change(change: Change[Kept]) -> None:
            if not self._listed:
                return
            if change.old is None or change.new is None or _asks_for_more(change.old, change.new):
                self._changed(ResourceKey(kind, change.key))

        return on_change

    def _on_base(self, change: Change[Kept]) -> None:
        for key in list(self._heirs(change.key)) if self._listed else ():
            self._changed(key)

    def _heirs(self, base: ObjectKey) -> Iterator[ResourceKey]:
        for key, kept in self._resources():
            try:
                wanted = base_wanted_by(read(kept, SYNCED_KINDS[key.kind].model))
            except InvalidValue:
                continue  # its own pass says so
            if wanted is not None and base == ObjectKey(wanted.namespace or "", wanted.name):
                yield key

    def _resources(self) -> Iterator[tuple[ResourceKey, Kept]]:
        for kind, reflectors in self._synced.items():
            for reflector in reflectors:
                for key, kept in reflector.store.items():
                    yield ResourceKey(kind, key), kept


def read(kept: Kept, model: type[M]) -> M:
    """The whole object; one that does not fit its own schema is refused with the path of the field."""
    try:
        return msgspec.json.decode(kept.raw, type=model)
    except msgspec.ValidationError as error:
        raise InvalidValue(f"the resource cannot be read: {error}", reason=Reason.INVALID_SPEC) from None


def _unseen(error: StokerError) -> None:
    """Until it works again changes go unnoticed, and at the start nothing is worked on at all."""
    log.warning("watch.failed", reason=error.reason, error=error.message)


def _find(reflectors: Iterable[Reflector[Kept]], key: ObjectKey) -> Kept | None:
    return next((kept for each in reflectors if (kept := each.store.get(key)) is not None), None)


def _kept(raw: bytes) -> Kept:
    return Kept(_HEADER.decode(raw), raw)


def _asks_for_more(old: Kept, new: Kept) -> bool:
    before, after = old.header.metadata, new.header.metadata
    return (
        before.generation != after.generation
        or before.annotations != after.annotations
        or before.deletion_timestamp != after.deletion_timestamp
    )

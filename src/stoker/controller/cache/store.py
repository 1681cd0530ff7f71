"""An informer whose cache also shows our own writes before the watch delivers them.

Otherwise a reconcile soon after a write would find the object as it was before, write it again and get a
conflict. A remembered write counts until the watch delivers a newer version of the object, whether our own
write or a later change. If the watch was faster than the response to the write, the write is not remembered
at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from stoker.domain.clock import Clock
from stoker.kube.client.errors import NotFound
from stoker.kube.client.resources import ApiResource
from stoker.kube.watch.informer import Informer
from stoker.kube.watch.reflector import ListWatchSource
from stoker.kube.watch.store import CacheEntry, ObjectChange, ObjectKey
from stoker.kube.watch.watch_events import read_item

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _OwnWrite(Generic[T]):
    over: frozenset[str]
    """The version that the watch showed at the write, and those written since; empty string for no object."""
    version: str
    value: T | None


class WriteThroughCache(Informer[T]):
    """The objects of one kind in all watched scopes. Takes the options of `Informer`."""

    def __init__(
        self,
        client: ListWatchSource,
        resource: ApiResource,
        keep: Callable[[bytes], T],
        clock: Clock,
        **options: Any,
    ) -> None:
        super().__init__(client, resource, keep, clock, **options)
        self._keep = keep
        self._written: dict[ObjectKey, _OwnWrite[T]] = {}
        self._echoes: dict[ObjectKey, str] = {}
        self.listen(self._on_change)

    def get(self, key: ObjectKey) -> T | None:
        written = self._written.get(key)
        return super().get(key) if written is None else written.value

    async def write(self, key: ObjectKey, request: Awaitable[msgspec.Raw]) -> T:
        """Send a write and remember the object in the response."""
        before = self._outdated(key)
        raw = bytes(await request)
        value, version = self._keep(raw), read_item(raw).resource_version
        self._echoes[key] = version
        if _version(self.entry(key)) in before:
            self._written[key] = _OwnWrite(before, version, value)
        return value

    async def remove(self, key: ObjectKey, request: Awaitable[None]) -> None:
        """Delete the object and remember that."""
        before = self._outdated(key)
        with suppress(NotFound):
            await request
        if _version(self.entry(key)) in before:
            self._written[key] = _OwnWrite(before, "", None)

    def is_echo(self, change: ObjectChange[T]) -> bool:
        """Whether the change is only our own write, delivered by the watch."""
        return change.new is not None and change.resource_version == self._echoes.get(change.key)

    def forget_writes(self) -> None:
        self._written.clear()
        self._echoes.clear()

    def _on_change(self, change: ObjectChange[T]) -> None:
        written = self._written.get(change.key)
        if written is not None and change.resource_version not in written.over:
            del self._written[change.key]
        if change.new is None:
            self._echoes.pop(change.key, None)

    def _outdated(self, key: ObjectKey) -> frozenset[str]:
        """The versions that a write starting now makes outdated."""
        now = _version(self.entry(key))
        before = self._written.get(key)
        return frozenset({now, *((*before.over, before.version) if before is not None else ())})


def _version(entry: CacheEntry[T] | None) -> str:
    return "" if entry is None else entry.resource_version

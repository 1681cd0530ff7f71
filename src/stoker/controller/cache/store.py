"""Objects of one kind, as the watch shows them or, until it does, as we wrote them a moment ago.

A pass that follows closely on a write would otherwise find the object as it was
before, write it again and be refused. What was written counts until the watch tells
anything newer of the object, our own write or what somebody else did since; where the
watch was quicker than the answer, it does not count at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from stoker.kube.client.errors import NotFound
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import CacheEntry, ObjectChange, ObjectKey
from stoker.kube.watch.watch_events import read_item

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _OwnWrite(Generic[T]):
    over: frozenset[str]
    """The version that the watch showed then, and those that we have written since; empty for nothing."""
    version: str
    value: T | None


class WriteThroughCache(Generic[T]):
    """One kind over all scopes that are watched."""

    def __init__(self, reflectors: Sequence[Reflector[T]], keep: Callable[[bytes], T]) -> None:
        self.reflectors = tuple(reflectors)
        self._keep = keep
        self._written: dict[ObjectKey, _OwnWrite[T]] = {}
        self._echoes: dict[ObjectKey, str] = {}
        for reflector in self.reflectors:
            reflector.listen(self._on_change)

    def get(self, key: ObjectKey) -> T | None:
        written = self._written.get(key)
        if written is not None:
            return written.value
        entry = self._entry(key)
        return None if entry is None else entry.value

    def items(self) -> Iterator[tuple[ObjectKey, T]]:
        """What the watch shows, all of it."""
        for reflector in self.reflectors:
            yield from reflector.store.items()

    def each(self) -> Iterator[ObjectKey]:
        for reflector in self.reflectors:
            yield from reflector.store.keys()

    def find(self, index: str, word: str) -> Iterator[tuple[ObjectKey, T]]:
        for reflector in self.reflectors:
            for key in reflector.store.find(index, word):
                value = reflector.store.get(key)
                if value is not None:
                    yield key, value

    async def write(self, key: ObjectKey, request: Awaitable[msgspec.Raw]) -> T:
        """Make a write, and remember what the server answered."""
        before = self._outdated(key)
        raw = bytes(await request)
        value, version = self._keep(raw), read_item(raw).resource_version
        self._echoes[key] = version
        if _version(self._entry(key)) in before:
            self._written[key] = _OwnWrite(before, version, value)
        return value

    async def remove(self, key: ObjectKey, request: Awaitable[None]) -> None:
        """Delete, and remember that."""
        before = self._outdated(key)
        with suppress(NotFound):
            await request
        if _version(self._entry(key)) in before:
            self._written[key] = _OwnWrite(before, "", None)

    def is_echo(self, change: ObjectChange[T]) -> bool:
        """Whether the watch only tells us of our own write."""
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
        """The versions that a write which begins now makes outdated."""
        now = _version(self._entry(key))
        before = self._written.get(key)
        return frozenset({now, *((*before.over, before.version) if before is not None else ())})

    def _entry(self, key: ObjectKey) -> CacheEntry[T] | None:
        for reflector in self.reflectors:
            if reflector.namespace in (None, key.namespace):
                entry = reflector.store.entry(key)
                if entry is not None:
                    return entry
        return None


def _version(entry: CacheEntry[T] | None) -> str:
    return "" if entry is None else entry.resource_version

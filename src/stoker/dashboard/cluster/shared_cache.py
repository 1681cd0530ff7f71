"""Reads a kind from an informer that the process already runs: the dashboard needs no second watch.

The informer belongs to the controller. Its handler here only records the key of a changed object; a task of
the dashboard decodes the object afterwards, one at a time. So a large fleet delays no reconcile, and a
failure of the dashboard never ends the controller's watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from stoker.kube.watch.informer import Informer, log_unreadable
from stoker.kube.watch.store import ObjectChange, ObjectKey

T = TypeVar("T")

SharedInformers: TypeAlias = Mapping[str, Informer[Any]]
"""Informers of the process by kind, and the one of the emergency stop by the name of its ConfigMap.

Each holds every object that a page shows of its kind, and each value has the bytes of its object in `raw`.
"""

ViewUpdate = Callable[[ObjectKey, T | None], None]
"""Puts an object into the view, or removes it if it is None."""


class SharedCacheReader(Generic[T]):
    """Applies the changes of one shared informer to the view."""

    def __init__(self, informer: Informer[Any], decode: Callable[[bytes], T], update: ViewUpdate[T]) -> None:
        self.informer = informer
        self._decode = decode
        self._update = update
        self._changed: dict[ObjectKey, bool] = {}
        """The keys to read; True if the object was deleted since it was read."""
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()

    async def run(self) -> None:
        """Keep the view current until cancelled; then the informer no longer calls the handler."""
        unsubscribe = self.informer.listen(self._record)
        try:
            while True:
                while self._changed:
                    key = next(iter(self._changed))
                    self._read(key, deleted=self._changed.pop(key))
                    await asyncio.sleep(0)  # reconciles continue between two objects
                self._idle.set()
                await self._wake.wait()
                self._wake.clear()
        finally:
            unsubscribe()

    async def caught_up(self) -> None:
        """Wait until the first list is in the view, or has failed."""
        await self.informer.answered()
        await self._idle.wait()

    def _record(self, change: ObjectChange[Any]) -> None:
        self._changed[change.key] = self._changed.get(change.key, False) or change.deleted
        self._idle.clear()
        self._wake.set()

    def _read(self, key: ObjectKey, *, deleted: bool) -> None:
        entry = self.informer.entry(key)
        if deleted or entry is None:
            self._update(key, None)
        if entry is None:
            return
        try:
            value = self._decode(entry.value.raw)
        except Exception as error:  # one unreadable object must not hide all others of its kind
            log_unreadable(self.informer.resource, key, error)
            return
        self._update(key, value)

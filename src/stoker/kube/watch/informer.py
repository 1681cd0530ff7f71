"""An informer: the objects of one kind in all watched namespaces, kept current, with handlers for changes.

    Informer ─┬─ Reflector (namespace a) ─ ObjectCache
              └─ Reflector (namespace b) ─ ObjectCache

Controller, agent, reverser and dashboard watch the cluster through this class. It starts one reflector for
each namespace, or one for all namespaces, reads their caches as one, and delivers every change to each
handler. Several readers in a process share one informer: each adds its handler with `listen`.

A namespace that cannot be listed never hides the others. A failure is a warning in the log once for each
reason, until the watch works again, and `on_error` receives every failure; the reflector retries for as long
as it runs. An object that `keep` refuses is logged, and its previous version stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Generic, TypeVar

import msgspec

from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.kube.client.resources import ApiResource
from stoker.kube.watch.reflector import ChangeListener, ListWatchSource, Reflector
from stoker.kube.watch.store import CacheEntry, CacheIndex, ObjectKey
from stoker.telemetry.logs import get_logger

T = TypeVar("T")

WatchErrorHandler = Callable[[str | None, StokerError], None]
"""Called with the namespace of a failed list or watch (None: all namespaces), and the error."""

log = get_logger(__name__)


class Informer(Generic[T]):
    """Lists and watches one kind; `keep` makes the cached value of an object from its bytes.

    `wanted` filters by key what no selector can express. `on_recovered` is called when a watch works again.
    """

    def __init__(
        self,
        client: ListWatchSource,
        resource: ApiResource,
        keep: Callable[[bytes], T],
        clock: Clock,
        *,
        namespaces: Collection[str | None] = (None,),
        labels: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
        indexes: Mapping[str, CacheIndex[T]] | None = None,
        wanted: Callable[[ObjectKey], bool] | None = None,
        page_size: int = 500,
        on_error: WatchErrorHandler | None = None,
        on_recovered: Callable[[], None] | None = None,
    ) -> None:
        self.resource = resource
        self._on_error = on_error
        self._on_recovered = on_recovered
        self._logged: dict[str | None, str] = {}
        """The reason of the last logged failure of each namespace."""
        self.reflectors: tuple[Reflector[T], ...] = tuple(
            Reflector(
                client,
                resource,
                namespace=namespace,
                labels=labels or None,
                fields=fields,
                metadata_only=metadata_only,
                keep=keep,
                on_error=partial(self._failed, namespace),
                on_recovered=partial(self._recovered, namespace),
                on_refused=partial(log_unreadable, resource),
                indexes=indexes,
                wanted=wanted,
                page_size=page_size,
                clock=clock,
            )
            for namespace in namespaces
        )

    async def run(self) -> None:
        """Keep the cache current until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"watch {self.resource} {reflector.namespace or ''}")

    def listen(self, handler: ChangeListener[T]) -> Callable[[], None]:
        """Deliver existing objects as additions, then every change; return a function that unsubscribes.

        An exception in a handler ends the informer, so a handler should only record what to do.
        """
        leave = [reflector.listen(handler) for reflector in self.reflectors]

        def unsubscribe() -> None:
            for each in leave:
                each()

        return unsubscribe

    async def answered(self) -> None:
        """Wait until the first list of every namespace is complete or has failed."""
        for reflector in self.reflectors:
            await reflector.answered()

    @property
    def is_listed(self) -> bool:
        """Whether every namespace has been listed once."""
        return all(reflector.health.synced for reflector in self.reflectors)

    @property
    def is_watching(self) -> bool:
        """Whether the watch of every namespace is open at this moment."""
        return all(reflector.health.watching for reflector in self.reflectors)

    def get(self, key: ObjectKey) -> T | None:
        entry = self.entry(key)
        return None if entry is None else entry.value

    def entry(self, key: ObjectKey) -> CacheEntry[T] | None:
        """Return the object as the watch shows it, with its uid and resourceVersion."""
        for reflector in self.reflectors:
            if reflector.namespace in (None, key.namespace):
                entry = reflector.store.entry(key)
                if entry is not None:
                    return entry
        return None

    def __iter__(self) -> Iterator[ObjectKey]:
        for reflector in self.reflectors:
            yield from reflector.store

    def items(self) -> Iterator[tuple[ObjectKey, T]]:
        """All objects, as the watch shows them."""
        for reflector in self.reflectors:
            yield from reflector.store.items()

    def values(self) -> Iterator[T]:
        return (value for _, value in self.items())

    def find(self, index: str, word: str) -> Iterator[tuple[ObjectKey, T]]:
        """All objects that the named index has under this word."""
        for reflector in self.reflectors:
            for key in reflector.store.find(index, word):
                value = reflector.store.get(key)
                if value is not None:
                    yield key, value

    def _failed(self, namespace: str | None, error: StokerError) -> None:
        again = self._logged.get(namespace) == error.reason
        self._logged[namespace] = error.reason
        say = log.debug if again else log.warning
        say(
            "watch.failed",
            kind=str(self.resource),
            namespace=namespace or "",
            reason=error.reason,
            error=error.message,
        )
        if self._on_error is not None:
            self._on_error(namespace, error)

    def _recovered(self, namespace: str | None) -> None:
        self._logged.pop(namespace, None)
        if self._on_recovered is not None:
            self._on_recovered()


def log_unreadable(resource: ApiResource, key: ObjectKey, error: Exception) -> None:
    # The text of any other exception may repeat a part of the object.
    why = str(error) if isinstance(error, msgspec.ValidationError) else type(error).__name__
    log.warning("object.unreadable", kind=resource.kind, key=str(key), error=why)

"""Tracks which watched namespaces are fully visible, and which deny every watch.

A deleted namespace loses the Role that gave us access to it. A process that starts after that must not wait
for it: nothing in it is visible, so nothing is done there, and the other namespaces are reconciled. A
namespace that denies only some kinds is waited for, because a partial view looks as if its gateways or
destinations were deleted. Our own namespace is always waited for too, because it has the emergency stop. A
namespace that becomes visible later is reconciled from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from stoker.domain.errors import StokerError
from stoker.kube.client.errors import Forbidden
from stoker.kube.watch.informer import Informer
from stoker.kube.watch.reflector import Reflector
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)


class _WatchedNamespace:
    """All reflectors of one namespace, or of all namespaces."""

    def __init__(self) -> None:
        self.reflectors: list[Reflector[Any]] = []
        self.judged = asyncio.Event()
        """Set once it is fully visible, or denies everything."""
        self.whole = False

    @property
    def refuses(self) -> bool:
        return all(isinstance(each.health.error, Forbidden) for each in self.reflectors)


class NamespaceAccess:
    """The visibility of all watched namespaces."""

    def __init__(self, home: str) -> None:
        self.lit: Callable[[], None] = ignore_change
        """Called when a namespace that denied everything becomes fully visible."""
        self._home = home
        self._places: dict[str | None, _WatchedNamespace] = {}

    def watch(self, informers: Iterable[Informer[Any]]) -> None:
        for informer in informers:
            for each in informer.reflectors:
                self._places.setdefault(each.namespace, _WatchedNamespace()).reflectors.append(each)

    def knows(self, namespace: str) -> bool:
        """Whether all watched kinds of a namespace are visible."""
        place = self._places.get(None) or self._places.get(namespace)
        return place is not None and place.whole

    def failed(self, namespace: str | None, error: StokerError) -> None:
        """At start-up, stop waiting for a namespace in which all watches are denied.

        Until the watch works again changes go unnoticed, and at start-up nothing there is reconciled.
        """
        place = self._places.get(namespace)
        if place is None or namespace in (None, self._home) or place.judged.is_set():
            return
        if place.refuses:
            log.warning("namespace.unseen", namespace=namespace)
            place.judged.set()

    async def until_judged(self, group: asyncio.TaskGroup) -> None:
        """Wait until each namespace is fully visible or denies everything.

        Tasks in the group keep waiting for the latter.
        """
        for namespace, place in self._places.items():
            group.create_task(self._until_whole(namespace, place), name=f"seeing {namespace or 'all'}")
        for place in self._places.values():
            await place.judged.wait()

    async def _until_whole(self, namespace: str | None, place: _WatchedNamespace) -> None:
        for reflector in place.reflectors:
            await reflector.synced()
        place.whole = True
        if place.judged.is_set():
            log.info("namespace.seen", namespace=namespace)
            self.lit()
        place.judged.set()


def ignore_change() -> None:
    """Do nothing; the default for `lit`."""

"""How far we see: which namespaces are seen whole, and which refuse us everything.

A namespace that is deleted takes along the Role that let us look into it. Whoever starts
after that must not wait for it: nothing of it is seen, so nothing is done there, and the
others are worked on. One that refuses only some kinds is waited for, because half a
namespace looks as if its gateways or its destinations were gone; and so is our own, which
has the emergency stop. Whatever comes to light later is worked on from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from stoker.domain.errors import StokerError
from stoker.kube.client.errors import Forbidden
from stoker.kube.watch.reflector import Reflector
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)


class _WatchedNamespace:
    """All that is watched in one namespace, or everywhere."""

    def __init__(self) -> None:
        self.reflectors: list[Reflector[Any]] = []
        self.judged = asyncio.Event()
        """It is seen whole, or refuses us everything."""
        self.whole = False

    @property
    def refuses(self) -> bool:
        return all(isinstance(each.health.error, Forbidden) for each in self.reflectors)


class NamespaceAccess:
    """The namespaces of all that is watched."""

    def __init__(self, home: str) -> None:
        self.lit: Callable[[], None] = ignore_change
        """Told that a namespace that had refused us is seen whole."""
        self._home = home
        self._places: dict[str | None, _WatchedNamespace] = {}

    def watch(self, reflectors: Iterable[Reflector[Any]]) -> None:
        for each in reflectors:
            self._places.setdefault(each.namespace, _WatchedNamespace()).reflectors.append(each)

    def knows(self, namespace: str) -> bool:
        """Whether all of a namespace is seen."""
        place = self._places.get(None) or self._places.get(namespace)
        return place is not None and place.whole

    def failed(self, namespace: str | None, error: StokerError) -> None:
        """Until it works again changes go unnoticed, and at the start nothing there is worked on at all."""
        log.warning("watch.failed", reason=error.reason, error=error.message)
        place = self._places.get(namespace)
        if place is None or namespace in (None, self._home) or place.judged.is_set():
            return
        if place.refuses:
            log.warning("namespace.unseen", namespace=namespace)
            place.judged.set()

    async def until_judged(self, group: asyncio.TaskGroup) -> None:
        """Wait until each namespace is seen whole or refuses us; the group waits for the latter."""
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
    """Nobody is to be told."""

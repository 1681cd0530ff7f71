"""The keys that authenticate callers, cached in memory.

An unauthenticated caller must not cause requests to the API server, and must not learn from the response
time whether there was a Secret to read. Therefore no Secret is read during a request. The keyring reads a
key when a resource first names it, and again when its Secret has changed. It forgets a key at once when
no resource names it any more. Until the new value is read, the old value counts.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Iterable

from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.intent.source import SecretKey
from stoker.domain.secrets import Secret
from stoker.kube.client.deadlines import wait_for_event
from stoker.kube.runtime.backoff import Backoff
from stoker.telemetry.logs import get_logger

CallerKeyPlace = tuple[str, SecretKey]
"""A namespace and a key of a Secret in it."""

_PAUSES = Backoff(base=0.5, ceiling=30.0)

log = get_logger(__name__)


class CallerKeyring:
    """Caches keys; `read` raises if a Secret or its key is missing."""

    def __init__(self, read: Callable[[str, SecretKey], Awaitable[Secret]], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._values: dict[CallerKeyPlace, Secret | None] = {}
        self._due: set[CallerKeyPlace] = set()
        self._unread: set[CallerKeyPlace] = set()
        self._filled = False
        self._wake = asyncio.Event()

    def follow(self, wanted: Collection[CallerKeyPlace]) -> None:
        """Hold exactly these keys."""
        for place in self._values.keys() - set(wanted):
            del self._values[place]
            self._due.discard(place)
            self._unread.discard(place)
        fresh = set(wanted) - self._values.keys()
        self._values.update(dict.fromkeys(fresh))
        self._unread |= fresh
        self._are_due(fresh)

    def changed(self, namespace: str, secret: str) -> None:
        """Read a Secret's keys again after it was created, changed or deleted."""
        self._are_due(place for place in self._values if (place[0], place[1].name) == (namespace, secret))

    def value(self, namespace: str, key: SecretKey) -> Secret | None:
        """Return the cached value; this is the receiver's `keys`."""
        return self._values.get((namespace, key))

    def missing(self, namespace: str, keys: Collection[SecretKey]) -> tuple[SecretKey, ...]:
        """Return the keys without a value, for the condition `WebhookReady`."""
        return tuple(key for key in keys if not self.value(namespace, key))

    @property
    def is_read(self) -> bool:
        """Whether all named keys were read at least once, at this or an earlier call; it then stays true.

        Call it only after the resources were listed. Keys that are named or changed after that do
        not affect readiness: a key that is unreadable for a while is no reason to refuse all callers.
        """
        self._filled = self._filled or not self._unread
        return self._filled

    async def run(self) -> None:
        """Read keys when they are due, or when the backoff after a failure ends, until cancelled."""
        failures = 0
        while True:
            await wait_for_event(self._wake, self._clock, _PAUSES.delay(failures) if failures else math.inf)
            self._wake.clear()
            failed = [place for place in sorted(self._due, key=_sort_key) if not await self._renewed(place)]
            failures = failures + 1 if failed else 0

    async def _renewed(self, place: CallerKeyPlace) -> bool:
        """Read a key; return False if the API server failed and the read must be retried."""
        namespace, key = place
        self._due.discard(place)  # before the read: a change during the read makes it due again
        try:
            value: Secret | None = await self._read(namespace, key)
        except Retry as error:
            log.warning("webhook.key_unread", namespace=namespace, secret=key.name, error=error.message)
            self._due |= {place} & self._values.keys()
            return False
        except StokerError:
            value = None  # missing: reported in the resource's condition
        finally:
            self._unread.discard(place)
        if place in self._values:
            self._values[place] = value
        return True

    def _are_due(self, places: Iterable[CallerKeyPlace]) -> None:
        self._due.update(places)
        self._wake.set()


def _sort_key(place: CallerKeyPlace) -> tuple[str, str, str]:
    return place[0], place[1].name, place[1].key

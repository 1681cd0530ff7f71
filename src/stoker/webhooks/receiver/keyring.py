"""The keys that callers are checked against, in memory, as the Secrets hold them now.

A stranger must neither make the API server work nor learn from the time of an answer
whether there was anything to read, so no Secret is read while a caller waits. What the
resources name is read when it is first named and again when its Secret is said to have
changed; what nobody names any more is forgotten at once. Until the new value is there
the old one counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress

from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.intent.source import SecretKey
from stoker.domain.secrets import Secret
from stoker.kube.client.deadlines import deadline
from stoker.kube.runtime.backoff import Backoff
from stoker.telemetry.logs import get_logger

CallerKeyPlace = tuple[str, SecretKey]
"""A namespace and a key of a Secret in it."""

_PAUSES = Backoff(base=0.5, ceiling=30.0)

log = get_logger(__name__)


class CallerKeyring:
    """Reads through `read`, which raises where a Secret or its key is missing."""

    def __init__(self, read: Callable[[str, SecretKey], Awaitable[Secret]], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._values: dict[CallerKeyPlace, Secret | None] = {}
        self._due: set[CallerKeyPlace] = set()
        self._unread: set[CallerKeyPlace] = set()
        self._filled = False
        self._wake = asyncio.Event()

    def follow(self, wanted: Collection[CallerKeyPlace]) -> None:
        """Hold these and no others."""
        for place in self._values.keys() - set(wanted):
            del self._values[place]
            self._due.discard(place)
            self._unread.discard(place)
        fresh = set(wanted) - self._values.keys()
        self._values.update(dict.fromkeys(fresh))
        self._unread |= fresh
        self._are_due(fresh)

    def changed(self, namespace: str, secret: str) -> None:
        """The Secret is new, other than before, or gone."""
        self._are_due(place for place in self._values if (place[0], place[1].name) == (namespace, secret))

    def value(self, namespace: str, key: SecretKey) -> Secret | None:
        """What stands there, from memory; the receiver's `keys`."""
        return self._values.get((namespace, key))

    def missing(self, namespace: str, keys: Collection[SecretKey]) -> tuple[SecretKey, ...]:
        """Those that hold nothing, for the condition `WebhookReady`."""
        return tuple(key for key in keys if not self.value(namespace, key))

    @property
    def is_read(self) -> bool:
        """Whether everything has been looked at that was named by the time somebody asked, once and for all.

        To be asked from when the resources have been listed. What is named or changed later makes
        nobody wait: a key that cannot be read at the moment is no reason to turn all callers away.
        """
        self._filled = self._filled or not self._unread
        return self._filled

    async def run(self) -> None:
        """Read what is due until cancelled."""
        failures = 0
        while True:
            await self._rest(failures)
            self._wake.clear()
            failed = [place for place in sorted(self._due, key=_sort_key) if not await self._renewed(place)]
            failures = failures + 1 if failed else 0

    async def _rest(self, failures: int) -> None:
        """Until something is due, or what failed may be tried again."""
        if not failures:
            await self._wake.wait()
            return
        with suppress(TimeoutError):
            async with deadline(self._clock, _PAUSES.delay(failures)):
                await self._wake.wait()

    async def _renewed(self, place: CallerKeyPlace) -> bool:
        """Whether it has been read, or is known to be missing; what is away may come back."""
        namespace, key = place
        self._due.discard(place)  # first: a change while we read makes it due again
        try:
            value: Secret | None = await self._read(namespace, key)
        except Retry as error:
            log.warning("webhook.key_unread", namespace=namespace, secret=key.name, error=error.message)
            self._due |= {place} & self._values.keys()
            return False
        except StokerError:
            value = None  # the condition of the resource says so
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

"""Values by id, with the ids that changed since a version.

View sources (`standalone.view`, `cluster.view`) set and remove values by id; each real change increments
the version. A page that has version n receives the ids that changed since n. Removed ids are remembered
up to a limit; a page that is further behind receives the whole view.

A waiter wakes once for many changes within one iteration of the event loop. Not thread-safe: use it only
on the thread of the event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

MAX_REMOVED_KEYS = 1_000

LoggedT = TypeVar("LoggedT")


class ChangedIds(NamedTuple):
    """Changed and removed ids, without values: the caller filters by what the visitor may see."""

    changed: tuple[str, ...]
    gone: tuple[str, ...]


class ChangeLog(Generic[LoggedT]):
    """Values by id, in the order of their last change."""

    def __init__(self, most_gone: int = MAX_REMOVED_KEYS) -> None:
        self._values: dict[str, LoggedT] = {}
        self._numbers: OrderedDict[str, int] = OrderedDict()
        self._gone: OrderedDict[str, int] = OrderedDict()
        self._most_gone = most_gone
        self._forgotten = 0
        self._woken = asyncio.Event()
        self.version = 1

    def set(self, key: str, value: LoggedT) -> bool:
        """Set the value and return whether it differs from the previous value."""
        if key in self._values and self._values[key] == value:
            return False
        self.version += 1
        self._values[key] = value
        self._numbers[key] = self.version
        self._numbers.move_to_end(key)
        self._gone.pop(key, None)
        self._wake()
        return True

    def remove(self, key: str) -> bool:
        if self._values.pop(key, None) is None:
            return False
        del self._numbers[key]
        self.version += 1
        self._gone[key] = self.version
        while len(self._gone) > self._most_gone:
            _, number = self._gone.popitem(last=False)
            self._forgotten = max(self._forgotten, number)
        self._wake()
        return True

    def begin_anew(self) -> None:
        """Make every page fetch the whole view, whatever version it has."""
        self.version += 1
        self._forgotten = self.version
        self._wake()

    def get(self, key: str) -> LoggedT | None:
        return self._values.get(key)

    def __iter__(self) -> Iterator[tuple[str, LoggedT]]:
        return iter(sorted(self._values.items(), key=lambda one: one[0]))

    def __len__(self) -> int:
        return len(self._values)

    def since(self, seen: int) -> ChangedIds | None:
        """Return the ids changed since version `seen`; None if it is too old or never existed."""
        if seen < self._forgotten or seen > self.version or seen < 1:
            return None
        return ChangedIds(_keys_changed_after(self._numbers, seen), _keys_changed_after(self._gone, seen))

    async def changed(self, seen: int) -> int:
        """Wait until the version is greater than `seen`."""
        while self.version <= seen:
            await self._woken.wait()
        return self.version

    def _wake(self) -> None:
        # Each waiter holds the event that it began to wait on, so none can miss this or be woken twice.
        woken, self._woken = self._woken, asyncio.Event()
        woken.set()


def _keys_changed_after(numbers: OrderedDict[str, int], seen: int) -> tuple[str, ...]:
    """Walk from the newest change back, so that the cost depends on the changes and not on the size."""
    found: list[str] = []
    for key in reversed(numbers):
        if numbers[key] <= seen:
            break
        found.append(key)
    return tuple(reversed(found))

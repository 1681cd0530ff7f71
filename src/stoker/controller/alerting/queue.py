"""The queue of unsent alerts: what to send to which target, and when. No I/O and no clock of its own.

It holds at most one alert for each incident and target: a newer alert replaces an unsent alert, so that
"resolved" never overtakes "firing". The same message is sent once in `WINDOW` seconds. A repetition waits
until then, and is dropped if the incident is over by then. The queue must never grow beyond its capacity: the
oldest alerts are dropped first.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from stoker.controller.alerting.alerts import Alert, Incident
from stoker.controller.cache.objects import ResourceKey
from stoker.domain.intent.delivery import AlertTarget

CAPACITY = 500
WINDOW = 600.0
BURST = 20
"""Alerts about one resource to one target within the window."""
PAUSES = (15.0, 60.0, 180.0, 480.0)
GIVE_UP_AFTER = 900.0


class AlertSlot(NamedTuple):
    """An incident of a resource, for one target."""

    resource: ResourceKey
    incident: Incident
    target: str


@dataclass(slots=True, eq=False)
class QueuedAlert:
    """An alert to send."""

    slot: AlertSlot
    alarm: Alert
    target: AlertTarget
    over: bool
    due: float
    first: float
    tries: int = 0


@dataclass(frozen=True, slots=True)
class _SentAlert:
    message: str
    at: float
    open: bool


class AlertQueue:
    """All unsent alerts, and a record of those that were sent."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._letters: OrderedDict[AlertSlot, QueuedAlert] = OrderedDict()
        self._sent: OrderedDict[AlertSlot, _SentAlert] = OrderedDict()
        self._under_way: set[AlertSlot] = set()
        self._recent: dict[tuple[ResourceKey, str], deque[float]] = {}

    def __len__(self) -> int:
        return len(self._letters)

    def begins(self, slot: AlertSlot, alarm: Alert, target: AlertTarget, now: float) -> list[QueuedAlert]:
        """Queue an alert for a new incident; return the alerts that had to make room."""
        return self._put(QueuedAlert(slot, alarm, target, False, self._not_before(slot, alarm, now), now))

    def ends(
        self, slot: AlertSlot, alarm: Alert, target: AlertTarget, now: float, *, presumed: bool = False
    ) -> list[QueuedAlert]:
        """Queue the end of an incident, if its beginning was sent or is `presumed` to have been sent."""
        sent = self._sent.get(slot)
        waiting = self._letters.get(slot)
        if slot not in self._under_way:
            if waiting is not None and not waiting.over:
                self._letters.pop(slot)
            if not (sent.open if sent is not None else presumed):
                return []
        return self._put(QueuedAlert(slot, alarm, target, True, now, now))

    def withdraw(self, slot: AlertSlot, now: float) -> None:
        """Drop a delayed alert of an incident that is over, for a target without "resolved" messages."""
        waiting = self._letters.get(slot)
        if waiting is not None and not waiting.tries and waiting.due > now:
            del self._letters[slot]

    def take(self, now: float, most: int) -> Iterator[QueuedAlert]:
        """Yield the due alerts; each is in flight until `sent` or `failed` is called for it."""
        due = [one for one in self._letters.values() if one.due <= now and one.slot not in self._under_way]
        for letter in due[: max(0, most)]:
            self._under_way.add(letter.slot)
            yield letter

    def next_due(self) -> float:
        waiting = (one.due for one in self._letters.values() if one.slot not in self._under_way)
        return min(waiting, default=math.inf)

    def sent(self, letter: QueuedAlert, now: float) -> None:
        self._done(letter)
        before = self._sent.get(letter.slot)
        told, at = (letter.alarm.message, now) if not letter.over else ("", 0.0)
        # Keep the last message, so that it is not repeated within the window.
        if letter.over and before is not None:
            told, at = before.message, before.at
        self._sent[letter.slot] = _SentAlert(told, at, not letter.over)
        self._sent.move_to_end(letter.slot)
        while len(self._sent) > 4 * self._capacity:
            self._sent.popitem(last=False)
        if not letter.over:
            times = self._recent.setdefault((letter.slot.resource, letter.slot.target), deque(maxlen=BURST))
            times.append(now)

    def failed(
        self, letter: QueuedAlert, now: float, *, final: bool = False, after: float | None = None
    ) -> bool:
        """Return whether the alert is given up; otherwise it, or its replacement, is retried later."""
        letter.tries += 1
        pause = max(PAUSES[min(letter.tries, len(PAUSES)) - 1], after or 0.0)
        out_of_time = now + pause - letter.first > GIVE_UP_AFTER
        if final or letter.tries > len(PAUSES) or out_of_time:
            self._done(letter)
            return True
        self._under_way.discard(letter.slot)
        letter.due = now + pause
        return False

    def hurry(self, now: float) -> None:
        """Make all alerts due: the process ends, and unsent alerts are lost."""
        for letter in self._letters.values():
            letter.due = min(letter.due, now)

    def forget(self, resource: ResourceKey) -> None:
        """Drop the records of a deleted resource; its queued alerts are still sent."""
        for slot in [slot for slot in self._sent if slot.resource == resource]:
            del self._sent[slot]
        for known in [known for known in self._recent if known[0] == resource]:
            del self._recent[known]

    def _put(self, letter: QueuedAlert) -> list[QueuedAlert]:
        self._letters.pop(letter.slot, None)
        self._letters[letter.slot] = letter
        dropped: list[QueuedAlert] = []
        for old in list(self._letters.values()):
            if len(self._letters) <= self._capacity:
                break
            if old.slot not in self._under_way:
                dropped.append(self._letters.pop(old.slot))
        return dropped

    def _not_before(self, slot: AlertSlot, alarm: Alert, now: float) -> float:
        sent = self._sent.get(slot)
        same = sent is not None and sent.message == alarm.message
        due = sent.at + WINDOW if same and sent is not None else now
        times = self._recent.get((slot.resource, slot.target))
        return max(now, due, times[0] + WINDOW if times is not None and len(times) == BURST else now)

    def _done(self, letter: QueuedAlert) -> None:
        """Remove it, unless a newer alert has replaced it meanwhile."""
        self._under_way.discard(letter.slot)
        if self._letters.get(letter.slot) is letter:
            del self._letters[letter.slot]

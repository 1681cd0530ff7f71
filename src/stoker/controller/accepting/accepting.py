"""Takes what gateways changed to git, beside the passes and never in their way.

A pass tells what lies in the maps and gets what has become of it so far; it publishes
the answers and then takes the keys out (`settled`). The work itself is one task for a
resource, a few at once over all: read a set, record it on the branch of its gateway,
answer, then see to the pull request. Requests that are open are looked after at the
polling interval and when the ref moves. Whatever fails is tried again with growing
pauses, and says so in the status; the set stays in the maps meanwhile.

What is remembered here can be found out anew: answers stand in the published map,
branches and requests in the status, and a set that was recorded already changes nothing.
"""

from __future__ import annotations

import asyncio
import math
import random as chance
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from stoker.controller.accepting.carrying import Carrier
from stoker.controller.accepting.outcomes import Outcome
from stoker.controller.accepting.values import Accepted, Ask, Parcel, Standing
from stoker.controller.asking.turns import Turns
from stoker.controller.seeing.objects import ResourceKey
from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.protocol import ChangesAnswer
from stoker.kube.backoff import Backoff
from stoker.kube.judging import understood
from stoker.kube.queue import WorkQueue
from stoker.telemetry.logs import get_logger

AT_ONCE = 2
"""Resources that are worked on; a set can be 64 MiB once it is unpacked."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
LOOK_AFTER = 60.0
"""Seconds between two looks at open requests where the ref is not polled."""
STALE = 600.0
"""Seconds after which parts of sets are taken out that never became whole, or are from nobody we know."""
MOST_ANSWERS = 500

log = get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Desk:
    """What is known of one resource."""

    ask: Ask
    answers: dict[str, ChangesAnswer]
    standings: dict[str, Standing]
    troubles: dict[str, StokerError] = field(default_factory=dict)
    """By target: what is in the way now."""
    halves: set[Parcel] = field(default_factory=set)
    """Looked at, and parts of them are still to come."""
    since: dict[Parcel, float] = field(default_factory=dict)
    rest_until: float = 0.0
    failures: int = 0
    look_at: float = 0.0
    task: asyncio.Task[None] | None = None


class Acceptor:
    """Works for all resources of a term."""

    def __init__(
        self,
        carrier: Carrier,
        clock: Clock,
        *,
        found: Callable[[ResourceKey], None],
        random: Callable[[], float] = chance.random,
    ) -> None:
        """`found` is told whenever there is something new to publish."""
        self._carrier = carrier
        self._clock = clock
        self._found = found
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.1, random=random)
        self._desks: dict[ResourceKey, _Desk] = {}
        self._timers: WorkQueue[ResourceKey] = WorkQueue(clock=clock)
        self._places = Turns(AT_ONCE)

    async def run(self) -> None:
        """Come back to what has to wait, until cancelled."""
        try:
            while True:
                key = await self._timers.get()
                self._timers.done(key)
                desk = self._desks.get(key)
                if desk is not None:
                    self._go_on(key, desk)
                    if self._stale(desk):
                        self._found(key)
        finally:
            await self.close()

    def look(self, key: ResourceKey, ask: Ask, before: Accepted) -> Accepted:
        """What has become of everything; `before` is what an earlier leader left behind."""
        desk = self._desks.get(key)
        if desk is None:
            desk = _Desk(ask, dict(before.answers), dict(before.standings))
            self._desks[key] = desk
        elif _differs(desk.ask, ask):
            desk.look_at = desk.rest_until = 0.0
        desk.ask = ask
        now = self._clock.monotonic()
        desk.since = {parcel: desk.since.get(parcel, now) for parcel in ask.parcels}
        desk.halves &= set(ask.parcels)
        self._go_on(key, desk)
        return self._said(desk)

    def settled(self, key: ResourceKey, published: dict[str, ChangesAnswer]) -> list[Parcel]:
        """What may be taken out of the maps: answered where agents can read it, or nobody's."""
        desk = self._desks.get(key)
        if desk is None:
            return []
        out = self._stale(desk)
        for parcel in desk.ask.parcels:
            sender = desk.ask.senders.get(parcel.gateway_key)
            answer = published.get(sender.target) if sender is not None else None
            if answer is not None and answer.id == parcel.id and parcel not in out:
                out.append(parcel)
        return out

    def forget(self, key: ResourceKey) -> None:
        desk = self._desks.pop(key, None)
        if desk is not None and desk.task is not None:
            desk.task.cancel()

    async def close(self) -> None:
        tasks = [desk.task for desk in self._desks.values() if desk.task is not None]
        self._desks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _said(self, desk: _Desk) -> Accepted:
        standings = dict(desk.standings)
        for target, error in desk.troubles.items():
            standing = standings.get(target, Standing())
            standings[target] = replace(standing, reason=error.reason, message=error.message)
        targets = {sender.target for sender in desk.ask.senders.values()}
        answers = desk.answers
        if len(answers) > MOST_ANSWERS:  # those who are gone and hold nothing need none
            answers = {name: one for name, one in answers.items() if name in targets or one.holds}
        return Accepted(dict(answers), standings)

    def _go_on(self, key: ResourceKey, desk: _Desk) -> None:
        if desk.task is not None:
            return
        now = self._clock.monotonic()
        due = desk.rest_until if _waiting(desk) else math.inf
        if _followed(desk):
            due = min(due, max(desk.look_at, desk.rest_until))
        if due <= now:
            desk.task = asyncio.create_task(self._work(key, desk), name=f"accept {key}")
        elif due < math.inf:
            self._timers.add_after(key, due - now)
        unfit = [desk.since[parcel] + STALE - now for parcel in desk.ask.parcels if _is_unfit(desk, parcel)]
        if unfit:
            self._timers.add_after(key, max(1.0, min(unfit)))

    def _stale(self, desk: _Desk) -> list[Parcel]:
        now = self._clock.monotonic()
        unfit = (parcel for parcel in desk.ask.parcels if _is_unfit(desk, parcel))
        return [parcel for parcel in unfit if now - desk.since[parcel] >= STALE]

    async def _work(self, key: ResourceKey, desk: _Desk) -> None:
        failed: StokerError | None = None
        try:
            async with self._places.turn():
                failed = await self._carry_all(key, desk)
                if failed is None and self._clock.monotonic() >= desk.look_at:
                    failed = await self._follow_all(key, desk)
        finally:
            desk.task = None
        now = self._clock.monotonic()
        desk.failures = desk.failures + 1 if failed is not None else 0
        desk.rest_until = now + self._pause(desk, failed)
        if self._desks.get(key) is desk:
            self._found(key)

    async def _carry_all(self, key: ResourceKey, desk: _Desk) -> StokerError | None:
        failed = None
        for parcel in _waiting(desk):
            sender = desk.ask.senders[parcel.gateway_key]
            target = sender.target

            def answered(outcome: Outcome, target: str = target) -> None:
                self._keep(key, desk, target, outcome)

            try:
                whole = await self._carrier.carry(
                    key, desk.ask, sender, parcel, desk.answers, desk.standings.get(target), answered
                )
                if not whole:
                    desk.halves.add(parcel)
                desk.troubles.pop(target, None)
            except Exception as error:
                failed = self._trouble(key, desk, target, error)
                desk.look_at = 0.0  # it may have got as far as the forge
        return failed

    async def _follow_all(self, key: ResourceKey, desk: _Desk) -> StokerError | None:
        ask, failed = desk.ask, None
        desk.look_at = self._clock.monotonic() + (ask.interval or LOOK_AFTER)
        senders = {sender.target: sender for sender in ask.senders.values()}
        for target in _followed(desk):
            try:
                outcome = await self._carrier.follow(
                    key,
                    ask,
                    senders.get(target),
                    desk.answers.get(target),
                    desk.standings.get(target, Standing()),
                    behind=target in ask.behind,
                )
                desk.troubles.pop(target, None)
                self._keep(key, desk, target, outcome)
            except Exception as error:
                failed = self._trouble(key, desk, target, error)
                desk.look_at = 0.0
        return failed

    def _keep(self, key: ResourceKey, desk: _Desk, target: str, outcome: Outcome) -> None:
        if outcome.answer is not None:
            desk.answers[target] = outcome.answer
        if outcome.standing == Standing():
            desk.standings.pop(target, None)
        else:
            desk.standings[target] = outcome.standing
        if self._desks.get(key) is desk:
            self._found(key)

    def _trouble(self, key: ResourceKey, desk: _Desk, target: str, error: Exception) -> StokerError:
        known = understood(error)
        log.warning("changes.waiting", key=str(key), gateway=target, reason=known.reason, error=known.message)
        desk.troubles[target] = known
        return known

    def _pause(self, desk: _Desk, failed: StokerError | None) -> float:
        asked = failed.after if isinstance(failed, Retry) and failed.after is not None else 0.0
        return max(self._backoff.delay(desk.failures), min(asked, LONGEST_PAUSE))


def _waiting(desk: _Desk) -> list[Parcel]:
    """The oldest set of each gateway that has no answer yet."""
    found: dict[str, Parcel] = {}
    for parcel in desk.ask.parcels:
        sender = desk.ask.senders.get(parcel.gateway_key)
        if sender is None or _is_unfit(desk, parcel):
            continue
        answer = desk.answers.get(sender.target)
        if answer is not None and answer.id == parcel.id:
            continue
        found.setdefault(parcel.gateway_key, parcel)
    return list(found.values())


def _is_unfit(desk: _Desk, parcel: Parcel) -> bool:
    """Whether nothing can be made of it as it is."""
    return parcel.gateway_key not in desk.ask.senders or not parcel.complete or parcel in desk.halves


def _followed(desk: _Desk) -> list[str]:
    """Gateways whose changes somebody has still to decide about."""
    holding = [target for target, answer in desk.answers.items() if answer.holds]
    proposed = [target for target, standing in desk.standings.items() if standing.branch]
    return sorted({*holding, *proposed})


def _differs(old: Ask, new: Ask) -> bool:
    """In something that ends all pauses."""
    return (old.policy, old.source, old.commit, old.secrets, old.behind) != (
        new.policy,
        new.source,
        new.commit,
        new.secrets,
        new.behind,
    )

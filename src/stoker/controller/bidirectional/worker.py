"""Commits the change sets of gateways in the background, so that reconciles never wait for git.

A reconcile passes on the change sets in the inbox and gets the results so far. It publishes the replies and
then removes the answered keys (`settled`). The work is one task for each resource, with a limit over all:
read a change set, commit it to the branch of its gateway, reply, then open or update the pull request. Open
pull requests are checked at the polling interval and when the ref moves. A failure is retried with growing
pauses and reported in the status; the change set stays in the inbox meanwhile.

All state kept here can be rebuilt: replies are in the metadata ConfigMap, branches and pull requests in the
status, and committing a change set again changes nothing.
"""

from __future__ import annotations

import asyncio
import math
import random as chance
from collections.abc import Callable
from dataclasses import replace

from stoker.controller.bidirectional.answers import ChangeSetOutcome
from stoker.controller.bidirectional.proposal import ChangeSetProcessor
from stoker.controller.bidirectional.state import (
    BidirectionalState,
    FailurePause,
    gateways_under_review,
    has_new_inputs,
    held_file_count,
    is_unusable,
    stuck_pause,
    waiting_change_sets,
)
from stoker.controller.bidirectional.types import (
    BidirectionalRequest,
    BidirectionalResult,
    GatewayChangesState,
    ReceivedChangeSet,
)
from stoker.controller.cache.objects import ResourceKey
from stoker.controller.priority_semaphore import PrioritySemaphore
from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.protocol import ChangeSetReply
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.runtime.result import as_stoker_error
from stoker.kube.runtime.workqueue import WorkQueue
from stoker.telemetry.logs import get_logger

MAX_CONCURRENT_PROPOSALS = 2
"""Resources that are worked on at once; a decoded change set can have 16 MiB."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
REVIEW_POLL_SECONDS = 60.0
"""Seconds between two checks of open pull requests if the ref is not polled."""
STALE_SECONDS = 600.0
"""Seconds after which incomplete change sets, and those of unknown gateways, are removed."""
MAX_ANSWERS = 500

log = get_logger(__name__)


class BidirectionalWorker:
    """Processes the change sets of all resources, for one term."""

    def __init__(
        self,
        carrier: ChangeSetProcessor,
        clock: Clock,
        *,
        found: Callable[[ResourceKey], None],
        random: Callable[[], float] = chance.random,
    ) -> None:
        """`found` gets each key with something new to publish."""
        self._carrier = carrier
        self._clock = clock
        self._found = found
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.1, random=random)
        self._desks: dict[ResourceKey, BidirectionalState] = {}
        self._timers: WorkQueue[ResourceKey] = WorkQueue(clock=clock)
        self._places = PrioritySemaphore(MAX_CONCURRENT_PROPOSALS)

    async def run(self) -> None:
        """Resume work whose pause is over, until cancelled."""
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

    def look(
        self, key: ResourceKey, ask: BidirectionalRequest, before: BidirectionalResult
    ) -> BidirectionalResult:
        """Return the results so far; `before` has those that an earlier leader published."""
        desk = self._desks.get(key)
        if desk is None:
            desk = BidirectionalState(ask, dict(before.answers), dict(before.standings))
            self._desks[key] = desk
        elif has_new_inputs(desk.ask, ask):
            desk.look_at = 0.0
            desk.stuck.clear()
        desk.ask = ask
        now = self._clock.monotonic()
        desk.since = {parcel: desk.since.get(parcel, now) for parcel in ask.parcels}
        desk.halves &= set(ask.parcels)
        desk.stuck = {parcel: rest for parcel, rest in desk.stuck.items() if parcel in desk.since}
        self._go_on(key, desk)
        return self._said(desk)

    def settled(self, key: ResourceKey, published: dict[str, ChangeSetReply]) -> list[ReceivedChangeSet]:
        """Change sets that can leave the inbox: the reply is published, or they are stale."""
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

    def _said(self, desk: BidirectionalState) -> BidirectionalResult:
        standings = dict(desk.standings)
        for target, error in desk.troubles.items():
            standing = standings.get(target, GatewayChangesState())
            standings[target] = replace(standing, reason=error.reason, message=error.message)
        targets = {sender.target for sender in desk.ask.senders.values()}
        answers = desk.answers
        if len(answers) > MAX_ANSWERS:  # gateways that are gone and hold no files need no reply
            answers = {name: one for name, one in answers.items() if name in targets or one.holds}
        return BidirectionalResult(dict(answers), standings)

    def _go_on(self, key: ResourceKey, desk: BidirectionalState) -> None:
        if desk.task is not None:
            return
        now = self._clock.monotonic()
        due = min((stuck_pause(desk, parcel).until for parcel in waiting_change_sets(desk)), default=math.inf)
        if gateways_under_review(desk):
            due = min(due, desk.look_at)
        if due <= now:
            desk.task = asyncio.create_task(self._work(key, desk), name=f"accept {key}")
        elif due < math.inf:
            self._timers.add_after(key, due - now)
        unfit = [
            desk.since[parcel] + STALE_SECONDS - now
            for parcel in desk.ask.parcels
            if is_unusable(desk, parcel)
        ]
        if unfit:
            self._timers.add_after(key, max(1.0, min(unfit)))

    def _stale(self, desk: BidirectionalState) -> list[ReceivedChangeSet]:
        now = self._clock.monotonic()
        unfit = (parcel for parcel in desk.ask.parcels if is_unusable(desk, parcel))
        return [parcel for parcel in unfit if now - desk.since[parcel] >= STALE_SECONDS]

    async def _work(self, key: ResourceKey, desk: BidirectionalState) -> None:
        try:
            async with self._places.turn():
                await self._carry_all(key, desk)
                if self._clock.monotonic() >= desk.look_at:
                    # Check them even if a change set is stuck: it may wait for a pull request that is closed
                    # by now.
                    before = held_file_count(desk)
                    await self._follow_all(key, desk)
                    if held_file_count(desk) < before:
                        desk.stuck.clear()
        finally:
            desk.task = None
        if self._desks.get(key) is desk:
            self._found(key)

    async def _carry_all(self, key: ResourceKey, desk: BidirectionalState) -> None:
        now = self._clock.monotonic()
        for parcel in [one for one in waiting_change_sets(desk) if stuck_pause(desk, one).until <= now]:
            sender = desk.ask.senders[parcel.gateway_key]
            target = sender.target

            def answered(outcome: ChangeSetOutcome, target: str = target) -> None:
                self._keep(key, desk, target, outcome)

            try:
                whole = await self._carrier.carry(
                    key, desk.ask, sender, parcel, desk.answers, desk.standings.get(target), answered
                )
                if not whole:
                    desk.halves.add(parcel)
                desk.troubles.pop(target, None)
                desk.stuck.pop(parcel, None)
            except Exception as error:
                failures = stuck_pause(desk, parcel).failures + 1
                desk.stuck[parcel] = self._rest(failures, self._trouble(key, desk, target, error))
                desk.look_at = 0.0  # the commit may have been pushed, so check the forge soon

    async def _follow_all(self, key: ResourceKey, desk: BidirectionalState) -> None:
        ask = desk.ask
        desk.look_at = self._clock.monotonic() + (ask.interval or REVIEW_POLL_SECONDS)
        senders = {sender.target: sender for sender in ask.senders.values()}
        stuck = {
            ask.senders[one.gateway_key].target for one in waiting_change_sets(desk) if one in desk.stuck
        }
        failed: StokerError | None = None
        for target in gateways_under_review(desk):
            try:
                outcome = await self._carrier.follow(
                    key,
                    ask,
                    senders.get(target),
                    desk.answers.get(target),
                    desk.standings.get(target, GatewayChangesState()),
                    behind=target in ask.behind,
                )
                if target not in stuck:  # otherwise the stuck change set's error stays visible
                    desk.troubles.pop(target, None)
                self._keep(key, desk, target, outcome)
            except Exception as error:
                failed = self._trouble(key, desk, target, error)
        desk.lost = desk.lost + 1 if failed is not None else 0
        if failed is not None:
            desk.look_at = self._rest(desk.lost, failed).until

    def _keep(
        self, key: ResourceKey, desk: BidirectionalState, target: str, outcome: ChangeSetOutcome
    ) -> None:
        if outcome.answer is not None:
            desk.answers[target] = outcome.answer
        if outcome.standing == GatewayChangesState():
            desk.standings.pop(target, None)
        else:
            desk.standings[target] = outcome.standing
        if self._desks.get(key) is desk:
            self._found(key)

    def _trouble(
        self, key: ResourceKey, desk: BidirectionalState, target: str, error: Exception
    ) -> StokerError:
        known = as_stoker_error(error)
        log.warning("changes.waiting", key=str(key), gateway=target, reason=known.reason, error=known.message)
        desk.troubles[target] = known
        return known

    def _rest(self, failures: int, error: StokerError) -> FailurePause:
        asked = error.after if isinstance(error, Retry) and error.after is not None else 0.0
        pause = max(self._backoff.delay(failures), min(asked, LONGEST_PAUSE))
        return FailurePause(failures, self._clock.monotonic() + pause)

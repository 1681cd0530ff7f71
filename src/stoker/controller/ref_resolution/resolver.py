"""Resolves refs to commits in the background, so that a slow repository never blocks reconciles.

A reconcile requests a lookup and waits `ANSWER_WAIT_SECONDS`. The result is kept here, where reconciles read
it. A later result enqueues the resource, unless it equals the last. A repository that does not answer
therefore blocks neither the workers nor lookups at other hosts, because each host has its own places.

- Polling: the lookup is repeated after the polling interval. Only a result that differs from the last
  enqueues the resource, so there are no reconciles while nothing changes.
- Change: when the ref, the URL, a Secret or a request changes, the lookup starts at once and goes before all
  waiting polls. No earlier result answers it.
- Sharing: in the second half of its interval a poll may use the result of another lookup. The next interval
  counts from that lookup, so no result is older than the interval allows.
- Failure: the pauses between retries grow. A changed Secret or a webhook ends the pause.
"""

from __future__ import annotations

import asyncio
import math
import random as chance
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from stoker.controller.cache.objects import ResourceKey
from stoker.controller.ref_resolution.lookup import (
    RefLookup,
    RefLookupRequest,
    RefLookupResult,
    SourceAccessReader,
)
from stoker.controller.ref_resolution.shared_lookup import source_host
from stoker.domain.clock import Clock
from stoker.domain.intent.source import SourceIntent
from stoker.domain.refs import CommitId
from stoker.git.process.runner import GitRunner
from stoker.kube.client.deadlines import wait_for_event
from stoker.kube.client.errors import ApiError, ApiServerUnreachable
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.runtime.workqueue import WorkQueue
from stoker.telemetry import tracing

GIT_TIMEOUT = 120.0
ANSWER_WAIT_SECONDS = 1.0
"""Seconds that a reconcile waits; most repositories answer in a tenth of a second."""
FIRST_RETRY_SECONDS = 15.0
MAX_RETRY_SECONDS = 60.0
JITTER = 0.1
SPREAD = 0.9
"""How much earlier than the interval the second lookup may start, as a fraction.

It spreads the polls of resources that started together.
"""


@dataclass(frozen=True, slots=True)
class RefQuestion:
    """The lookup of a resource, with every value whose change requires a new lookup."""

    source: SourceIntent
    """With the ref that is followed."""
    request: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    """The versions of the Secrets for the repository."""


@dataclass(slots=True, eq=False)
class _RefQuestionState:
    question: RefQuestion
    interval: float | None
    """None: looked up only once."""
    since: float
    """A result found before this moment is not an answer."""
    follows: bool = True
    """Whether a poll looks up the ref, or only renews the login."""
    hurried: bool = False
    """Something changed, and a user waits for the result."""
    asked_for: bool = False
    answer: RefLookupResult | None = None
    commit: CommitId | None = None
    """The commit found last; a failure does not clear it."""
    answered: float = 0.0
    due: float = 0.0
    failures: int = 0
    resting: bool = False
    task: asyncio.Task[None] | None = None
    waiters: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)


class RefResolver:
    """Schedules lookups and keeps the last result of each resource."""

    def __init__(
        self,
        git: GitRunner,
        access: SourceAccessReader,
        clock: Clock,
        *,
        enqueue: Callable[[ResourceKey], None],
        timed: Callable[[ResourceKey, float], None] = lambda key, seconds: None,
        timeout: float = GIT_TIMEOUT,
        random: Callable[[], float] = chance.random,
    ) -> None:
        """`enqueue` gets the keys that wait for a new result, `timed` the seconds of each lookup."""
        self._answerer = RefLookup(git, access, clock, timeout)
        self._clock = clock
        self._enqueue = enqueue
        self._timed = timed
        self._random = random
        self._asked: dict[ResourceKey, _RefQuestionState] = {}
        self._polls: WorkQueue[ResourceKey] = WorkQueue(clock=clock)
        self._slow: dict[str, set[ResourceKey]] = defaultdict(set)

    async def run(self) -> None:
        """Start polls when they are due, until cancelled."""
        try:
            while True:
                key = await self._polls.get()
                self._poll(key)
                self._polls.done(key)
        finally:
            await self.close()

    async def look(
        self, key: ResourceKey, question: RefQuestion, interval: float | None, *, follows: bool = True
    ) -> RefLookupResult | None:
        """Return the newest result; None until there is a result for this question.

        With `interval` None the ref is looked up once. With `follows` false, a poll only renews the login
        that comes with the result.
        """
        asked = self._asked.get(key)
        if asked is None or asked.question != question:
            anew = asked is not None and asked.question.request != question.request
            changed = asked is not None
            self.forget(key)
            asked = self._asked[key] = _RefQuestionState(
                question,
                interval,
                self._clock.monotonic(),
                hurried=changed,
                asked_for=anew and any(question.request),
            )
        if asked.resting:
            asked.resting, asked.since = False, self._clock.monotonic()
            self._plan(key, asked, asked.due)  # a poll that came due while paused was skipped
        asked.follows = follows
        if asked.interval != interval:
            asked.interval = interval
            self._plan(key, asked, asked.answered + self._pause(asked))
        if asked.task is None and self._clock.monotonic() >= asked.due:
            self._begin(key, asked)
        if asked.task is not None:
            await self._wait(asked)
        return asked.answer

    def hurry(self) -> None:
        """Look up again at once where the login could not be read: the API server can be reached again."""
        for key, asked in self._asked.items():
            error = asked.answer.error if asked.answer is not None else None
            if isinstance(error, ApiServerUnreachable | ApiError):
                self._plan(key, asked, self._clock.monotonic())

    def rest(self, key: ResourceKey) -> None:
        """Stop polling until the next `look`."""
        asked = self._asked.get(key)
        if asked is not None:
            asked.resting = True

    def forget(self, key: ResourceKey) -> None:
        asked = self._asked.pop(key, None)
        if asked is not None and asked.task is not None:
            asked.task.cancel()

    async def close(self) -> None:
        tasks = [asked.task for asked in self._asked.values() if asked.task is not None]
        self._asked.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _poll(self, key: ResourceKey) -> None:
        asked = self._asked.get(key)
        if asked is None or asked.resting or asked.task is not None:
            return
        ahead = asked.due - self._clock.monotonic()
        if ahead <= 0:
            self._begin(key, asked)
        elif ahead < math.inf:
            self._polls.add_after(key, ahead)

    def _plan(self, key: ResourceKey, asked: _RefQuestionState, due: float) -> None:
        asked.due = due
        if asked.task is None and asked.answer is not None and due < math.inf:
            self._polls.add_after(key, max(0.0, due - self._clock.monotonic()))

    def _begin(self, key: ResourceKey, asked: _RefQuestionState) -> None:
        asked.done.clear()
        asked.task = asyncio.create_task(self._ask(key, asked), name=f"resolve {key}")

    async def _wait(self, asked: _RefQuestionState) -> None:
        """Wait a moment for the result, except while the host is known to be slow."""
        if self._slow.get(source_host(asked.question.source.url)):
            return
        asked.waiters += 1
        try:
            await wait_for_event(asked.done, self._clock, ANSWER_WAIT_SECONDS)
        finally:
            asked.waiters -= 1

    async def _ask(self, key: ResourceKey, asked: _RefQuestionState) -> None:
        host = source_host(asked.question.source.url)
        mark = asyncio.get_running_loop().call_later(ANSWER_WAIT_SECONDS, self._slow[host].add, key)
        try:
            with tracing.step("git.resolve", ref=str(asked.question.source.ref)):
                told = await self._answerer.ask(self._asking(key, asked))
            self._timed(key, told.seconds)
        finally:
            mark.cancel()
            self._slow[host].discard(key)
            asked.task = None
            asked.done.set()
        self._keep(key, asked, replace(told.answer, asked_for=asked.asked_for), told.at)

    def _asking(self, key: ResourceKey, asked: _RefQuestionState) -> RefLookupRequest:
        """Build the request: results from the second half of the poll's interval count as an answer."""
        now = self._clock.monotonic()
        half = 0.0 if asked.answer is None else min(now - asked.answered, asked.interval or math.inf) / 2
        return RefLookupRequest(
            namespace=key.object.namespace,
            source=asked.question.source,
            since=max(asked.since, now - half),
            hurried=asked.hurried,
            again_in=asked.interval or 0.0,
            keeps=None if asked.follows else asked.commit,
        )

    def _keep(self, key: ResourceKey, asked: _RefQuestionState, answer: RefLookupResult, at: float) -> None:
        news = not answer.says_the_same(asked.answer)
        first = asked.answer is None
        asked.answer, asked.answered = answer, at
        asked.commit = answer.commit or asked.commit
        asked.asked_for = asked.hurried = False
        asked.failures = 0 if answer.error is None else asked.failures + 1
        self._plan(key, asked, asked.answered + self._pause(asked, first=first))
        if news and not asked.waiters:  # a reconcile that waits for the result reads it itself
            self._enqueue(key)

    def _pause(self, asked: _RefQuestionState, *, first: bool = False) -> float:
        interval = asked.interval
        if not asked.failures:
            if interval is None:
                return math.inf
            return interval * (1.0 - (SPREAD if first else JITTER) * self._random())
        shortest = min(FIRST_RETRY_SECONDS, interval or FIRST_RETRY_SECONDS)
        ceiling = max(MAX_RETRY_SECONDS, interval or 0.0)
        backoff = Backoff(base=shortest, ceiling=ceiling, jitter=JITTER, random=self._random)
        return backoff.delay(asked.failures)

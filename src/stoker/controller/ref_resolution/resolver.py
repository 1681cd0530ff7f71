"""Asking repositories where a ref is, beside the passes and never in their way (R-CTRL-15, R-SCALE-04).

A pass puts its question and waits for a moment; an answer that takes longer comes by
itself and brings the resource back. So one repository that does not answer holds up
nobody: neither the workers, nor another host's turn, because each host has a few
places of its own. The same question is put again when the polling interval is over, and
only an answer that is another than before brings the resource back: while nothing moves
there are no passes. Another question (the ref, the address, a Secret or a request
changed) is put at once, before all polls that wait for their turn, and nothing that was
found before answers it. A poll takes what another has found, from the second half of its
own interval; the next one counts from then, so that nobody's picture is older than his
interval says. After a failure the pauses grow, and what a Secret or a webhook says ends them.
"""

from __future__ import annotations

import asyncio
import math
import random as chance
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from stoker.controller.cache.objects import ResourceKey
from stoker.controller.ref_resolution.lookup import (
    RefLookup,
    RefLookupRequest,
    RefLookupResult,
    SourceAccessReader,
    source_host,
)
from stoker.domain.clock import Clock
from stoker.domain.intent.source import SourceIntent
from stoker.domain.refs import CommitId
from stoker.git.process.runner import GitRunner
from stoker.kube.client.deadlines import deadline
from stoker.kube.client.errors import ApiError, ApiServerUnreachable
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.runtime.workqueue import WorkQueue
from stoker.telemetry import tracing

GIT_TIMEOUT = 120.0
ANSWER_WAIT_SECONDS = 1.0
"""Seconds that a pass waits; most repositories answer in a tenth of one."""
FIRST_RETRY_SECONDS = 15.0
MAX_RETRY_SECONDS = 60.0
JITTER = 0.1
SPREAD = 0.9
"""How much sooner the second look may come than the interval says: those that began together end apart."""


@dataclass(frozen=True, slots=True)
class RefQuestion:
    """What is asked, and everything whose change is a reason to ask anew."""

    source: SourceIntent
    """With the ref that is followed."""
    request: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    """The versions of the Secrets that open it."""


@dataclass(slots=True, eq=False)
class _RefQuestionState:
    question: RefQuestion
    interval: float | None
    """None: it is put once."""
    since: float
    """What was found before this moment is no answer."""
    follows: bool = True
    """Whether a poll may find the ref elsewhere, or only renews the login."""
    hurried: bool = False
    """Something changed, and somebody waits for what follows."""
    asked_for: bool = False
    answer: RefLookupResult | None = None
    commit: CommitId | None = None
    """Where the ref was found last; a failure does not forget it."""
    answered: float = 0.0
    due: float = 0.0
    failures: int = 0
    resting: bool = False
    task: asyncio.Task[None] | None = None
    waiters: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)


class RefResolver:
    """Puts questions to git."""

    def __init__(
        self,
        git: GitRunner,
        access: SourceAccessReader,
        clock: Clock,
        *,
        found: Callable[[ResourceKey], None],
        timed: Callable[[ResourceKey, float], None] = lambda key, seconds: None,
        timeout: float = GIT_TIMEOUT,
        random: Callable[[], float] = chance.random,
    ) -> None:
        """`found` is told of answers that nobody waited for, `timed` how long each took."""
        self._answerer = RefLookup(git, access, clock, timeout)
        self._clock = clock
        self._found = found
        self._timed = timed
        self._random = random
        self._asked: dict[ResourceKey, _RefQuestionState] = {}
        self._polls: WorkQueue[ResourceKey] = WorkQueue(clock=clock)
        self._slow: dict[str, set[ResourceKey]] = defaultdict(set)

    async def run(self) -> None:
        """Put questions again when it is time, until cancelled."""
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
        """The newest answer; None while there is none to this question. `interval` None: asked once.

        Where nobody `follows` the ref, the interval only renews the login that comes with the answer.
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
            self._plan(key, asked, asked.due)  # its turn may have come meanwhile, and went by
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
        """The API server is back: whose login could not be read is asked about again."""
        for key, asked in self._asked.items():
            error = asked.answer.error if asked.answer is not None else None
            if isinstance(error, ApiServerUnreachable | ApiError):
                self._plan(key, asked, self._clock.monotonic())

    def rest(self, key: ResourceKey) -> None:
        """Put the question no more until somebody looks again."""
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
        """Not where a host is known to keep everybody waiting."""
        if self._slow.get(source_host(asked.question.source.url)):
            return
        asked.waiters += 1
        try:
            with suppress(TimeoutError):
                async with deadline(self._clock, ANSWER_WAIT_SECONDS):
                    await asked.done.wait()
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
        """A poll is answered by what was found since half of its time was over."""
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
        if news and not asked.waiters:
            self._found(key)

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

"""Asking repositories where a ref is, beside the passes and never in their way (R-CTRL-15, R-SCALE-04).

A pass puts its question and waits for a moment; an answer that takes longer comes by
itself and brings the resource back. So one repository that does not answer holds up
nobody: neither the workers, nor another host's turn, because each host has a few
places of its own. The same question is asked again when the polling interval is over,
and at once when it is another one: the ref, the address, a Secret or a request changed.
After a failure the pauses grow, and what a Secret or a webhook says ends them.
"""

from __future__ import annotations

import asyncio
import math
import random as chance
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from stoker.controller.objects import ResourceKey
from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.intent.source import AuthKind, Source
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, without_userinfo
from stoker.domain.secrets import Secret
from stoker.git.access import Access, Password
from stoker.git.remote import Remote
from stoker.git.resolving import resolve
from stoker.git.runner import GitRunner
from stoker.kube.backoff import Backoff
from stoker.kube.deadlines import deadline
from stoker.kube.judging import understood

GIT_TIMEOUT = 120.0
PATIENCE = 1.0
"""Seconds that a pass waits; most repositories answer in a tenth of one."""
AT_ONCE = 16
PER_HOST = 4
FIRST_PAUSE = 15.0
LONGEST_PAUSE = 60.0
JITTER = 0.1

AccessOf = Callable[[str, Source], Awaitable[Access]]
"""What opens a source for a namespace, as its Secrets are now."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and everything whose change is a reason to ask anew."""

    source: Source
    """With the ref that is followed."""
    request: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    """The versions of the Secrets that open it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Where the ref is, or why that is not known."""

    commit: CommitId | None = None
    error: StokerError | None = None
    token: Secret | None = None
    """What a GitHub App was let in with, for its gateways too (C-027)."""
    asked_for: bool = False
    """Somebody's request was the reason to look, and not the clock or the spec."""


@dataclass(slots=True, eq=False)
class _Asked:
    question: Question
    asked_for: bool = False
    answer: Answer | None = None
    due: float = 0.0
    failures: int = 0
    task: asyncio.Task[None] | None = None
    since: float = 0.0
    waiters: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Resolver:
    """Puts questions to git."""

    def __init__(
        self,
        git: GitRunner,
        access: AccessOf,
        clock: Clock,
        *,
        found: Callable[[ResourceKey], None],
        timed: Callable[[ResourceKey, float], None] = lambda key, seconds: None,
        timeout: float = GIT_TIMEOUT,
        random: Callable[[], float] = chance.random,
    ) -> None:
        """`found` is told of answers that came late, `timed` how long each took."""
        self._git = git
        self._access = access
        self._clock = clock
        self._found = found
        self._timed = timed
        self._timeout = timeout
        self._random = random
        self._asked: dict[ResourceKey, _Asked] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._hosts: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(PER_HOST))
        self._slow: dict[str, set[ResourceKey]] = defaultdict(set)

    async def look(self, key: ResourceKey, question: Question, interval: float | None) -> Answer | None:
        """The newest answer; None while there is none to this question. `interval` None: asked once."""
        asked = self._asked.get(key)
        if asked is None or asked.question != question:
            anew = asked is not None and asked.question.request != question.request
            self.forget(key)
            asked = self._asked[key] = _Asked(question, asked_for=anew and any(question.request))
        if asked.task is None and self._clock.monotonic() >= asked.due:
            self._begin(key, asked, interval)
        if asked.task is not None:
            await self._wait(asked)
        return asked.answer

    def due_in(self, key: ResourceKey) -> float | None:
        """Seconds until the question has to be put again; None for never, or while it is being put."""
        asked = self._asked.get(key)
        if asked is None or asked.task is not None or asked.due == math.inf:
            return None
        return max(0.0, asked.due - self._clock.monotonic())

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

    def _begin(self, key: ResourceKey, asked: _Asked, interval: float | None) -> None:
        asked.done.clear()
        asked.since = self._clock.monotonic()
        asked.task = asyncio.create_task(self._ask(key, asked, interval), name=f"resolve {key}")

    async def _wait(self, asked: _Asked) -> None:
        """Not where a host is known to keep everybody waiting."""
        if self._slow.get(_host(asked.question.source)):
            return
        asked.waiters += 1
        try:
            with suppress(TimeoutError):
                async with deadline(self._clock, PATIENCE):
                    await asked.done.wait()
        finally:
            asked.waiters -= 1

    async def _ask(self, key: ResourceKey, asked: _Asked, interval: float | None) -> None:
        host = _host(asked.question.source)
        mark = asyncio.get_running_loop().call_later(PATIENCE, self._slow[host].add, key)
        try:
            async with self._hosts[host], self._places:
                began = self._clock.monotonic()
                answer = await self._answer(key, asked.question.source)
                self._timed(key, self._clock.monotonic() - began)
        finally:
            mark.cancel()
            self._slow[host].discard(key)
            asked.task = None
            asked.done.set()
        late = not asked.waiters
        asked.answer = replace(answer, asked_for=asked.asked_for)
        asked.asked_for = False
        asked.failures = 0 if answer.error is None else asked.failures + 1
        asked.due = self._clock.monotonic() + self._pause(asked, interval)
        if late:
            self._found(key)

    async def _answer(self, key: ResourceKey, source: Source) -> Answer:
        token: Secret | None = None

        async def access() -> Access:
            nonlocal token
            given = await self._access(key.object.namespace, source)
            if source.auth.kind is AuthKind.GITHUB_APP and isinstance(given.login, Password):
                token = given.login.password
            return given

        try:
            async with deadline(self._clock, self._timeout) as scope:
                commit = await resolve(Remote(self._git, source.url, access), source.ref)
                return Answer(commit, token=token)
        except Exception as error:
            if isinstance(error, TimeoutError) and scope.expired():
                place = without_userinfo(source.url)
                sentence = f"repository {place} did not answer within {self._timeout:g} s"
                return Answer(error=Retry(sentence, reason=Reason.SOURCE_UNREACHABLE), token=token)
            return Answer(error=understood(error), token=token)

    def _pause(self, asked: _Asked, interval: float | None) -> float:
        if not asked.failures:
            if interval is None:
                return math.inf
            return interval * (1.0 - JITTER * self._random())
        first = min(FIRST_PAUSE, interval or FIRST_PAUSE)
        ceiling = max(LONGEST_PAUSE, interval or 0.0)
        backoff = Backoff(base=first, ceiling=ceiling, jitter=JITTER, random=self._random)
        return backoff.delay(asked.failures)


def _host(source: Source) -> str:
    """Whose places a source takes; for the scp form the part before the colon."""
    return urlsplit(source.url).netloc or str(source.url).partition(":")[0]

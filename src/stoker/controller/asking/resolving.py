"""Asking repositories where a ref is, beside the passes and never in their way (R-CTRL-15, R-SCALE-04).

A pass puts its question and waits for a moment; an answer that takes longer comes by
itself and brings the resource back. So one repository that does not answer holds up
nobody: neither the workers, nor another host's turn, because each host has a few
places of its own. The same question is put again when the polling interval is over, and
only an answer that is another than before brings the resource back: while nothing moves
there are no passes. Another question (the ref, the address, a Secret or a request
changed) is put at once, before all polls that wait for their turn. After a failure the
pauses grow, and what a Secret or a webhook says ends them.
"""

from __future__ import annotations

import asyncio
import math
import random as chance
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, urlsplit

from stoker.controller.asking.turns import Turns
from stoker.controller.seeing.objects import ResourceKey
from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.intent.source import AuthKind, Source
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, without_userinfo
from stoker.domain.secrets import Secret
from stoker.engine.artifacts import Credentials
from stoker.git.looking.remote import Remote
from stoker.git.looking.resolving import resolve
from stoker.git.opening.access import Access, AccessReader, Password, credentials_of
from stoker.git.running.runner import GitRunner
from stoker.kube.backoff import Backoff
from stoker.kube.deadlines import deadline
from stoker.kube.judging import understood
from stoker.kube.queue import WorkQueue
from stoker.telemetry import tracing

GIT_TIMEOUT = 120.0
PATIENCE = 1.0
"""Seconds that a pass waits; most repositories answer in a tenth of one."""
AT_ONCE = 16
PER_HOST = 4
FIRST_PAUSE = 15.0
LONGEST_PAUSE = 60.0
JITTER = 0.1
SPREAD = 0.9
"""How much sooner the second look may come than the interval says: those that began together end apart."""

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

    def says_the_same(self, other: Answer | None) -> bool:
        return other is not None and _said(self) == _said(other)


@dataclass(slots=True, eq=False)
class _Asked:
    question: Question
    interval: float | None
    """None: it is put once."""
    hurried: bool = False
    """Something changed, and somebody waits for what follows."""
    asked_for: bool = False
    answer: Answer | None = None
    answered: float = 0.0
    due: float = 0.0
    failures: int = 0
    resting: bool = False
    task: asyncio.Task[None] | None = None
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
        """`found` is told of answers that nobody waited for, `timed` how long each took."""
        self._git = git
        self._access = access
        self._clock = clock
        self._found = found
        self._timed = timed
        self._timeout = timeout
        self._random = random
        self._asked: dict[ResourceKey, _Asked] = {}
        self._polls: WorkQueue[ResourceKey] = WorkQueue(clock=clock)
        self._places = Turns(AT_ONCE)
        self._hosts: defaultdict[str, Turns] = defaultdict(lambda: Turns(PER_HOST))
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

    async def look(self, key: ResourceKey, question: Question, interval: float | None) -> Answer | None:
        """The newest answer; None while there is none to this question. `interval` None: asked once."""
        asked = self._asked.get(key)
        if asked is None or asked.question != question:
            anew = asked is not None and asked.question.request != question.request
            changed = asked is not None
            self.forget(key)
            asked = self._asked[key] = _Asked(
                question, interval, hurried=changed, asked_for=anew and any(question.request)
            )
        asked.resting = False
        if asked.interval != interval:
            asked.interval = interval
            self._plan(key, asked, asked.answered + self._pause(asked))
        if asked.task is None and self._clock.monotonic() >= asked.due:
            self._begin(key, asked)
        if asked.task is not None:
            await self._wait(asked)
        return asked.answer

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

    def _plan(self, key: ResourceKey, asked: _Asked, due: float) -> None:
        asked.due = due
        if asked.task is None and asked.answer is not None and due < math.inf:
            self._polls.add_after(key, max(0.0, due - self._clock.monotonic()))

    def _begin(self, key: ResourceKey, asked: _Asked) -> None:
        asked.done.clear()
        asked.task = asyncio.create_task(self._ask(key, asked), name=f"resolve {key}")

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

    async def _ask(self, key: ResourceKey, asked: _Asked) -> None:
        host = _host(asked.question.source)
        mark = asyncio.get_running_loop().call_later(PATIENCE, self._slow[host].add, key)
        try:
            async with (
                self._hosts[host].turn(hurried=asked.hurried),
                self._places.turn(hurried=asked.hurried),
            ):
                began = self._clock.monotonic()
                with tracing.step("git.resolve", ref=str(asked.question.source.ref)):
                    answer = await self._answer(key, asked.question.source)
                self._timed(key, self._clock.monotonic() - began)
        finally:
            mark.cancel()
            self._slow[host].discard(key)
            asked.task = None
            asked.done.set()
        self._keep(key, asked, replace(answer, asked_for=asked.asked_for))

    def _keep(self, key: ResourceKey, asked: _Asked, answer: Answer) -> None:
        news = not answer.says_the_same(asked.answer)
        first = asked.answer is None
        asked.answer, asked.answered = answer, self._clock.monotonic()
        asked.asked_for = asked.hurried = False
        asked.failures = 0 if answer.error is None else asked.failures + 1
        self._plan(key, asked, asked.answered + self._pause(asked, first=first))
        if news and not asked.waiters:
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
                if source.url.is_artifact:
                    return Answer(await _resolved(source, access))
                commit = await resolve(Remote(self._git, source.url, access), source.ref)
                return Answer(commit, token=token)
        except Exception as error:
            if isinstance(error, TimeoutError) and scope.expired():
                place = without_userinfo(source.url)
                sentence = f"repository {place} did not answer within {self._timeout:g} s"
                return Answer(error=Retry(sentence, reason=Reason.SOURCE_UNREACHABLE), token=token)
            return Answer(error=understood(error), token=token)

    def _pause(self, asked: _Asked, *, first: bool = False) -> float:
        interval = asked.interval
        if not asked.failures:
            if interval is None:
                return math.inf
            return interval * (1.0 - (SPREAD if first else JITTER) * self._random())
        shortest = min(FIRST_PAUSE, interval or FIRST_PAUSE)
        ceiling = max(LONGEST_PAUSE, interval or 0.0)
        backoff = Backoff(base=shortest, ceiling=ceiling, jitter=JITTER, random=self._random)
        return backoff.delay(asked.failures)


async def _resolved(source: Source, access: AccessReader) -> CommitId:
    """What a tag or prefix of a registry or a bucket means now; nothing of it is pulled here."""
    from stoker.artifacts.opening import open_origin  # noqa: PLC0415 - most follow repositories

    async def credentials() -> Credentials:
        return credentials_of(await access())

    return await open_origin(source.url, credentials).resolve(source.ref)


def _said(answer: Answer) -> tuple[object, ...]:
    error = answer.error
    return answer.commit, answer.token, None if error is None else (error.reason, error.message)


def _host(source: Source) -> str:
    """Whose places a source takes; for the scp form the part before the colon, for a bucket who keeps it."""
    parts = urlsplit(source.url)
    if parts.scheme == "s3":
        query = dict(parse_qsl(parts.query))
        return urlsplit(query.get("endpoint", "")).netloc or f"s3 {query.get('region', '')}"
    return parts.netloc or str(source.url).partition(":")[0]

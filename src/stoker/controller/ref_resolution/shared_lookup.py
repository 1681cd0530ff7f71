"""Shares one lookup of refs among all resources that read a repository in the same way.

Starting git for each poll of five hundred resources would cost more than all other idle work. A caller may
therefore use the result of another lookup on three conditions:

- It has the same URL, login, proxy and trust. They are compared byte by byte through a keyed digest, so that
  no secret is kept.
- It listed the names that the caller needs. Every lookup lists all names that were requested lately.
- It began after the moment that the caller gives. A poll gives a moment in the past. A caller that was
  notified of a change gives the present, and never gets a result from before it.

Callers that arrive during a lookup wait together for the next lookup. The next lookup starts after
`MAX_WAIT_SECONDS` at the latest, so that a hanging lookup does not block others that may succeed. An error is
shared like a result. The lookup runs in its own task, which is cancelled when no caller waits for it any
more.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from stoker.controller.priority_semaphore import HostLimiter
from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, RepoUrl, without_userinfo
from stoker.git.auth.credentials import GitPassword, GitSshKey, RepoAccess, fixed_access
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.remote.resolve import are_branches_or_tags, list_refs
from stoker.kube.client.deadlines import deadline
from stoker.kube.runtime.result import as_stoker_error

MAX_WAIT_SECONDS = 1.0
"""Seconds that a lookup waits for the lookup before it."""
MAX_NAMES = 128
"""Names in one lookup: git compares each name with every ref that the server lists."""
MAX_KEPT = 4096

RefLister = Callable[[RepoUrl, RepoAccess, Collection[str]], Awaitable[Mapping[str, CommitId]]]


class SharedLookupResult(NamedTuple):
    """The result of one lookup; times are of the clock's `monotonic`."""

    begun: float
    ended: float
    names: frozenset[str]
    refs: Mapping[str, CommitId]
    error: StokerError | None = None

    def tells(self, names: Collection[str], since: float) -> bool:
        return self.begun > since and self.names.issuperset(names)


class SharedLookupRequest(NamedTuple):
    """A caller's request."""

    names: tuple[str, ...]
    since: float
    """A lookup that began at this moment or earlier is not an answer."""
    hurried: bool = False
    again_in: float = 0.0
    """Seconds until the caller's next poll; until then other lookups list its names too."""


@dataclass(slots=True, eq=False)
class _SharedLookupRun:
    """A lookup that waits for a place, or runs."""

    names: frozenset[str]
    since: float
    hurried: bool
    begun: float = -math.inf
    waiters: int = 0
    task: asyncio.Task[SharedLookupResult] = field(init=False)


@dataclass(slots=True, eq=False)
class _LookupGroup:
    """The lookups of all callers with the same URL and access."""

    wanted: dict[str, float] = field(default_factory=dict)
    """Requested names, least recently requested first, and until when lookups list them."""
    found: SharedLookupResult | None = None
    waiting: _SharedLookupRun | None = None
    running: _SharedLookupRun | None = None

    def idle(self, now: float) -> bool:
        return (
            self.waiting is None and self.running is None and all(end < now for end in self.wanted.values())
        )


class SharedLookups:
    """All lookups of this process."""

    def __init__(self, look: RefLister, hosts: HostLimiter, clock: Clock) -> None:
        """A lookup holds a place of `hosts`; urgent lookups get it first."""
        self._look = look
        self._hosts = hosts
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._groups: dict[tuple[str, str], _LookupGroup] = {}

    async def ask(self, url: RepoUrl, access: RepoAccess, wanted: SharedLookupRequest) -> SharedLookupResult:
        """Return the result of a lookup that began late enough; the caller raises its error."""
        group = self._group(url, access, wanted.names)
        self._remember(group, wanted)
        if group.found is not None and group.found.tells(wanted.names, wanted.since):
            return group.found
        joined = _joinable_round(group, wanted)
        if joined is None:
            joined = _SharedLookupRun(frozenset(wanted.names), wanted.since, wanted.hurried)
            before, group.waiting = group.running, joined
            joined.task = asyncio.create_task(self._run(group, joined, before, url, access))
        joined.waiters += 1
        try:
            return await asyncio.shield(joined.task)
        finally:
            joined.waiters -= 1
            if not joined.waiters:
                # Before the cancel, so that no caller joins a lookup that is being cancelled.
                _leave_round(group, joined)
                joined.task.cancel()

    async def _run(
        self,
        group: _LookupGroup,
        mine: _SharedLookupRun,
        before: _SharedLookupRun | None,
        url: RepoUrl,
        access: RepoAccess,
    ) -> SharedLookupResult:
        try:
            if before is not None:
                with suppress(TimeoutError):
                    async with deadline(self._clock, MAX_WAIT_SECONDS):
                        await asyncio.wait([before.task])
            async with self._hosts.turn(source_host(url), hurried=mine.hurried):
                known = group.found
                if known is not None and known.tells(mine.names, mine.since):
                    return known  # an urgent lookup was faster
                _leave_round(group, mine)
                mine.names, mine.begun = self._names(group, mine.names), self._clock.monotonic()
                group.running = mine
                found = await self._found(url, access, mine.names, mine.begun)
        finally:
            _leave_round(group, mine)
        if group.found is None or group.found.begun <= found.begun:
            group.found = found
        return found

    async def _found(
        self, url: RepoUrl, access: RepoAccess, names: frozenset[str], begun: float
    ) -> SharedLookupResult:
        refs: Mapping[str, CommitId] = {}
        trouble: StokerError | None = None
        try:
            refs = await self._look(url, access, names)
        except Exception as error:
            trouble = as_stoker_error(error)
        return SharedLookupResult(begun, self._clock.monotonic(), names, refs, trouble)

    def _remember(self, group: _LookupGroup, wanted: SharedLookupRequest) -> None:
        until = self._clock.monotonic() + 2 * wanted.again_in
        for name in wanted.names:
            group.wanted.pop(name, None)
            group.wanted[name] = until

    def _names(self, group: _LookupGroup, asked: frozenset[str]) -> frozenset[str]:
        """The requested names, and as many recently requested names as fit, least recent first.

        The caller that polled the longest time ago polls again soonest.
        """
        now = self._clock.monotonic()
        group.wanted = {name: until for name, until in group.wanted.items() if until >= now}
        others = [name for name in group.wanted if name not in asked]
        return asked.union(others[: max(0, MAX_NAMES - len(asked))])

    def _group(self, url: RepoUrl, access: RepoAccess, names: Collection[str]) -> _LookupGroup:
        # Names that are neither branches nor tags are in another list of the server.
        key = lookup_key(self._key, url, access), "" if are_branches_or_tags(names) else "\n".join(names)
        found = self._groups.pop(key, None)
        if found is None:
            found = _LookupGroup()
            now = self._clock.monotonic()
            for old in [old for old, group in self._groups.items() if group.idle(now)]:
                del self._groups[old]
            while len(self._groups) >= MAX_KEPT:  # a running lookup keeps its own reference to its group
                del self._groups[next(iter(self._groups))]
        self._groups[key] = found
        return found


def ref_lister(git: GitRunner, clock: Clock, timeout: float) -> RefLister:
    """Return a function that lists refs with git, within `timeout` seconds."""

    async def look(url: RepoUrl, access: RepoAccess, names: Collection[str]) -> Mapping[str, CommitId]:
        async with answer_within(clock, timeout, url):
            return await list_refs(Remote(git, url, fixed_access(access)), names)

    return look


@asynccontextmanager
async def answer_within(clock: Clock, seconds: float, url: RepoUrl) -> AsyncIterator[None]:
    """Raise Retry if the source has not answered after so many seconds."""
    scope: asyncio.Timeout | None = None
    try:
        async with deadline(clock, seconds) as scope:
            yield
    except TimeoutError:
        if scope is None or not scope.expired():
            raise
        sentence = f"repository {without_userinfo(url)} did not answer within {seconds:g} s"
        raise Retry(sentence, reason=Reason.SOURCE_UNREACHABLE) from None


def source_host(url: RepoUrl) -> str:
    """The host for the concurrency limit: the part before the colon of an scp-like URL, S3's endpoint."""
    parts = urlsplit(url)
    if parts.scheme == "s3":
        query = dict(parse_qsl(parts.query))
        return urlsplit(query.get("endpoint", "")).netloc or f"s3 {query.get('region', '')}"
    return parts.netloc or str(url).partition(":")[0]


def lookup_key(key: bytes, url: RepoUrl, access: RepoAccess) -> str:
    """Return a digest that is equal for the same URL, login, proxy and trust, and reveals nothing.

    It distinguishes more than `stoker.git.auth.credentials.access_identity`. That identity covers what a
    login can see; this digest also covers which servers it trusts.
    """
    digest = hmac.new(key, url.encode(), hashlib.sha256)
    for part in _access_fields(access):
        digest.update(b"\0-" if part is None else b"\0%d\0" % len(part) + part)
    return digest.hexdigest()


def _access_fields(access: RepoAccess) -> Iterator[bytes | None]:
    yield from (access.ca, access.proxy.encode(), access.subject.encode())
    yield b"known" if access.require_known_hosts else b"any"
    login = access.login
    if isinstance(login, GitPassword):
        yield from (b"password", login.username.encode(), login.password.reveal_bytes())
    elif isinstance(login, GitSshKey):
        yield from (b"ssh", login.key.reveal_bytes(), login.known_hosts)


def _joinable_round(group: _LookupGroup, wanted: SharedLookupRequest) -> _SharedLookupRun | None:
    """Return a lookup of another caller that also answers this request, if there is one."""
    running, waiting = group.running, group.waiting
    if running is not None and running.begun > wanted.since and running.names.issuperset(wanted.names):
        return running
    if waiting is None or (wanted.hurried and not waiting.hurried):
        return None
    names = waiting.names.union(wanted.names)
    if len(names) > MAX_NAMES:
        return None
    waiting.names, waiting.since = names, max(waiting.since, wanted.since)
    return waiting


def _leave_round(group: _LookupGroup, mine: _SharedLookupRun) -> None:
    if group.waiting is mine:
        group.waiting = None
    if group.running is mine:
        group.running = None

"""One look at a repository for all who look at it in the same way.

A poll that starts git for each of five hundred resources costs more than everything
else at rest. So whoever asks where a ref is may take what another look has found, if

- it is the same address, opened with the same login, through the same proxy and with the
  same trust: byte by byte, compared by a keyed digest, so that nothing secret is kept;
- it told of the names that are asked for: every look asks for all that were wanted lately;
- it began after the moment that the asker names. Who polls names one in the past, who was
  told of a change names this one, and is never answered from before it.

Those who ask while a look is under way wait for the next one together, a second at most:
one that hangs must not hold up who may have more luck. A failure is shared like an answer.
The look itself belongs to nobody and ends when nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.refs import CommitId, RepoUrl
from stoker.git.auth.credentials import GitPassword, GitSshKey, RepoAccess
from stoker.git.remote.resolve import are_branches_or_tags
from stoker.kube.client.deadlines import deadline
from stoker.kube.runtime.result import as_stoker_error

MAX_WAIT_SECONDS = 1.0
"""Seconds that a look waits for the one before it."""
MAX_NAMES = 128
"""Of one look: git compares each with every ref that the server lists."""
MAX_KEPT = 4096

RefLister = Callable[[RepoUrl, RepoAccess, Collection[str]], Awaitable[Mapping[str, CommitId]]]
LookupTurn = Callable[[bool], AbstractAsyncContextManager[None]]
"""A place at the host; whoever is in a hurry gets it first."""


class SharedLookupResult(NamedTuple):
    """What one look has found; times are of the clock's `monotonic`."""

    begun: float
    ended: float
    names: frozenset[str]
    refs: Mapping[str, CommitId]
    error: StokerError | None = None

    def tells(self, names: Collection[str], since: float) -> bool:
        return self.begun > since and self.names.issuperset(names)


class SharedLookupRequest(NamedTuple):
    """What is asked for."""

    names: tuple[str, ...]
    since: float
    """A look that began then, or earlier, is no answer."""
    hurried: bool = False
    again_in: float = 0.0
    """After how many seconds the same will be asked again; looks of others tell it meanwhile."""


@dataclass(slots=True, eq=False)
class _SharedLookupRun:
    """A look that waits for its turn, or is under way."""

    names: frozenset[str]
    since: float
    hurried: bool
    begun: float = -math.inf
    waiters: int = 0
    task: asyncio.Task[SharedLookupResult] = field(init=False)


@dataclass(slots=True, eq=False)
class _LookupGroup:
    """All who look in the same way."""

    wanted: dict[str, float] = field(default_factory=dict)
    """Names, those that were asked for longest ago first, and until when they are worth a look."""
    found: SharedLookupResult | None = None
    waiting: _SharedLookupRun | None = None
    running: _SharedLookupRun | None = None

    def idle(self, now: float) -> bool:
        return (
            self.waiting is None and self.running is None and all(end < now for end in self.wanted.values())
        )


class SharedLookups:
    """The looks of this process."""

    def __init__(self, look: RefLister, clock: Clock) -> None:
        self._look = look
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._groups: dict[tuple[str, str], _LookupGroup] = {}

    async def ask(
        self, url: RepoUrl, access: RepoAccess, wanted: SharedLookupRequest, turn: LookupTurn
    ) -> SharedLookupResult:
        """What a look tells that began late enough; its error is for the caller to raise."""
        group = self._group(url, access, wanted.names)
        self._remember(group, wanted)
        if group.found is not None and group.found.tells(wanted.names, wanted.since):
            return group.found
        joined = _joinable_round(group, wanted)
        if joined is None:
            joined = _SharedLookupRun(frozenset(wanted.names), wanted.since, wanted.hurried)
            before, group.waiting = group.running, joined
            joined.task = asyncio.create_task(self._run(group, joined, before, turn, url, access))
        joined.waiters += 1
        try:
            return await asyncio.shield(joined.task)
        finally:
            joined.waiters -= 1
            if not joined.waiters:
                _leave_round(group, joined)  # at once: nobody may join what is being cancelled
                joined.task.cancel()

    async def _run(
        self,
        group: _LookupGroup,
        mine: _SharedLookupRun,
        before: _SharedLookupRun | None,
        turn: LookupTurn,
        url: RepoUrl,
        access: RepoAccess,
    ) -> SharedLookupResult:
        try:
            if before is not None:
                with suppress(TimeoutError):
                    async with deadline(self._clock, MAX_WAIT_SECONDS):
                        await asyncio.wait([before.task])
            async with turn(mine.hurried):
                known = group.found
                if known is not None and known.tells(mine.names, mine.since):
                    return known  # somebody in a hurry was faster
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
        """What was asked for, and as much as fits of what will be; who asked longest ago asks soonest."""
        now = self._clock.monotonic()
        group.wanted = {name: until for name, until in group.wanted.items() if until >= now}
        others = [name for name in group.wanted if name not in asked]
        return asked.union(others[: max(0, MAX_NAMES - len(asked))])

    def _group(self, url: RepoUrl, access: RepoAccess, names: Collection[str]) -> _LookupGroup:
        # What is neither a branch nor a tag is looked for in another list of the server's.
        key = lookup_key(self._key, url, access), "" if are_branches_or_tags(names) else "\n".join(names)
        found = self._groups.pop(key, None)
        if found is None:
            found = _LookupGroup()
            now = self._clock.monotonic()
            for old in [old for old, group in self._groups.items() if group.idle(now)]:
                del self._groups[old]
            while len(self._groups) >= MAX_KEPT:  # whoever looks under way keeps hold of theirs
                del self._groups[next(iter(self._groups))]
        self._groups[key] = found
        return found


def lookup_key(key: bytes, url: RepoUrl, access: RepoAccess) -> str:
    """The same for two who look at the same place, in the same way, as the same; nothing can be read from it.

    More than `stoker.git.auth.credentials.access_identity` tells apart: there it is what somebody
    may see, here also whom they believe.
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
    """A look that others asked for and that answers this too."""
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

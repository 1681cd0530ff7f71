"""Authenticates visitors and determines what they may see; the API server decides both.

A TokenReview identifies the owner of a token. SubjectAccessReviews determine the visible scope: first for
the whole cluster and, if that is denied, for each namespace that has something to show. This full check
runs every 30 seconds. In between, every few seconds, the token and the permissions already granted are
checked again, which needs few requests: a revoked permission ends within seconds, and a new permission
takes effect within half a minute.

The result is shared by all sessions of a user, and only one check of a user runs at a time: many pages
cost the API server as much as a single page. With very many users, each is checked less often.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from stoker.dashboard.cluster.access_review import (
    REVIEW_TIMEOUT_SECONDS,
    AccessQuestion,
    AccessReviews,
    DashboardUser,
    gather_all,
)
from stoker.dashboard.cluster.kinds import ACTIONABLE_KINDS, ALL, PAUSE_MAP, RESOURCES_WITH_RULES
from stoker.dashboard.cluster.permissions import NO_REACH, GrantedNamespaces, VisitorRights
from stoker.dashboard.interfaces import ActionRefused, VisibleScope, Visitor
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.secrets import Secret
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import deadline
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.telemetry.logs import get_logger

CACHE_SECONDS = 30.0
SOON_SECONDS = 5.0
MAX_CONFIRMED = 60
"""Limit of granted permissions that are checked in between; a user with more gets only full checks."""
REVIEWS_PER_SECOND = 50.0
"""Limit of the checks in between, for all users together; above it, the interval grows."""
MAX_CACHED_TOKENS = 1_000
MAX_NAMESPACES = 1_000
"""Limit of namespaces checked for a visitor and kind; objects in further namespaces are not shown."""

log = get_logger(__name__)


class VisibleNamespaces(Protocol):
    """The namespaces that have something to show."""

    def places(self, kind: str) -> Iterable[str]: ...

    async def looked(self) -> None: ...


class _TokenOwner(NamedTuple):
    """The user a token belonged to, and when that was checked."""

    user: DashboardUser
    at: float


class _ReviewedSight(NamedTuple):
    """A visible scope, and the permissions granted for it."""

    sight: VisibleScope
    granted: tuple[AccessQuestion, ...]


@dataclass(frozen=True, slots=True)
class _CachedSight:
    """A user's visible scope; all callers await the same task `asked`."""

    asked: asyncio.Task[_ReviewedSight]
    at: float
    until: float
    """The time of the next full check."""

    @property
    def granted(self) -> tuple[AccessQuestion, ...]:
        return self.asked.result().granted if self.asked.done() and not _has_failed(self.asked) else ()


class ClusterAuth:
    """Admits users whom the API server authenticates."""

    def __init__(
        self,
        client: KubeClient,
        scene: VisibleNamespaces,
        home: str,
        clock: Clock | None = None,
        *,
        sight_seconds: float = CACHE_SECONDS,
        kinds: Collection[str] = tuple(ALL),
    ) -> None:
        self._scene = scene
        self._stop = AccessQuestion("patch", CONFIG_MAPS, home, PAUSE_MAP)
        self._clock = clock or SystemClock()
        self._reviews = AccessReviews(client, self._clock)
        self._sight_seconds = sight_seconds
        self._kinds = kinds
        self._known: OrderedDict[bytes, _TokenOwner] = OrderedDict()
        self._seen: OrderedDict[bytes, _CachedSight] = OrderedDict()

    def known(self, token: Secret) -> Visitor | None:
        """Return the owner of the token if that was checked within the last 30 seconds."""
        known = self._known.get(_token_digest(token))
        if known is None or self._clock.monotonic() >= known.at + CACHE_SECONDS:
            return None
        return _visitor(known.user, token)

    async def admit(self, token: Secret) -> Visitor | None:
        """Return the owner of the token; the check may be up to 30 seconds old."""
        known = self.known(token)
        if known is not None:
            return known
        user = await self._identified(token)
        return None if user is None else _visitor(user, token)

    async def sight(self, visitor: Visitor) -> VisibleScope:
        """Return the visible scope; the check may be a few seconds old."""
        known = self._known.get(_token_digest(visitor.token))
        if known is not None and self._clock.monotonic() < known.at + self._pace():
            user: DashboardUser | None = known.user
        else:
            user = await self._identified(visitor.token)
        if user is None or user.username != visitor.name:
            raise ActionRefused(401, "the token is no longer good: sign in again")
        # Shielded, because other callers may await the same task.
        return (await asyncio.shield(self._asked_about(user))).sight

    def _asked_about(self, user: DashboardUser) -> asyncio.Task[_ReviewedSight]:
        key, now = user.key(), self._clock.monotonic()
        before = self._seen.pop(key, None)
        self._seen[key] = seen = self._asked_again(before, user, now)
        while len(self._seen) > 1 and (len(self._seen) > MAX_CACHED_TOKENS or self._is_forgotten(now)):
            self._seen.popitem(last=False)
        return seen.asked

    def _is_forgotten(self, now: float) -> bool:
        """Return whether the entry that was unused for the longest time has expired."""
        return next(iter(self._seen.values())).until < now - CACHE_SECONDS

    def _asked_again(self, seen: _CachedSight | None, user: DashboardUser, now: float) -> _CachedSight:
        """Return the cached scope, or start a full check or a check in between if it is due."""
        if seen is None or (seen.asked.done() and (now >= seen.until or _has_failed(seen.asked))):
            return _CachedSight(_start_task(self._looked_up(user.subject())), now, now + self._sight_seconds)
        granted = seen.granted
        if not granted or len(granted) > MAX_CONFIRMED or now < seen.at + self._pace():
            return seen
        return _CachedSight(
            _start_task(self._confirmed(user.subject(), seen.asked.result())), now, seen.until
        )

    async def _looked_up(self, subject: dict[str, Any]) -> _ReviewedSight:
        await self._settled()
        kinds = self._kinds
        *found, may_stop = await gather_all(
            [*(self._of_kind(subject, kind) for kind in kinds), self._reviews.allowed(subject, self._stop)]
        )
        lists = {kind: lists for kind, (lists, _) in zip(kinds, found, strict=True)}
        patches = {
            kind: patches for kind, (_, patches) in zip(kinds, found, strict=True) if kind in ACTIONABLE_KINDS
        }
        granted = [
            *_granted_actions("list", lists),
            *_granted_actions("patch", patches),
            *([self._stop] if may_stop else []),
        ]
        return _ReviewedSight(VisitorRights(lists, patches).sight(may_stop=may_stop), tuple(granted))

    async def _confirmed(self, subject: dict[str, Any], found: _ReviewedSight) -> _ReviewedSight:
        """Return the same scope if every granted permission still holds; otherwise run a full check."""
        still = await gather_all([self._reviews.allowed(subject, one) for one in found.granted])
        return found if all(still) else await self._looked_up(subject)

    async def _settled(self) -> None:
        """Wait for the first lists: without them, the namespaces to check are unknown."""
        with contextlib.suppress(TimeoutError):
            async with deadline(self._clock, REVIEW_TIMEOUT_SECONDS):
                await self._scene.looked()

    def _pace(self) -> float:
        """Return the seconds between two checks of a user."""
        granted = (len(one.granted) for one in self._seen.values())
        questions = len(self._known) + sum(many for many in granted if many <= MAX_CONFIRMED)
        return min(self._sight_seconds, max(SOON_SECONDS, questions / REVIEWS_PER_SECOND))

    async def _identified(self, token: Secret) -> DashboardUser | None:
        key = _token_digest(token)
        self._known.pop(key, None)
        user = await self._reviews.identified(token)
        if user is None:
            return None
        now = self._clock.monotonic()
        self._known[key] = _TokenOwner(user, now)
        while (
            len(self._known) > MAX_CACHED_TOKENS or next(iter(self._known.values())).at < now - CACHE_SECONDS
        ):
            self._known.popitem(last=False)
        return user

    async def _of_kind(
        self, subject: dict[str, Any], kind: str
    ) -> tuple[GrantedNamespaces, GrantedNamespaces]:
        """Return where a user may list objects of a kind, and where they may also patch them."""
        places = sorted(self._scene.places(kind))
        if len(places) > MAX_NAMESPACES:
            log.warning("dashboard.many_namespaces", kind=kind, asked=MAX_NAMESPACES, there=len(places))
        lists = await self._reach(subject, "list", kind, places[:MAX_NAMESPACES])
        if kind not in ACTIONABLE_KINDS:
            return lists, NO_REACH
        seen = [place for place in places if lists.has(place)]
        return lists, await self._reach(subject, "patch", kind, seen[:MAX_NAMESPACES])

    async def _reach(
        self, subject: dict[str, Any], verb: str, kind: str, places: Sequence[str]
    ) -> GrantedNamespaces:
        if await self._reviews.allowed(subject, AccessQuestion(verb, RESOURCES_WITH_RULES[kind])):
            return GrantedNamespaces(everywhere=True)
        answers = await gather_all(
            [
                self._reviews.allowed(subject, AccessQuestion(verb, RESOURCES_WITH_RULES[kind], one))
                for one in places
            ]
        )
        return GrantedNamespaces(
            namespaces=frozenset(one for one, yes in zip(places, answers, strict=True) if yes)
        )


def _granted_actions(verb: str, reaches: dict[str, GrantedNamespaces]) -> Iterable[AccessQuestion]:
    for kind, reach in reaches.items():
        for place in ("",) if reach.everywhere else sorted(reach.namespaces):
            yield AccessQuestion(verb, RESOURCES_WITH_RULES[kind], place)


def _start_task(work: Coroutine[Any, Any, _ReviewedSight]) -> asyncio.Task[_ReviewedSight]:
    task = asyncio.create_task(work, name="dashboard sight")
    task.add_done_callback(_has_failed)
    return task


def _has_failed(asked: asyncio.Task[_ReviewedSight]) -> bool:
    """Return whether there is no result, so that the next caller checks anew.

    As a done callback it also retrieves the exception, so asyncio does not log it as never retrieved.
    """
    return asked.cancelled() or asked.exception() is not None


def _visitor(user: DashboardUser, token: Secret) -> Visitor:
    return Visitor(user.username, user.groups or (), token)


def _token_digest(token: Secret) -> bytes:
    """Return the cache key of a token, so that the cache does not hold the token itself."""
    return hashlib.sha256(token.reveal_bytes()).digest()

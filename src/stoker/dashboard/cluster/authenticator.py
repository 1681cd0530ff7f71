"""Who a visitor is and how far they see: both are for the API server to say.

A token is shown to it in a TokenReview. How far somebody sees is asked by SubjectAccessReviews, first
for the whole cluster and, where that is refused, for each namespace in which there is something to
see; all of that every half minute. In between, every few seconds, the token is shown again, and what
was granted is asked about once more, which is little: so a right that was taken away is gone within
seconds, and a new one is there within half a minute.

What is known is known for all sessions of a person, who is asked about once at a time: many pages
cost the API server what one costs. With very many people in, each is asked about less often.
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
"""Rights of one person that are asked about in between; who has more is asked about as a whole."""
REVIEWS_PER_SECOND = 50.0
"""In between, about all people together; with more to ask, it is asked less often."""
MAX_CACHED_TOKENS = 1_000
MAX_NAMESPACES = 1_000
"""Namespaces of one kind that are asked about for one visitor; what lies in others is not shown."""

log = get_logger(__name__)


class VisibleNamespaces(Protocol):
    """Where there is something to see."""

    def places(self, kind: str) -> Iterable[str]: ...

    async def looked(self) -> None: ...


class _TokenOwner(NamedTuple):
    """Whose a token was."""

    user: DashboardUser
    at: float


class _ReviewedSight(NamedTuple):
    """How far somebody sees, and what was granted for that."""

    sight: VisibleScope
    granted: tuple[AccessQuestion, ...]


@dataclass(frozen=True, slots=True)
class _CachedSight:
    """How far a person sees; `asked` is the same task for all who want to know."""

    asked: asyncio.Task[_ReviewedSight]
    at: float
    until: float
    """After that everything is asked."""

    @property
    def granted(self) -> tuple[AccessQuestion, ...]:
        return self.asked.result().granted if self.asked.done() and not _has_failed(self.asked) else ()


class ClusterAuth:
    """Lets in whom the API server knows."""

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
        """Who brought the token half a minute ago at most."""
        known = self._known.get(_token_digest(token))
        if known is None or self._clock.monotonic() >= known.at + CACHE_SECONDS:
            return None
        return _visitor(known.user, token)

    async def admit(self, token: Secret) -> Visitor | None:
        """Who brings the token, as of half a minute ago at most."""
        known = self.known(token)
        if known is not None:
            return known
        user = await self._identified(token)
        return None if user is None else _visitor(user, token)

    async def sight(self, visitor: Visitor) -> VisibleScope:
        """As of a few seconds ago."""
        known = self._known.get(_token_digest(visitor.token))
        if known is not None and self._clock.monotonic() < known.at + self._pace():
            user: DashboardUser | None = known.user
        else:
            user = await self._identified(visitor.token)
        if user is None or user.username != visitor.name:
            raise ActionRefused(401, "the token is no longer good: sign in again")
        # Shielded, for others may wait for the same answer.
        return (await asyncio.shield(self._asked_about(user))).sight

    def _asked_about(self, user: DashboardUser) -> asyncio.Task[_ReviewedSight]:
        key, now = user.key(), self._clock.monotonic()
        before = self._seen.pop(key, None)
        self._seen[key] = seen = self._asked_again(before, user, now)
        while len(self._seen) > 1 and (len(self._seen) > MAX_CACHED_TOKENS or self._is_forgotten(now)):
            self._seen.popitem(last=False)
        return seen.asked

    def _is_forgotten(self, now: float) -> bool:
        """Whether the one who has not looked for longest has not looked for long."""
        return next(iter(self._seen.values())).until < now - CACHE_SECONDS

    def _asked_again(self, seen: _CachedSight | None, user: DashboardUser, now: float) -> _CachedSight:
        """What is known of somebody, or what is being asked now."""
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
        """The same where all that was granted still is; otherwise whatever is true now."""
        still = await gather_all([self._reviews.allowed(subject, one) for one in found.granted])
        return found if all(still) else await self._looked_up(subject)

    async def _settled(self) -> None:
        """Who comes in the first moments would be asked about namespaces that nobody knows of yet."""
        with contextlib.suppress(TimeoutError):
            async with deadline(self._clock, REVIEW_TIMEOUT_SECONDS):
                await self._scene.looked()

    def _pace(self) -> float:
        """Seconds after which somebody is asked about again."""
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
        """Where somebody sees objects of a kind, and where they may change what they see."""
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
    """Whether it has no answer, so that the next one asks anew; looked at, it is no unheard error."""
    return asked.cancelled() or asked.exception() is not None


def _visitor(user: DashboardUser, token: Secret) -> Visitor:
    return Visitor(user.username, user.groups or (), token)


def _token_digest(token: Secret) -> bytes:
    """What a token is remembered by."""
    return hashlib.sha256(token.reveal_bytes()).digest()

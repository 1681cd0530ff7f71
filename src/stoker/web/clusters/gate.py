"""Who a visitor is and how far they see: both are for the API server to say.

A token is shown to it in a TokenReview; what comes back is known for at most half a minute. How far
somebody sees is asked by SubjectAccessReviews, first for the whole cluster and, where that is
refused, for each namespace in which there is something to see. The answer is known for half a
minute as well, for all sessions of a person, who is asked about once at a time: many pages of
somebody without any right cost the API server what one costs. So many questions are under way at a
time, whoever they are about. Where the API server cannot be asked nobody is let in, and nobody sees;
why it cannot is for the log, and not for who is not let in.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Misconfigured, Retry, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.kube.client import Client
from stoker.kube.credentials import bearer
from stoker.kube.deadlines import deadline
from stoker.kube.resources import CONFIG_MAPS, Resource
from stoker.telemetry.logs import get_logger
from stoker.web.clusters.kinds import ALL, PAUSE_MAP, SYNCED
from stoker.web.clusters.rights import NOWHERE, Reach, Rights
from stoker.web.seams import Refused, Sight, Visitor

T = TypeVar("T")

KNOWN_SECONDS = 30.0
MOST_KNOWN = 1_000
MOST_AT_ONCE = 16
PATIENCE_SECONDS = 10.0
MOST_NAMESPACES = 1_000
"""Namespaces of one kind that are asked about for one visitor; what lies in others is not shown."""
LONGEST_TOKEN = 16 << 10

_TOKENS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
_ACCESS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)

log = get_logger(__name__)


class Places(Protocol):
    """Where there is something to see."""

    def places(self, kind: str) -> Iterable[str]: ...

    async def looked(self) -> None: ...


class User(msgspec.Struct, frozen=True):
    """Somebody, as the API server knows them."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, list[str]] | None = None

    def subject(self) -> dict[str, Any]:
        """As the spec of a SubjectAccessReview names them."""
        said = {"user": self.username, "uid": self.uid, "groups": self.groups, "extra": self.extra}
        return {name: value for name, value in said.items() if value}

    def key(self) -> bytes:
        """What a person is remembered by: all that an authorizer may look at."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).digest()


class _Identified(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: User = User()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _Identified = _Identified()


class _Verdict(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _Verdict = _Verdict()


@dataclass(frozen=True, slots=True)
class _Known:
    user: User
    until: float


@dataclass(frozen=True, slots=True)
class _Seen:
    """How far a person sees; `asked` is the same task for all who want to know."""

    asked: asyncio.Task[Sight]
    until: float


class _Asked(NamedTuple):
    """One question: a verb, a kind, and where; no namespace is all of them."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""


class ClusterGate:
    """Lets in whom the API server knows."""

    def __init__(
        self,
        client: Client,
        scene: Places,
        home: str,
        clock: Clock | None = None,
        *,
        sight_seconds: float = KNOWN_SECONDS,
    ) -> None:
        self._client = client
        self._scene = scene
        self._home = home
        self._clock = clock or SystemClock()
        self._sight_seconds = sight_seconds
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._seen: OrderedDict[bytes, _Seen] = OrderedDict()
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)

    def known(self, token: Secret) -> Visitor | None:
        """Who brought the token half a minute ago at most."""
        known = self._known.get(_digest(token))
        if known is None or self._clock.monotonic() >= known.until:
            return None
        return _visitor(known.user, token)

    async def admit(self, token: Secret) -> Visitor | None:
        """Who brings the token, as of half a minute ago at most."""
        known = self.known(token)
        if known is not None:
            return known
        user = await self._identified(token)
        return None if user is None else _visitor(user, token)

    async def sight(self, visitor: Visitor) -> Sight:
        """The token is shown anew; how far its owner sees is as of half a minute ago at most."""
        user = await self._identified(visitor.token)
        if user is None or user.username != visitor.name:
            raise Refused(401, "the token is no longer good: sign in again")
        return await asyncio.shield(self._asked_about(user))  # others may wait for the same answer

    def _asked_about(self, user: User) -> asyncio.Task[Sight]:
        key, now = user.key(), self._clock.monotonic()
        seen = self._seen.pop(key, None)
        if seen is None or (seen.asked.done() and (now >= seen.until or _failed(seen.asked))):
            task = asyncio.create_task(self._looked_up(user.subject()), name="dashboard sight")
            task.add_done_callback(_failed)
            seen = _Seen(task, now + self._sight_seconds)
        self._seen[key] = seen
        while len(self._seen) > MOST_KNOWN:
            self._seen.popitem(last=False)
        return seen.asked

    async def _looked_up(self, subject: dict[str, Any]) -> Sight:
        await self._settled()
        stop = _Asked("patch", CONFIG_MAPS, self._home, PAUSE_MAP)
        *found, may_stop = await together(
            [*(self._of_kind(subject, kind) for kind in ALL), self._allowed(subject, stop)]
        )
        lists = {kind: lists for kind, (lists, _) in zip(ALL, found, strict=True)}
        patches = {kind: patches for kind, (_, patches) in zip(ALL, found, strict=True) if kind in SYNCED}
        return Rights(lists, patches).sight(may_stop=may_stop)

    async def _settled(self) -> None:
        """Who comes in the first moments would be asked about namespaces that nobody knows of yet."""
        with contextlib.suppress(TimeoutError):
            async with deadline(self._clock, PATIENCE_SECONDS):
                await self._scene.looked()

    async def _identified(self, token: Secret) -> User | None:
        key = _digest(token)
        self._known.pop(key, None)
        if not _is_token(token):
            return None
        async with self._slots:
            body = {"spec": {"token": token.reveal()}}
            review = await self._answer(_TOKENS, body, _TokenReview)
        if not review.status.authenticated or not review.status.user.username:
            return None
        self._known[key] = _Known(review.status.user, self._clock.monotonic() + KNOWN_SECONDS)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return review.status.user

    async def _of_kind(self, subject: dict[str, Any], kind: str) -> tuple[Reach, Reach]:
        """Where somebody sees objects of a kind, and where they may change what they see."""
        places = sorted(self._scene.places(kind))
        if len(places) > MOST_NAMESPACES:
            log.warning("dashboard.many_namespaces", kind=kind, asked=MOST_NAMESPACES, there=len(places))
        lists = await self._reach(subject, "list", kind, places[:MOST_NAMESPACES])
        if kind not in SYNCED:
            return lists, NOWHERE
        seen = [place for place in places if lists.has(place)]
        return lists, await self._reach(subject, "patch", kind, seen[:MOST_NAMESPACES])

    async def _reach(self, subject: dict[str, Any], verb: str, kind: str, places: Sequence[str]) -> Reach:
        if await self._allowed(subject, _Asked(verb, ALL[kind])):
            return Reach(everywhere=True)
        answers = await together([self._allowed(subject, _Asked(verb, ALL[kind], one)) for one in places])
        return Reach(namespaces=frozenset(one for one, yes in zip(places, answers, strict=True) if yes))

    async def _allowed(self, subject: dict[str, Any], asked: _Asked) -> bool:
        attributes = {
            "verb": asked.verb,
            "group": asked.resource.group,
            "version": asked.resource.version,
            "resource": asked.resource.plural,
            "namespace": asked.namespace,
            "name": asked.name,
        }
        body = {"spec": {**subject, "resourceAttributes": attributes}}
        async with self._slots:
            return (await self._answer(_ACCESS, body, _AccessReview)).status.allowed

    async def _answer(self, resource: Resource, body: dict[str, Any], into: type[T]) -> T:
        try:
            async with deadline(self._clock, PATIENCE_SECONDS):
                return await self._client.create(resource, body, into=into)
        except TimeoutError:
            error: StokerError = Retry("it does not answer in time", reason=Reason.UNREACHABLE)
        except StokerError as failed:
            error = failed
        log.warning("dashboard.gate_failed", kind=resource.kind, reason=error.reason, error=error.message)
        raise Retry(
            "the API server could not be asked who may come in; the log says why", reason=error.reason
        )


async def together(works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """All of them at once; the first that fails ends the others, and is what the caller hears."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


def _failed(asked: asyncio.Task[Sight]) -> bool:
    """Whether it has no answer, so that the next one asks anew; looked at, it is no unheard error."""
    return asked.cancelled() or asked.exception() is not None


def _visitor(user: User, token: Secret) -> Visitor:
    return Visitor(user.username, user.groups or (), token)


def _digest(token: Secret) -> bytes:
    """What a token is remembered by."""
    return hashlib.sha256(token.reveal_bytes()).digest()


def _is_token(token: Secret) -> bool:
    """Whether it could stand in a header at all; nobody is asked about anything else."""
    if len(token.reveal_bytes()) > LONGEST_TOKEN:
        return False
    try:
        bearer(token, "the visitor")
    except Misconfigured:
        return False
    return True

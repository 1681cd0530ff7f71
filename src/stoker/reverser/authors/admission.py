"""Answer admission reviews of the API server: always allowed, and at once.

The first step of author capture, before `stoker.reverser.authors.attribution`. The answer is built from the
head of the review and sent before anything else is read. The request and its user are read afterwards, stored
here and sent to the other replicas (`stoker.reverser.authors.fact_exchange`). The queue of unread reviews is
bounded: beyond the bound a review leaves a doubt, which makes an author unknown and never wrong.

Only the object that a fact names is decoded, one at a time, and only if its memory use is bounded
(`stoker.domain.json_cost`); of the other object only the metadata. An object that would take more memory
leaves a doubt, too.

This module must never refuse a change, never look anything up, and never keep an object.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import msgspec

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import InvalidValue
from stoker.domain.json_cost import decoded_size
from stoker.reverser.authors.attribution import AuthorAttribution
from stoker.reverser.authors.facts import SCALE, AuthorFact, RequestUser, request_doubt, request_fact
from stoker.reverser.selection.rules import ChangeOperation
from stoker.telemetry.logs import get_logger
from stoker.telemetry.metrics import MetricReading, Metrics

PATH = "/process-validating-webhook"

MAX_WAITING = 2000
MAX_WAITING_BYTES = 16 << 20
# Larger reviews are read in a thread: an object of 1.5 MB must not delay the answers to other reviews.
LARGE = 64 << 10
MAX_DECODED = 48 << 20
"""Bytes of memory that one decoded object may take while its fact is built."""
MAX_UID = 256
MAX_USERS = 1000

log = get_logger(__name__)


class FactListener(Protocol):
    """Receives every new fact."""

    def tell(self, fact: AuthorFact) -> None: ...


class _ReviewedMeta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _ReviewedObject(msgspec.Struct):
    metadata: _ReviewedMeta = msgspec.field(default_factory=_ReviewedMeta)


class _ReviewedResource(msgspec.Struct):
    group: str = ""
    resource: str = ""


class _ReviewedUser(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None


class _AuthorRequest(msgspec.Struct, rename="camel"):
    """The head of a request: enough for an answer and for a doubt."""

    uid: str
    operation: str = ""
    resource: _ReviewedResource = msgspec.field(default_factory=_ReviewedResource)
    sub_resource: str = ""
    dry_run: bool | None = None
    user_info: _ReviewedUser = msgspec.field(default_factory=_ReviewedUser)
    object: _ReviewedObject | None = None
    old_object: _ReviewedObject | None = None


class _AuthorReview(msgspec.Struct):
    request: _AuthorRequest


class _ReviewedOldMeta(_ReviewedMeta, rename="camel"):
    deletion_timestamp: str | None = None


class _ReviewedOldObject(msgspec.Struct):
    metadata: _ReviewedOldMeta = msgspec.field(default_factory=_ReviewedOldMeta)


class _FullAuthorRequest(_AuthorRequest, rename="camel"):
    """The same head with both objects, not decoded yet."""

    object: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]
    old_object: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]


class _FullAuthorReview(msgspec.Struct):
    request: _FullAuthorRequest


class _ReviewUid(msgspec.Struct):
    uid: str


class _UidOnlyReview(msgspec.Struct):
    """A review of which only the uid for the answer can be read."""

    request: _ReviewUid


_REVIEW = msgspec.json.Decoder(_AuthorReview)
_WHOLE_REVIEW_DECODER = msgspec.json.Decoder(_FullAuthorReview)
_HEAD = msgspec.json.Decoder(_ReviewedOldObject | None)
_UID_DECODER = msgspec.json.Decoder(_UidOnlyReview)


class IntakeBounds(NamedTuple):
    """Limits on the reviews that wait to be read."""

    reviews: int = MAX_WAITING
    size: int = MAX_WAITING_BYTES


class AuthorIntake:
    """Receives reviews from the API server. `review` answers a review; `run` reads its fact."""

    def __init__(
        self,
        authors: AuthorAttribution,
        peers: FactListener | None = None,
        *,
        bounds: IntakeBounds | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._authors = authors
        self._peers = peers
        self._bounds = bounds or IntakeBounds()
        self._clock = clock or SystemClock()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._taken = 0
        self._read = 0
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._users: dict[RequestUser, RequestUser] = {}
        self.counts = dict.fromkeys(("fact", "none", "dry_run", "malformed", "doubt"), 0)
        """The number of answered reviews by outcome."""
        if metrics is not None:
            metrics.collect_from(self._readings)

    async def review(self, body: bytes) -> bytes:
        """Return the answer; every review with a uid is allowed, whatever its content."""
        try:
            asked = _REVIEW.decode(body).request
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            self.counts["malformed"] += 1
            return _allowed_answer(_review_uid(body))
        if len(asked.uid) > MAX_UID:
            self.counts["malformed"] += 1
            raise InvalidValue("the uid of the review is too long")
        if asked.dry_run:
            self.counts["dry_run"] += 1
        elif asked.sub_resource not in ("", SCALE):
            self.counts["none"] += 1
        else:
            self._take(body, asked)
        return _allowed_answer(asked.uid)

    async def run(self) -> None:
        """Read the facts of answered reviews until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                # Pending answers go first, including those to reviews that arrived meanwhile.
                await asyncio.sleep(0)
                body = self._waiting.popleft()
                fact = await asyncio.to_thread(parse_fact, body) if len(body) > LARGE else parse_fact(body)
                self._size -= len(body)
                self._read += 1
                self._learn(fact, "fact")
                self._progress.set()

    async def settle(self) -> None:
        """Wait until the facts of all reviews before this call are known."""
        wanted = self._taken
        while self._read < wanted:
            self._progress.clear()
            await self._progress.wait()

    def _take(self, body: bytes, asked: _AuthorRequest) -> None:
        if len(self._waiting) < self._bounds.reviews and self._size + len(body) <= self._bounds.size:
            self._waiting.append(body)
            self._size += len(body)
            self._taken += 1
            self._wake.set()
        else:
            self._learn(request_doubt(msgspec.to_builtins(asked)), "doubt")

    def _learn(self, fact: AuthorFact | None, result: str) -> None:
        self.counts["none" if fact is None else result] += 1
        if fact is None:
            return
        fact = fact._replace(user=self._same(fact.user))
        self._authors.learn(fact, self._clock.monotonic())
        if self._peers is not None:
            self._peers.tell(fact)

    def _same(self, user: RequestUser) -> RequestUser:
        """Share one object among all facts of a user: the list of groups can be long."""
        if len(self._users) >= MAX_USERS:
            self._users.clear()
        return self._users.setdefault(user, user)

    def _readings(self) -> Iterable[MetricReading]:
        for result, count in self.counts.items():
            yield MetricReading(
                "author_reviews_total",
                "Reviews of the API server that were answered, by what they told.",
                count,
                {"result": result},
                counter=True,
            )
        yield MetricReading(
            "author_reviews_waiting", "Reviews that are answered and not read.", len(self._waiting)
        )
        yield MetricReading(
            "author_facts_known", "Versions of objects with known requests.", len(self._authors)
        )


def parse_fact(body: bytes) -> AuthorFact | None:
    """Return the fact of a review, or a doubt; None if it holds no fact or cannot be read."""
    try:
        request = _WHOLE_REVIEW_DECODER.decode(body).request
        decoded = _decode_object(request)
        if decoded is None:
            return request_doubt(msgspec.to_builtins(_REVIEW.decode(body).request))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    head: dict[str, Any] = {
        "operation": request.operation,
        "resource": {"group": request.resource.group, "resource": request.resource.resource},
        "subResource": request.sub_resource,
        "dryRun": request.dry_run,
        "userInfo": msgspec.to_builtins(request.user_info),
    }
    return request_fact({**head, **decoded})


def _decode_object(request: _FullAuthorRequest) -> dict[str, Any] | None:
    """Decode the object of the fact and the metadata of the other; None if it needs too much memory."""
    new, old = bytes(request.object), bytes(request.old_object)
    whole = {"object": new, "oldObject": old}
    if request.sub_resource != SCALE:  # both objects of a `scale` are small, and their counts are compared
        named = "oldObject" if request.operation == ChangeOperation.DELETE else "object"
        whole = {named: whole[named]}
    if sum(decoded_size(raw, MAX_DECODED) for raw in whole.values()) > MAX_DECODED:
        return None
    found: dict[str, Any] = {name: msgspec.json.decode(raw) for name, raw in whole.items()}
    if "oldObject" not in found:
        found["oldObject"] = msgspec.to_builtins(_HEAD.decode(old))
    return found


def _review_uid(body: bytes) -> str:
    """Return the uid of a review whose other fields cannot be read."""
    try:
        uid = _UID_DECODER.decode(body).request.uid
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise InvalidValue("the body is no AdmissionReview with a uid") from None
    if len(uid) > MAX_UID:
        raise InvalidValue("the uid of the review is too long")
    return uid


def _allowed_answer(uid: str) -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": uid, "allowed": True},
        }
    )

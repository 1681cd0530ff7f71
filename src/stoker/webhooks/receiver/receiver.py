"""The receiver: `POST /webhook/{namespace}/{name}` on every replica, which only requests syncs.

    rate limit    refuse a source that has failed too often                429
    check         path, method, content type; the body is not read yet     404 405 413 415
    read          the body, limited in bytes and in time                   401 408 413
    authenticate  the operator's keys, then the resource's own             401, or 404 to the operator
    parse         the request, in the format of its sender                 400
    decide        what it means for each addressed resource                202 accepted or not
    write         annotations, one write for many equal requests           503 if that fails

A caller that is not authenticated learns nothing about which resources exist, neither from the response
nor from its duration. The receiver never reads or writes a spec. It keeps no secret after the request
that was checked against it.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Self

from aiohttp import web

from stoker.api.to_intent.annotations.annotation_requests import TRACEPARENT
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import InvalidValue, StokerError
from stoker.domain.intent.intent import ResourceIdentity, SyncResourceKind
from stoker.domain.traces import HEADER
from stoker.http_server.connections import StrictHttpServer, start_listening
from stoker.http_server.rate_limit import FailureRateLimiter, RateLimitLane, caller_address, parse_networks
from stoker.http_server.request_signatures import MAX_BODY, has_credentials, read_capped
from stoker.kube.client.deadlines import deadline
from stoker.kube.client.errors import NotFound
from stoker.telemetry import tracing
from stoker.telemetry.logs import get_logger
from stoker.telemetry.metrics import Metrics
from stoker.telemetry.probes import parse_address
from stoker.webhooks.receiver.annotate import annotation_group
from stoker.webhooks.receiver.caller_auth import CallerAuthResult, CallerKeyReader, CallerKeys, authenticate
from stoker.webhooks.receiver.coalesce import RequestCoalescer
from stoker.webhooks.receiver.decide import WebhookDecision, WebhookSyncRequest, decide_request
from stoker.webhooks.receiver.index import IndexedResource
from stoker.webhooks.receiver.payloads import WebhookRequest, read_request
from stoker.webhooks.receiver.responses import (
    WebhookCounter,
    WebhookRefused,
    WebhookResponse,
    WebhookResult,
    respond,
)

AnnotateResource = Callable[[ResourceIdentity, Mapping[str, str]], Awaitable[None]]
"""Writes annotations on a resource, or raises."""
ResourceLookup = Callable[[str, str], Sequence[IndexedResource]]
"""Returns the resources of a namespace and a name from memory, at most one of each kind."""

SHUTDOWN_SECONDS = 5.0
_PATH = re.compile(r"/webhook/(?P<namespace>[a-z0-9][a-z0-9-]{0,62})/(?P<name>[a-z0-9][a-z0-9.-]{0,62})")
_JSON = re.compile(r"application/(?:[\w.-]+\+)?json")
_KINDS = {door.lower(): door for door in SyncResourceKind}

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReceiverOptions:
    """The command-line options of the receiver."""

    address: str = ":8443"
    max_body: int = MAX_BODY
    failures_per_minute: int = 100
    """The limit of failed requests of one source."""
    failures_overall: int = 1000
    trusted_proxies: tuple[str, ...] = ()
    """Networks whose X-Forwarded-For is trusted."""
    bodies_at_once: int = 32
    bodies_per_source: int = 4
    body_seconds: float = 5.0
    # Git servers hang up after five to ten seconds and would show a failed delivery although it succeeded.
    effect_seconds: float = 4.5


class _WebhookTarget(NamedTuple):
    namespace: str
    name: str
    kind: SyncResourceKind | None


class WebhookReceiver:
    """The HTTP server of the receiver; it listens inside an `async with`."""

    def __init__(
        self,
        index: ResourceLookup,
        keys: CallerKeyReader,
        annotate: AnnotateResource,
        *,
        operator_keys: Callable[[], CallerKeys] = CallerKeys,
        settings: ReceiverOptions | None = None,
        tls: ssl.SSLContext | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        """`ready` returns whether the index is complete; before that no caller can be authenticated."""
        self._settings = settings if settings is not None else ReceiverOptions()
        self._address = parse_address(self._settings.address)
        self._clock = clock if clock is not None else SystemClock()
        self._index = index
        self._keys = keys
        self._annotate = annotate
        self._operator_keys = operator_keys
        self._tls = tls
        self._ready = ready
        self._counter = WebhookCounter(metrics)
        self._trusted = parse_networks(self._settings.trusted_proxies)
        self._limiter = FailureRateLimiter(
            self._settings.failures_per_minute, self._settings.failures_overall, self._clock
        )
        self._wishes = RequestCoalescer(self._write, self._clock)
        self._reads: dict[asyncio.Timeout, str] = {}
        """The bodies being read, oldest first, with their sources."""
        self._runner: web.ServerRunner | None = None
        self.port: int | None = None

    async def __aenter__(self) -> Self:
        if self._address is None:
            return self
        server = StrictHttpServer(self._answer)
        self._runner = await start_listening(
            server, self._address, "webhooks", tls=self._tls, shutdown_seconds=SHUTDOWN_SECONDS
        )
        self.port = self._runner.addresses[0][1]
        log.info("webhook.listening", address=str(self._address), port=self.port, tls=self._tls is not None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        await self._wishes.close()
        self.port = None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        source = caller_address(request.remote, request.headers.get("X-Forwarded-For", ""), self._trusted)
        try:
            answer = await self._taken(request, source)
        except WebhookRefused as refused:
            answer = refused.answer
        self._counter.count(answer, source)
        return respond(answer)

    async def _taken(self, request: web.BaseRequest, source: str) -> WebhookResponse:
        lane = self._hear(request, source)
        target = self._look(request)
        if lane is RateLimitLane.WITHOUT_PROOF:
            raise WebhookRefused(
                401, WebhookResult.UNAUTHORIZED, "the request is not signed and shows no token"
            )
        body = await self._read(request, source)
        belief = self._believe(request.headers, body, target)
        self._limiter.believed(source, lane)
        if not belief.about:
            raise WebhookRefused(
                404, WebhookResult.NOT_FOUND, f"there is no {target.namespace}/{target.name} to ask for"
            )
        # Only an authenticated caller may start a trace here, or continue its own by the traceparent header.
        with tracing.span("webhook.receive", parent=request.headers.get(HEADER, "")) as told:
            asked = self._understand(request.headers, body)
            decisions = [(known.identity, decide_request(asked, known)) for known in belief.about]
            told.say(namespace=target.namespace, name=target.name, source=str(asked.caller))
            await self._carry_out(decisions, asked)
            return _combine_decisions(asked, [decision for _, decision in decisions])

    def _hear(self, request: web.BaseRequest, source: str) -> RateLimitLane:
        lane = RateLimitLane.WITH_PROOF if has_credentials(request.headers) else RateLimitLane.WITHOUT_PROOF
        wait = self._limiter.admit(source, lane)
        if wait > 0:
            raise WebhookRefused(
                429, WebhookResult.LIMITED, "too many requests failed", retry_after=math.ceil(wait)
            )
        return lane

    def _look(self, request: web.BaseRequest) -> _WebhookTarget:
        path = _PATH.fullmatch(request.path)
        if path is None:
            raise WebhookRefused(404, WebhookResult.NOT_FOUND, "only /webhook/{namespace}/{name} is served")
        if request.method != "POST":
            raise WebhookRefused(405, WebhookResult.UNSUPPORTED, "only POST is answered")
        if not self._ready():
            raise WebhookRefused(503, WebhookResult.FAILED, "the receiver is starting", retry_after=5)
        _check_content_type(request.headers)
        if (request.content_length or 0) > self._settings.max_body:
            raise self._too_large()
        kind = request.query.get("kind", "")
        if kind and kind.lower() not in _KINDS:
            raise WebhookRefused(
                400, WebhookResult.MALFORMED, f"kind must be one of {', '.join(SyncResourceKind)}"
            )
        return _WebhookTarget(path["namespace"], path["name"], _KINDS.get(kind.lower()))

    async def _read(self, request: web.BaseRequest, source: str) -> bytes:
        """Read the whole body in one of the limited slots.

        A source may hold only a few slots. If all are taken, the oldest read is aborted: a Git server sends
        its body within moments, so slow senders cannot block others, however many addresses they have.
        """
        if list(self._reads.values()).count(source) >= self._settings.bodies_per_source:
            raise WebhookRefused(429, WebhookResult.LIMITED, "too many requests at once", retry_after=1)
        if len(self._reads) >= self._settings.bodies_at_once:
            oldest = next(iter(self._reads))
            del self._reads[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        slot = asyncio.timeout(None)
        self._reads[slot] = source
        try:
            async with slot, deadline(self._clock, self._settings.body_seconds):
                body = await read_capped(request.content.iter_any(), self._settings.max_body)
        except TimeoutError:
            raise WebhookRefused(408, WebhookResult.SLOW, "the body did not come in time") from None
        finally:
            self._reads.pop(slot, None)
        if body is None:
            raise self._too_large()
        return body

    def _too_large(self) -> WebhookRefused:
        return WebhookRefused(
            413, WebhookResult.TOO_LARGE, f"a body has at most {self._settings.max_body} bytes"
        )

    def _believe(self, headers: Mapping[str, str], body: bytes, target: _WebhookTarget) -> CallerAuthResult:
        found = self._index(target.namespace, target.name)
        addressed = [one for one in found if target.kind in (None, one.identity.door)]
        belief = authenticate(headers, body, addressed, self._operator_keys(), self._keys)
        if not belief.believed:
            raise WebhookRefused(401, WebhookResult.UNAUTHORIZED, "the signature or token is not right")
        return belief

    def _understand(self, headers: Mapping[str, str], body: bytes) -> WebhookRequest:
        try:
            return read_request(headers, body)
        except InvalidValue as error:
            raise WebhookRefused(400, WebhookResult.MALFORMED, error.message) from None

    async def _carry_out(
        self, decisions: Sequence[tuple[ResourceIdentity, WebhookDecision]], asked: WebhookRequest
    ) -> None:
        for who, decision in decisions:
            keys = {"namespace": who.namespace, "name": who.name, "kind": who.door, "source": asked.caller}
            if decision.wish is None:
                log.info("webhook.ignored", **keys, ref=decision.ref, why=decision.reason)
                continue
            try:
                async with deadline(self._clock, self._settings.effect_seconds):
                    await self._wishes.ask(who, decision.wish)
            except NotFound:
                raise WebhookRefused(
                    404, WebhookResult.NOT_FOUND, "the resource is gone", asked.caller
                ) from None
            except (StokerError, TimeoutError) as error:
                why = error.message if isinstance(error, StokerError) else "no answer in time"
                log.warning("webhook.not_written", **keys, error=why)
                raise WebhookRefused(
                    503, WebhookResult.FAILED, "the API server did not take it; try again", asked.caller, 5
                ) from None
            log.info("webhook.accepted", **keys, ref=decision.ref, moves=decision.wish.ref is not None)

    async def _write(self, who: ResourceIdentity, wish: WebhookSyncRequest) -> None:
        group = annotation_group(who)
        with tracing.step("webhook.annotate", namespace=who.namespace, name=who.name, kind=str(who.door)):
            annotations = wish.annotations(group, self._clock.now())
            if trace := tracing.traceparent():
                annotations[f"{group}/{TRACEPARENT}"] = trace
            await self._annotate(who, annotations)


def _check_content_type(headers: Mapping[str, str]) -> None:
    """Require uncompressed JSON. Kargo and plain scripts send no content type, which counts as JSON."""
    kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind and not _JSON.fullmatch(kind):
        raise WebhookRefused(415, WebhookResult.UNSUPPORTED, "the content type must be application/json")
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise WebhookRefused(415, WebhookResult.UNSUPPORTED, "the body must not be compressed")


def _combine_decisions(asked: WebhookRequest, decisions: Sequence[WebhookDecision]) -> WebhookResponse:
    """Combine the decisions of all addressed resources: accepted if at least one accepts."""
    taken = next((one for one in decisions if one.wish is not None), None)
    if taken is not None:
        return WebhookResponse(202, WebhookResult.ACCEPTED, ref=taken.ref, caller=asked.caller)
    why = "; ".join(dict.fromkeys(one.reason for one in decisions))
    return WebhookResponse(202, WebhookResult.IGNORED, reason=why, ref=decisions[0].ref, caller=asked.caller)

"""The port that the API server calls: TLS, and the checks before a body is read or decoded.

Any process that reaches the port may send anything. In this order:

        method, path, form      403 404 405 415
        size of the body        413 over `ReviewLimits.body`, before and while it is read, within the caller's
                                timeout
        all bodies together     503 over `ReviewLimits.held`
        memory to decode it     413 over `ReviewLimits.decoded`, estimated before (`stoker.domain.json_cost`)
        memory of all reviews   waits until `ReviewLimits.work` has room; 504 after the caller's timeout

    A review that is refused here gets an HTTP status and no verdict. Then the failurePolicy of its webhook
    configuration decides, and nothing is stored that this policy would not have allowed anyway.

The certificate can be replaced while connections are open: established connections stay, new
connections get the new certificate.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import InvalidValue, Misconfigured, StokerError
from stoker.domain.json_cost import decoded_size
from stoker.http_server.memory_budget import MemoryBudget
from stoker.kube.client.deadlines import deadline
from stoker.telemetry.logs import get_logger
from stoker.telemetry.probes import ListenAddress, QuietHandler, parse_address

# etcd accepts 1.5 MiB for an object. A review holds it before and after the change, and a full Secret or
# binary ConfigMap grows by a third as base64. A larger object could not be stored.
MAX_BODY = 4 << 20
MAX_HELD = 16 << 20
# Bodies (MAX_HELD) and decoded reviews (MAX_WORK) together take a third of the 256Mi that the chart sets.
MAX_DECODED = 48 << 20
MAX_WORK = 64 << 20
MAX_AT_ONCE = 16
MAX_TIMEOUT_SECONDS = 30.0
DEFAULT_TIMEOUT_SECONDS = 10.0
# A little less than the caller's timeout, because the response needs time to arrive.
SHARE = 0.9
# Longer than the API server keeps an idle connection, so that this side never closes it first.
KEEP_ALIVE = 120.0
SHUTDOWN_SECONDS = 10.0

_HEADERS = {"Server": "stoker", "Cache-Control": "no-store"}
_TIMEOUT = re.compile(r"(\d{1,4}(?:\.\d{1,9})?)(ms|s|m)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}

log = get_logger(__name__)

ReviewHandler = Callable[[bytes], Awaitable[bytes]]
ReviewGuard = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class ReviewLimits:
    """Limits in bytes, except `at_once`."""

    body: int = MAX_BODY
    held: int = MAX_HELD
    """All bodies that are being read or handled."""
    decoded: int | None = MAX_DECODED
    """One decoded review; None: the handler decodes only the head, and limits the rest itself."""
    work: int = MAX_WORK
    """All decoded reviews that are being handled."""
    at_once: int = MAX_AT_ONCE
    """Reviews handled at once: each reserves at least this fraction of `work`."""


class _ReviewRefused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class ReviewServer:
    """Serves POST on a few paths. `run` listens until `stop`; the certificate comes from the context.

    `guard` checks the client's certificate if the context requires it.
    """

    def __init__(
        self,
        address: str,
        context: ssl.SSLContext,
        routes: Mapping[str, ReviewHandler],
        *,
        limits: ReviewLimits | None = None,
        guard: ReviewGuard | None = None,
        drain: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        wanted = parse_address(address)
        if wanted is None:
            raise Misconfigured("reviews need an address to be served at, such as :9443")
        self._address: ListenAddress = wanted
        self._context = context
        self._routes = dict(routes)
        self._limits = limits or ReviewLimits()
        self._guard = guard
        self._drain = drain
        self._clock = clock or SystemClock()
        self._budget = MemoryBudget(max(self._limits.work, self._limits.body, self._limits.decoded or 0))
        self._held = 0
        self._stopping = asyncio.Event()
        self.port: int | None = None
        """The port it listens on; None before and after."""

    @property
    def _too_large(self) -> str:
        return f"too large: a body has at most {self._limits.body} bytes"

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    async def run(self) -> None:
        if self.stopping:
            return
        runner = web.ServerRunner(_ReviewHttpServer(self._answer), shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        try:
            site = web.TCPSite(
                runner, self._address.host or None, self._address.port, ssl_context=self._context
            )
            try:
                await site.start()
            except OSError as error:
                raise Misconfigured(f"cannot listen on {self._address}: {error.strerror}") from error
            self.port = runner.addresses[0][1]
            log.info("reviews.listening", address=str(self._address), port=self.port, paths=[*self._routes])
            await self._stopping.wait()
        finally:
            self.port = None
            await runner.cleanup()

    async def stop(self) -> None:
        """Stop after `drain` seconds, because the cluster still routes reviews here for a while."""
        if self.port is not None:
            await self._clock.sleep(self._drain)
        self._stopping.set()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._judged(request)
        except _ReviewRefused as refused:
            headers = {"Retry-After": "1"} if refused.status == 503 else None
            response = _text_response(refused.status, refused.text, headers)
            response.force_close()  # do not wait for the rest of the body
            return response

    async def _judged(self, request: web.BaseRequest) -> web.Response:
        if self._guard is not None and not self._guard(request.get_extra_info("peercert") or {}):
            raise _ReviewRefused(403, "not for you")
        handler = self._routes.get(request.path)
        if handler is None:
            raise _ReviewRefused(404, "not found")
        if request.method != "POST":
            return _text_response(405, "only POST", {"Allow": "POST"})
        if request.content_type != "application/json":
            raise _ReviewRefused(415, "the body must be application/json")
        if (request.content_length or 0) > self._limits.body:
            raise _ReviewRefused(413, self._too_large)
        try:
            async with deadline(self._clock, _parse_timeout(request.query.get("timeout", ""))):
                return await self._handled(request, handler)
        except TimeoutError:
            log.warning("review.too_slow", path=request.path)
            raise _ReviewRefused(504, "no answer in time") from None

    async def _handled(self, request: web.BaseRequest, handler: ReviewHandler) -> web.Response:
        held = 0
        try:
            parts: list[bytes] = []
            async for chunk in request.content.iter_any():
                held += len(chunk)
                self._held += len(chunk)
                if held > self._limits.body:
                    raise _ReviewRefused(413, self._too_large)
                if self._held > self._limits.held:
                    log.warning("review.no_memory", path=request.path, held=self._held)
                    raise _ReviewRefused(503, "too many reviews at once; try again")
                parts.append(chunk)
            body = b"".join(parts)
            parts.clear()
            async with self._budget.hold(self._memory_for(request.path, body)):
                return await self._made(request.path, handler, body)
        finally:
            self._held -= held

    def _memory_for(self, path: str, body: bytes) -> int:
        """Return the memory to reserve for the review; raises 413 if decoding would exceed the limit."""
        most, size = self._limits.decoded, len(body)
        if most is not None:
            size = decoded_size(body, most)
            if size > most:
                log.warning("review.too_large", path=path, bytes=len(body), decoded=size)
                raise _ReviewRefused(413, f"too large: decoded it would take more than {most} bytes")
        return max(size, self._budget.total // self._limits.at_once)

    async def _made(self, path: str, handler: ReviewHandler, body: bytes) -> web.Response:
        try:
            answer = await handler(body)
        except InvalidValue as error:
            log.warning("review.unreadable", path=path, error=error.message)
            raise _ReviewRefused(400, error.message) from None
        except StokerError as error:
            log.error("review.failed", path=path, reason=error.reason, error=error.message)
            raise _ReviewRefused(500, error.reason) from None
        except Exception:
            log.exception("review.failed", path=path)
            raise _ReviewRefused(500, "the review failed") from None
        return web.Response(body=answer, headers={**_HEADERS, "Content-Type": "application/json"})


class _ReviewHttpServer(web.Server):
    def __call__(self) -> web.RequestHandler:
        return QuietHandler(
            self,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # the library's way to say none
            keepalive_timeout=KEEP_ALIVE,
            lingering_time=0.0,
        )


def _parse_timeout(asked: str) -> float:
    """Parse the API server's timeout from the query (`timeout=10s`), and return 90 % of it in seconds."""
    match = _TIMEOUT.fullmatch(asked)
    seconds = float(match[1]) * _UNITS[match[2]] if match else DEFAULT_TIMEOUT_SECONDS
    return SHARE * min(max(seconds, 0.1), MAX_TIMEOUT_SECONDS)


def _text_response(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers={**_HEADERS, **(headers or {})})

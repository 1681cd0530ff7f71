"""The port that the API server calls: TLS, and what is checked before anybody reads a body.

Whoever reaches the port may send anything: method, path and form are looked at first,
a body is cut off at its limit and at the time that the caller gives us, all bodies
together never hold more than a fixed amount of memory, and so many reviews are worked
on at once. A question that cannot be answered gets a status and no verdict; then the
failure policy of its configuration decides.

The certificate can be replaced while connections are open: who is connected stays so,
who comes next sees the new one.
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
from stoker.kube.client.deadlines import deadline
from stoker.telemetry.logs import get_logger
from stoker.telemetry.probes import Address, QuietHandler, parse_address

# An object has at most 3 MiB on its way through the API server; a review may hold it before and after.
MAX_BODY = 8 << 20
MAX_HELD = 64 << 20
MAX_AT_ONCE = 16
LONGEST = 30.0
USUAL = 10.0
# A little less than what the caller gives us: the answer has to get there, too.
SHARE = 0.9
# Longer than the API server keeps a connection that it does not use, so that it is never us who hang up.
KEEP_ALIVE = 120.0
SHUTDOWN_SECONDS = 10.0

_HEADERS = {"Server": "stoker", "Cache-Control": "no-store"}
_TIMEOUT = re.compile(r"(\d{1,4}(?:\.\d{1,9})?)(ms|s|m)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}

log = get_logger(__name__)

Handler = Callable[[bytes], Awaitable[bytes]]
Guard = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Limits:
    body: int = MAX_BODY
    held: int = MAX_HELD
    at_once: int = MAX_AT_ONCE


class _Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class ReviewServer:
    """Answers POST on a few paths. `run` listens until `stop`; the certificate is the context's.

    `guard` looks at the certificate that a caller has shown, where the context asks for one.
    """

    def __init__(
        self,
        address: str,
        context: ssl.SSLContext,
        routes: Mapping[str, Handler],
        *,
        limits: Limits | None = None,
        guard: Guard | None = None,
        drain: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        wanted = parse_address(address)
        if wanted is None:
            raise Misconfigured("reviews need an address to be served at, such as :9443")
        self._address: Address = wanted
        self._context = context
        self._routes = dict(routes)
        self._limits = limits or Limits()
        self._guard = guard
        self._drain = drain
        self._clock = clock or SystemClock()
        self._slots = asyncio.Semaphore(self._limits.at_once)
        self._held = 0
        self._stopping = asyncio.Event()
        self.port: int | None = None
        """The port that answers, while it does."""

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    async def run(self) -> None:
        if self.stopping:
            return
        runner = web.ServerRunner(_Server(self._answer), shutdown_timeout=SHUTDOWN_SECONDS)
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
        """Go on answering for a while: the cluster takes time to notice that we are about to go."""
        if self.port is not None:
            await self._clock.sleep(self._drain)
        self._stopping.set()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._judged(request)
        except _Refused as refused:
            response = _text(refused.status, refused.text)
            response.force_close()  # what is left of the body is not waited for
            return response

    async def _judged(self, request: web.BaseRequest) -> web.Response:
        if self._guard is not None and not self._guard(request.get_extra_info("peercert") or {}):
            raise _Refused(403, "not for you")
        handler = self._routes.get(request.path)
        if handler is None:
            raise _Refused(404, "not found")
        if request.method != "POST":
            return _text(405, "only POST", {"Allow": "POST"})
        if request.content_type != "application/json":
            raise _Refused(415, "the body must be application/json")
        if (request.content_length or 0) > self._limits.body:
            raise _Refused(413, "too large")
        try:
            async with deadline(self._clock, _seconds(request.query.get("timeout", ""))):
                return await self._handled(request, handler)
        except TimeoutError:
            log.warning("review.too_slow", path=request.path)
            raise _Refused(504, "no answer in time") from None

    async def _handled(self, request: web.BaseRequest, handler: Handler) -> web.Response:
        held = 0
        try:
            parts: list[bytes] = []
            async for chunk in request.content.iter_any():
                held += len(chunk)
                self._held += len(chunk)
                if held > self._limits.body:
                    raise _Refused(413, "too large")
                if self._held > self._limits.held:
                    raise _Refused(503, "too much at once")
                parts.append(chunk)
            async with self._slots:
                return await self._made(request.path, handler, b"".join(parts))
        finally:
            self._held -= held

    async def _made(self, path: str, handler: Handler, body: bytes) -> web.Response:
        try:
            answer = await handler(body)
        except InvalidValue as error:
            log.warning("review.unreadable", path=path, error=error.message)
            raise _Refused(400, error.message) from None
        except StokerError as error:
            log.error("review.failed", path=path, reason=error.reason, error=error.message)
            raise _Refused(500, error.reason) from None
        except Exception:
            log.exception("review.failed", path=path)
            raise _Refused(500, "the review failed") from None
        return web.Response(body=answer, headers={**_HEADERS, "Content-Type": "application/json"})


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        return QuietHandler(
            self,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # the library's way to say none
            keepalive_timeout=KEEP_ALIVE,
            lingering_time=0.0,
        )


def _seconds(asked: str) -> float:
    """What the API server gives us, as it says in the address: `timeout=10s`."""
    match = _TIMEOUT.fullmatch(asked)
    seconds = float(match[1]) * _UNITS[match[2]] if match else USUAL
    return SHARE * min(max(seconds, 0.1), LONGEST)


def _text(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers={**_HEADERS, **(headers or {})})

"""A network that misbehaves inside HTTP: a proxy that ends TLS and begins it anew.

Runs between a client and the API server (or any HTTP server) where a fault
must hit the requests and not the encryption around them: an answer that the server
would not give just now (410, 429), a watch that ends in the middle of a line,
silence in the middle of a body. Everything else passes piece by piece as it
comes, so a watch through it is as live as without. Upgraded connections (exec,
port-forward) do not pass, and neither does a client's certificate.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import hdrs, web
from multidict import CIMultiDict
from yarl import URL

from stoker_testkit.certificates import KeyPair
from stoker_testkit.event_loop_thread import SHUTDOWN_SECONDS, LoopThread, stop_accepting
from stoker_testkit.faults.stream_faults import CutOff, Direction, Fault, FaultKind, FaultyStream, end
from stoker_testkit.stoppable import Stoppable

_HOP_BY_HOP = (hdrs.CONNECTION, hdrs.KEEP_ALIVE, hdrs.TE, hdrs.TRAILER, hdrs.TRANSFER_ENCODING, hdrs.UPGRADE)


@dataclass(frozen=True, slots=True)
class AnsweredFault:
    """The request never reaches the server; this is the answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request as it came to the proxy, and the status that went back."""

    method: str
    path: str
    status: int


@dataclass(slots=True)
class _FaultRule:
    fault: Fault | AnsweredFault
    path: re.Pattern[str]
    method: str | None
    left: int | None

    def matches(self, request: web.BaseRequest) -> bool:
        return self.method in (None, request.method) and bool(self.path.search(request.raw_path))


class HttpFaultProxy(Stoppable):
    """Listens on a free port of 127.0.0.1 and passes requests on to the server at `target`."""

    def __init__(self, target: str) -> None:
        self.url = ""
        self.requests: list[HttpRequest] = []
        self.struck = Counter[FaultKind]()
        """The count of bodies that each kind of fault has hit."""
        self._target = target.rstrip("/")
        self._rules: list[_FaultRule] = []
        self._bodies: dict[FaultyStream, web.BaseRequest] = {}
        self._loop = LoopThread("http-fault-proxy")
        self._session: aiohttp.ClientSession
        self._runner: web.ServerRunner
        self._listener: socket.socket

    @classmethod
    def start(cls, target: str, *, ca_file: Path | None = None, tls: KeyPair | None = None) -> Self:
        """Start one; `tls` is its own certificate, `ca_file` the authority of the server behind it."""
        proxy = cls(target)
        proxy._loop.run(proxy._listen(ca_file, tls))
        return proxy

    def arm(
        self,
        fault: Fault | AnsweredFault,
        path: str = "",
        *,
        method: str | None = None,
        times: int | None = 1,
    ) -> None:
        """Let the next `times` requests (all if None) suffer it whose path and query match the pattern.

        A `Fault` strikes at the body of the answer, after as many bytes of it as it says.
        """
        if isinstance(fault, Fault) and fault.direction is not Direction.TO_CLIENT:
            raise ValueError("a fault inside HTTP strikes at the answer, not at the request")
        self._loop.call(self._rules.append, _FaultRule(fault, re.compile(path), method, times))

    def inject(self, fault: Fault) -> None:
        """Let all answers suffer it whose body is on its way, such as open watches."""

        def inject() -> None:
            for body, request in tuple(self._bodies.items()):
                body.suffer(fault)
                try:
                    body.check()
                except CutOff as cut:
                    _end(request, cut.kind)

        self._loop.call(inject)

    def lift(self) -> None:
        """Take back all faults; what was held back flows on."""

        def lift() -> None:
            self._rules.clear()
            for body in self._bodies:
                body.lift()

        self._loop.call(lift)

    def seen(self, path: str = "", *, method: str | None = None) -> list[HttpRequest]:
        """The requests so far whose path and query match the pattern."""
        return [one for one in self.requests if method in (None, one.method) and re.search(path, one.path)]

    def stop(self) -> None:
        self._loop.run(self._close())
        self._loop.stop()

    async def _listen(self, ca_file: Path | None, tls: KeyPair | None) -> None:
        trust = ssl.create_default_context(cafile=ca_file) if ca_file is not None else True
        self._session = aiohttp.ClientSession(
            # A connection per request: a kept one that the server has closed would look like a fault.
            connector=aiohttp.TCPConnector(limit=0, force_close=True, ssl=trust),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=(hdrs.USER_AGENT, hdrs.CONTENT_TYPE, hdrs.ACCEPT, hdrs.ACCEPT_ENCODING),
        )
        context = None
        if tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(tls.certificate, tls.key)
        # A client that leaves an idle watch takes the watch behind the proxy with it.
        server = web.Server(self._handle, handler_cancellation=True, access_log=None, auto_decompress=False)
        self._runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_SECONDS)
        await self._runner.setup()
        self._listener = socket.create_server(("127.0.0.1", 0))
        await web.SockSite(self._runner, self._listener, ssl_context=context).start()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"

    async def _close(self) -> None:
        await stop_accepting(self._listener)
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        fault = self._fault_for(request)
        if isinstance(fault, AnsweredFault):
            self._record(request, fault.status)
            return web.Response(status=fault.status, body=fault.body, headers=fault.headers)
        response = web.StreamResponse()
        try:
            async with self._session.request(
                request.method,
                URL(self._target + request.raw_path, encoded=True),
                headers=_end_to_end(request.headers, hdrs.HOST),
                data=request.content if request.body_exists else None,
                allow_redirects=False,
            ) as answer:
                self._record(request, answer.status)
                response = web.StreamResponse(
                    status=answer.status, reason=answer.reason, headers=_end_to_end(answer.headers)
                )
                await self._relay(request, answer, response, fault)
        except CutOff as cut:
            _end(request, cut.kind)
        except aiohttp.ClientError:  # the server is not there, or no more
            _end(request, FaultKind.RESET)
        return response

    def _fault_for(self, request: web.BaseRequest) -> Fault | AnsweredFault | None:
        rule = next((rule for rule in self._rules if rule.matches(request)), None)
        if rule is None:
            return None
        if rule.left is not None:
            rule.left -= 1
            if rule.left == 0:
                self._rules.remove(rule)
        return rule.fault

    def _record(self, request: web.BaseRequest, status: int) -> None:
        self.requests.append(HttpRequest(request.method, request.raw_path, status))

    async def _relay(
        self,
        request: web.BaseRequest,
        answer: aiohttp.ClientResponse,
        response: web.StreamResponse,
        fault: Fault | None,
    ) -> None:
        body = FaultyStream(self.struck)
        self._bodies[body] = request
        try:
            if fault is not None:
                body.suffer(fault)
            await response.prepare(request)
            body.check()
            async for chunk in answer.content.iter_any():
                async for piece in body.pieces(chunk):
                    await response.write(piece)
        finally:
            del self._bodies[body]


def _end_to_end(headers: Mapping[str, str], *without: str) -> CIMultiDict[str]:
    kept = CIMultiDict(headers)
    for name in (*_HOP_BY_HOP, *without):
        kept.popall(name, None)
    return kept


def _end(request: web.BaseRequest, kind: FaultKind) -> None:
    """End the client's connection; what aiohttp still wants to say then goes nowhere."""
    if request.transport is not None and not request.transport.is_closing():
        end(request.transport, kind)

"""The endpoints for the kubelet and Prometheus: /healthz, /readyz, /startupz and /metrics.

A command binds the configured addresses and serves until it stops: the controller and the reverser on
8081 and 8080, the agent and the standalone sync on 8082 and 8083. The responses come from
`stoker.telemetry.health` and `stoker.telemetry.metrics`. A blocked event loop shows as a missing response.

A request never changes state, and no response, not even to a broken request, reveals a software version.
"""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

from aiohttp import web

from stoker.domain.errors import Misconfigured
from stoker.telemetry.health import HealthChecks, ProcessHealth
from stoker.telemetry.logs import get_logger
from stoker.telemetry.metrics import CONTENT_TYPE, Metrics

ProbeHandler: TypeAlias = Callable[[], Awaitable[web.Response]]

SHUTDOWN_SECONDS = 2.0
_HEADERS = {"Server": "stoker", "Cache-Control": "no-store"}
_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s\[\]:]*)):(?P<port>\d{1,5})")

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address to listen on; an empty host means every interface, port 0 any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> ListenAddress | None:
    """Parse `:8081`, `127.0.0.1:8081` or `[::1]:8081`; return None (off) for `0` or an empty text."""
    if text.strip() in {"", "0"}:
        return None
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > 65535:
        raise Misconfigured(f"bind address {text[:80]!r} is neither host:port, :port nor 0 for off")
    return ListenAddress(match["v6"] or match["host"] or "", int(match["port"]))


class ProbeServer:
    """Serves health and metrics inside an `async with`."""

    def __init__(
        self, health: ProcessHealth, metrics: Metrics, *, health_address: str, metrics_address: str
    ) -> None:
        self._health = health
        self._metrics = metrics
        self._wanted = {"health": parse_address(health_address), "metrics": parse_address(metrics_address)}
        self._runners: list[web.ServerRunner] = []
        self._ports: dict[str, int] = {}

    @property
    def health_port(self) -> int | None:
        """The port while serving; None if it is off."""
        return self._ports.get("health")

    @property
    def metrics_port(self) -> int | None:
        return self._ports.get("metrics")

    async def __aenter__(self) -> Self:
        try:
            for address, purposes in self._sites():
                port = await self._listen(address, self._answers(purposes))
                self._ports |= dict.fromkeys(purposes, port)
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Finish running requests, for up to 2 s, and close the ports."""
        while self._runners:
            await self._runners.pop().cleanup()
        self._ports.clear()

    def _sites(self) -> list[tuple[ListenAddress, list[str]]]:
        """Return the addresses with their purposes; if both are the same address, it serves both."""
        wanted = [(address, purpose) for purpose, address in self._wanted.items() if address is not None]
        if len(wanted) == 2 and wanted[0][0] == wanted[1][0] and wanted[0][0].port != 0:
            return [(wanted[0][0], list(self._wanted))]
        return [(address, [purpose]) for address, purpose in wanted]

    def _answers(self, purposes: list[str]) -> dict[str, ProbeHandler]:
        answers: dict[str, ProbeHandler] = {}
        if "health" in purposes:
            answers["/healthz"] = _run_checks(self._health.live)
            answers["/readyz"] = _run_checks(self._health.ready)
            answers["/startupz"] = _run_checks(self._health.started)
        if "metrics" in purposes:
            answers["/metrics"] = self._metrics_page
        return answers

    async def _metrics_page(self) -> web.Response:
        readings = self._metrics.read()
        # Rendering 100,000 series takes a second; it must not block the event loop.
        body = await asyncio.to_thread(self._metrics.page, readings)
        return web.Response(body=body, headers={**_HEADERS, "Content-Type": CONTENT_TYPE})

    async def _listen(self, address: ListenAddress, routes: dict[str, ProbeHandler]) -> int:
        runner = web.ServerRunner(_QuietServer(routes), shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        self._runners.append(runner)
        try:
            await web.TCPSite(runner, address.host or None, address.port).start()
        except OSError as error:
            raise Misconfigured(f"cannot listen on {address}: {_listen_error(error, address)}") from error
        port: int = runner.addresses[0][1]
        log.info("probe.listening", address=str(address), port=port, paths=sorted(routes))
        return port


class _QuietServer(web.Server):
    """Routes by path, for GET and HEAD, and serves each connection by a `QuietHandler`."""

    def __init__(self, routes: dict[str, ProbeHandler]) -> None:
        super().__init__(self._answer)
        self._routes = routes

    def __call__(self) -> web.RequestHandler:
        return QuietHandler.for_connection(self)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = self._routes.get(request.path)
        if answer is None:
            return _text_response(404, "not found")
        if request.method not in {"GET", "HEAD"}:
            return _text_response(405, "only GET and HEAD", {"Allow": "GET, HEAD"})
        return await answer()


class QuietHandler(web.RequestHandler):
    """Responds to errors without software name, version or traceback; port scanners do not fill the log."""

    __slots__ = ()

    @classmethod
    def for_connection(cls, server: web.Server, **settings: Any) -> Self:
        """Return a handler for a connection, without an access log; `settings` are aiohttp's own."""
        loop = asyncio.get_running_loop()
        return cls(server, loop=loop, access_log=None, **{"keepalive_timeout": 15.0, **settings})  # type: ignore[arg-type]

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun and cannot become an error")
        if status >= 500 and isinstance(exc, ConnectionError) and _has_hung_up(request):
            log.debug("caller.gone", error=str(exc))
        elif status >= 500:
            log.error("probe.failed", exc_info=exc)
        response = _text_response(status, "the request failed" if status >= 500 else "bad request")
        response.force_close()
        return response


def _has_hung_up(request: web.BaseRequest) -> bool:
    """Return whether the client has disconnected."""
    return request.transport is None or request.transport.is_closing()


def _run_checks(checks: HealthChecks) -> ProbeHandler:
    async def answer() -> web.Response:
        failures = checks.failures()
        return _text_response(503, "\n".join(failures)) if failures else _text_response(200, "ok")

    return answer


def _text_response(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers={**_HEADERS, **(headers or {})})


def _listen_error(error: OSError, address: ListenAddress) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {address.port} is already in use"
    if error.errno == errno.EACCES:
        return f"this user may not open port {address.port}"
    return f"{error.strerror or error} (port {address.port})"

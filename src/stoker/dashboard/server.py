"""The dashboard's HTTP server: the static page and its API.

    check         host, query, path, method, origin                  400 403 404 405 421
    authenticate  the session of the cookie, and its visible scope   401
    read          a body, limited in bytes and in time               400 408 413 415
    act           through DashboardActions, with a rate limit        409 429 502 …

The server reaches its backend, a cluster or a folder, only through `stoker.dashboard.interfaces`. A
browser may cache only the static files. A response never explains why a sign-in was refused.
"""

from __future__ import annotations

import ssl
from collections.abc import Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from aiohttp import web

from stoker.dashboard import request_checks
from stoker.dashboard.interfaces import ActionRefused, DashboardActions, DashboardAuth, ViewSource
from stoker.dashboard.metrics import DashboardMetrics
from stoker.dashboard.responses import error_response, refused_response, static_response
from stoker.dashboard.routes import DashboardRoutes
from stoker.dashboard.sessions import DashboardSessions
from stoker.dashboard.sign_in import DashboardSignIn
from stoker.dashboard.sse import EventStreams
from stoker.dashboard.static_files import StaticFiles
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import StokerError
from stoker.http_server.connections import StrictHttpServer, start_listening
from stoker.telemetry.logs import get_logger
from stoker.telemetry.probes import parse_address

SHUTDOWN_SECONDS = 5.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """The command-line options of the dashboard."""

    address: str = "127.0.0.1:8090"
    names: Collection[str] | None = None
    """Names accepted in a Host header beside localhost and IP addresses; None accepts all (in a cluster)."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks whose X-Forwarded-For is trusted when failed logins are counted by caller."""


class DashboardServer:
    """The HTTP server; it listens inside an `async with`."""

    def __init__(
        self,
        scene: ViewSource,
        hands: DashboardActions,
        gate: DashboardAuth,
        *,
        settings: DashboardOptions | None = None,
        tls: ssl.SSLContext | None = None,
        clock: Clock | None = None,
        files: StaticFiles | None = None,
        meter: DashboardMetrics | None = None,
    ) -> None:
        self._settings = settings if settings is not None else DashboardOptions()
        self._address = parse_address(self._settings.address)
        self._tls = tls
        self._files = files
        clock = clock if clock is not None else SystemClock()
        self.sessions = DashboardSessions(gate, clock)
        self.streams = EventStreams(scene, self.sessions, clock)
        meter = meter if meter is not None else DashboardMetrics()
        meter.watch(self.sessions, self.streams)
        sign_in = DashboardSignIn(
            scene.mode,
            gate,
            self.sessions,
            clock,
            meter,
            trusted_proxies=self._settings.trusted_proxies,
            secure=tls is not None,
        )
        self._answers = DashboardRoutes(scene, hands, sign_in, self.sessions, self.streams, clock, meter)
        self._runner: web.ServerRunner | None = None
        self.port: int | None = None
        """The port it listens on; None before the start and after the end."""

    async def __aenter__(self) -> Self:
        if self._address is None:
            return self
        self._files = self._files if self._files is not None else StaticFiles()
        # A stream ends as soon as its page disconnects; an action is shielded from that cancellation.
        server = StrictHttpServer(self._answer, handler_cancellation=True)
        self._runner = await start_listening(
            server, self._address, "the dashboard", tls=self._tls, shutdown_seconds=SHUTDOWN_SECONDS
        )
        self.port = self._runner.addresses[0][1]
        log.info("dashboard.listening", address=str(self._address), port=self.port, tls=self._tls is not None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.streams.close()
        if self._runner is not None:
            await self._runner.cleanup()
        self.port = None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._judged(request)
        except ActionRefused as error:
            return refused_response(error, self._answers.allowed(request.path))
        except ConnectionError:
            raise
        except StokerError as error:
            log.warning(
                "dashboard.unanswered", path=request.path[:200], reason=error.reason, error=error.message
            )
            return error_response(error)
        except Exception as error:
            log.exception("dashboard.failed", path=request.path[:200])
            return error_response(error)

    async def _judged(self, request: web.BaseRequest) -> web.StreamResponse:
        request_checks.check_host(request.headers.get("Host", ""), self._settings.names)
        request_checks.check_query(request.path, request.query_string)
        if not request.path.startswith("/api/"):
            return self._page(request)
        handler = self._answers.handler(request)
        request_checks.check_source(request.headers, changes=request.method not in ("GET", "HEAD"))
        return await handler(request)

    def _page(self, request: web.BaseRequest) -> web.Response:
        file = self._files.get(request.path) if self._files is not None else None
        if file is None:
            raise ActionRefused(404, "there is nothing of that name")
        if request.method not in ("GET", "HEAD"):
            raise ActionRefused(405, "only GET is answered")
        return static_response(file, request.headers.get("If-None-Match", ""))

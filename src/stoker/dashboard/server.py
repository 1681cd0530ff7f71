"""The dashboard's port: the page, what it asks for, and what it orders.

    look       host, path, method, where the request comes from     400 403 404 405 421
    know       the session of the cookie, and how far it sees       401
    read       a body, capped in bytes and in time                  400 408 413 415
    do         by the hands, at most so often                       409 429 502 …

Everything about the place itself is behind `stoker.dashboard.interfaces`. No answer is kept by a
browser but the page's own files; no answer says why somebody was not let in.
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
    """What a command line can say about the dashboard."""

    address: str = "127.0.0.1:8090"
    names: Collection[str] | None = None
    """Names in a Host header that are ours beside localhost and addresses; None: all are (in a cluster)."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks whose X-Forwarded-For is taken at its word, for counting failed logins."""


class DashboardServer:
    """Listens for the time of an `async with`."""

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
        self._answers = DashboardRoutes(
            scene,
            hands,
            gate,
            self.sessions,
            self.streams,
            clock,
            meter,
            trusted_proxies=self._settings.trusted_proxies,
            secure=tls is not None,
        )
        self._runner: web.ServerRunner | None = None
        self.port: int | None = None
        """The port that answers, while it does."""

    async def __aenter__(self) -> Self:
        if self._address is None:
            return self
        self._files = self._files if self._files is not None else StaticFiles()
        # A stream whose page is gone ends at once; an order is shielded from that.
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

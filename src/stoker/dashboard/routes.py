"""The API's routes: one handler for each method and path.

`stoker.dashboard.server` checks host, query and origin first, then calls the handler. A handler requires the
session (`stoker.dashboard.sign_in`), checks the CSRF token of a change, and calls the view source or the
actions.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

import msgspec
from aiohttp import web

from stoker.dashboard import request_checks
from stoker.dashboard.interfaces import ActionRefused, DashboardActions, GatewayKey, ViewSource
from stoker.dashboard.metrics import ActionResult, DashboardMetrics
from stoker.dashboard.request_body import read_body
from stoker.dashboard.responses import json_response
from stoker.dashboard.sessions import DashboardSessions
from stoker.dashboard.sign_in import DashboardSignIn
from stoker.dashboard.sse import EventStreams
from stoker.dashboard.view_models import MAX_ORDER, ActionBody, ActionDoneView, VisitorView
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.http_server.rate_limit import FailureRateLimiter, RateLimitLane
from stoker.telemetry.logs import get_logger

MAX_NAME_LENGTH = 300
ORDERS = 60
ORDERS_OVERALL = 600
"""Rate limits: each number applies to one minute."""

_GATEWAY = "/api/gateways/"
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]*")

log = get_logger(__name__)

RouteHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class DashboardRoutes:
    """The API of one dashboard server."""

    def __init__(
        self,
        scene: ViewSource,
        hands: DashboardActions,
        sign_in: DashboardSignIn,
        sessions: DashboardSessions,
        streams: EventStreams,
        clock: Clock,
        meter: DashboardMetrics,
    ) -> None:
        self._scene = scene
        self._hands = hands
        self._sign_in = sign_in
        self._sessions = sessions
        self._streams = streams
        self._clock = clock
        self._meter = meter
        self._orders = FailureRateLimiter(ORDERS, ORDERS_OVERALL, clock)
        self._doing: set[asyncio.Task[str]] = set()
        self._routes: dict[tuple[str, str], RouteHandler] = {
            ("GET", "/api/session"): sign_in.session,
            ("POST", "/api/session"): sign_in.sign_in,
            ("DELETE", "/api/session"): sign_in.sign_out,
            ("GET", "/api/picture"): self._picture,
            ("GET", "/api/events"): self._events,
            ("POST", "/api/actions"): self._act,
        }

    def handler(self, request: web.BaseRequest) -> RouteHandler:
        path = request.path
        found = self._routes.get((request.method, path))
        if found is not None:
            return found
        if request.rel_url.raw_path.startswith(_GATEWAY):
            if request.method == "GET":
                return self._gateway
        elif not any(path == known for _, known in self._routes):
            raise ActionRefused(404, "there is nothing of that name")
        raise ActionRefused(405, "that is not done here in this way")

    def allowed(self, path: str) -> str:
        """Return the methods of a path, for the Allow header of a 405 response."""
        return ", ".join(method for method, known in self._routes if known == path) or "GET, HEAD"

    async def _picture(self, request: web.BaseRequest) -> web.StreamResponse:
        session = self._sign_in.require(request)
        picture = self._scene.picture(await self._sessions.sight(session))
        return json_response(msgspec.structs.replace(picture, you=VisitorView(name=session.visitor.name)))

    async def _events(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._streams.serve(request, self._sign_in.require(request))

    async def _gateway(self, request: web.BaseRequest) -> web.StreamResponse:
        session = self._sign_in.require(request)
        parts = request.rel_url.raw_path.removeprefix(_GATEWAY).split("/")
        if len(parts) != 4:
            raise ActionRefused(404, "a gateway is namespace/kind/name/gateway")
        past = self._scene.gateway(
            GatewayKey(*(unquote(part) for part in parts)), await self._sessions.sight(session)
        )
        if past is None:
            raise ActionRefused(404, "there is no such gateway, or none that you may see")
        return json_response(past)

    async def _act(self, request: web.BaseRequest) -> web.StreamResponse:
        session = self._sign_in.require(request)
        request_checks.check_csrf(request.headers, session.csrf)
        order = await read_body(request, ActionBody, MAX_ORDER, self._clock)
        _check_order(order)
        who = session.visitor
        wait = self._orders.admit(who.name, RateLimitLane.WITH_PROOF)
        if wait > 0:
            self._meter.order(order.action, ActionResult.LIMITED)
            raise ActionRefused(429, "that is too much at once; wait a little", after=wait)
        await self._sessions.sight(
            session
        )  # raises 401 if the token is no longer valid: such a session must not act
        keys = {
            "action": order.action.value,
            "namespace": order.namespace,
            "kind": order.kind,
            "name": order.name,
            "gateway": order.gateway or "",
            "user": who.name,
        }
        # Closing the page cancels the handler; the shield keeps the action from stopping half-way.
        task = asyncio.create_task(self._hands.do(order, who))
        self._doing.add(task)
        task.add_done_callback(self._doing.discard)
        try:
            message = await asyncio.shield(task)
        except ActionRefused as error:
            self._meter.order(order.action, ActionResult.REFUSED)
            log.warning("dashboard.action_refused", **keys, status=error.status, why=error.sentence)
            raise
        except StokerError as error:
            self._meter.order(order.action, ActionResult.FAILED)
            log.warning("dashboard.action_failed", **keys, reason=error.reason, error=error.message)
            raise
        self._meter.order(order.action, ActionResult.DONE)
        log.info("dashboard.action", **keys, message=message)
        return json_response(ActionDoneView(message=message))


def _check_order(order: ActionBody) -> None:
    """Refuse names and digests that are long or hold control characters, unsafe in a log line or a header."""
    for name in order.__struct_fields__:
        value = getattr(order, name)
        if isinstance(value, str) and not (len(value) <= MAX_NAME_LENGTH and _PRINTABLE.fullmatch(value)):
            raise ActionRefused(400, f"{name} is too long, or not a name")

"""The API's routes: one handler for each method and path.

`stoker.dashboard.server` checks host, query and origin first, then calls the handler. A handler
authenticates the session, checks the CSRF token of a change, and calls the view source or the actions.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn, TypeVar
from urllib.parse import unquote

import msgspec
from aiohttp import web

from stoker import __version__
from stoker.dashboard import request_checks
from stoker.dashboard.interfaces import (
    ActionRefused,
    DashboardActions,
    DashboardAuth,
    GatewayKey,
    ViewSource,
    Visitor,
)
from stoker.dashboard.metrics import ActionResult, DashboardMetrics, SignInResult
from stoker.dashboard.responses import json_response
from stoker.dashboard.sessions import DashboardSession, DashboardSessions
from stoker.dashboard.sse import EventStreams
from stoker.dashboard.view_models import (
    MAX_ORDER,
    ActionBody,
    ActionDoneView,
    SessionView,
    SignInBody,
    VisitorView,
)
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.secrets import Secret
from stoker.http_server.rate_limit import FailureRateLimiter, RateLimitLane, caller_address, parse_networks
from stoker.http_server.request_signatures import read_capped
from stoker.kube.client.deadlines import deadline
from stoker.telemetry.logs import get_logger

MAX_TOKEN = 16 << 10
MAX_NAME_LENGTH = 300
BODY_SECONDS = 5.0
FAILED_LOGINS = 20
FAILED_LOGINS_OVERALL = 200
ORDERS = 60
ORDERS_OVERALL = 600
"""Rate limits: each number applies to one minute."""

_GATEWAY = "/api/gateways/"
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]*")

log = get_logger(__name__)

RouteHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
BodyT = TypeVar("BodyT", SignInBody, ActionBody)


class DashboardRoutes:
    """The API of one dashboard server."""

    def __init__(
        self,
        scene: ViewSource,
        hands: DashboardActions,
        gate: DashboardAuth,
        sessions: DashboardSessions,
        streams: EventStreams,
        clock: Clock,
        meter: DashboardMetrics,
        *,
        trusted_proxies: Sequence[str] = (),
        secure: bool = False,
    ) -> None:
        self._scene = scene
        self._hands = hands
        self._gate = gate
        self._sessions = sessions
        self._streams = streams
        self._clock = clock
        self._meter = meter
        self._trusted = parse_networks(trusted_proxies)
        self._secure = secure
        self._logins = FailureRateLimiter(FAILED_LOGINS, FAILED_LOGINS_OVERALL, clock)
        self._orders = FailureRateLimiter(ORDERS, ORDERS_OVERALL, clock)
        self._doing: set[asyncio.Task[str]] = set()
        self._routes: dict[tuple[str, str], RouteHandler] = {
            ("GET", "/api/session"): self._session,
            ("POST", "/api/session"): self._sign_in,
            ("DELETE", "/api/session"): self._sign_out,
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

    async def _session(self, request: web.BaseRequest) -> web.StreamResponse:
        session, token = self._found(request), request_checks.bearer_token(request.headers)
        if session is not None and (not token or Secret(token) == session.visitor.token):
            return json_response(self._now(session))
        if not token:
            return json_response(SessionView(mode=self._scene.mode, version=__version__))
        return await self._begun(request, token)

    async def _sign_in(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await self._body(request, SignInBody, MAX_TOKEN)
        return await self._begun(request, body.token.strip())

    async def _begun(self, request: web.BaseRequest, token: str) -> web.Response:
        source = caller_address(request.remote, request.headers.get("X-Forwarded-For", ""), self._trusted)
        visitor = await self._believed(source, token)
        before = self._found(request)
        if before is not None and before.visitor.name == visitor.name:
            self._sessions.renew(before, visitor)  # the user's other pages continue with the newer token
            return json_response(self._now(before))
        if before is not None:
            self._sessions.end(before)  # a session id of one user must never become that of another
        secret, session = self._sessions.begin(visitor)
        self._meter.login(SignInResult.ACCEPTED)
        log.info("dashboard.login", user=visitor.name, source=source)
        response = json_response(self._now(session))
        secure = self._is_secure(request)
        response.set_cookie(
            self._cookie(request), secret, httponly=True, samesite="Strict", secure=secure, path="/"
        )
        return response

    async def _believed(self, source: str, token: str) -> Visitor:
        """Return the owner of the token.

        A token that the auth already knows skips the rate limit: failed logins of others cannot block it.
        """
        is_one = token and len(token) <= MAX_TOKEN and token.isascii() and token.isprintable()
        visitor = self._gate.known(Secret(token)) if is_one else None
        if visitor is not None:
            return visitor
        wait = self._logins.admit(source, RateLimitLane.WITH_PROOF)
        if wait > 0:
            self._meter.login(SignInResult.LIMITED)
            raise ActionRefused(429, "too many logins failed; wait a little", after=wait)
        try:
            visitor = await self._gate.admit(Secret(token)) if is_one else None
        except StokerError:
            self._meter.login(SignInResult.FAILED)
            raise
        if visitor is None:
            self._meter.login(SignInResult.REFUSED)
            log.warning("dashboard.login_refused", source=source)
            raise ActionRefused(401, "that token opens nothing here")
        self._logins.believed(source, RateLimitLane.WITH_PROOF)
        return visitor

    async def _sign_out(self, request: web.BaseRequest) -> web.StreamResponse:
        session = self._known(request)
        request_checks.check_csrf(request.headers, session.csrf)
        self._sessions.end(session)
        response = json_response(SessionView(mode=self._scene.mode, version=__version__))
        secure = self._is_secure(request)
        response.del_cookie(self._cookie(request), path="/", secure=secure, httponly=True, samesite="Strict")
        return response

    async def _picture(self, request: web.BaseRequest) -> web.StreamResponse:
        session = self._known(request)
        picture = self._scene.picture(await self._sessions.sight(session))
        return json_response(msgspec.structs.replace(picture, you=VisitorView(name=session.visitor.name)))

    async def _events(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._streams.serve(request, self._known(request))

    async def _gateway(self, request: web.BaseRequest) -> web.StreamResponse:
        session = self._known(request)
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
        session = self._known(request)
        request_checks.check_csrf(request.headers, session.csrf)
        order = await self._body(request, ActionBody, MAX_ORDER)
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

    def _now(self, session: DashboardSession) -> SessionView:
        return SessionView(
            mode=self._scene.mode,
            signed_in=True,
            user=session.visitor.name,
            csrf=session.csrf,
            version=__version__,
        )

    def _found(self, request: web.BaseRequest) -> DashboardSession | None:
        secret = request.cookies.get(self._cookie(request), "")
        return self._sessions.find(secret) if secret else None

    def _known(self, request: web.BaseRequest) -> DashboardSession:
        session = self._found(request)
        if session is None:
            raise ActionRefused(401, "not signed in, or the session has ended")
        return session

    def _cookie(self, request: web.BaseRequest) -> str:
        return request_checks.cookie_name(request.headers.get("Host", ""), secure=self._is_secure(request))

    def _is_secure(self, request: web.BaseRequest) -> bool:
        """Return whether the browser uses TLS, to this server or to a proxy in front of it."""
        return self._secure or request.headers.get("X-Forwarded-Proto", "").strip().lower() == "https"

    async def _body(self, request: web.BaseRequest, shape: type[BodyT], limit: int) -> BodyT:
        request_checks.check_json(request.headers)
        if (request.content_length or 0) > limit:
            raise ActionRefused(413, f"a body has at most {limit} bytes")
        try:
            async with deadline(self._clock, BODY_SECONDS):
                body = await read_capped(request.content.iter_any(), limit)
        except TimeoutError:
            raise ActionRefused(408, "the body did not come in time") from None
        if body is None:
            raise ActionRefused(413, f"a body has at most {limit} bytes")
        try:
            return msgspec.json.decode(body, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _refuse_body(error)


def _refuse_body(error: Exception) -> NoReturn:
    why = str(error) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
    raise ActionRefused(400, f"the body cannot be read: {why[:MAX_NAME_LENGTH]}") from None


def _check_order(order: ActionBody) -> None:
    """Refuse names and digests that are long or hold control characters, unsafe in a log line or a header."""
    for name in order.__struct_fields__:
        value = getattr(order, name)
        if isinstance(value, str) and not (len(value) <= MAX_NAME_LENGTH and _PRINTABLE.fullmatch(value)):
            raise ActionRefused(400, f"{name} is too long, or not a name")

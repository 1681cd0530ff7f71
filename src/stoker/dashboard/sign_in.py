"""Sign-in and sign-out: a token becomes a session, and a cookie finds it again.

    POST, or GET with a bearer token   authenticate the token, begin or renew a session, set the cookie
    DELETE                             end the session, delete the cookie
    every other request                find the session of the cookie, or respond with 401

Failed sign-ins are limited by the caller's address. A response never explains why a token was refused, and
the session id of one user never becomes that of another.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from stoker import __version__
from stoker.dashboard import request_checks
from stoker.dashboard.interfaces import ActionRefused, DashboardAuth, Visitor
from stoker.dashboard.metrics import DashboardMetrics, SignInResult
from stoker.dashboard.request_body import read_body
from stoker.dashboard.responses import json_response
from stoker.dashboard.sessions import DashboardSession, DashboardSessions
from stoker.dashboard.view_models import SessionView, SignInBody
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.secrets import Secret
from stoker.http_server.rate_limit import FailureRateLimiter, RateLimitLane, caller_address, parse_networks
from stoker.telemetry.logs import get_logger

MAX_TOKEN = 16 << 10
FAILED_LOGINS = 20
FAILED_LOGINS_OVERALL = 200
"""Rate limits: each number applies to one minute."""

log = get_logger(__name__)


class DashboardSignIn:
    """The session routes of one dashboard server, and the lookup of a request's session."""

    def __init__(
        self,
        mode: str,
        auth: DashboardAuth,
        sessions: DashboardSessions,
        clock: Clock,
        meter: DashboardMetrics,
        *,
        trusted_proxies: Sequence[str] = (),
        secure: bool = False,
    ) -> None:
        self._mode = mode
        self._auth = auth
        self._sessions = sessions
        self._clock = clock
        self._meter = meter
        self._trusted = parse_networks(trusted_proxies)
        self._secure = secure
        self._failures = FailureRateLimiter(FAILED_LOGINS, FAILED_LOGINS_OVERALL, clock)

    async def session(self, request: web.BaseRequest) -> web.StreamResponse:
        """Respond with the current session; a bearer token signs in."""
        session, token = self._find(request), request_checks.bearer_token(request.headers)
        if session is not None and (not token or Secret(token) == session.visitor.token):
            return json_response(self._view(session))
        if not token:
            return json_response(self._signed_out())
        return await self._begin(request, token)

    async def sign_in(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await read_body(request, SignInBody, MAX_TOKEN, self._clock)
        return await self._begin(request, body.token.strip())

    async def sign_out(self, request: web.BaseRequest) -> web.StreamResponse:
        session = self.require(request)
        request_checks.check_csrf(request.headers, session.csrf)
        self._sessions.end(session)
        response = json_response(self._signed_out())
        secure = self._is_secure(request)
        response.del_cookie(self._cookie(request), path="/", secure=secure, httponly=True, samesite="Strict")
        return response

    def require(self, request: web.BaseRequest) -> DashboardSession:
        """Return the session of a request; raise 401 if there is none."""
        session = self._find(request)
        if session is None:
            raise ActionRefused(401, "not signed in, or the session has ended")
        return session

    async def _begin(self, request: web.BaseRequest, token: str) -> web.Response:
        source = caller_address(request.remote, request.headers.get("X-Forwarded-For", ""), self._trusted)
        visitor = await self._authenticate(source, token)
        before = self._find(request)
        if before is not None and before.visitor.name == visitor.name:
            self._sessions.renew(before, visitor)  # the user's other pages continue with the newer token
            return json_response(self._view(before))
        if before is not None:
            self._sessions.end(before)  # a session id of one user must never become that of another
        secret, session = self._sessions.begin(visitor)
        self._meter.login(SignInResult.ACCEPTED)
        log.info("dashboard.login", user=visitor.name, source=source)
        response = json_response(self._view(session))
        secure = self._is_secure(request)
        response.set_cookie(
            self._cookie(request), secret, httponly=True, samesite="Strict", secure=secure, path="/"
        )
        return response

    async def _authenticate(self, source: str, token: str) -> Visitor:
        """Return the owner of the token.

        A token that the auth already knows skips the rate limit: failed logins of others cannot block it.
        """
        is_one = token and len(token) <= MAX_TOKEN and token.isascii() and token.isprintable()
        visitor = self._auth.known(Secret(token)) if is_one else None
        if visitor is not None:
            return visitor
        wait = self._failures.admit(source, RateLimitLane.WITH_PROOF)
        if wait > 0:
            self._meter.login(SignInResult.LIMITED)
            raise ActionRefused(429, "too many logins failed; wait a little", after=wait)
        try:
            visitor = await self._auth.admit(Secret(token)) if is_one else None
        except StokerError:
            self._meter.login(SignInResult.FAILED)
            raise
        if visitor is None:
            self._meter.login(SignInResult.REFUSED)
            log.warning("dashboard.login_refused", source=source)
            raise ActionRefused(401, "that token opens nothing here")
        self._failures.believed(source, RateLimitLane.WITH_PROOF)
        return visitor

    def _view(self, session: DashboardSession) -> SessionView:
        return SessionView(
            mode=self._mode,
            signed_in=True,
            user=session.visitor.name,
            csrf=session.csrf,
            version=__version__,
        )

    def _signed_out(self) -> SessionView:
        return SessionView(mode=self._mode, version=__version__)

    def _find(self, request: web.BaseRequest) -> DashboardSession | None:
        secret = request.cookies.get(self._cookie(request), "")
        return self._sessions.find(secret) if secret else None

    def _cookie(self, request: web.BaseRequest) -> str:
        return request_checks.cookie_name(request.headers.get("Host", ""), secure=self._is_secure(request))

    def _is_secure(self, request: web.BaseRequest) -> bool:
        """Return whether the browser uses TLS, to this server or to a proxy in front of it."""
        return self._secure or request.headers.get("X-Forwarded-Proto", "").strip().lower() == "https"

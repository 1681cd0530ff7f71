"""The test gateway's paths for those who are at work: Designers and Perspective sessions.

The API of 8.3 lists Designers below `/data/api/v1` and Perspective sessions below the
module's own prefix, with a slash at the end; it ends a session with the id and the words
in the query, and cannot send a message without closing. The specification has one list
of both kinds below `/data/api/v2`, in which `type` tells them apart, a list of design
sessions, and a message to one session.
"""

from __future__ import annotations

from aiohttp import web

from stoker_testkit.gateway.rest_api.request_checks import (
    API,
    API_V2,
    Route,
    body_of,
    in_83,
    in_v2,
    items,
)
from stoker_testkit.gateway.runtime import GatewayRuntime
from stoker_testkit.gateway.sessions import Designer, PerspectiveBrowser
from stoker_testkit.gateway.settings import GatewaySettings

PERSPECTIVE = "/data/perspective/api/v1/sessions"


class SessionRoutes:
    """Both generations of paths."""

    def __init__(self, runtime: GatewayRuntime, settings: GatewaySettings) -> None:
        self._sessions = runtime.sessions
        self._settings = settings

    def routes(self) -> list[Route]:
        return [
            Route("GET", f"{API}/designers", self._designers, in_83),
            Route("GET", f"{API}/designer/{{id}}", self._designer, in_83),
            Route("DELETE", f"{API}/designer/{{id}}", self._end_designer, in_83),
            Route("GET", f"{PERSPECTIVE}/", self._browsers, in_83),
            Route("DELETE", PERSPECTIVE, self._close_browsers, in_83),
            Route("GET", f"{API_V2}/design/sessions", self._design_sessions, in_v2),
            Route("GET", f"{API_V2}/sessions", self._all_sessions, in_v2),
            Route("POST", f"{API_V2}/sessions/{{id}}/message", self._message, in_v2, takes_body=True),
            Route("DELETE", f"{API_V2}/sessions/{{id}}", self._close_any, in_v2),
        ]

    async def _designers(self, request: web.Request) -> web.Response:
        found = [self._described(one) for one in self._sessions.designers.values()]
        return items(request, found, self._settings)

    async def _designer(self, request: web.Request) -> web.Response:
        found = self._sessions.designers.get(request.match_info["id"])
        if found is None:
            raise web.HTTPNotFound
        return web.json_response(self._described(found))

    async def _end_designer(self, request: web.Request) -> web.Response:
        if not self._sessions.end_designer(request.match_info["id"]):
            raise web.HTTPNotFound
        return web.json_response({"success": True})

    async def _browsers(self, request: web.Request) -> web.Response:
        found = [self._shown(one) for one in self._sessions.browsers.values()]
        return items(request, found, self._settings)

    async def _close_browsers(self, request: web.Request) -> web.Response:
        wanted = request.query.getall("sessionId", [])
        if not wanted:
            return web.json_response({"message": "sessionId is required"}, status=400)
        text = request.query.get("message", "")
        closed = [self._sessions.close_browser(one, text) for one in wanted]
        return web.json_response({"terminated": sum(closed)})

    async def _design_sessions(self, request: web.Request) -> web.Response:
        found = [self._in_v2(one) for one in self._sessions.designers.values()]
        return web.json_response({"sessions": found})

    async def _all_sessions(self, request: web.Request) -> web.Response:
        found = [self._in_v2(one) for one in self._sessions.designers.values()]
        found += [self._in_v2(one) for one in self._sessions.browsers.values()]
        return web.json_response({"sessions": found})

    async def _message(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        text = body.get("message") if isinstance(body, dict) else None
        if not isinstance(text, str) or not text:
            return web.json_response({"message": "message is required"}, status=400)
        if not self._sessions.message(request.match_info["id"], text):
            raise web.HTTPNotFound
        return web.json_response({"success": True})

    async def _close_any(self, request: web.Request) -> web.Response:
        session = request.match_info["id"]
        if not (self._sessions.close_browser(session) or self._sessions.end_designer(session)):
            raise web.HTTPNotFound
        return web.json_response({"success": True})

    def _described(self, one: Designer) -> dict[str, object]:
        return {
            "id": one.id,
            "user": one.user,
            "project": one.project,
            "address": one.address,
            "uptime": self._sessions.uptime_ms(one.id),
            "lastcomm": 120,
            "timeout": 60_000,
            "timezone": "Etc/UTC",
            "memory": 268_435_456,
        }

    def _shown(self, one: PerspectiveBrowser) -> dict[str, object]:
        return {
            "id": one.id,
            "username": one.user,
            "authorized": True,
            "project": one.project,
            "clientAddress": one.address,
            "lastComm": 80,
            "sessionScope": one.scope,
            "activePages": 1,
            "pageIds": ["page"],
        }

    def _in_v2(self, one: Designer | PerspectiveBrowser) -> dict[str, object]:
        """Under other names, as another generation would have them."""
        return {
            "sessionId": one.id,
            "type": "designer" if isinstance(one, Designer) else "perspective",
            "userName": one.user,
            "projectName": one.project,
            "clientAddress": one.address,
            "uptime": self._sessions.uptime_ms(one.id),
        }

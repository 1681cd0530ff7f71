"""The manners of the test gateway's web server: who may ask, what is refused, and in which form.

Refuses what a real one refuses, in the way a real one does: an empty 401 (also to
`Authorization: Bearer`, which it does not look at), a 403 in JSON, a 404 and a 405 as a
page of HTML, 503 while it starts, a redirect to `/welcome` before it is commissioned.
A body where none belongs, or one that is no JSON, is a 400; another content type a 415.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web

from stoker_testkit.gateway.runtime import GatewayRuntime, State
from stoker_testkit.gateway.settings import ApiKey, GatewaySettings, Paths, PlainHttpPolicy, Role

__all__ = ["API", "HEADER", "ApiKey", "GatewaySettings", "Paths", "PlainHttpPolicy", "Role"]

HEADER = "X-Ignition-API-Token"
API = "/data/api/v1"
API_V2 = "/data/api/v2"
KEY_NAME = web.RequestKey("key_name", str)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _always(_: GatewaySettings) -> bool:
    return True


def in_83(settings: GatewaySettings) -> bool:
    return settings.paths is not Paths.V2


def in_v2(settings: GatewaySettings) -> bool:
    return settings.paths is not Paths.V83


class Route(NamedTuple):
    """One path; `offered` says whether this gateway knows it."""

    method: str
    path: str
    handler: Handler
    offered: Callable[[GatewaySettings], bool] = _always
    takes_body: bool = False


class RequestChecks:
    """Checks every request before the routes of the API."""

    def __init__(self, runtime: GatewayRuntime, settings: GatewaySettings) -> None:
        self._runtime = runtime
        self._settings = settings

    def guarded(self, route: Route) -> Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            return self._refusal(request, route) or await route.handler(request)

        return guarded

    def _refusal(self, request: web.Request, route: Route) -> web.Response | None:
        """In the order in which a real gateway finds things wrong."""
        settings = self._settings
        if not settings.commissioned:
            return web.Response(status=302, headers={"Location": "/welcome"})
        if not settings.version.startswith("8.3") or not route.offered(settings):
            return page(404, "Not Found")
        if self._runtime.state is not State.RUNNING:
            return page(503, "Gateway is not running")
        if not request.secure and settings.insecure is PlainHttpPolicy.REDIRECTED:
            return web.Response(status=302, headers={"Location": f"https://{request.host}{request.path}"})
        return self._forbidden(request, writes=route.method != "GET") or _misshapen(request, route)

    def _forbidden(self, request: web.Request, *, writes: bool) -> web.Response | None:
        values = request.headers.getall(self._settings.key_header, [])
        name, colon, secret = (values[0] if len(values) == 1 else "").partition(":")
        key = self._settings.keys.get(name)
        if key is None or not colon or not hmac.compare_digest(secret.encode(), key.secret.encode()):
            return web.Response(status=401)
        request[KEY_NAME] = name
        if not request.secure and self._settings.insecure is PlainHttpPolicy.REFUSED:
            return web.json_response({"message": "A secure connection is required"}, status=403)
        if not (key.write if writes else key.read):
            return web.json_response({"message": "The security level is not granted"}, status=403)
        return None


def _misshapen(request: web.Request, route: Route) -> web.Response | None:
    if not request.body_exists:
        return None
    if not route.takes_body:
        return web.json_response({"message": "This request takes no body"}, status=400)
    if "Content-Type" in request.headers and request.content_type != "application/json":
        return page(415, "Unsupported Media Type")
    return None


@web.middleware
async def html_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Unknown paths and methods get the gateway's page, as a browser would."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return page(404, "Not Found")
    except web.HTTPMethodNotAllowed:
        return page(405, "Method Not Allowed")


def page(status: int, title: str) -> web.Response:
    text = f"<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
    return web.Response(status=status, text=text, content_type="text/html")


def items(request: web.Request, found: list[dict[str, object]], settings: GatewaySettings) -> web.Response:
    """A list as all lists are: with `limit` (-1 is all) and `offset`, and how many there are."""
    try:
        limit = int(request.query.get("limit", settings.page_limit or -1))
        offset = max(0, int(request.query.get("offset", 0)))
    except ValueError:
        return web.json_response({"message": "limit and offset are numbers"}, status=400)
    shown = found[offset:] if limit < 0 else found[offset : offset + limit]
    metadata = {"total": len(found), "matching": len(found), "limit": limit, "offset": offset}
    return web.json_response({"items": shown, "metadata": metadata})


def politely_refused(message: str) -> web.Response:
    """A no that a careless client takes for a yes."""
    return web.json_response({"success": False, "message": message})


async def body_of(request: web.Request) -> object:
    """The JSON that was sent; None if it is none."""
    try:
        return json.loads(await request.read())
    except ValueError:
        return None

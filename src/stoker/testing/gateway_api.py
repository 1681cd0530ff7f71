"""The web server of the test gateway: the API of Ignition 8.3 with its nasty sides.

Refuses what a real one refuses, in the way a real one does: an empty 401, a 403 in
JSON, a 404 as a page of HTML, 503 while it starts, 500 to a lock without a body,
`success:false` in a 200. `/testing/…` is not Ignition's: it shows what was loaded.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

from aiohttp import web

from stoker.testing.gateway_mind import GatewayMind, Held, Kind, State

HEADER = "X-Ignition-API-Token"
API = "/data/api/v1"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
KEY_NAME = web.RequestKey("key_name", str)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as an administrator made it: its secret, and what its security level is granted."""

    secret: str = field(repr=False)
    read: bool = True
    write: bool = True


class Insecure(StrEnum):
    """What plain HTTP gets."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    REDIRECTED = "redirected"


@dataclass(slots=True)
class Settings:
    """What an administrator, or the age of the gateway, decides; may be changed while it runs."""

    name: str = "gateway"
    version: str = "8.3.7"
    keys: dict[str, ApiKey] = field(default_factory=dict)
    insecure: Insecure = Insecure.ALLOWED
    scan_lock: bool = True
    """Older gateways have none and answer 404."""
    scan_refusal: str = ""
    """A scan is answered with 200, `success:false` and these words."""
    modules: tuple[str, ...] = ("com.inductiveautomation.perspective", "com.inductiveautomation.opcua")
    quarantined: tuple[str, ...] = ()


class GatewayApi:
    """Routes and rules; the mind behind it does the work."""

    def __init__(self, mind: GatewayMind, settings: Settings) -> None:
        self._mind = mind
        self._settings = settings

    def application(self) -> web.Application:
        app = web.Application(middlewares=[_html_errors])
        app.router.add_get("/system/gwinfo", self._gwinfo)
        app.router.add_get("/StatusPing", self._ping)
        app.router.add_get("/testing/loaded", self._loaded)
        for method, path, handler in (
            ("GET", "gateway-info", self._info),
            ("GET", "scan/{kind}", self._scan_status),
            ("POST", "scan/{kind}", self._scan),
            ("GET", "scan-lock/{kind}", self._lock_info),
            ("POST", "scan-lock/{kind}", self._lock),
            ("GET", "designers", self._designers),
            ("DELETE", "designer/{id}", self._end_designer),
            ("GET", "projects/names", self._project_names),
            ("GET", "projects/list", self._project_list),
            ("GET", "projects/find/{name}", self._project),
            ("GET", "resources/list/ignition/tag-provider", self._tag_providers),
            ("GET", "modules/{health:healthy|quarantined}", self._modules),
        ):
            app.router.add_route(method, f"{API}/{path}", self._guarded(handler, writes=method != "GET"))
        return app

    def _guarded(self, handler: Handler, *, writes: bool) -> Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            return self._refusal(request, writes=writes) or await handler(request)

        return guarded

    def _refusal(self, request: web.Request, *, writes: bool) -> web.Response | None:
        """In the order in which a real gateway finds things wrong."""
        if not self._settings.version.startswith("8.3"):
            return _page(404, "Not Found")
        if self._mind.state is not State.RUNNING:
            return _page(503, "Gateway is not running")
        if not request.secure and self._settings.insecure is Insecure.REDIRECTED:
            return web.Response(status=302, headers={"Location": f"https://{request.host}{request.path}"})
        name, colon, secret = request.headers.get(HEADER, "").partition(":")
        key = self._settings.keys.get(name)
        if key is None or not colon or not hmac.compare_digest(secret.encode(), key.secret.encode()):
            return web.Response(status=401)
        request[KEY_NAME] = name
        if not request.secure and self._settings.insecure is Insecure.REFUSED:
            return web.json_response({"message": "A secure connection is required"}, status=403)
        if not (key.write if writes else key.read):
            return web.json_response({"message": "The security level is not granted"}, status=403)
        return None

    async def _gwinfo(self, _: web.Request) -> web.Response:
        version, state = self._settings.version, self._mind.state
        return web.Response(
            text=f"ContextStatus={state};EditionName=;Version={version};RedundancyStatus=Good"
        )

    async def _ping(self, _: web.Request) -> web.Response:
        # It has no word for a gateway that faulted: that one seems to start for ever.
        running = self._mind.state is State.RUNNING
        return web.json_response({"state": State.RUNNING if running else State.STARTING})

    async def _info(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "name": self._settings.name,
                "edition": "",
                "ignitionVersion": f"{self._settings.version} (b2026010100)",
                "deploymentMode": "",
                "redundancyRole": "Independent",
                "port": request.url.port,
            }
        )

    async def _scan(self, request: web.Request) -> web.Response:
        if self._settings.scan_refusal:
            return web.json_response({"success": False, "message": self._settings.scan_refusal})
        kind = _kind(request)
        self._mind.ask_for_scan(kind)
        return self._status_of(kind)

    async def _scan_status(self, request: web.Request) -> web.Response:
        return self._status_of(_kind(request))

    def _status_of(self, kind: Kind) -> web.Response:
        scanning = self._mind.kinds[kind]
        return web.json_response(
            {
                "scanActive": scanning.active,
                "lastScanTimestamp": scanning.finished_ms,
                "lastScanDuration": scanning.took_ms,
            }
        )

    async def _lock(self, request: web.Request) -> web.Response:
        kind = self._lockable(request)
        body = await request.read()
        if not body:
            return _page(500, "Internal Server Error")
        asked = _timeouts(body)
        if asked is None:
            return web.json_response({"message": "acquireTimeout and holdTimeout are seconds"}, status=400)
        match await self._mind.take_lock(kind, *asked):
            case Held.BY_ANOTHER:
                return web.json_response({"message": "The lock is held"}, status=409)
            case Held.NOT_IN_TIME:
                return web.json_response({"message": "The lock was not acquired in time"}, status=408)
        return web.json_response({"holdTimeout": asked[1]})

    async def _lock_info(self, request: web.Request) -> web.Response:
        kind = self._lockable(request)
        if not self._mind.locked(kind):
            return web.Response(status=204)
        return web.json_response({"queued": len(self._mind.kinds[kind].queue)})

    def _lockable(self, request: web.Request) -> Kind:
        if not self._settings.scan_lock:
            raise web.HTTPNotFound
        return _kind(request)

    async def _designers(self, _: web.Request) -> web.Response:
        return _items(
            [
                {"id": one.id, "user": one.user, "project": one.project, "address": one.address}
                for one in self._mind.designers.values()
            ]
        )

    async def _end_designer(self, request: web.Request) -> web.Response:
        if self._mind.designers.pop(request.match_info["id"], None) is None:
            raise web.HTTPNotFound
        return web.json_response({"success": True})

    async def _project_names(self, _: web.Request) -> web.Response:
        return web.json_response(sorted(self._mind.projects))

    async def _project_list(self, _: web.Request) -> web.Response:
        return _items([self._described(name) for name in sorted(self._mind.projects)])

    async def _project(self, request: web.Request) -> web.Response:
        if request.match_info["name"] not in self._mind.projects:
            raise web.HTTPNotFound
        return web.json_response(self._described(request.match_info["name"]))

    def _described(self, name: str) -> dict[str, object]:
        project = self._mind.projects[name]
        return {"name": name, "title": project.title, "enabled": project.enabled}

    async def _tag_providers(self, _: web.Request) -> web.Response:
        marker = "/ignition/tag-provider/"
        paths = (f"/{path}" for path in self._mind.config)
        return _items([{"name": path.partition(marker)[2]} for path in sorted(paths) if marker in path])

    async def _modules(self, request: web.Request) -> web.Response:
        healthy = request.match_info["health"] == "healthy"
        return _items(
            [{"id": one} for one in (self._settings.modules if healthy else self._settings.quarantined)]
        )

    async def _loaded(self, _: web.Request) -> web.Response:
        """What the last scans published: digest by resource."""
        return web.json_response(
            {
                "projects": {
                    name: {path: resource.digest for path, resource in project.resources.items()}
                    for name, project in self._mind.projects.items()
                },
                "config": {path: resource.digest for path, resource in self._mind.config.items()},
                "scans": self._mind.scans_done,
                "scanActive": any(scanning.active for scanning in self._mind.kinds.values()),
                "stale": self._mind.stale(),
            }
        )


@web.middleware
async def _html_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Unknown paths get the gateway's page, as a browser would."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return _page(404, "Not Found")


def _page(status: int, title: str) -> web.Response:
    page = f"<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
    return web.Response(status=status, text=page, content_type="text/html")


def _items(items: list[dict[str, object]]) -> web.Response:
    return web.json_response({"items": items, "metadata": {"total": len(items)}})


def _kind(request: web.Request) -> Kind:
    try:
        return Kind(request.match_info["kind"])
    except ValueError:
        raise web.HTTPNotFound from None


def _timeouts(body: bytes) -> tuple[float, float] | None:
    try:
        said = json.loads(body)
    except ValueError:
        return None
    found = [said.get(name) for name in ("acquireTimeout", "holdTimeout")] if isinstance(said, dict) else []
    seconds = [one for one in found if isinstance(one, int) and not isinstance(one, bool) and one >= 0]
    return (seconds[0], seconds[1]) if len(seconds) == 2 and seconds[1] > 0 else None

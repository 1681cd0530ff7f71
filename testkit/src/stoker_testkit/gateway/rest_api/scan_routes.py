"""The test gateway's paths for scans and scan locks.

A backup that is not active answers both with 200 and `success:false`. No report says in
which form a real one refuses; this is the form in which a client is deceived most easily.
An active backup, whose master is gone, takes them as any other gateway does.
"""

from __future__ import annotations

from aiohttp import web

from stoker_testkit.gateway.rest_api.request_checks import API, Route, body_of, page, politely_refused
from stoker_testkit.gateway.runtime import GatewayRuntime
from stoker_testkit.gateway.scan_lock import ScanLockKind, ScanLockResult
from stoker_testkit.gateway.settings import GatewaySettings

READ_ONLY = "This gateway is the backup of a redundant pair; changes are made on its master"


class ScanRoutes:
    """`scan/{projects,config}` and `scan-lock/{projects,config}`."""

    def __init__(self, runtime: GatewayRuntime, settings: GatewaySettings) -> None:
        self._runtime = runtime
        self._settings = settings

    def routes(self) -> list[Route]:
        return [
            Route("GET", f"{API}/scan/{{kind}}", self._status),
            Route("POST", f"{API}/scan/{{kind}}", self._scan),
            Route("GET", f"{API}/scan-lock/{{kind}}", self._lock_info, _has_lock),
            Route("POST", f"{API}/scan-lock/{{kind}}", self._lock, _has_lock, takes_body=True),
        ]

    async def _scan(self, request: web.Request) -> web.Response:
        kind = _kind(request)
        if refusal := self._settings.scan_refusal or (READ_ONLY if self._runtime.refuses_edits else ""):
            return politely_refused(refusal)
        self._runtime.ask_for_scan(kind, releases=True)
        return self._status_of(kind)

    async def _status(self, request: web.Request) -> web.Response:
        return self._status_of(_kind(request))

    def _status_of(self, kind: ScanLockKind) -> web.Response:
        scanning = self._runtime.kinds[kind]
        return web.json_response(
            {
                "scanActive": scanning.active,
                "lastScanTimestamp": scanning.finished_ms,
                "lastScanDuration": scanning.took_ms,
            }
        )

    async def _lock(self, request: web.Request) -> web.Response:
        kind = _kind(request)
        if not request.body_exists:
            return page(500, "Internal Server Error")
        if self._runtime.refuses_edits:
            return politely_refused(READ_ONLY)
        asked = _timeouts(await body_of(request))
        if asked is None:
            return web.json_response({"message": "acquireTimeout and holdTimeout are seconds"}, status=400)
        match await self._runtime.kinds[kind].take(*asked):
            case ScanLockResult.BY_ANOTHER:
                return web.json_response({"message": "The lock is held"}, status=409)
            case ScanLockResult.NOT_IN_TIME:
                return web.json_response({"message": "The lock was not acquired in time"}, status=408)
        return web.json_response({"holdTimeout": asked[1]})

    async def _lock_info(self, request: web.Request) -> web.Response:
        scanning = self._runtime.kinds[_kind(request)]
        if not scanning.locked():
            return web.Response(status=204)
        return web.json_response({"queued": len(scanning.queue), "remaining": round(scanning.left(), 3)})


def _has_lock(settings: GatewaySettings) -> bool:
    return settings.scan_lock


def _kind(request: web.Request) -> ScanLockKind:
    try:
        return ScanLockKind(request.match_info["kind"])
    except ValueError:
        raise web.HTTPNotFound from None


def _timeouts(body: object) -> tuple[float, float] | None:
    found = [body.get(name) for name in ("acquireTimeout", "holdTimeout")] if isinstance(body, dict) else []
    seconds = [one for one in found if isinstance(one, int) and not isinstance(one, bool) and one >= 0]
    return (seconds[0], seconds[1]) if len(seconds) == 2 and seconds[1] > 0 else None

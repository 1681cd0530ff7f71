"""HTTP responses of the dashboard, each with the security headers of `request_checks`."""

from __future__ import annotations

import math

import msgspec
from aiohttp import web

from stoker.dashboard.interfaces import ActionRefused
from stoker.dashboard.request_checks import HEADERS, NO_STORE
from stoker.dashboard.static_files import StaticFile, etag_matches
from stoker.dashboard.view_models import FailureView, as_json
from stoker.domain.errors import Misconfigured, Retry, Stalled, StokerError, Wait


def json_response(value: msgspec.Struct, status: int = 200) -> web.Response:
    return web.Response(
        status=status, body=as_json(value), headers={**NO_STORE, "Content-Type": "application/json"}
    )


def refused_response(error: ActionRefused, allowed: str = "GET, HEAD") -> web.Response:
    """Respond with the refusal and close the connection, because a body may still be on its way."""
    response = json_response(FailureView(error=error.sentence, reason=error.reason), error.status)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if error.status == 405:
        response.headers["Allow"] = allowed
    if error.after > 0:
        response.headers["Retry-After"] = str(math.ceil(error.after))
    response.force_close()
    return response


def error_response(error: Exception) -> web.Response:
    """Respond to a failure on our side; an unexpected exception reveals no detail, only the log has it."""
    if not isinstance(error, StokerError):
        return refused_response(ActionRefused(500, "the dashboard failed; its log says more"))
    return refused_response(ActionRefused(http_status(error), error.message, error.reason))


def http_status(error: StokerError) -> int:
    """Return 409 if the visitor has to act (Stalled), otherwise 502: something cannot be reached."""
    if isinstance(error, Retry | Wait | Misconfigured):
        return 502
    return 409 if isinstance(error, Stalled) else 502


def static_response(file: StaticFile, if_none_match: str) -> web.Response:
    headers = {**HEADERS, "Cache-Control": "no-cache", "ETag": file.etag}
    if etag_matches(file.etag, if_none_match):
        return web.Response(status=304, headers=headers)
    return web.Response(body=file.content, headers={**headers, "Content-Type": file.kind})

"""Reads the JSON body of a request, limited in bytes and in time."""

from __future__ import annotations

from typing import NoReturn, TypeVar

import msgspec
from aiohttp import web

from stoker.dashboard import request_checks
from stoker.dashboard.interfaces import ActionRefused
from stoker.domain.clock import Clock
from stoker.http_server.request_signatures import read_capped
from stoker.kube.client.deadlines import deadline

BODY_SECONDS = 5.0
MAX_REASON_LENGTH = 300

T = TypeVar("T")


async def read_body(request: web.BaseRequest, shape: type[T], limit: int, clock: Clock) -> T:
    """Return the decoded body; raise ActionRefused if it is too large, late, or of another shape."""
    request_checks.check_json(request.headers)
    if (request.content_length or 0) > limit:
        raise ActionRefused(413, f"a body has at most {limit} bytes")
    try:
        async with deadline(clock, BODY_SECONDS):
            body = await read_capped(request.content.iter_any(), limit)
    except TimeoutError:
        raise ActionRefused(408, "the body did not come in time") from None
    if body is None:
        raise ActionRefused(413, f"a body has at most {limit} bytes")
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse(error)


def _refuse(error: Exception) -> NoReturn:
    why = str(error) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
    raise ActionRefused(400, f"the body cannot be read: {why[:MAX_REASON_LENGTH]}") from None

"""The requests to a test gateway, one entry for each, without any secret."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from stoker_testkit.gateway.rest_api.request_checks import HEADER, KEY_NAME


@dataclass(frozen=True, slots=True)
class GatewayRequest:
    """One request as the gateway saw it; of the key only the name."""

    method: str
    path: str
    key: str | None
    status: int
    authorization: bool
    """It brought a header that a gateway does not look at."""
    query: str = ""


def recorded(request: web.Request, response: web.StreamResponse) -> GatewayRequest:
    foreign = "Authorization" in request.headers and HEADER not in request.headers
    return GatewayRequest(
        request.method,
        request.path,
        request.get(KEY_NAME),
        response.status,
        foreign,
        request.query_string,
    )

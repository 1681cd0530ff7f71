"""Sends one HTTP request to an external service, limited in time and size.

All requests to services other than the API server, the Git repository and the gateway go through here.
The client connects only to addresses that `stoker.http_client.egress` has checked. It does not follow
redirects, because the credentials of a request (a token, or a URL that is itself a secret) are meant for
one host only. For the same reason, error messages name that host and never the rest of the URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stoker.domain.errors import InvalidValue
from stoker.http_client.errors import ServiceUnreachable
from stoker.http_client.proxy import proxy_for
from stoker.http_client.tls import client_tls_context

if TYPE_CHECKING:
    from ssl import SSLContext

TIMEOUT = 10.0
MAX_REPLY = 64 * 1024
MAX_WAIT = 3600.0


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """A request, with its limits."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float = TIMEOUT
    ca: bytes | None = None
    """CA certificates in PEM form that are trusted beside the system's."""
    proxy: str = ""
    """Empty: the proxy of the environment variables."""
    max_reply: int = MAX_REPLY
    verified: bool = True
    """Whether the server's certificate is verified; disable it only for requests without secrets."""
    services_of: str = ""
    """Namespace whose Services the address check allows: that of the resource which names the address."""

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or "an address without a host"


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """A response; header names are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def date(self) -> float | None:
        """The server's own time, in seconds since the epoch."""
        from email.utils import parsedate_to_datetime  # noqa: PLC0415

        try:
            return parsedate_to_datetime(self.headers.get("date", "")).timestamp()
        except (ValueError, TypeError, OverflowError):
            return None

    @property
    def wait(self) -> float | None:
        """Seconds to wait before the next request: Retry-After, or until the rate limit resets."""
        seconds = self.headers.get("retry-after", "")
        if seconds.isdecimal():
            return min(float(seconds), MAX_WAIT)
        reset, date = self.headers.get("x-ratelimit-reset", ""), self.date
        if self.headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal() and date is not None:
            return min(max(float(reset) - date, 1.0), MAX_WAIT)
        return None


async def send_request(request: ServiceRequest) -> ServiceResponse:
    """Return the response, whatever its status; raises `ServiceUnreachable` if there is none."""
    import aiohttp  # noqa: PLC0415 - slow import, and few syncs send a request

    if urlsplit(request.url).scheme not in ("http", "https"):
        raise InvalidValue(f"the address of {request.host} is neither http nor https")
    from stoker.http_client.connections import EgressCheckedResolver  # noqa: PLC0415 - needs aiohttp
    from stoker.http_client.network_errors import NETWORK_ERRORS, network_error_text  # noqa: PLC0415

    proxy = proxy_for(request.url, request.proxy)
    connections = EgressCheckedResolver(request.services_of)
    connections.through(proxy, request.url, own=not request.proxy)
    try:
        async with (
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=request.timeout),
                connector=connections.connector(),
                auto_decompress=False,
            ) as session,
            session.request(
                request.method,
                request.url,
                headers={"User-Agent": "stoker", "Accept-Encoding": "identity", **request.headers},
                data=request.body,
                ssl=_tls_settings(request, proxy),
                proxy=proxy,
                allow_redirects=False,
            ) as response,
        ):
            body = await response.content.read(request.max_reply + 1)
            while len(body) <= request.max_reply and (more := await response.content.read(request.max_reply)):
                body += more
            if len(body) > request.max_reply:
                raise ServiceUnreachable(f"{request.host} answers with more than {request.max_reply} bytes")
            headers = {name.lower(): value for name, value in response.headers.items()}
            return ServiceResponse(response.status, body, headers)
    except (*NETWORK_ERRORS, ValueError) as error:
        if connections.refusal is not None:
            raise connections.refusal from None
        raise ServiceUnreachable(f"{request.host} {network_error_text(error, request.timeout)}") from None


def _tls_settings(request: ServiceRequest, proxy: str | None) -> SSLContext | bool:
    if not request.verified:
        return False
    return client_tls_context(request.ca) if request.ca or _uses_tls(request.url, proxy) else True


def _uses_tls(*hops: str | None) -> bool:
    """Return whether a hop uses TLS; loading the system's CAs takes longer than a short plain request."""
    return any(hop is not None and urlsplit(hop).scheme == "https" for hop in hops)

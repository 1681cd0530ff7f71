"""One request to a service of somebody else, bounded in time and size.

Every call that leaves for another house than the cluster, the repository's git and the
gateway comes through here. It connects only to addresses that `stoker.http_client.egress`
has checked. A redirect is an answer and not followed, because what is sent along (a token,
an address that is itself a secret) was meant for one host.
Sentences name that host and never the rest of an address, for the same reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stoker.domain.errors import InvalidValue
from stoker.http_client.errors import ServiceUnreachable, error_reason
from stoker.http_client.proxy import proxy_for
from stoker.http_client.tls import client_tls_context

if TYPE_CHECKING:
    from ssl import SSLContext

TIMEOUT = 10.0
MAX_REPLY = 64 * 1024
MAX_WAIT = 3600.0


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """What is asked, of whom, and for how long."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float = TIMEOUT
    ca: bytes | None = None
    """Certificates in PEM form that are believed besides the system's."""
    proxy: str = ""
    """Left empty, the process's own variables say which."""
    max_reply: int = MAX_REPLY
    verified: bool = True
    """Whether the certificate has to be one that is believed; for what carries no secret."""
    services_of: str = ""
    """Namespace whose Services the address check lets pass: that of the resource which names the address."""

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or "an address without a host"


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """What came back; names of headers are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def date(self) -> float | None:
        """The server's own time, in seconds."""
        from email.utils import parsedate_to_datetime  # noqa: PLC0415

        try:
            return parsedate_to_datetime(self.headers.get("date", "")).timestamp()
        except (ValueError, TypeError, OverflowError):
            return None

    @property
    def wait(self) -> float | None:
        """How long it asks us to stay away: Retry-After, or until its budget for us is filled again."""
        seconds = self.headers.get("retry-after", "")
        if seconds.isdecimal():
            return min(float(seconds), MAX_WAIT)
        reset, date = self.headers.get("x-ratelimit-reset", ""), self.date
        if self.headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal() and date is not None:
            return min(max(float(reset) - date, 1.0), MAX_WAIT)
        return None


async def send_request(request: ServiceRequest) -> ServiceResponse:
    """The answer, whatever its status; raises `ServiceUnreachable` where there is none."""
    import aiohttp  # noqa: PLC0415 - costs more than a whole sync, and few passes call anybody

    if urlsplit(request.url).scheme not in ("http", "https"):
        raise InvalidValue(f"the address of {request.host} is neither http nor https")
    from stoker.http_client.connections import EgressCheckedResolver  # noqa: PLC0415 - needs aiohttp

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
    except TimeoutError:
        raise ServiceUnreachable(f"{request.host} did not answer within {request.timeout:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if connections.refusal is not None:
            raise connections.refusal from None
        raise ServiceUnreachable(f"{request.host} cannot be reached: {error_reason(error)}") from None


def _tls_settings(request: ServiceRequest, proxy: str | None) -> SSLContext | bool:
    if not request.verified:
        return False
    return client_tls_context(request.ca) if request.ca or _uses_tls(request.url, proxy) else True


def _uses_tls(*hops: str | None) -> bool:
    """Whether certificates are asked for on the way; to read the system's takes longer than a short call."""
    return any(hop is not None and urlsplit(hop).scheme == "https" for hop in hops)

"""Sends one request to the API server: session, credentials, retries, and conversion of foreign exceptions.

`stoker.kube.client.client` defines the requests; this module sends them. Every exception of aiohttp, the
sockets and TLS becomes `ApiServerUnreachable` here, every error response of the server becomes an `ApiError`,
and neither ever quotes a header: aiohttp's own exceptions contain the request's headers, so they are not
chained.

Redirects are not followed, because credentials must not be sent to another host. Responses are requested
uncompressed: on a cluster's network gzip costs both sides more CPU than it saves. This module reads nothing
from the environment (proxies, netrc).
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import contextlib
import io
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from stoker.domain.clock import Clock
from stoker.domain.errors import InvalidValue, clear_traceback
from stoker.http_client.network_errors import NETWORK_ERRORS, network_error_text
from stoker.kube.client.errors import (
    ApiServerUnreachable,
    ResponseTooLarge,
    ServerError,
    TooManyRequests,
    error_for,
)
from stoker.kube.client.token_bucket import RequestRate, TokenBucket
from stoker.kube.config.config import ClusterConfig
from stoker.kube.config.credentials import RequestIdentity
from stoker.kube.config.tls import ClientCertificate

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 60.0
MAX_BODY = 64 * 1024 * 1024
MAX_SINGLE_WRITE_BYTES = 1 << 20
# An error's body is read for its message only.
MAX_ERROR_BODY = 256 * 1024
MAX_ATTEMPTS = 3
PATIENCE_SECONDS = 10.0

# asyncio allocates a permanent read buffer of 256 KiB for each TLS connection: 300 idle watches then cost
# 92 MB, and 26 MB with this value. It is a class attribute without a setting; uvloop does not use it.
asyncio.sslproto.SSLProtocol.max_size = 32 * 1024


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request. `what` names the verb and the object in every error."""

    method: str
    path: str
    what: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    confidential: bool = False
    """The body is a Secret: the server's message about it is not repeated."""
    permit: Callable[[], None] | None = field(default=None, repr=False)
    """Called right before each attempt to send; raises if the request must not be sent any more."""

    @property
    def idempotent(self) -> bool:
        return self.method != "POST"


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A response that is not an error, read completely."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class Transport:
    """The session to one API server; an async context manager."""

    def __init__(
        self, config: ClusterConfig, *, clock: Clock, user_agent: str, rate: RequestRate | None, max_body: int
    ) -> None:
        self._config = config
        self._clock = clock
        self._user_agent = user_agent
        self._max_body = max_body
        self._bucket = TokenBucket(rate, clock) if rate else None
        self._session: aiohttp.ClientSession | None = None
        self._tls: tuple[ClientCertificate | None, ssl.SSLContext] | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            # HTTP/1.1 and no limit: every watch holds a connection, and there may be hundreds.
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "Accept": "application/json",
                # Decompressing costs more than receiving the longer response (docs/adr/0006).
                "Accept-Encoding": "identity",
                "User-Agent": self._user_agent,
            },
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0)  # aborted connections close in the loop's next iteration

    async def send(self, request: ApiRequest) -> ApiResponse:
        """Send a request and read the response; retry if the server is busy and names a delay."""
        deadline = self._clock.monotonic() + PATIENCE_SECONDS
        tries = 0
        while True:
            tries += 1
            try:
                return await self._exchange(request)
            except (TooManyRequests, ServerError) as busy:
                if busy.after is None or busy.status not in {429, 503} or not request.idempotent:
                    raise
                if tries == MAX_ATTEMPTS or self._clock.monotonic() + busy.after > deadline:
                    raise
                wait = busy.after
            await self._clock.sleep(wait)

    @contextlib.asynccontextmanager
    async def stream(self, request: ApiRequest, *, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Stream the body of a response; `silence` seconds without a byte count as a broken connection.

        Leaving the block closes the connection at once, whatever is still being sent.
        """
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=silence)
        with self._boundary(request, silence):
            response = await self._answer(request, timeout)
        try:
            async with contextlib.aclosing(self._chunks(response, request, silence)) as chunks:
                yield chunks
        finally:
            _abort_connection(response)

    async def _chunks(
        self, response: aiohttp.ClientResponse, request: ApiRequest, silence: float
    ) -> AsyncGenerator[bytes]:
        with self._boundary(request, silence):
            async for chunk in response.content.iter_any():
                yield chunk

    async def _exchange(self, request: ApiRequest) -> ApiResponse:
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS, connect=CONNECT_SECONDS)
        with self._boundary(request, REQUEST_SECONDS):
            response = await self._answer(request, timeout)
            body = await _read_body(response, self._max_body)
        if body is None:
            raise ResponseTooLarge(
                f"{request.what}: the answer is longer than {self._max_body} bytes", status=response.status
            )
        return ApiResponse(response.status, response.headers, body)

    async def _answer(self, request: ApiRequest, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """Return a response that is not an error, its body unread; after a 401 renew the credentials once."""
        credentials = self._config.credentials
        renewed = False
        while True:
            identity = await credentials.current()
            response = await self._start(request, identity, timeout)
            if response.status < 300 or response.status == 304:
                return response
            body = await _read_body(response, MAX_ERROR_BODY)
            if response.status != 401 or renewed or not await credentials.renew(identity):
                break
            renewed = True
        raise error_for(
            response.status,
            body or b"",
            response.headers,
            what=request.what,
            confidential=request.confidential,
        )

    async def _start(
        self, request: ApiRequest, identity: RequestIdentity, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is used outside of its `async with` block")
        if self._bucket is not None:
            await self._bucket.take()
        if request.permit is not None:
            request.permit()
        headers = [*request.headers.items(), *self._config.impersonate]
        if identity.authorization is not None:
            headers.append(("Authorization", identity.authorization.reveal()))
        return await self._session.request(
            request.method,
            self._url(request),
            data=_body_stream(request.body),
            headers=headers,
            timeout=timeout,
            ssl=self._context(identity.certificate),
            server_hostname=self._config.trust.server_name,
            proxy=self._config.proxy.reveal() if self._config.proxy else None,
            allow_redirects=False,
        )

    def _url(self, request: ApiRequest) -> URL:
        try:
            query = f"?{urlencode(request.query, quote_via=quote)}" if request.query else ""
        except UnicodeEncodeError:
            raise InvalidValue(f"{request.what}: a parameter is not text that can be sent") from None
        # `encoded` keeps yarl from treating dots and escapes in a name as parts of the path.
        return URL(f"{self._config.server}{request.path}{query}", encoded=True)

    def _context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """Return one context per certificate.

        aiohttp pools connections by context, so no old identity is reused.
        """
        if self._tls is None or self._tls[0] != certificate:
            self._tls = (certificate, self._config.trust.context(certificate))
        return self._tls[1]

    @contextlib.contextmanager
    def _boundary(self, request: ApiRequest, seconds: float) -> Iterator[None]:
        """Convert foreign exceptions."""
        try:
            yield
        except NETWORK_ERRORS as error:
            if isinstance(error, aiohttp.ClientConnectorCertificateError):
                self._tls = None  # the CA file may have been replaced since it was read
            sentence = f"{request.what}: {self._config.server} {network_error_text(error, seconds)}"
            clear_traceback(error)
        else:
            return
        raise ApiServerUnreachable(sentence) from None


async def _read_body(response: aiohttp.ClientResponse, limit: int) -> bytes | None:
    """Return the body, or None if it is longer than the limit; in both cases the response is finished."""
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > limit:
                return None
            chunks.append(chunk)
        return b"".join(chunks)
    finally:
        if response.content.at_eof():
            response.release()
        else:
            _abort_connection(response)


def _abort_connection(response: aiohttp.ClientResponse) -> None:
    """Drop the connection now. A TLS shutdown waits up to 30 s for a peer that may be gone."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def _body_stream(body: bytes | None) -> bytes | io.BytesIO | None:
    """Return a body in a form in which a large one, such as a full ConfigMap, is not written at once."""
    return body if body is None or len(body) <= MAX_SINGLE_WRITE_BYTES else io.BytesIO(body)

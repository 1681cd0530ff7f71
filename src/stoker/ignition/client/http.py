"""The HTTP session to one gateway, and the boundary for foreign exceptions.

The only module of this package that imports aiohttp; `stoker.ignition.client.requests`
imports it with the first request, so that a sync without a gateway does not pay for the
import. Redirects are not followed, because the key must not be sent to another host.
aiohttp's own exceptions hold the request's headers: never chain or quote them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

import aiohttp
from yarl import URL

from stoker.domain.errors import Retry, clear_traceback
from stoker.domain.reasons import Reason
from stoker.http_client.network_errors import NETWORK_ERRORS, network_error_text
from stoker.http_client.tls import client_tls_context, unverified_tls_context
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.responses import GatewayResponse

CONNECT_SECONDS = 5.0
KEEPALIVE_SECONDS = 5.0
"""Shorter than any gateway's own limit, so that the gateway never closes a connection just as it is used."""
MAX_ANSWER_BYTES = 8 * 1024 * 1024


class GatewayHttp:
    """Sends a request and reads its response; `aclose` closes the session."""

    def __init__(self, address: GatewayAddress, ca: bytes | None, *, verified: bool) -> None:
        self._address = address
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=4,
                ssl=_context(address, ca, verified=verified) if address.tls else False,
                keepalive_timeout=KEEPALIVE_SECONDS,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # we request no compression; a decompression bomb would fill memory
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "stoker"},
        )

    async def aclose(self) -> None:
        await self._session.close()
        await asyncio.sleep(0)  # connections close in the next iteration of the event loop

    async def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        what: str,
        within: float,
    ) -> GatewayResponse:
        """Return the response, whatever its status; raise `Retry` if there is none."""
        timeout = aiohttp.ClientTimeout(total=within, connect=CONNECT_SECONDS)
        try:
            async with self._session.request(
                method,
                URL(f"{self._address.url}{path}", encoded=True),
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                return GatewayResponse(
                    response.status,
                    response.content_type if "Content-Type" in response.headers else "",
                    response.headers.get("Location", ""),
                    await _read_bounded(response),
                )
        except (*NETWORK_ERRORS, _AnswerTooLong) as error:
            sentence = f"{what}: the gateway at {self._address} {_failure_text(error, within)}"
            reason = _reason(error)
            clear_traceback(error)
        raise Retry(sentence, reason=reason) from None


class _AnswerTooLong(Exception):
    """The response is larger than any response that we request."""


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    chunks: list[bytes] = []
    left = MAX_ANSWER_BYTES
    async for chunk in response.content.iter_any():
        left -= len(chunk)
        if left < 0:
            response.close()
            raise _AnswerTooLong
        chunks.append(chunk)
    return b"".join(chunks)


def _context(address: GatewayAddress, ca: bytes | None, *, verified: bool) -> ssl.SSLContext:
    if not verified:
        return unverified_tls_context()
    context = client_tls_context(ca, alone=True, title=f"the certificate authority for {address}")
    # On loopback the certificate holds the gateway's public name, not localhost.
    context.check_hostname = not address.loopback
    return context


def _reason(error: Exception) -> Reason:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Reason.CERTIFICATE_NOT_TRUSTED
    return Reason.GATEWAY_ERROR if isinstance(error, _AnswerTooLong) else Reason.GATEWAY_UNREACHABLE


def _failure_text(error: Exception, seconds: float) -> str:
    """Return the end of a sentence that begins with the gateway's address."""
    if isinstance(error, _AnswerTooLong):
        return f"answers with more than {MAX_ANSWER_BYTES // 2**20} MiB"
    return network_error_text(error, seconds)

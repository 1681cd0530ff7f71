"""Reads the certificate of a webhook server with a TLS handshake; no request is sent.

It is verified as the API server would: only by the CA bundle of this webhook, and for the server name that
the API server uses. A server that cannot be reached from here is not wrong: pods are not reachable from
outside of a cluster.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from datetime import UTC, datetime
from typing import NamedTuple

from stoker.domain.errors import StokerError
from stoker.domain.text import one_line

CONNECT_SECONDS = 3.0


class HandshakeUnreachable(StokerError):
    """No server can be reached at this address from here."""


class CertificateUntrusted(StokerError):
    """The CA bundle does not verify the served certificate."""


class CertificateValidity(NamedTuple):
    """When a certificate becomes valid and when it expires."""

    begins: datetime
    ends: datetime


async def read_certificate(host: str, port: int, name: str, bundle: str) -> CertificateValidity:
    """Return the validity of the served certificate; raises if it cannot be read or is not trusted."""
    context = _tls_context(bundle)
    try:
        # wait_for instead of asyncio.timeout, which is unreliable in Python 3.11.2.
        opening = asyncio.open_connection(host, port, ssl=context, server_hostname=name)
        _, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
    except TimeoutError:
        raise HandshakeUnreachable(f"{host}:{port} does not answer within {CONNECT_SECONDS:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise CertificateUntrusted(one_line(error.verify_message or str(error), 200)) from None
    except (OSError, ValueError) as error:
        raise HandshakeUnreachable(f"{host}:{port} cannot be reached: {one_line(str(error), 200)}") from None
    try:
        shown = writer.get_extra_info("peercert") or {}
        return CertificateValidity(*(_parse_time(str(shown[one])) for one in ("notBefore", "notAfter")))
    finally:
        writer.close()


def _tls_context(bundle: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Go trusts every certificate in the bundle; OpenSSL by default needs the root of the chain there.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=base64.b64decode(bundle).decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise CertificateUntrusted("the caBundle holds no readable certificate") from None
    return context


def _parse_time(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)

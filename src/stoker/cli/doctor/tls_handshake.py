"""The certificate that somebody serves, seen by a handshake and nothing after it.

It is verified as the API server would: by the bundle that it was given for this webhook
alone, and for the name under which it calls. What cannot be reached from here is not
wrong: outside of a cluster no pod can be.
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
    """Nobody can be reached there from here."""


class CertificateUntrusted(StokerError):
    """What is served is not what the bundle vouches for."""


class CertificateValidity(NamedTuple):
    """The life of a certificate."""

    begins: datetime
    ends: datetime


async def read_certificate(host: str, port: int, name: str, bundle: str) -> CertificateValidity:
    """When the certificate there ends; raises where it is not there or not trusted."""
    context = _tls_context(bundle)
    try:
        # wait_for and not asyncio.timeout: the latter misjudges in Python 3.11.2.
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
    # Go trusts whatever stands in the bundle; OpenSSL by itself wants the root of the chain there.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=base64.b64decode(bundle).decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise CertificateUntrusted("the caBundle holds no certificate that can be read") from None
    return context


def _parse_time(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)

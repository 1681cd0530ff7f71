"""TLS contexts of clients: additional CA certificates are trusted beside the system's, never instead."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stoker.domain.errors import InvalidValue

if TYPE_CHECKING:
    from ssl import SSLContext

MAX_CA_BYTES = 1 << 20
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.S)


def extract_certificates(ca: bytes) -> bytes:
    """Return only the certificates of a PEM text; raises if there is none."""
    if len(ca) > MAX_CA_BYTES:
        raise InvalidValue(f"the CA certificates are larger than {MAX_CA_BYTES} bytes")
    found = _CERTIFICATE.findall(ca.replace(b"\r\n", b"\n"))
    if not found:
        raise InvalidValue("the CA certificates hold no certificate in PEM form")
    return b"\n".join(found) + b"\n"


def client_tls_context(ca: bytes | None) -> SSLContext:
    """Return a context with the system's CAs, because an agent imports aiohttp without loading them."""
    import ssl  # noqa: PLC0415

    context = ssl.create_default_context()
    if ca is None:
        return context
    try:
        context.load_verify_locations(cadata=extract_certificates(ca).decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise InvalidValue("the CA certificates cannot be read") from None
    return context

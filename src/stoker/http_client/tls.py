"""TLS contexts of clients: the one place that decides which certificate authorities a connection trusts.

Additional CA certificates of git servers, registries and services are trusted beside the system's, never
instead. Those of a cluster or a gateway replace the system's (`alone`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stoker.domain.errors import InvalidValue

if TYPE_CHECKING:
    from ssl import SSLContext

MAX_CA_BYTES = 1 << 20
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.S)
_TITLE = "the CA bundle"


def extract_certificates(ca: bytes, title: str = _TITLE) -> bytes:
    """Return only the certificates of a PEM text; raises if there is none."""
    if len(ca) > MAX_CA_BYTES:
        raise InvalidValue(f"{title} is larger than {MAX_CA_BYTES} bytes")
    found = _CERTIFICATE.findall(ca.replace(b"\r\n", b"\n"))
    if not found:
        raise InvalidValue(f"{title} holds no certificate in PEM form")
    return b"\n".join(found) + b"\n"


def client_tls_context(ca: bytes | None, *, alone: bool = False, title: str = _TITLE) -> SSLContext:
    """Return a context that trusts the system's CAs and these, or these `alone`.

    Without `ca` the system's are loaded here, because an agent imports aiohttp without loading them.
    """
    import ssl  # noqa: PLC0415

    given = None if ca is None else extract_certificates(ca, title)
    try:
        certificates = None if given is None else given.decode("ascii")
        context = ssl.create_default_context(cadata=certificates if alone else None)
        if certificates is not None and not alone:
            context.load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError):
        raise InvalidValue(f"{title} holds no certificate in PEM form") from None
    # Python 3.13 requires extensions that the CAs of old kubeadm clusters and of many plants do not have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def unverified_tls_context() -> SSLContext:
    """Return a context that accepts any certificate; it does not load the system's CAs (a megabyte)."""
    import ssl  # noqa: PLC0415

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context

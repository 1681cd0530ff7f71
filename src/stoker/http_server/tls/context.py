"""The TLS context of a server; its certificate can be replaced while clients are connected.

A new pair is loaded into a temporary context first: loading a certificate and a key that do not match
would leave the live context with neither.
"""

from __future__ import annotations

import ssl
from datetime import datetime

from stoker.domain.errors import InvalidValue
from stoker.domain.secrets import Secret
from stoker.kube.config.tls import load_certificate


class ServerTlsContext:
    """The TLS context of a server; clients cannot connect before the first certificate is loaded."""

    def __init__(self) -> None:
        self.context = _context()
        self._shown: bytes | None = None
        self.expires: datetime | None = None
        self.error = "there is no certificate yet"
        """Why there is no certificate, or no newer certificate; empty if there is no error."""

    def show(self, chain: bytes, key: Secret) -> bool:
        """Present this certificate from now on; return whether it has changed."""
        if chain == self._shown:
            self.error = ""
            return False
        try:
            load_certificate(_context(), chain, key)
        except ssl.SSLError:
            self.error = "the certificate and its key cannot be read, or do not belong together"
            raise InvalidValue(self.error) from None
        load_certificate(self.context, chain, key)
        self._shown, self.error = chain, ""
        self.expires = _expiry(chain)
        return True

    @property
    def ready(self) -> bool:
        return self._shown is not None

    def why_not(self) -> str | None:
        """Return the error for the readiness probe; None with any certificate, even an old certificate."""
        return None if self.ready else self.error


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _expiry(chain: bytes) -> datetime:
    from cryptography import x509  # noqa: PLC0415 - certificate files need it only here

    return x509.load_pem_x509_certificate(chain).not_valid_after_utc

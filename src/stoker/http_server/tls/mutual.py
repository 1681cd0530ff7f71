"""TLS among the replicas of one program: each shows the certificate, each asks for it.

All replicas have the same certificate, of the same authority. Who listens lets nobody
in without it; who connects believes nobody else. What was trusted once stays trusted
until the process ends: an authority is replaced long before its key could leak.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from stoker.domain.errors import InvalidValue
from stoker.domain.secrets import Secret
from stoker.kube.config.tls import load_certificate


class MutualTls:
    """The contexts of both ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The name that the certificate must carry, whatever the address."""
        self.server = _context(ssl.PROTOCOL_TLS_SERVER)
        self.client: ssl.SSLContext | None = None
        """Another one with every new certificate; none before the first."""
        self._used: tuple[bytes, bytes] | None = None

    def use(self, chain: bytes, key: Secret, authorities: bytes) -> None:
        """Show this certificate and trust these authorities from now on."""
        if (chain, authorities) == self._used:
            return
        try:
            client = _context(ssl.PROTOCOL_TLS_CLIENT)
            for context in (client, self.server):
                context.load_verify_locations(cadata=authorities.decode("ascii", "replace"))
                load_certificate(context, chain, key)
        except (ssl.SSLError, ValueError):
            raise InvalidValue("certificate and key, or the authority, cannot be read") from None
        self.client, self._used = client, (chain, authorities)

    def is_peer(self, certificate: Mapping[str, Any]) -> bool:
        """Whether a certificate that was shown is the replicas' own; the authority may sign others', too."""
        names = {value for _, value in certificate.get("subjectAltName") or ()}
        return self.name in names


def _context(side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    return context

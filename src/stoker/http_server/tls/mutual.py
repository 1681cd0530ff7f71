"""Mutual TLS between the replicas of one program.

All replicas have the same certificate, of the same CA. A server accepts only clients with it, and a client
only servers with it. A CA that was trusted once stays trusted until the process ends: a CA is replaced
long before its key could leak.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from stoker.domain.errors import InvalidValue
from stoker.domain.secrets import Secret
from stoker.kube.config.tls import load_certificate


class MutualTls:
    """The TLS contexts of server and client."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The name that the certificate must carry, whatever the peer's address."""
        self.server = _context(ssl.PROTOCOL_TLS_SERVER)
        self.client: ssl.SSLContext | None = None
        """Replaced with every new certificate; None before the first."""
        self._used: tuple[bytes, bytes] | None = None

    def use(self, chain: bytes, key: Secret, authorities: bytes) -> None:
        """Present this certificate and trust these CAs from now on."""
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
        """Return whether the peer's certificate is the replicas' own; the CA may have signed others, too."""
        names = {value for _, value in certificate.get("subjectAltName") or ()}
        return self.name in names


def _context(side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    return context

"""Verification of the server's certificate, and the client certificate.

`ServerTrust` is part of the configuration. The transport gets a context from it when it first connects, when
the client certificate changed, and after the server's certificate was rejected, because the CA may have been
replaced on disk.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from stoker.domain.clock import rfc3339
from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.secrets import Secret
from stoker.http_client.tls import client_tls_context, unverified_tls_context
from stoker.kube.config.files import read_bounded


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate (with its chain) and its key, both as PEM."""

    chain: bytes
    key: Secret

    def refuse_unless_valid(self, now: datetime, where: str) -> None:
        """Raise a clear error for an expired certificate or a key that does not match.

        The server would send only a 401 or a TLS alert.
        """
        from cryptography import x509  # noqa: PLC0415 - 12 MB, and pods do not use client certificates

        try:
            leaf = x509.load_pem_x509_certificate(self.chain)
        except ValueError:
            raise Misconfigured(f"the client certificate of {where} is not in PEM form") from None
        if leaf.not_valid_after_utc <= now:
            expiry = rfc3339(leaf.not_valid_after_utc)
            raise Misconfigured(f"the client certificate of {where} expired at {expiry}")
        with contextlib.suppress(ssl.SSLError):
            load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), self.chain, self.key)
            return
        raise Misconfigured(
            f"the client key of {where} does not belong to its certificate, is encrypted or is not a key"
        )


@dataclass(frozen=True, slots=True)
class ServerTrust:
    """The CA that signs the server's certificate: in memory, in a file, or the system's."""

    ca_data: bytes | None = field(default=None, repr=False)
    ca_file: Path | None = None
    insecure: bool = False
    server_name: str | None = None
    """The name in the server's certificate, if it is not the host of the address."""

    def context(self, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
        """Return a context for one identity; raise Misconfigured if the CA cannot be read."""
        try:
            context = (
                unverified_tls_context()
                if self.insecure
                else client_tls_context(self.authority(), alone=True, title=self._authority_name)
            )
        except InvalidValue as error:
            raise Misconfigured(error.message) from None
        if certificate is not None:
            load_certificate(context, certificate.chain, certificate.key)
        return context

    def authority(self) -> bytes | None:
        """Return the CA certificates as PEM; None means those that the system trusts."""
        data = self.ca_data
        if self.ca_file is not None and data is None:
            data = read_bounded(self.ca_file, self._authority_name)
        if data is not None and not data.strip():
            raise Misconfigured(f"{self._authority_name} is empty")
        return data

    @property
    def _authority_name(self) -> str:
        named = f"the certificate authority {self.ca_file}"
        return named if self.ca_file is not None else "the certificate authority of the kubeconfig"


def load_certificate(context: ssl.SSLContext, chain: bytes, key: Secret) -> None:
    """Load a certificate into a context; raise SSLError if certificate and key do not match."""
    with _memory_file(chain + b"\n" + key.reveal_bytes()) as path:
        # Without a password OpenSSL would prompt for the passphrase on the terminal and block.
        context.load_cert_chain(path, password=_no_passphrase)


def _no_passphrase() -> bytes:
    return b""


@contextlib.contextmanager
def _memory_file(data: bytes) -> Iterator[str]:
    """Provide a path for the one call that accepts keys only from files; on Linux it is never on disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name

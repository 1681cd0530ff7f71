"""Whom we trust at the other end of the connection, and the certificate that we show.

`ServerTrust` is part of the configuration; the transport asks it for a context when it
first connects, when the client certificate changed, and after the server's
certificate was refused, because the authority may have been replaced on disk.
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
from stoker.domain.errors import Misconfigured
from stoker.domain.secrets import Secret
from stoker.kube.config.files import read_bounded


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate (with its chain) and the key to it, both as PEM."""

    chain: bytes
    key: Secret

    def refuse_unless_valid(self, now: datetime, where: str) -> None:
        """An expired certificate gets a 401 or a TLS alert from the server; here it gets a sentence."""
        from cryptography import x509  # noqa: PLC0415 - 12 MB, and in a pod nobody shows a certificate

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
    """The authority that signs the server's certificate: in memory, in a file, or the system's."""

    ca_data: bytes | None = field(default=None, repr=False)
    ca_file: Path | None = None
    insecure: bool = False
    server_name: str | None = None
    """The name that the server's certificate carries, where it is not the host of the address."""

    def context(self, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
        """A context for one identity; raises Misconfigured where the authority cannot be read."""
        authority = self.authority()
        try:
            context = ssl.create_default_context(cadata=authority)
        except (ssl.SSLError, ValueError):
            raise Misconfigured(f"{self._authority_name} holds no certificate in PEM form") from None
        # Python 3.13 demands extensions that kubeadm's authorities of old do not carry; Go never did.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            load_certificate(context, certificate.chain, certificate.key)
        return context

    def authority(self) -> str | None:
        """The authority's certificates as PEM; none means those that the system trusts."""
        data = self.ca_data
        if self.ca_file is not None and data is None:
            data = read_bounded(self.ca_file, self._authority_name)
        if data is None:
            return None
        text = data.decode("ascii", "replace")
        if not text.strip():  # to OpenSSL's wrapper no text is no authority, and the system's would do
            raise Misconfigured(f"{self._authority_name} is empty")
        return text

    @property
    def _authority_name(self) -> str:
        named = f"the certificate authority {self.ca_file}"
        return named if self.ca_file is not None else "the certificate authority of the kubeconfig"


def load_certificate(context: ssl.SSLContext, chain: bytes, key: Secret) -> None:
    """Let a context show this certificate; raises SSLError where the two do not belong together."""
    with _memory_file(chain + b"\n" + key.reveal_bytes()) as path:
        # Without an answer OpenSSL would ask for the passphrase on the terminal and wait for it.
        context.load_cert_chain(path, password=_no_passphrase)


def _no_passphrase() -> bytes:
    return b""


@contextlib.contextmanager
def _memory_file(data: bytes) -> Iterator[str]:
    """A path for the one call that takes keys from files only; on Linux no disk ever sees it."""
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

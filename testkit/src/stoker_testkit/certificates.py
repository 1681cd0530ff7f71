"""Certificates created on the fly: an authority, and the certificates that it signs.

Used by every TLS endpoint that tests and the demo run. The keys are elliptic (created in a millisecond) and
are stored only in the state folder of one run. They protect nothing that outlives that run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stoker.domain.errors import InvalidValue
from stoker.http_server.tls.certificate_authority import general_name, key_usage

LOCAL_NAMES = ("127.0.0.1", "localhost")
VALID_FOR = timedelta(days=365)
# Clocks of machines differ; a machine whose clock is behind refuses a certificate that begins "now".
BACKDATED = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its private key, both as PEM."""

    pem: bytes
    key_pem: bytes

    def save(self, folder: Path, name: str) -> KeyPair:
        """Write `name.crt` and `name.key` (readable by the owner alone)."""
        pair = KeyPair(folder / f"{name}.crt", folder / f"{name}.key")
        pair.certificate.write_bytes(self.pem)
        write_private(pair.key, self.key_pem)
        return pair


class Authority:
    """A certificate authority, new unless loaded from files."""

    def __init__(self, name: str = "stoker testing") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = (
            _builder(subject, subject, self._key.public_key(), VALID_FOR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(key_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @classmethod
    def load(cls, pair: KeyPair) -> Self:
        """Load an authority that was saved, perhaps by another process."""
        authority = cls.__new__(cls)
        key = serialization.load_pem_private_key(pair.key.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise InvalidValue(f"{pair.key} is not the key of an authority made here")
        authority._key = key
        authority._certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        return authority

    @property
    def pem(self) -> bytes:
        """The authority's own certificate, for `caBundle` and trust stores."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def save(self, folder: Path, name: str = "ca") -> KeyPair:
        """Write the authority's certificate and key, as `Certificate.save` does."""
        return Certificate(self.pem, private_pem(self._key)).save(folder, name)

    def server(self, names: Sequence[str] = LOCAL_NAMES, *, valid_for: timedelta = VALID_FOR) -> Certificate:
        """Sign for a server with these names and addresses; a negative `valid_for` means expired."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        alternatives = x509.SubjectAlternativeName([general_name(name) for name in names])
        return self._sign(subject, ExtendedKeyUsageOID.SERVER_AUTH, valid_for, alternatives)

    def client(
        self, user: str, groups: Sequence[str] = (), *, valid_for: timedelta = VALID_FOR
    ) -> Certificate:
        """Sign for a client; Kubernetes reads the user from the common name and the groups from O."""
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
            + [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        )
        return self._sign(subject, ExtendedKeyUsageOID.CLIENT_AUTH, valid_for)

    def _sign(
        self,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        valid_for: timedelta,
        alternatives: x509.SubjectAlternativeName | None = None,
    ) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._certificate.subject, key.public_key(), valid_for)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Certificate(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))


def private_pem(key: ec.EllipticCurvePrivateKey | None = None) -> bytes:
    """A private key (new unless given) in the form that both Go programs and OpenSSL read."""
    return (key or ec.generate_private_key(ec.SECP256R1())).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def write_private(path: Path, content: bytes) -> None:
    """Write a file that other users cannot read, not even between its creation and the chmod."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_bytes(content)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid_for: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    begins = now - BACKDATED if valid_for > timedelta() else now + valid_for - BACKDATED
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(now + valid_for)
    )

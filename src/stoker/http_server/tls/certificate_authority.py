"""Issues our own CA and serving certificates, as bytes and dates.

Used where cert-manager is not. Everything is stored in one Secret that every replica reads
(`stoker.http_server.tls.secret`); `stoker.http_server.tls.rotation` decides when to renew. Keys are
elliptic-curve keys and never exist outside memory and that Secret.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stoker.domain.errors import InvalidValue
from stoker.domain.secrets import Secret

# Clocks differ between machines; a machine that is behind would refuse a certificate that starts now.
BACKDATE = timedelta(hours=1)
MAX_AUTHORITIES = 8

_CA, _CA_KEY, _CHAIN, _KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """The validity of a certificate, the id of its key, and the id of the key that signed it."""

    created: datetime
    expires: datetime
    key_id: bytes
    issuer_id: bytes
    names: frozenset[str] = frozenset()

    def share_gone(self, share: float) -> datetime:
        """Return when that fraction of the lifetime is over."""
        return self.created + share * (self.expires - self.created)


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """The content of the Secret."""

    authorities: tuple[bytes, ...]
    """The CAs that clients trust, newest first; only the newest signs."""
    authority_key: Secret
    chain: bytes
    key: Secret

    @property
    def bundle(self) -> bytes:
        return b"".join(self.authorities)

    def data(self) -> dict[str, str]:
        """Return the `data` of the Secret."""
        values = {
            _CA: self.bundle,
            _CA_KEY: self.authority_key.reveal_bytes(),
            _CHAIN: self.chain,
            _KEY: self.key.reveal_bytes(),
        }
        return {name: base64.b64encode(value).decode() for name, value in values.items()}

    @classmethod
    def parse(cls, data: Mapping[str, str]) -> TlsMaterial:
        """Parse the Secret's `data`; raises `InvalidValue` if a value is missing or a key does not match."""
        try:
            values = {
                name: base64.b64decode(data[name], validate=True) for name in (_CA, _CA_KEY, _CHAIN, _KEY)
            }
        except KeyError as missing:
            raise InvalidValue(f"key {missing} is missing") from None
        except binascii.Error:
            raise InvalidValue("a value is not base64") from None
        authorities = tuple(one + b"\n" for one in split_certificates(values[_CA])[:MAX_AUTHORITIES])
        if not authorities:
            raise InvalidValue(f"{_CA} holds no certificate")
        found = cls(authorities, Secret(values[_CA_KEY]), values[_CHAIN], Secret(values[_KEY]))
        _refuse_foreign_certificates(authorities[0], found.authority_key, _CA_KEY)
        _refuse_foreign_certificates(found.chain, found.key, _KEY)
        return found

    def authority_facts(self) -> tuple[CertificateFacts, ...]:
        return tuple(_certificate_facts(one) for one in self.authorities)

    def serving_facts(self) -> CertificateFacts:
        return _certificate_facts(self.chain)


def split_certificates(pem: bytes) -> list[bytes]:
    """Return each certificate of a PEM file, which may hold several."""
    return _PEM.findall(pem)


def new_material(
    names: Sequence[str], now: datetime, authority_life: timedelta, life: timedelta, *, mutual: bool = False
) -> TlsMaterial:
    """Return a new CA and a certificate signed by it."""
    authority, key = _new_authority(now, authority_life)
    return reissue_certificate(
        TlsMaterial((authority,), key, b"", Secret("")), names, now, life, mutual=mutual
    )


def with_new_authority(material: TlsMaterial, now: datetime, life: timedelta) -> TlsMaterial:
    """Add a CA for clients to trust; the serving certificate stays."""
    authority, key = _new_authority(now, life)
    kept = (authority, *material.authorities)[:MAX_AUTHORITIES]
    return replace(material, authorities=kept, authority_key=key)


def reissue_certificate(
    material: TlsMaterial, names: Sequence[str], now: datetime, life: timedelta, *, mutual: bool = False
) -> TlsMaterial:
    """Issue a certificate for these names with the newest CA; `mutual` also allows its use by clients."""
    authority = x509.load_pem_x509_certificate(material.authorities[0])
    signer = _load_private_key(material.authority_key)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if mutual else [])]
    expires = min(now + life, authority.not_valid_after_utc)
    certificate = (
        _builder(subject, authority.subject, key.public_key(), now, expires)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .add_extension(x509.SubjectAlternativeName([general_name(name) for name in names]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return replace(
        material, chain=certificate.public_bytes(serialization.Encoding.PEM), key=_private_pem(key)
    )


def without_old_authorities(material: TlsMaterial) -> TlsMaterial:
    return replace(material, authorities=material.authorities[:1])


def _new_authority(now: datetime, life: timedelta) -> tuple[bytes, Secret]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stoker webhook")])
    certificate = (
        _builder(subject, subject, key.public_key(), now, now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key)


def _certificate_facts(pem: bytes) -> CertificateFacts:
    try:
        found = x509.load_pem_x509_certificate(pem)
        names = _certificate_names(found)
        return CertificateFacts(
            created=found.not_valid_before_utc + BACKDATE,
            expires=found.not_valid_after_utc,
            key_id=x509.SubjectKeyIdentifier.from_public_key(
                _require_elliptic_key(found.public_key())
            ).digest,
            issuer_id=_issuer_key_id(found),
            names=names,
        )
    except (ValueError, x509.ExtensionNotFound):
        raise InvalidValue("a certificate cannot be read") from None


def _certificate_names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    hosts = found.get_values_for_type(x509.DNSName)
    return frozenset((*hosts, *(str(one) for one in found.get_values_for_type(x509.IPAddress))))


def _issuer_key_id(certificate: x509.Certificate) -> bytes:
    """Return the id of the key that signed it; a CA is self-signed."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.SubjectKeyIdentifier.from_public_key(
            _require_elliptic_key(certificate.public_key())
        ).digest
    return found.key_identifier or b""


def _refuse_foreign_certificates(pem: bytes, key: Secret, name: str) -> None:
    if (
        _certificate_facts(pem).key_id
        != x509.SubjectKeyIdentifier.from_public_key(_load_private_key(key).public_key()).digest
    ):
        raise InvalidValue(f"{name} is not the key of its certificate")


def _load_private_key(key: Secret) -> ec.EllipticCurvePrivateKey:
    try:
        found = serialization.load_pem_private_key(key.reveal_bytes(), password=None)
    except (ValueError, TypeError):
        raise InvalidValue("a private key cannot be read") from None
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise InvalidValue("a private key is of another kind than those that are made here")
    return found


def _require_elliptic_key(key: object) -> ec.EllipticCurvePublicKey:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise InvalidValue("a certificate is of another kind than those that are made here")
    return key


def _private_pem(key: ec.EllipticCurvePrivateKey) -> Secret:
    return Secret(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, expires: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(expires)
    )


def key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)

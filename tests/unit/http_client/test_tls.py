"""Certificate authorities that a client trusts."""

from __future__ import annotations

import ssl

import pytest

from stoker.domain.errors import InvalidValue
from stoker.http_client.tls import MAX_CA_BYTES, client_tls_context, unverified_tls_context
from stoker_testkit.certificates import Authority

AUTHORITY = Authority()


def subjects(context: ssl.SSLContext) -> int:
    return context.cert_store_stats()["x509_ca"]


def test_certificates_are_trusted_beside_the_systems_or_alone() -> None:
    system = subjects(client_tls_context(None))
    text = b"a remark: \xc3\xa4\r\n" + AUTHORITY.pem.replace(b"\n", b"\r\n")
    assert subjects(client_tls_context(text)) == system + 1
    alone = client_tls_context(text, alone=True)
    assert subjects(alone) == 1
    assert (alone.verify_mode, alone.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_certificates_without_modern_extensions_are_accepted() -> None:
    for context in (client_tls_context(None), client_tls_context(AUTHORITY.pem, alone=True)):
        assert not context.verify_flags & ssl.VERIFY_X509_STRICT


def test_an_unverified_context_accepts_any_certificate_and_loads_none() -> None:
    context = unverified_tls_context()
    assert (context.verify_mode, context.check_hostname, subjects(context)) == (ssl.CERT_NONE, False, 0)


@pytest.mark.parametrize(
    ("ca", "message"),
    [
        (b"", "the CA of X holds no certificate in PEM form"),
        (b"hello", "the CA of X holds no certificate in PEM form"),
        (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
            "the CA of X holds no certificate in PEM form",
        ),
        (
            b"-----BEGIN CERTIFICATE-----\n\xff\n-----END CERTIFICATE-----",
            "the CA of X holds no certificate in PEM form",
        ),
        (b"x" * (MAX_CA_BYTES + 1), f"the CA of X is larger than {MAX_CA_BYTES} bytes"),
    ],
)
@pytest.mark.parametrize("alone", [False, True])
def test_a_bundle_that_cannot_be_used_is_named(ca: bytes, message: str, alone: bool) -> None:
    with pytest.raises(InvalidValue) as refused:
        client_tls_context(ca, alone=alone, title="the CA of X")
    assert refused.value.message == message

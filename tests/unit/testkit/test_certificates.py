"""Certificates as TLS itself judges them."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from stoker.domain.errors import InvalidValue
from stoker_testkit.certificates import Authority, KeyPair


def shake_hands(server: KeyPair, trusted: Authority, name: str, client: KeyPair | None = None) -> str:
    """What the server learns of the client's name, or the error that the client sees."""
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=trusted.pem.decode())
    server_side.load_cert_chain(server.certificate, server.key)
    server_side.verify_mode = ssl.CERT_OPTIONAL
    client_side = ssl.create_default_context(cadata=trusted.pem.decode())
    client_side.verify_flags |= ssl.VERIFY_X509_STRICT
    if client is not None:
        client_side.load_cert_chain(client.certificate, client.key)
    learnt: list[str] = []

    def serve(end: socket.socket) -> None:
        try:
            with server_side.wrap_socket(end, server_side=True) as connection:
                learnt.append(str((connection.getpeercert() or {}).get("subject", "nobody")))
                connection.sendall(b"!")
        except OSError:
            end.close()

    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs,))
    thread.start()
    try:
        with client_side.wrap_socket(ours, server_hostname=name) as connection:
            connection.recv(1)
    finally:
        thread.join()
    return learnt[0]


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "proxy.test"])
def test_a_server_is_trusted_under_each_of_its_names(tmp_path: Path, name: str) -> None:
    authority = Authority()
    pair = authority.server(["127.0.0.1", "localhost", "proxy.test"]).save(tmp_path, "server")
    assert shake_hands(pair, authority, name) == "nobody"


def test_a_server_is_refused_under_another_name_or_authority_or_when_expired(tmp_path: Path) -> None:
    authority = Authority()
    pair = authority.server().save(tmp_path, "server")
    expired = authority.server(valid_for=timedelta(minutes=-1)).save(tmp_path, "expired")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"IP address mismatch|Hostname mismatch"):
        shake_hands(pair, authority, "elsewhere.test")
    with pytest.raises(
        ssl.SSLCertVerificationError, match=r"unable to get local issuer|self.signed|signature"
    ):
        shake_hands(pair, Authority(), "localhost")
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake_hands(expired, authority, "localhost")


def test_a_client_brings_its_name_and_groups(tmp_path: Path) -> None:
    authority = Authority()
    server = authority.server().save(tmp_path, "server")
    client = authority.client("alice", ["developers", "night-shift"]).save(tmp_path, "client")
    subject = shake_hands(server, authority, "localhost", client)
    for part in ("'commonName', 'alice'", "'developers'", "'night-shift'"):
        assert part in subject


def test_a_saved_authority_goes_on_signing(tmp_path: Path) -> None:
    authority = Authority("first")
    again = Authority.load(authority.save(tmp_path))
    assert shake_hands(again.server().save(tmp_path, "server"), authority, "localhost") == "nobody"


def test_only_an_authority_of_our_own_can_be_loaded(tmp_path: Path) -> None:
    pair = Authority().save(tmp_path)
    foreign = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pair.key.write_bytes(foreign)
    with pytest.raises(InvalidValue, match=r"ca\.key is not the key of an authority made here"):
        Authority.load(pair)


def test_private_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    pair = Authority().server().save(tmp_path, "server")
    assert stat.S_IMODE(pair.key.stat().st_mode) == 0o600

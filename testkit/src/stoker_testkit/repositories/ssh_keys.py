"""Keys for the ssh server and its clients, made on the fly in OpenSSH's own form."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from stoker_testkit.certificates import write_private
from stoker_testkit.secret_leaks.tracked_credentials import known


class KeyKind(StrEnum):
    """The kinds of key that servers in the field still have."""

    ED25519 = "ed25519"
    ECDSA = "ecdsa"
    RSA = "rsa"


@dataclass(frozen=True, slots=True)
class SshKey:
    """A key on disk and the line by which others know it."""

    private: Path
    public_line: str


def make_ssh_key(path: Path, kind: KeyKind = KeyKind.ED25519) -> SshKey:
    """Write a new private key to `path`, readable by its owner alone as ssh demands."""
    key = _generate(kind)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    for line in _own_lines(private.decode(), public.decode()):
        known("ssh-key", line)
    write_private(path, private)
    return SshKey(path, public.decode())


def _own_lines(private: str, public: str) -> list[str]:
    """The last lines of a private key that hold anything but its public half, which is in there twice."""
    lines = private.splitlines()[1:-1]
    shown, hidden = base64.b64decode(public.split()[1]), base64.b64decode("".join(lines))
    width = len(lines[0])
    parts = (hidden[width * number * 3 // 4 + 1 :][: width * 3 // 4 - 2] for number in range(len(lines)))
    return [line for line, part in zip(lines, parts, strict=True) if part not in shown][-3:-1]


def _generate(
    kind: KeyKind,
) -> ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
    if kind is KeyKind.ED25519:
        return ed25519.Ed25519PrivateKey.generate()
    if kind is KeyKind.ECDSA:
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)

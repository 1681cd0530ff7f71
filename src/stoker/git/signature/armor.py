"""Parses armored signatures before any external program sees them.

A block that is not exactly one signature is refused: two in a row, a signed message with its own content
(which a program would verify in place of ours), text before or after. `ssh-keygen` and `gpg` get an armor
or binary signature that is rebuilt from the parsed bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Literal, NamedTuple

from stoker.git.signature.signed_objects import SignatureInvalid

SignatureKind = Literal["ssh", "gpg"]
NAMESPACE = b"git"

_BLOCK = re.compile(
    rb"-----BEGIN (?P<kind>SSH|PGP) SIGNATURE-----\n"
    rb"(?P<inside>(?:(?!-----)[^\n]*\n)*)"
    rb"-----END (?P=kind) SIGNATURE-----\n*"
)
# Headers up to the blank line (version, comment), the data, and an optional CRC-24 checksum line.
_PGP = re.compile(rb"(?:[A-Za-z]+: [^\n]*\n)*[ \t]*\n(?P<base64>[A-Za-z0-9+/=\n]*?)(?:=[A-Za-z0-9+/]{4}\n)?")
_SSH_MAGIC = b"SSHSIG" + (1).to_bytes(4, "big")
_CERTIFICATE = b"-cert-v01@openssh.com"
# Number of fields, after type and nonce, of the key that a certificate certifies.
_KEY_FIELDS = {
    b"ssh-ed25519": 1,
    b"ssh-rsa": 2,
    b"ecdsa-sha2-nistp256": 2,
    b"ecdsa-sha2-nistp384": 2,
    b"ecdsa-sha2-nistp521": 2,
    b"sk-ssh-ed25519@openssh.com": 2,
    b"sk-ecdsa-sha2-nistp256@openssh.com": 3,
}


class Signature(NamedTuple):
    kind: SignatureKind
    raw: bytes
    fingerprint: str = ""
    """Fingerprint of the key inside an ssh signature; a GPG signature contains only a key id."""


def parse_signature(armored: bytes, what: str) -> Signature:
    """Return the one signature of a block; `what` names the signed object in messages."""
    block = _BLOCK.fullmatch(armored.replace(b"\r\n", b"\n"))
    if block is None:
        raise SignatureInvalid(f"{what} has a signature that is neither an ssh nor a PGP signature alone")
    try:
        if block["kind"] == b"SSH":
            return _parse_ssh_signature(_decode_base64(block["inside"]), what)
        body = _PGP.fullmatch(block["inside"])
        if body is None:
            raise ValueError("no armour")
        return _parse_pgp_signature(_decode_base64(body["base64"]))
    except (ValueError, binascii.Error):
        raise SignatureInvalid(f"{what} has a signature that cannot be read") from None


def ssh_armor(raw: bytes) -> bytes:
    """Return the armored form that `ssh-keygen` expects in a file."""
    return b"-----BEGIN SSH SIGNATURE-----\n%b-----END SSH SIGNATURE-----\n" % base64.encodebytes(raw)


def _decode_base64(text: bytes) -> bytes:
    return base64.b64decode(text.replace(b"\n", b""), validate=True)


def _parse_ssh_signature(raw: bytes, what: str) -> Signature:
    if not raw.startswith(_SSH_MAGIC):
        raise ValueError("not an ssh signature")
    fields = _split_fields(raw.removeprefix(_SSH_MAGIC))
    if len(fields) != 5:
        raise ValueError("not an ssh signature")
    if fields[1] != NAMESPACE:
        raise SignatureInvalid(f"{what} has an ssh signature that was made for something else than git")
    return Signature("ssh", raw, _fingerprint(fields[0]))


def _fingerprint(key: bytes) -> str:
    """Return the fingerprint as `ssh-keygen -l` shows it; for a certificate, that of the certified key."""
    kind, _, _ = _next_field(key)
    if kind.endswith(_CERTIFICATE):
        plain = kind.removesuffix(_CERTIFICATE)
        plain = plain + b"@openssh.com" if plain.startswith(b"sk-") else plain
        _, _, rest = _next_field(_next_field(key)[2])  # past the nonce
        key = len(plain).to_bytes(4, "big") + plain
        if plain not in _KEY_FIELDS:
            raise ValueError("a certificate for an unknown kind of key")
        for _ in range(_KEY_FIELDS[plain]):
            _, whole, rest = _next_field(rest)
            key += whole
    digest = base64.b64encode(hashlib.sha256(key).digest()).rstrip(b"=").decode()
    return f"SHA256:{digest}"


def _split_fields(raw: bytes) -> list[bytes]:
    found = []
    while raw:
        value, _, raw = _next_field(raw)
        found.append(value)
        if len(found) > 5:
            raise ValueError("too many fields")
    return found


def _next_field(raw: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the first field without its length prefix, the field with it, and the rest."""
    end = 4 + int.from_bytes(raw[:4], "big")
    if len(raw) < max(4, end):
        raise ValueError("cut short")
    return raw[4:end], raw[:end], raw[end:]


def _parse_pgp_signature(raw: bytes) -> Signature:
    """Parse exactly one packet, which must be a signature (RFC 4880, 4.2)."""
    first = raw[0] if raw else 0
    if first & 0xC0 == 0xC0:
        tag, size, start = first & 0x3F, *_new_packet_length(raw)
    elif first & 0x80:
        kind = first & 3
        if kind == 3:
            raise ValueError("a packet without a length")
        tag, start = (first & 0x3C) >> 2, 1 + (1 << kind)
        size = int.from_bytes(raw[1:start], "big")
    else:
        raise ValueError("not a packet")
    if tag != 2 or start + size != len(raw):
        raise ValueError("not one signature alone")
    return Signature("gpg", raw)


def _new_packet_length(raw: bytes) -> tuple[int, int]:
    """Return the length of a new-format packet and the offset of its content."""
    one = raw[1] if len(raw) > 1 else 255
    if one < 192:
        return one, 2
    if one < 224 and len(raw) > 2:
        return ((one - 192) << 8) + raw[2] + 192, 3
    if one == 255:
        return int.from_bytes(raw[2:6], "big"), 6
    raise ValueError("a packet in parts")

"""Encrypt to X25519 recipients in the age file format (age-encryption.org/v1).

It contains only what encryption needs: parse a recipient (`age1…`), encrypt to it, add the armor. It has no
decryption and cannot read an identity: an attacker who takes over the reverser cannot decrypt its files.

    header    a stanza for the recipient, which wraps the 16-byte key of this file;
              a MAC over it under a key derived from the file key
    payload   a nonce, then chunks of 64 KiB, each encrypted with ChaCha20-Poly1305
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Iterator
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from stoker.domain.errors import InvalidValue

CHUNK_BYTES = 64 << 10
_INTRO = b"age-encryption.org/v1\n"
_LABEL = b"age-encryption.org/v1/X25519"
_COLUMNS = 64
_HUMAN_PART = "age"
_ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_CHECK_LENGTH = 6
_MAX_RECIPIENT_LENGTH = 256


@dataclass(frozen=True, slots=True)
class AgeRecipient:
    """A public key that files are encrypted to."""

    text: str
    key: bytes

    @classmethod
    def of(cls, text: str) -> AgeRecipient:
        """Parse `age1…`; raises with the reason if files cannot be encrypted to it."""
        human, key = _decode_bech32(text)
        if human != _HUMAN_PART:
            raise _recipient_error(text, f"is of the kind {human}, and only keys of X25519 (age1…) are known")
        if len(key) != 32:
            raise _recipient_error(text, "does not hold a key of 32 bytes")
        try:
            X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(key))
        except ValueError:
            raise _recipient_error(text, "is a key with which everybody could decrypt") from None
        return cls(text, key)

    def __str__(self) -> str:
        return self.text


def encrypt(plain: bytes, recipient: AgeRecipient) -> bytes:
    """Return the whole encrypted file."""
    file_key = os.urandom(16)
    nonce = os.urandom(16)
    header = _INTRO + _stanza(file_key, recipient) + b"---"
    mac = hmac.digest(_derive_key(file_key, b"", b"header"), header, hashlib.sha256)
    payload = b"".join(_encrypted_chunks(plain, _derive_key(file_key, nonce, b"payload")))
    return b"".join((header, b" ", _base64_unpadded(mac), b"\n", nonce, payload))


def armor(file: bytes) -> str:
    """Return the file as armored text, which can be part of another file."""
    text = base64.b64encode(file).decode()
    lines = (text[at : at + _COLUMNS] for at in range(0, len(text), _COLUMNS))
    begin, end = (f"-----{word} AGE ENCRYPTED FILE-----" for word in ("BEGIN", "END"))
    return "\n".join((begin, *lines, end, ""))


def _stanza(file_key: bytes, recipient: AgeRecipient) -> bytes:
    """Return the file key, wrapped so that only the recipient's identity can unwrap it."""
    ours = X25519PrivateKey.generate()
    share = ours.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    secret = ours.exchange(X25519PublicKey.from_public_bytes(recipient.key))
    wrap = _derive_key(secret, share + recipient.key, _LABEL)
    # A key that is used only once needs no nonce.
    body = ChaCha20Poly1305(wrap).encrypt(bytes(12), file_key, None)
    return b"-> X25519 " + _base64_unpadded(share) + b"\n" + _base64_unpadded(body) + b"\n"


def _encrypted_chunks(plain: bytes, key: bytes) -> Iterator[bytes]:
    """Encrypt each chunk with its number and a last-chunk flag, so that no chunk can be moved or cut off."""
    cipher = ChaCha20Poly1305(key)
    starts = range(0, max(len(plain), 1), CHUNK_BYTES)
    for number, start in enumerate(starts):
        last = number == len(starts) - 1
        yield cipher.encrypt(
            number.to_bytes(11, "big") + bytes([last]), plain[start : start + CHUNK_BYTES], None
        )


def _derive_key(secret: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(secret)


def _base64_unpadded(raw: bytes) -> bytes:
    return base64.b64encode(raw).rstrip(b"=")


def _decode_bech32(text: str) -> tuple[str, bytes]:
    """Return the human-readable part and the data bytes (BIP 173, without its limit of 90 characters)."""
    if (
        not text.isascii()
        or not text.isprintable()
        or len(text) > _MAX_RECIPIENT_LENGTH
        or text != text.lower()
    ):
        raise _recipient_error(text, "is not one word of small letters and digits")
    human, one, data = text.rpartition("1")
    if not one or not human or len(data) < _CHECK_LENGTH or set(data) - set(_ALPHABET):
        raise _recipient_error(text, "is not of the form age1…")
    values = [_ALPHABET.index(char) for char in data]
    spread = [*(ord(c) >> 5 for c in human), 0, *(ord(c) & 31 for c in human)]
    if _checksum([*spread, *values]) != 1:
        raise _recipient_error(text, "is misspelt: its check digits do not fit")
    return human, _regroup_bits(text, values[:-_CHECK_LENGTH])


def _checksum(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(_GENERATOR):
            check ^= generator if top >> bit & 1 else 0
    return check


def _regroup_bits(text: str, values: list[int]) -> bytes:
    """Convert groups of five bits to bytes; the remaining bits must be zero."""
    number = 0
    for value in values:
        number = number << 5 | value
    rest = len(values) * 5 % 8
    if rest >= 5 or number & ((1 << rest) - 1):
        raise _recipient_error(text, "is not whole")
    return (number >> rest).to_bytes(len(values) * 5 // 8, "big")


def _recipient_error(text: str, why: str) -> InvalidValue:
    if text[:15].upper() == "AGE-SECRET-KEY-":
        return InvalidValue("a recipient is an identity, which is secret; give its public half (age1…)")
    return InvalidValue(f"recipient {text[:80]!r} {why}")

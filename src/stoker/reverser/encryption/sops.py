"""Write a Secret as a file that `sops -d` decrypts: keys in plain text, values encrypted.

Every value whose path has a part `data` or `stringData` is encrypted, exactly as `encrypted_regex` declares
to readers of the file; this includes a label that is called `data`. Each value is encrypted with AES-256-GCM
under a key of this file, with its path as additional authenticated data. The file holds that key once for
each recipient. A MAC over all values in order, including the plain values, detects moved or replaced values.

`stoker.reverser.manifest.render` defines everything else about the file. Readers compute the MAC in document
order, so the order there and here must be the same.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from stoker.domain.errors import InvalidValue
from stoker.reverser.encryption.age import AgeRecipient, armor, encrypt
from stoker.reverser.manifest.render import ordered_fields, render_object

ENCRYPTED_REGEX = "^(data|stringData)$"
VERSION = "3.9.0"
"""The SOPS version of the file format; later versions read it too."""

_ENCRYPTED_FIELDS = frozenset({"data", "stringData"})
_METADATA = "sops"
_NONCE_BYTES = 32
_TAG_BYTES = 16
_MAX_INT = 1 << 63


def seal_document(plain: dict[str, Any], recipients: Sequence[AgeRecipient], now: datetime) -> bytes:
    """Return the encrypted file for a sanitized Secret."""
    if _METADATA in plain:
        raise InvalidValue(f"an object with a field {_METADATA} cannot be encrypted")
    if not recipients:
        raise InvalidValue("nothing is encrypted without a recipient")
    walk = _SopsEncryption()
    document = walk.mapping(ordered_fields(plain), ())
    modified = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    document[_METADATA] = {
        "age": [{"recipient": str(each), "enc": armor(encrypt(walk.key, each))} for each in recipients],
        "encrypted_regex": ENCRYPTED_REGEX,
        "lastmodified": modified,
        "mac": walk.sealed(walk.mac(), modified, "str"),
        "version": VERSION,
    }
    return render_object(document)


class _SopsEncryption:
    """Walks a document once: encrypts the values to encrypt, and computes the MAC of all values."""

    def __init__(self) -> None:
        self.key = os.urandom(32)
        self._cipher = AESGCM(self.key)
        self._mac = hashlib.sha512()

    def mac(self) -> str:
        return self._mac.hexdigest().upper()

    def mapping(self, entries: Iterable[tuple[str, Any]], path: tuple[str, ...]) -> dict[str, Any]:
        return {key: self._value(value, (*path, key)) for key, value in entries}

    def sealed(self, text: str, bound_to: str, kind: str) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        out = self._cipher.encrypt(nonce, text.encode(), bound_to.encode())
        data, iv, tag = (
            base64.b64encode(part).decode() for part in (out[:-_TAG_BYTES], nonce, out[-_TAG_BYTES:])
        )
        return f"ENC[AES256_GCM,data:{data},iv:{iv},tag:{tag},type:{kind}]"

    def _value(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return self.mapping(sorted(value.items()), path)
        if isinstance(value, list):
            return [self._value(item, path) for item in value]  # items of a list have the path of the list
        if value is None:
            return None
        text, kind = _format_leaf(value, path)
        self._mac.update(text.encode())
        if _ENCRYPTED_FIELDS.isdisjoint(path):
            return value
        return self.sealed(text, ":".join(path) + ":", kind) if text else ""


def _format_leaf(value: Any, path: tuple[str, ...]) -> tuple[str, str]:
    """Return a value in SOPS notation, and its SOPS type. A Secret has no other types."""
    if isinstance(value, bool):
        return ("True" if value else "False"), "bool"
    if isinstance(value, str):
        return value, "str"
    if isinstance(value, int) and -_MAX_INT <= value < _MAX_INT:
        return str(value), "int"
    raise InvalidValue(
        f"field {'.'.join(path)[:120]} cannot be encrypted: it is no text, number or truth value"
    )

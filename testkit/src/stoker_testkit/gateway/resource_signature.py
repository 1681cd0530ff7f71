"""The signature by which the test gateway knows whether a resource is as its last writer left it.

Written from the published description alone and on purpose not shared with the
product: a double that trusts the code it tests shows nothing. SHA-256 over scope,
documentation, version, three flags, every listed file by name, and every attribute
but the signature itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime

SIGNATURE = "lastModificationSignature"
MODIFICATION = "lastModification"
ACTOR = "external"
"""The actor of changes that the gateway did not make itself."""

_SCOPES = {"N": 0, "G": 1, "D": 2, "C": 4, "A": 7}

Manifest = Mapping[str, object]


def signature(manifest: Manifest, contents: Mapping[str, bytes]) -> str:
    """The right signature with these contents of the files that the manifest lists."""
    digest = hashlib.sha256(_number(_scope(manifest.get("scope"))))
    documentation = manifest.get("documentation")
    if isinstance(documentation, str):
        digest.update(documentation.encode())
    version = manifest.get("version")
    digest.update(_number(version if isinstance(version, int) else 0))
    for flag in ("locked", "restricted", "overridable"):
        digest.update(b"\1" if manifest.get(flag) is True else b"\0")
    for name in sorted(contents):
        digest.update(name.encode() + contents[name])
    attributes = attributes_of(manifest)
    for key in sorted(attributes.keys() - {SIGNATURE}):
        digest.update(key.encode() + _compact(attributes[key]))
    return digest.hexdigest()


def claimed(manifest: Manifest) -> str:
    """The signature that the manifest carries; nothing if it carries none."""
    stored = attributes_of(manifest).get(SIGNATURE)
    return stored if isinstance(stored, str) else ""


def fits(manifest: Manifest, contents: Mapping[str, bytes]) -> bool:
    return claimed(manifest) == signature(manifest, contents)


def signed(
    manifest: Manifest, contents: Mapping[str, bytes], *, actor: str = ACTOR, at: datetime | None = None
) -> dict[str, object]:
    """The manifest as a gateway writes it after a change by `actor`."""
    when = (at or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
    attributes = {
        **attributes_of(manifest),
        MODIFICATION: {"actor": actor, "timestamp": when},
    }
    new = {**manifest, "attributes": attributes}
    attributes[SIGNATURE] = signature(new, contents)
    return new


def attributes_of(manifest: Manifest) -> dict[str, object]:
    found = manifest.get("attributes")
    return dict(found) if isinstance(found, dict) else {}


def _scope(letters: object) -> int:
    if not isinstance(letters, str):
        return 0
    value = 0
    for letter in letters:
        value |= _SCOPES.get(letter, 0)
    return value


def _number(value: int) -> bytes:
    return (value & 0xFFFFFFFF).to_bytes(4, "big")


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

"""The double's own signature follows the published description, byte by byte."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

import pytest

from stoker.ignition.content.resource_json import ResourceManifest
from stoker_testkit.gateway.resource_signature import claimed, fits, signature, signed

MODIFIED = {"actor": "anna", "timestamp": "2026-01-01T00:00:00Z"}
FILES = {"view.json": b"{}", "thumbnail.png": b"\x89PNG"}
MANIFEST = {
    "scope": "G",
    "documentation": "Füllstand",
    "version": 2,
    "locked": True,
    "restricted": False,
    "overridable": True,
    "files": ["view.json", "thumbnail.png"],
    "attributes": {"lastModification": MODIFIED, "hint": 3, "lastModificationSignature": "x"},
}


def test_the_bytes_are_in_the_order_of_the_description() -> None:
    spelled = (
        (1).to_bytes(4, "big")
        + "Füllstand".encode()
        + (2).to_bytes(4, "big")
        + b"\1\0\1"
        + b"thumbnail.png\x89PNG"
        + b"view.json{}"
        + b"hint3"
        + b'lastModification{"actor":"anna","timestamp":"2026-01-01T00:00:00Z"}'
    )
    assert signature(MANIFEST, FILES) == hashlib.sha256(spelled).hexdigest()


@pytest.mark.parametrize(("letters", "value"), [("N", 0), ("G", 1), ("D", 2), ("C", 4), ("DG", 3), ("A", 7)])
def test_the_letters_of_the_scope_add_up(letters: str, value: int) -> None:
    spelled = value.to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\0\0\0"
    assert signature({"scope": letters, "version": 1}, {}) == hashlib.sha256(spelled).hexdigest()


def test_what_was_signed_fits_until_anything_but_the_signature_changes() -> None:
    new = signed(MANIFEST, FILES, actor="external", at=datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC))
    assert fits(new, FILES)
    assert not fits(MANIFEST, FILES)
    assert not fits(new, {**FILES, "view.json": b"{}\r\n"})
    assert not fits({**new, "version": 3}, FILES)
    assert new["attributes"] == {
        "lastModification": {"actor": "external", "timestamp": "2026-02-03T04:05:06Z"},
        "hint": 3,
        "lastModificationSignature": claimed(new),
    }


@pytest.mark.parametrize(
    ("manifest", "files"), [(MANIFEST, FILES), ({"scope": "DG", "version": 1, "files": []}, {})]
)
def test_the_product_and_the_double_found_the_same_on_their_own(
    manifest: dict[str, object], files: dict[str, bytes]
) -> None:
    new = signed(manifest, files)
    read = ResourceManifest.read(json.dumps(new, indent=3).encode())
    assert read.signature(files) == read.signed == claimed(new)


def test_a_resource_without_a_signature_does_not_fit() -> None:
    assert not fits({"scope": "A", "version": 1}, {})

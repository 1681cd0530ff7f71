"""`resource.json`: signatures by hand from their definition, and what two of them have in common."""

from __future__ import annotations

import hashlib
import json

import pytest

from stoker.domain.errors import InvalidValue
from stoker.ignition.content.resource_json import MAX_BYTES, ResourceManifest, is_equivalent

LAST = {"actor": "admin", "timestamp": "2024-05-06T18:13:04Z"}
PLAIN = {
    "scope": "G",
    "version": 1,
    "restricted": False,
    "overridable": True,
    "files": ["view.json"],
    "attributes": {"lastModification": LAST},
}


def manifest(**other: object) -> ResourceManifest:
    return ResourceManifest.read(json.dumps({**PLAIN, **other}).encode())


def by_hand(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


LAST_JSON = b'{"actor":"admin","timestamp":"2024-05-06T18:13:04Z"}'


def test_the_signature_of_a_view() -> None:
    assert manifest().signature({"view.json": b'{"root": 1}\n'}) == by_hand(
        b"\0\0\0\1",  # G
        b"\0\0\0\1",  # version
        b"\0\0\1",  # locked, restricted, overridable
        b"view.json" + b'{"root": 1}\n',
        b"lastModification" + LAST_JSON,
    )


def test_the_signature_of_a_manifest_with_every_field() -> None:
    manifest_data = manifest(
        scope="DC",
        documentation="Größe",
        version=65538,
        locked=True,
        restricted=True,
        overridable=False,
        files=["b.bin", "a.json", "thumbnail.png"],
        attributes={
            "lastModificationSignature": "feed",
            "lastModification": LAST,
            "custom": {"n": [1, 2.50, None], "s": 'ä"'},
            "Z": True,
        },
    )
    contents = {"a.json": b"{}", "b.bin": b"\0\xff", "thumbnail.png": b"PNG", "other": b"not named"}
    assert manifest_data.signed == "feed"
    assert manifest_data.signature(contents) == by_hand(
        b"\0\0\0\6",
        "Größe".encode(),
        b"\0\1\0\2",
        b"\1\1\0",
        b"a.json" + b"{}",
        b"b.bin" + b"\0\xff",
        b"thumbnail.png" + b"PNG",
        b"Ztrue",
        b"custom" + '{"n":[1,2.5,null],"s":"ä\\""}'.encode(),
        b"lastModification" + LAST_JSON,
    )


@pytest.mark.parametrize(
    ("scope", "spelt"), [("N", 0), ("G", 1), ("D", 2), ("C", 4), ("DG", 3), ("GC", 5), ("A", 7), ("GDC", 7)]
)
def test_letters_of_a_scope_add_up(scope: str, spelt: int) -> None:
    expected = by_hand(bytes((0, 0, 0, spelt)), b"\0\0\0\1", b"\0\0\1")
    assert manifest(scope=scope, files=[], attributes={}).signature({}) == expected


def test_a_number_is_signed_as_it_is_spelt_and_a_value_without_its_spaces() -> None:
    result = ResourceManifest.read(b'{"scope":"N","version":1,"attributes":{ "a" : [ 1.50 , 1e3 ] }}')
    assert result.signature({}) == by_hand(b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0", b"a[1.50,1e3]")


def test_files_and_attributes_are_sorted_as_java_sorts() -> None:
    """By UTF-16 units, in which a character beyond the first plane comes before a private one."""
    low, high = "\U0001f600", "\ue000"
    manifest_data = manifest(files=[high, low], attributes={high: 1, low: 2})
    assert manifest_data.signature({low: b"l", high: b"h"}) == by_hand(
        b"\0\0\0\1", b"\0\0\0\1", b"\0\0\1", f"{low}l{high}h{low}2{high}1".encode()
    )


def test_a_changed_byte_or_another_actor_does_not_fit_the_signature() -> None:
    contents = {"view.json": b"{}\n"}
    signed = manifest().signature(contents)
    assert signed != manifest().signature({"view.json": b"{}\r\n"})
    assert signed != manifest(attributes={"lastModification": {**LAST, "actor": "x"}}).signature(contents)
    carried = manifest(attributes={"lastModification": LAST, "lastModificationSignature": signed})
    assert carried.signature(contents) == carried.signed


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"scope": "X"}, "scope 'X'"),
        ({"scope": 1}, "scope that is not a text"),
        ({"version": 1.5}, "not a whole number"),
        ({"version": 2**31}, "out of range"),
        ({"version": None}, "not a whole number"),
        ({"locked": 1}, "locked that is neither"),
        ({"files": ["gone"]}, "'gone', which is not there"),
        ({"documentation": "\ud800"}, "surrogate"),
    ],
)
def test_what_cannot_be_signed_says_why(other: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        manifest(**other).signature({"view.json": b""})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"files": "a"}',
        b'{"files": [1]}',
        b'{"attributes": []}',
        b'{"version": NaN}',
        b'{"scope": "G", "scope": "G"}',
        b'{"attributes": {"a": {"b": 1, "b": 1}}}',
        b"\xff",
        b"[" * 100_000,
        b'{"a": "' + b"x" * MAX_BYTES + b'"}',
    ],
)
def test_what_is_no_manifest_is_refused_and_equals_only_itself(content: bytes) -> None:
    with pytest.raises(InvalidValue):
        ResourceManifest.read(content)
    assert is_equivalent(content, content)
    assert not is_equivalent(content, content + b" ")


def test_key_order_spacing_and_a_byte_order_mark_say_nothing() -> None:
    one = json.dumps(PLAIN).encode()
    other = b"\xef\xbb\xbf" + json.dumps(dict(reversed(PLAIN.items())), indent=4).encode() + b"\r\n"
    assert is_equivalent(one, other)

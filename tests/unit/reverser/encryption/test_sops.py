"""Sealed files are opened by the real sops with an identity, and only as they were written."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pyrage  # type: ignore[import-untyped]
import pytest
import yaml

from stoker.domain.errors import InvalidValue
from stoker.reverser.encryption.age import AgeRecipient
from stoker.reverser.encryption.sops import seal_document
from stoker_testkit.services.sops_decrypt import DecryptionFailed, opened

WHEN = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
ADA, BOB = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "db",
        "namespace": "shop",
        "labels": {"data": "a label of that name", "on": "yes", "empty": ""},
        "annotations": {"note": "two\nlines\n"},
        "finalizers": ["example.test/a", "example.test/b"],
    },
    "type": "Opaque",
    "immutable": True,
    "data": {"user": "YWRtaW4=", "password": "aHVudGVyMg==", "nothing": ""},
    "stringData": {"y": "no", "text": "ü\n"},
}


def recipients(*identities: Any) -> list[AgeRecipient]:
    return [AgeRecipient.of(str(each.to_public())) for each in identities]


def test_sops_opens_it_as_what_it_was() -> None:
    assert opened(seal_document(SECRET, recipients(ADA), WHEN), ADA) == SECRET


def test_each_recipient_opens_it_and_no_other_key() -> None:
    sealed = seal_document(SECRET, recipients(ADA, BOB), WHEN)
    assert opened(sealed, ADA) == opened(sealed, BOB) == SECRET
    with pytest.raises(DecryptionFailed):
        opened(sealed, pyrage.x25519.Identity.generate())


def test_names_are_in_clear_and_values_are_not() -> None:
    text = seal_document(SECRET, recipients(ADA), WHEN).decode()
    document = yaml.safe_load(text)
    assert list(document) == [
        "apiVersion",
        "kind",
        "metadata",
        "data",
        "immutable",
        "sops",
        "stringData",
        "type",
    ]
    assert set(document["data"]) == {"user", "password", "nothing"}
    assert document["metadata"]["name"] == "db"
    for value in ("aHVudGVyMg", "hunter2", "YWRtaW4", "a label of that name"):
        assert value not in text
    assert document["sops"]["lastmodified"] == "2026-01-01T12:30:00Z"
    assert set(document["sops"]) == {"age", "encrypted_regex", "lastmodified", "mac", "version"}


@pytest.mark.parametrize(
    "secret",
    [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": None},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "immutable": False},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {"big": "A" * 1_000_000}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"data": True}, "data": {"a": False, "b": -5}},
    ],
    ids=["no data", "data null", "data empty", "false", "a megabyte", "no texts"],
)
def test_every_shape_of_a_secret_is_opened(secret: dict[str, Any]) -> None:
    assert opened(seal_document(secret, recipients(ADA), WHEN), ADA) == secret


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"namespace: shop", b"namespace: evil"),
        (b"immutable: true", b"immutable: false"),
        (b"- example.test/a\n  - example.test/b", b"- example.test/b\n  - example.test/a"),
        (b"  password: ", b"  user2: "),
        (b"12:30:00Z", b"12:31:00Z"),
        (b'nothing: ""', b'nothing: "x"'),
    ],
)
def test_a_changed_file_is_not_opened(before: bytes, after: bytes) -> None:
    sealed = seal_document(SECRET, recipients(ADA), WHEN)
    assert before in sealed
    with pytest.raises(DecryptionFailed):
        opened(sealed.replace(before, after), ADA)


def test_equal_values_look_different() -> None:
    twice = {"kind": "Secret", "data": {"one": "aHVudGVyMg==", "two": "aHVudGVyMg==", "three": "aA=="}}
    texts = [seal_document(twice, recipients(ADA), WHEN).decode() for _ in range(2)]
    for part in ("data", "iv", "tag"):
        found = [value for text in texts for value in re.findall(rf"[,]{part}:([^,]+),", text)]
        assert len(set(found)) == len(found) == 2 * (3 + 1), part


def test_what_cannot_be_sealed_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidValue, match=r"field data\.a cannot be encrypted") as caught:
        seal_document({**SECRET, "data": {"a": 1.5}}, recipients(ADA), WHEN)
    assert "1.5" not in caught.value.message
    with pytest.raises(InvalidValue, match="a field sops"):
        seal_document({**SECRET, "sops": {}}, recipients(ADA), WHEN)
    with pytest.raises(InvalidValue, match="without a recipient"):
        seal_document(SECRET, [], WHEN)

"""Untrusted YAML is read as kubectl reads it, or refused in a bounded time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from stoker.api.manifests.yaml import MAX_BYTES, MAX_DEPTH, MAX_DOCUMENTS, load_documents
from stoker.domain.errors import InvalidValue


def load(text: str | bytes) -> Any:
    (document,) = load_documents(text.encode() if isinstance(text, str) else text)
    return document


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("main", "main"),
        ("3.4.0", "3.4.0"),
        ("2026-03-02", "2026-03-02"),
        ("2026-03-02T08:15:00Z", "2026-03-02T08:15:00Z"),
        ("12:30:45", "12:30:45"),
        ("yes", True),
        ("Off", False),
        ("y", True),
        ("TRUE", True),
        ("tRue", "tRue"),
        ("~", None),
        ("Null", None),
        ('"yes"', "yes"),
        ("'12'", "12"),
        ("!!str 12", "12"),
        ("12", 12),
        ("-7", -7),
        ("+7", 7),
        ("0x1F", 31),
        ("010", 8),
        ("0o10", 8),
        ("0b101", 5),
        ("1_000", 1000),
        ("0_", 0),
        ("0x_1f", 31),
        ("0x_", "0x_"),
        ("-0b_", "-0b_"),
        ("0o_", "0o_"),
        ("08", 8.0),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.2.3", "1.2.3"),
        ("5m", "5m"),
        ("-", [None]),
        ("9223372036854775807", 9223372036854775807),
    ],
)
def test_a_word_means_what_it_means_to_kubectl(written: str, value: object) -> None:
    found = load(f"a: {written}" if written != "-" else "a:\n-")["a"]
    assert found == value
    assert type(found) is type(value)


def test_names_of_fields_are_text_as_in_json() -> None:
    assert load("{on: 1, 5: 2, ~: 3, a: 4}") == {"true": 1, "5": 2, "null": 3, "a": 4}


def test_several_documents_are_read_in_order_and_empty_ones_left_out() -> None:
    assert list(load_documents(b"a: 1\n---\n# nothing\n---\nb: 2\n---\n")) == [{"a": 1}, {"b": 2}]


def test_json_is_yaml() -> None:
    assert load('{"a": [1, "x", null, true], "b": {}}') == {"a": [1, "x", None, True], "b": {}}


def test_anchors_and_merges_work_where_they_stay_small() -> None:
    text = "base: &b {p: 1, q: 2}\nlist: [*b, {<<: *b, q: 3}]\nboth: {<<: [{r: 9}, *b]}"
    assert load(text) == {
        "base": {"p": 1, "q": 2},
        "list": [{"p": 1, "q": 2}, {"p": 1, "q": 3}],
        "both": {"r": 9, "p": 1, "q": 2},
    }


def test_a_byte_order_mark_is_no_part_of_the_first_name() -> None:
    assert load(b"\xef\xbb\xbfa: 1") == {"a": 1}


BILLION_LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"a{n}: &a{n} [" + ",".join([f"*a{n - 1}"] * 9) + "]" for n in range(1, 10)
)

HOSTILE: list[tuple[str, str | bytes, str]] = [
    ("a bomb of aliases", BILLION_LAUGHS, "aliases included"),
    ("a bomb of merges", "a: &a {x: 1}\n" + "b: [" + "{<<: *a}," * 60_000 + "]", "aliases included"),
    ("an alias inside its own anchor", "a: &a [*a]", "is before or inside its anchor"),
    ("an alias of nothing", "a: *b", "is before or inside its anchor"),
    ("lists a hundred thousand deep", "[" * 100_000, f"nested deeper than {MAX_DEPTH} levels"),
    (
        "maps a thousand deep",
        "".join(" " * n + "a:\n" for n in range(1_000)),
        f"nested deeper than {MAX_DEPTH} levels",
    ),
    ("a field that occurs twice", "a: 1\nb: 2\na: 3", "line 3: the field 'a' occurs twice"),
    ("a field that occurs twice in two spellings", "on: 1\ntrue: 2", "the field 'true' occurs twice"),
    (
        "an object of Python",
        "a: !!python/object/apply:os.system [id]",
        "python/object/apply:os.system is not allowed",
    ),
    ("a name of Python", "a: !!python/name:os.system", "is not allowed"),
    ("a tag of its own", "a: !secret x", "the tag !secret is not allowed"),
    ("binary data", "a: !!binary aGVsbG8=", "is not allowed"),
    ("a set", "a: !!set {x, y}", "is not allowed"),
    ("a number of ten million digits", "a: " + "9" * 2_000_000, "is too large"),
    ("a number beyond 64 bits", "a: 9223372036854775808", "does not fit into 64 bits"),
    ("a number below 64 bits", "a: -9223372036854775809", "does not fit into 64 bits"),
    ("an octal number of many digits", "a: 0" + "7" * 100, "is too large"),
    ("a number with a huge exponent", "a: 1e999999999", "too large for a number"),
    ("what is not a number", "a: .nan", "is not a number that a manifest can hold"),
    ("infinity", "a: -.inf", "is not a number that a manifest can hold"),
    ("a lone surrogate", 'a: "\\ud800"', "line 1"),
    ("a lone surrogate in bytes", b"a: \xed\xa0\x80", "is not UTF-8 at byte 3"),
    ("bytes that are no text", b"a: \xff\xfe", "is not UTF-8"),
    ("a control character", "a: \x07", "cannot be read as YAML"),
    ("a list as the name of a field", "? [a]\n: b", "cannot be the name of a field"),
    ("a merge of text", "a: {<<: b}", "<< takes a map or a list of maps"),
    ("a file of many megabytes", b"#" * (MAX_BYTES + 1), "is larger than"),
    ("endless documents", "--- {}\n" * (MAX_DOCUMENTS + 1), f"more than {MAX_DOCUMENTS} documents"),
    ("a list that never ends", "a: [1, 2", "line 2"),
    ("a tab for indentation", "a:\n\tb: 1", "line 2"),
]


@pytest.mark.parametrize(("text", "says"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_refuses_within_seconds(text: str | bytes, says: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidValue) as refusal:
        list(load_documents(text.encode() if isinstance(text, str) else text))
    assert says in refusal.value.message
    assert len(refusal.value.message) < 300
    assert time.process_time() - started < 20.0


def test_a_file_of_the_largest_size_is_read_in_seconds() -> None:
    started = time.process_time()
    text = "a: |\n" + ("  " + "x" * 98 + "\n") * ((MAX_BYTES - 10) // 101)
    assert len(load(text)["a"]) > MAX_BYTES * 0.9
    assert time.process_time() - started < 20.0

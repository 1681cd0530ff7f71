"""The values of the protocol's ConfigMaps: each limit at its last allowed value and one above it."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.protocol import parse


def test_a_word_is_one_printable_line_up_to_its_limit() -> None:
    longest = "a" * parse.MAX_WORD
    assert parse.parse_word(longest) == longest
    for wrong in (longest + "a", "two\nlines", "\x1b[31m", "\u202eturned"):
        with pytest.raises(InvalidValue, match=f"not a line of at most {parse.MAX_WORD}"):
            parse.parse_word(wrong)


def test_a_text_is_taken_up_to_its_limit() -> None:
    longest = "a" * parse.MAX_JSON
    assert parse.parse_text(longest) == longest
    with pytest.raises(InvalidValue, match=f"larger than {parse.MAX_JSON} bytes"):
        parse.parse_text(longest + "a")


@pytest.mark.parametrize(("text", "port"), [("0", 0), ("1", 1), ("65535", 65535), ("08088", 8088)])
def test_a_port_is_a_number_up_to_65535(text: str, port: int) -> None:
    assert parse.parse_port(text) == port


@pytest.mark.parametrize("text", ["65536", "99999", "100000", "-1", "", "80 ", "\u0661"])
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="not a port from 1 to 65535"):
        parse.parse_port(text)


@pytest.mark.parametrize(
    ("text", "globs"),
    [
        ("", ()),
        (" , ,", ()),
        ("a", ("a",)),
        (" a , b ", ("a", "b")),
        ("{a,b}/*,c", ("{a,b}/*", "c")),
        ("{a,{b,c}},d", ("{a,{b,c}}", "d")),
        ("a},b", ("a}", "b")),
        ("a},{b,c},d", ("a}", "{b,c}", "d")),
    ],
)
def test_a_comma_separates_globs_except_inside_braces(text: str, globs: tuple[str, ...]) -> None:
    assert parse.parse_patterns(text) == globs


def test_globs_are_taken_up_to_their_limits() -> None:
    most = ["*"] * parse.MAX_PATTERNS
    assert len(parse.parse_patterns(",".join(most))) == parse.MAX_PATTERNS
    with pytest.raises(InvalidValue, match=f"more than {parse.MAX_PATTERNS} globs"):
        parse.parse_patterns(",".join([*most, "*"]))
    longest = "a" * parse.MAX_JSON
    assert parse.parse_patterns(longest) == (longest,)
    with pytest.raises(InvalidValue, match=f"larger than {parse.MAX_JSON} bytes"):
        parse.parse_patterns(longest + "a")


def test_only_true_and_false_are_switches() -> None:
    assert parse.parse_switch("true") is True
    assert parse.parse_switch("false") is False
    for wrong in ("True", "yes", "1", ""):
        with pytest.raises(InvalidValue, match="neither true nor false"):
            parse.parse_switch(wrong)


def test_a_newer_protocol_than_ours_is_refused_and_our_own_is_taken() -> None:
    assert parse.parse_version(parse.PROTOCOL_VERSION) == parse.PROTOCOL_VERSION
    with pytest.raises(InvalidValue, match="older than the controller"):
        parse.parse_version(str(int(parse.PROTOCOL_VERSION) + 1))
    with pytest.raises(InvalidValue, match="is not a version"):
        parse.parse_version("one")

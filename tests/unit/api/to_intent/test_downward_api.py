"""Annotations as the kubelet writes them into a file."""

import pytest

from stoker.api.to_intent.downward_api import parse_podinfo
from stoker.domain.errors import InvalidValue


def test_lines_become_annotations() -> None:
    text = 'stoker.io/sync-profile="line-profile"\nstoker.io/ref-override="v1"\n'
    assert parse_podinfo(text) == {"stoker.io/sync-profile": "line-profile", "stoker.io/ref-override": "v1"}


def test_an_empty_file_has_no_annotations() -> None:
    assert parse_podinfo("") == {}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"a\"b", 'a"b'),
        (r"C:\\x", "C:\\x"),
        (r"one\ntwo\ttabs\r", "one\ntwo\ttabs\r"),
        (r"\a\b\f\v", "\a\b\f\v"),
        (r"\x00\x7f", "\x00\x7f"),
        (r"nbsp\u00a0", "nbsp\u00a0"),
        (r"\U0001f600", "\U0001f600"),
        ("ä=ö", "ä=ö"),
        (r"\\n", "\\n"),
        ("", ""),
    ],
)
def test_escapes_are_undone(written: str, meant: str) -> None:
    assert parse_podinfo(f'k="{written}"') == {"k": meant}


@pytest.mark.parametrize("written", [r"\xff", r"\ud800", r"\Uffffffff"])
def test_what_is_no_character_becomes_the_replacement_character(written: str) -> None:
    assert parse_podinfo(f'k="{written}"') == {"k": "\N{REPLACEMENT CHARACTER}"}


@pytest.mark.parametrize(
    "line", ["k", "k=", "k=v", 'k="v', 'k=v"', 'k="a"b"', r'k="\q"', r'k="\x1"', '="v"', 'k="v" ', 'k="\\"']
)
def test_anything_else_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(InvalidValue, match="line 2 of the annotations file"):
        parse_podinfo(f'good="1"\n{line}\n')

"""Merging three ways: what must hold whatever two people did to a text."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from stoker.engine import merging
from stoker.engine.merging import merge3

_LINE = st.sampled_from([b"{\n", b"}\n", b"a\n", b"b\n", b"c\n", b"d\r\n", b"\n", b"\xff\n"])
_TEXT = st.lists(_LINE, max_size=12).map(b"".join) | st.lists(_LINE, max_size=6).map(
    lambda lines: b"".join(lines).rstrip(b"\n")
)


@st.composite
def _edited(draw: st.DrawFn, lines: list[bytes], mark: bytes) -> list[bytes]:
    """A text with some lines taken out and some put in that nobody else has."""
    made: list[bytes] = []
    for number, line in enumerate([*lines, b""]):
        kind = draw(st.sampled_from(("keep", "keep", "keep", "drop", "add")))
        if kind == "add":
            made.append(mark + b"%d\n" % number)
        if kind != "drop" and line:
            made.append(line)
    return made


@given(_TEXT, _TEXT)
def test_a_side_that_changed_nothing_takes_the_other(base: bytes, changed: bytes) -> None:
    assert merge3(base, base, changed) == changed
    assert merge3(base, changed, base) == changed
    assert merge3(base, changed, changed) == changed


@given(_TEXT, _TEXT, _TEXT)
def test_it_does_not_matter_who_is_who(base: bytes, ours: bytes, theirs: bytes) -> None:
    assert merge3(base, ours, theirs) == merge3(base, theirs, ours)


@given(st.data())
def test_no_line_that_one_side_added_is_lost_without_a_conflict(data: st.DataObject) -> None:
    base = [b"%d\n" % number for number in range(data.draw(st.integers(0, 12)))]
    ours = data.draw(_edited(base, b"ours "))
    theirs = data.draw(_edited(base, b"theirs "))
    merged = merge3(b"".join(base), b"".join(ours), b"".join(theirs))
    assume(merged is not None)
    assert merged is not None
    lines = merged.splitlines(keepends=True)
    assert [line for line in lines if line.startswith(b"ours")] == [
        line for line in ours if line.startswith(b"ours")
    ]
    assert [line for line in lines if line.startswith(b"theirs")] == [
        line for line in theirs if line.startswith(b"theirs")
    ]
    # Every line of the base is its own: it is there if and only if both have left it.
    assert [line for line in lines if line in base] == [
        line for line in base if line in ours and line in theirs
    ]


def test_changes_apart_are_both_taken_and_changes_of_one_line_are_none() -> None:
    base = b"a\nb\nc\nd\ne\n"
    assert merge3(base, b"A\nb\nc\nd\ne\n", b"a\nb\nc\nd\nE\n") == b"A\nb\nc\nd\nE\n"
    assert merge3(base, b"a\nB\nc\nd\ne\n", b"a\nb!\nc\nd\ne\n") is None
    assert merge3(base, b"a\nB\nc\nd\ne\n", b"a\nb\nC\nd\ne\n") is None  # side by side
    assert merge3(base, b"a\nc\nd\ne\n", b"a\nb\nc\nd\ne\nf\n") == b"a\nc\nd\ne\nf\n"


def test_a_text_too_long_to_be_compared_line_by_line_is_merged_by_its_ends() -> None:
    middle = b"".join(b"%d\n" % number for number in range(3000))
    other = b"".join(b"x%d\n" % number for number in range(3000))
    assert merging.LARGEST < 3000 * 3000
    base = b"head\n" + b"1\n" + middle + b"tail\n"
    assert merge3(base, b"HEAD\n" + base[5:], base.replace(middle, other)) == (
        b"HEAD\n1\n" + other + b"tail\n"
    )

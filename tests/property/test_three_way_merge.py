"""Merging three ways: what must hold whatever two people did to a text."""

from __future__ import annotations

import random
import time
from difflib import SequenceMatcher

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stoker.engine.transform import three_way_text_merge
from stoker.engine.transform.three_way_text_merge import merge3

_LINE = st.sampled_from([b"{\n", b"}\n", b"a\n", b"b\n", b"c\n", b"d\r\n", b"\n", b"\xff\n"])
_TEXT = st.lists(_LINE, max_size=12).map(b"".join) | st.lists(_LINE, max_size=6).map(
    lambda lines: b"".join(lines).rstrip(b"\n")
)


@st.composite
def _edited(draw: st.DrawFn, lines: list[bytes], mark: bytes) -> list[bytes]:
    """A text with some lines removed and some unique lines added."""
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
def test_the_merge_is_symmetric(base: bytes, ours: bytes, theirs: bytes) -> None:
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


@pytest.mark.parametrize("repeated", [2, 6, 30])
def test_long_texts_of_lines_that_repeat_lose_nothing_and_come_out_as_by_all_matches(
    repeated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = same = 0
    for seed in range(80):
        chosen = random.Random(f"{repeated} {seed}")  # noqa: S311 - no secret
        base = [
            b"own %d\n" % number if chosen.random() < 0.2 else b"again %d\n" % chosen.randrange(repeated)
            for number in range(chosen.choice((210, 300, 400)))
        ]
        ours, theirs = _sparsely_edited(chosen, base, b"ours "), _sparsely_edited(chosen, base, b"theirs ")
        texts = b"".join(base), b"".join(ours), b"".join(theirs)
        merged = merge3(*texts)
        with monkeypatch.context() as patched:
            patched.setattr(three_way_text_merge, "SequenceMatcher", _of_all_lines)
            thorough = merge3(*texts)
        for one in (merged, thorough):
            if one is not None:
                _demand_both(one.splitlines(keepends=True), base, ours, theirs)
        if merged is not None and thorough is not None:
            clean += 1
            same += merged == thorough
    assert clean > 30
    assert same >= clean - 2  # of lines that are alike it may be another one that went


def _of_all_lines(junk: None, a: list[bytes], b: list[bytes], *, autojunk: bool) -> SequenceMatcher[bytes]:
    assert autojunk
    return SequenceMatcher(junk, a, b, autojunk=False)


def _sparsely_edited(chosen: random.Random, lines: list[bytes], mark: bytes) -> list[bytes]:
    often = chosen.choice((0.003, 0.01))
    made: list[bytes] = []
    for number, line in enumerate(lines):
        kind = chosen.random()
        if kind < often:
            made.append(mark + b"%d\n" % number)
        if not often <= kind < 2 * often:
            made.append(line)
    return made


def _demand_both(lines: list[bytes], base: list[bytes], ours: list[bytes], theirs: list[bytes]) -> None:
    for side, mark in ((ours, b"ours"), (theirs, b"theirs")):
        assert [line for line in lines if line.startswith(mark)] == [
            line for line in side if line.startswith(mark)
        ]
    assert [line for line in lines if line.startswith(b"own")] == [
        line for line in base if line.startswith(b"own") and line in ours and line in theirs
    ]


def _every_other(mark: bytes, count: int, repeated: int) -> bytes:
    return b"".join(b"%s%d\nagain %d\n" % (mark, number, number % repeated) for number in range(count))


@pytest.mark.parametrize(
    ("long", "short", "repeated"), [(1000, 1000, 1), (1000, 1000, 48), (10_000, 99, 1), (99, 10_000, 1)]
)
def test_lines_that_repeat_cost_no_time_that_matters(long: int, short: int, repeated: int) -> None:
    base = _every_other(b"a", long, repeated)
    before = time.process_time()
    merge3(base, _every_other(b"b", short, repeated), _every_other(b"c", short, repeated))
    assert time.process_time() - before < 5.0


def test_changes_apart_are_both_taken_and_changes_of_one_line_are_none() -> None:
    base = b"a\nb\nc\nd\ne\n"
    assert merge3(base, b"A\nb\nc\nd\ne\n", b"a\nb\nc\nd\nE\n") == b"A\nb\nc\nd\nE\n"
    assert merge3(base, b"a\nB\nc\nd\ne\n", b"a\nb!\nc\nd\ne\n") is None
    assert merge3(base, b"a\nB\nc\nd\ne\n", b"a\nb\nC\nd\ne\n") is None  # side by side
    assert merge3(base, b"a\nc\nd\ne\n", b"a\nb\nc\nd\ne\nf\n") == b"a\nc\nd\ne\nf\n"


def test_a_text_too_long_to_be_compared_line_by_line_is_merged_by_its_ends() -> None:
    middle = b"".join(b"%d\n" % number for number in range(3000))
    other = b"".join(b"x%d\n" % number for number in range(3000))
    assert three_way_text_merge.MAX_MERGE_BYTES < 3000 * 3000
    base = b"head\n" + b"1\n" + middle + b"tail\n"
    assert merge3(base, b"HEAD\n" + base[5:], base.replace(middle, other)) == (
        b"HEAD\n1\n" + other + b"tail\n"
    )

"""The lines of a watch are the same however the network splits them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.kube.watch.line_splitter import LineSplitter, LineTooLong

LINES = st.lists(st.binary().filter(lambda line: b"\n" not in line and not line.endswith(b"\r")))


@given(LINES, st.lists(st.integers(min_value=0)), st.sampled_from([b"\n", b"\r\n"]))
def test_any_chunking_gives_the_same_lines(lines: list[bytes], cuts: list[int], end: bytes) -> None:
    stream = b"".join(line + end for line in lines)
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    splitter = LineSplitter()
    got = [line for start, stop in itertools.pairwise(edges) for line in splitter.feed(stream[start:stop])]
    assert got == [line for line in lines if line]
    assert not splitter.unfinished


@given(LINES, st.binary(min_size=1).filter(lambda tail: b"\n" not in tail))
def test_a_line_without_an_end_is_noticed(lines: list[bytes], tail: bytes) -> None:
    splitter = LineSplitter()
    got = list(splitter.feed(b"".join(line + b"\n" for line in lines) + tail))
    assert got == [line for line in lines if line]
    assert splitter.unfinished


@given(st.integers(min_value=1, max_value=50), st.lists(st.binary(min_size=1, max_size=20), min_size=1))
def test_nothing_longer_than_the_limit_is_ever_held(limit: int, chunks: list[bytes]) -> None:
    splitter = LineSplitter(limit)
    longest = max(map(len, b"".join(chunks).split(b"\n")))

    def feed_all() -> list[bytes]:
        return [line for chunk in chunks for line in splitter.feed(chunk)]

    if longest > limit:
        with pytest.raises(LineTooLong):
            feed_all()
    else:
        assert all(len(line) <= limit for line in feed_all())


def test_what_was_given_is_not_kept() -> None:
    splitter = LineSplitter()
    assert list(splitter.feed(b"one\ntw")) == [b"one"]
    assert list(splitter.feed(b"o\n")) == [b"two"]
    assert not splitter.unfinished
    assert list(splitter.feed(b"")) == []

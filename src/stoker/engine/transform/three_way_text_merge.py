"""Three-way merge of two texts with a common base, line by line.

Bidirectional sync uses it: a file that a template or a patch transformed differs from the repository's, and
a change that a user made on the gateway has to be applied to the repository's version. A region that only
one side changed is taken from that side; a region that both changed in the same way is taken once. Any other
region that both changed, or changes in adjacent lines, are a conflict, and then there is no result: it
never returns a partial merge. Pure; lines are bytes with their ends, so no text is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

MAX_MERGE_BYTES = 4_000_000
"""The limit is in pairs of lines: larger differences are treated as one region, as matching is quadratic."""


class _CommonLines(NamedTuple):
    """A run of lines that two texts have in common."""

    base: int
    other: int
    size: int


def merge3(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return the text with both changes; None if they conflict."""
    if theirs in (ours, base):
        return ours
    if base == ours:
        return theirs
    lines = [text.splitlines(keepends=True) for text in (base, ours, theirs)]
    merged: list[bytes] = []
    for region in _regions(*lines):
        old, here, there = region
        if there in (here, old):
            merged += here
        elif here == old:
            merged += there
        else:
            return None
    return b"".join(merged)


def _regions(
    base: list[bytes], ours: list[bytes], theirs: list[bytes]
) -> Iterator[tuple[list[bytes], list[bytes], list[bytes]]]:
    """Cut the three texts where all agree; regions that differ and regions that agree alternate."""
    at = (0, 0, 0)
    for start, here, there, size in _common_runs(base, ours, theirs):
        yield base[at[0] : start], ours[at[1] : here], theirs[at[2] : there]
        same = base[start : start + size]
        yield same, same, same
        at = (start + size, here + size, there + size)
    yield base[at[0] :], ours[at[1] :], theirs[at[2] :]


def _common_runs(
    base: list[bytes], ours: list[bytes], theirs: list[bytes]
) -> Iterator[tuple[int, int, int, int]]:
    """Iterate over runs of the base that both sides kept: the start in each text, and the length."""
    one, other = iter(_matching_lines(base, ours)), iter(_matching_lines(base, theirs))
    a, b = next(one, None), next(other, None)
    while a is not None and b is not None:
        start = max(a.base, b.base)
        end = min(a.base + a.size, b.base + b.size)
        if start < end:
            yield start, a.other + start - a.base, b.other + start - b.base, end - start
        if a.base + a.size <= b.base + b.size:
            a = next(one, None)
        else:
            b = next(other, None)


def _matching_lines(base: Sequence[bytes], other: Sequence[bytes]) -> list[_CommonLines]:
    """Return the common runs in order.

    It compares head and tail first, because most changes are between two long common runs.
    """
    short = min(len(base), len(other))
    head = next((at for at in range(short) if base[at] != other[at]), short)
    tail = next((at for at in range(short - head) if base[-1 - at] != other[-1 - at]), short - head)
    found = [_CommonLines(0, 0, head)] if head else []
    left, right = base[head : len(base) - tail], other[head : len(other) - tail]
    if len(left) * len(right) <= MAX_MERGE_BYTES:
        found += [_CommonLines(a + head, b + head, size) for a, b, size in _matching_runs(left, right)]
    if tail:
        found.append(_CommonLines(len(base) - tail, len(other) - tail, tail))
    return found


def _matching_runs(left: Sequence[bytes], right: Sequence[bytes]) -> list[tuple[int, int, int]]:
    """Return the common runs, in less than cubic time.

    `autojunk` prevents a run from starting at a line that a long text repeats often. It counts lines only in
    the second text, so the longer text is the second.
    """
    if len(left) > len(right):
        return [(a, b, size) for b, a, size in _matching_runs(right, left)]
    matcher = SequenceMatcher(None, left, right, autojunk=True)
    return [(a, b, size) for a, b, size in matcher.get_matching_blocks() if size]

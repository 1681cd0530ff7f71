"""Two texts that were made from one, line by line, into one that has the changes of both.

For the way back: a file that a template or a patch shaped is not what the repository
has, and what somebody changed in it has to be carried over. A region that only one side
changed is taken from that side, one that both changed in the same way once. Whatever else
both changed, or changed side by side, is a conflict, and then there is no outcome at all:
nothing is ever merged half. Pure; lines are bytes with their ends, so no text is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

MAX_MERGE_BYTES = 4_000_000
"""Pairs of lines; what differs in more is compared as a whole, for finding likeness is quadratic."""


class _CommonLines(NamedTuple):
    """Lines that two texts have in common."""

    base: int
    other: int
    size: int


def merge3(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """The text with both changes; None where they contradict each other."""
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
    """The three texts cut where all of them agree: what agrees, what does not, in turn."""
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
    """Runs of the base that both sides kept: where they begin in each text, and how long they are."""
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
    """What both have in common, in order; the ends first, for most changes lie between two long ones."""
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
    """Runs that both have. No run begins at a line that a long text has again and again: that would be cubic.

    Such lines are counted in the second text alone, so the longer one is the second.
    """
    if len(left) > len(right):
        return [(a, b, size) for b, a, size in _matching_runs(right, left)]
    matcher = SequenceMatcher(None, left, right, autojunk=True)
    return [(a, b, size) for a, b, size in matcher.get_matching_blocks() if size]

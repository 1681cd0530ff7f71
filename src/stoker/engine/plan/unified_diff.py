"""Formats a change of one file as a unified diff, as git prints it.

People read it before a plan is applied. The content comes from a repository and from a data folder and is
not trusted: the output is bounded by `limit` lines, and control characters that a terminal would interpret
are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice

from stoker.domain.git_objects import printable_name
from stoker.domain.text import escape_unprintable

CONTEXT = 3
MAX_LINE = 2000
# Comparing line by line costs up to the product of both sides; beyond this one side replaces the other.
_MAX_PRODUCT = 1_000_000
_BINARY_CHECK_BYTES = 8000

_DiffRange = tuple[int, int, int, int]


def unified_diff(path: str, old: bytes | None, new: bytes | None, *, limit: int = 1000) -> Iterator[str]:
    """Iterate over the lines of the diff; None is a side on which the file does not exist."""
    if old == new:
        return
    name = printable_name(path)
    before, after = "/dev/null" if old is None else f"a/{name}", "/dev/null" if new is None else f"b/{name}"
    if _is_binary(old or b"") or _is_binary(new or b""):
        yield f"Binary files {before} and {after} differ"
        return
    yield f"--- {before}"
    yield f"+++ {after}"
    lines = _diff_body(_split_lines(old or b""), _split_lines(new or b""))
    yield from islice(lines, limit)
    if next(lines, None) is not None:
        yield f"… cut after {limit} lines"


def _is_binary(content: bytes) -> bool:
    """Whether git would call it binary: a NUL byte near the beginning."""
    return b"\0" in content[:_BINARY_CHECK_BYTES]


def _split_lines(content: bytes) -> list[bytes]:
    """Split into lines as git does: only a line feed ends a line."""
    *whole, rest = content.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def _diff_body(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[str]:
    for hunk in _hunks(_changes(old, new)):
        first, last = hunk[0], hunk[-1]
        i1, j1 = max(first[0] - CONTEXT, 0), max(first[2] - CONTEXT, 0)
        i2, j2 = min(last[1] + CONTEXT, len(old)), min(last[3] + CONTEXT, len(new))
        yield f"@@ -{_hunk_range(i1, i2)} +{_hunk_range(j1, j2)} @@"
        at = i1
        for a1, a2, b1, b2 in hunk:
            yield from _diff_lines(" ", old[at:a1])
            yield from _diff_lines("-", old[a1:a2])
            yield from _diff_lines("+", new[b1:b2])
            at = a2
        yield from _diff_lines(" ", old[at:i2])


def _changes(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[_DiffRange]:
    """Iterate over the ranges of lines that changed, in order."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(a) * len(b) > _MAX_PRODUCT:
        yield head, head + len(a), head, head + len(b)
        return
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, a, b).get_opcodes():
        if tag != "equal":
            yield head + a1, head + a2, head + b1, head + b2


def _hunks(changes: Iterable[_DiffRange]) -> Iterator[list[_DiffRange]]:
    """Group changes so near to each other that their context lines would touch."""
    together: list[_DiffRange] = []
    for change in changes:
        if together and change[0] - together[-1][1] > 2 * CONTEXT:
            yield together
            together = []
        together.append(change)
    if together:
        yield together


def _hunk_range(start: int, end: int) -> str:
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _diff_lines(mark: str, lines: Sequence[bytes]) -> Iterator[str]:
    for line in lines:
        yield mark + _printable_line(line.removesuffix(b"\n"))
        if not line.endswith(b"\n"):
            yield "\\ No newline at end of file"


def _printable_line(line: bytes) -> str:
    text = escape_unprintable(line[:MAX_LINE].decode(errors="replace"), keep="\t")
    return text + ("…" if len(line) > MAX_LINE else "")

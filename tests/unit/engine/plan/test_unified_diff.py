"""Unified diffs, as git prints them."""

import subprocess
import time
from pathlib import Path

import pytest

from stoker.engine.plan.unified_diff import unified_diff

NUMBERS = b"".join(b"%d\n" % number for number in range(40))


def test_a_change_is_shown_with_its_context() -> None:
    assert list(unified_diff("d/a", b"1\n2\n3\n4\n5\n", b"1\n2\nthree\n4\n5\n")) == [
        "--- a/d/a",
        "+++ b/d/a",
        "@@ -1,5 +1,5 @@",
        " 1",
        " 2",
        "-3",
        "+three",
        " 4",
        " 5",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (NUMBERS, NUMBERS.replace(b"5\n", b"five\n", 1).replace(b"30\n", b"")),
        (NUMBERS, NUMBERS.replace(b"5\n", b"5\n5.5\n", 1)),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nc"),
        (b"", b"a\n"),
        (b"a\n", b""),
        (b"x\n" * 10, b"x\n" * 11),
    ],
)
def test_it_is_what_git_prints(old: bytes, new: bytes, tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(old)
    (tmp_path / "new").write_bytes(new)
    output = subprocess.run(
        ["git", "diff", "--no-index", "--no-color", "old", "new"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    ours = list(unified_diff("f", old, new))[2:]
    theirs = output.stdout.decode().splitlines()[4:]
    # git repeats a heading after the second @@, and names no file for an empty one.
    assert ours == [line.rpartition(" @@")[0] + " @@" if line.startswith("@@") else line for line in theirs]


def test_a_file_that_comes_or_goes_has_no_other_side() -> None:
    assert list(unified_diff("a", None, b"1\n")) == ["--- /dev/null", "+++ b/a", "@@ -0,0 +1 @@", "+1"]
    assert list(unified_diff("a", b"1\n", None)) == ["--- a/a", "+++ /dev/null", "@@ -1 +0,0 @@", "-1"]
    assert not list(unified_diff("a", b"1", b"1"))


def test_binary_content_is_not_shown() -> None:
    assert list(unified_diff("a", b"\0", b"1")) == ["Binary files a/a and b/a differ"]


def test_nothing_that_a_terminal_acts_on_gets_through() -> None:
    lines = list(unified_diff("a\x1b[2J", b"", b"\x1b[31mred\r\n\xff\n"))
    assert lines[1] == "+++ b/a\\x1b[2J"
    assert lines[3:] == ["+\\x1b[31mred\\r", "+\ufffd"]


def test_it_is_cut_where_the_limit_is() -> None:
    lines = list(unified_diff("a", b"", b"x\n" * 100, limit=10))
    assert len(lines) == 13
    assert lines[-1] == "… cut after 10 lines"


def test_a_long_line_is_cut() -> None:
    assert len(max(unified_diff("a", None, b"x" * 1_000_000), key=len)) < 2100


def test_large_and_hostile_contents_take_bounded_time() -> None:
    old = b"".join(b"%d\nx\n" % number for number in range(100_000))
    new = b"".join(b"x\n%d\n" % number for number in range(100_000))
    start = time.process_time()
    assert len(list(unified_diff("a", old, new, limit=50))) == 53
    half = b"".join(b"%d\n" % (number % 7) for number in range(999))
    assert list(unified_diff("a", half, half[::-1]))
    assert time.process_time() - start < 5

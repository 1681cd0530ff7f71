"""A stamp stands for a content only if any later change must give another one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.engine.plan.ledger import STAT, UNSEEN
from stoker.fs.stat_stamp import COARSE, FINE, settled, stamp, unseen

NOW = 1_700_000_000_123_456_789
SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        (NOW - FINE - 1, True),
        (NOW - FINE, False),
        (NOW, False),
        (NOW + 5, False),
        (NOW + FINE + 1, True),  # the clock was turned back since; it does not stand still
        (NOW // SECOND * SECOND, False),
        (NOW // SECOND * SECOND - SECOND, False),  # a filesystem that counts seconds
        (NOW // SECOND * SECOND - 3 * SECOND, True),
        (0, False),
    ],
)
def test_a_file_that_may_change_again_unseen_has_no_stamp(changed: int, counts: bool) -> None:
    assert FINE < COARSE
    for executable in (0, 1):
        found = STAT.pack(1, 2, changed, 3, executable)
        assert settled(found, NOW) == (found if counts else unseen(bool(executable)))
        assert settled(found + b"id", NOW)[STAT.size - 1 :] == bytes([executable]) + b"id"


def test_the_stamp_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("12")
    (tmp_path / "a").chmod(0o744)
    found = (tmp_path / "a").stat()
    assert STAT.unpack(stamp(found)) == (2, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, 1)
    assert unseen(False) == UNSEEN
    os.utime(tmp_path / "a", ns=(1, 1))
    assert settled(stamp((tmp_path / "a").stat())) == unseen(True)

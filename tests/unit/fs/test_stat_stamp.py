"""A stamp identifies a content only if any later change must give another stamp."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.engine.plan.ledger import STAT, UNSEEN_STAT
from stoker.fs.stat_stamp import (
    COARSE_TIMESTAMP_NS,
    FINE_TIMESTAMP_NS,
    encode_stamp,
    trusted_stamp,
    unseen_stamp,
)

NOW = 1_700_000_000_123_456_789
SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        (NOW - FINE_TIMESTAMP_NS - 1, True),
        (NOW - FINE_TIMESTAMP_NS, False),
        (NOW, False),
        (NOW + 5, False),
        (NOW + FINE_TIMESTAMP_NS + 1, True),  # the clock was turned back since; it still moves
        (NOW // SECOND * SECOND, False),
        (NOW // SECOND * SECOND - SECOND, False),  # a filesystem that counts seconds
        (NOW // SECOND * SECOND - 3 * SECOND, True),
        (0, False),
    ],
)
def test_a_file_that_may_change_again_unseen_has_no_stamp(changed: int, counts: bool) -> None:
    assert FINE_TIMESTAMP_NS < COARSE_TIMESTAMP_NS
    for executable in (0, 1):
        found = STAT.pack(1, 2, changed, 3, executable)
        assert trusted_stamp(found, NOW) == (found if counts else unseen_stamp(bool(executable)))
        assert trusted_stamp(found + b"id", NOW)[STAT.size - 1 :] == bytes([executable]) + b"id"


def test_the_stamp_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("12")
    (tmp_path / "a").chmod(0o744)
    found = (tmp_path / "a").stat()
    assert STAT.unpack(encode_stamp(found)) == (2, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, 1)
    assert unseen_stamp(False) == UNSEEN_STAT
    os.utime(tmp_path / "a", ns=(1, 1))
    assert trusted_stamp(encode_stamp((tmp_path / "a").stat())) == unseen_stamp(True)

"""How a file lay on disk, as the ledger keeps it: a stamp of its stat data.

A stamp stands for a content only if any later change must give another one. The
clock of a filesystem moves in steps, so a file that changed just now could change
again within the same step; until that time has passed it gets a stamp that fits no
file, and the next walk reads it again. Filesystems that count whole seconds are
known by their stamps and given seconds.
"""

from __future__ import annotations

import os
import struct
import time

from stoker.engine.plan.ledger import STAT

FINE_TIMESTAMP_NS = 20_000_000
"""Nanoseconds; the kernel's coarse clock moves every 1 to 10 ms."""
COARSE_TIMESTAMP_NS = 2_000_000_000 + FINE_TIMESTAMP_NS
_SECOND = 1_000_000_000
_unpack_change_time = struct.Struct("<q").unpack_from
_UNSEEN_STATS = (STAT.pack(0, 0, 0, 0, 0), STAT.pack(0, 0, 0, 0, 1))


def unseen_stamp(executable: bool) -> bytes:
    """Fits no file, and still says what the file may do."""
    return _UNSEEN_STATS[executable]


def encode_stamp(found: os.stat_result) -> bytes:
    """The stat data of a regular file."""
    return STAT.pack(
        found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode >> 6 & 1
    )


def is_at_rest(changed: int, now: int | None = None) -> bool:
    """Whether a change at that time lies far enough back that any later one must show."""
    now = time.time_ns() if now is None else now
    return abs(now - changed) > (FINE_TIMESTAMP_NS if changed % _SECOND else COARSE_TIMESTAMP_NS)


def wait_until_at_rest(changed: int) -> None:
    """Wait until a change at that time is at rest, where that is a matter of milliseconds."""
    left = changed + FINE_TIMESTAMP_NS - time.time_ns()
    if 0 <= left <= FINE_TIMESTAMP_NS:
        time.sleep(left / _SECOND + 0.001)


def trusted_stamp(kept: bytes, now: int | None = None) -> bytes:
    """A stamp, or a record that begins with one, as it is if the file was at rest by `now`; else unseen."""
    (changed,) = _unpack_change_time(kept, 16)
    if changed and is_at_rest(changed, now):
        return kept
    return _UNSEEN_STATS[kept[STAT.size - 1]] + kept[STAT.size :]

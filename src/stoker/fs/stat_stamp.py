"""Stamps: the stat data of a file, as the ledger stores it.

A stamp identifies a content only if any later change must produce another stamp. The clock of a filesystem
advances in steps, so a file that just changed could change again within the same step. Until that time has
passed it gets a stamp that matches no file, and the next walk reads it again. Filesystems with whole seconds
are recognized by their stamps and get a wait of seconds.
"""

from __future__ import annotations

import os
import struct
import time

from stoker.engine.plan.ledger import STAT

FINE_TIMESTAMP_NS = 20_000_000
"""In nanoseconds; the kernel's coarse clock advances every 1 to 10 ms."""
COARSE_TIMESTAMP_NS = 2_000_000_000 + FINE_TIMESTAMP_NS
_SECOND = 1_000_000_000
_unpack_change_time = struct.Struct("<q").unpack_from
_UNSEEN_STATS = (STAT.pack(0, 0, 0, 0, 0), STAT.pack(0, 0, 0, 0, 1))


def unseen_stamp(executable: bool) -> bytes:
    """Return a stamp that matches no file, with the executable bit."""
    return _UNSEEN_STATS[executable]


def encode_stamp(found: os.stat_result) -> bytes:
    """Return the stamp of a regular file."""
    return STAT.pack(
        found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode >> 6 & 1
    )


def is_at_rest(changed: int, now: int | None = None) -> bool:
    """Whether a change at that time is old enough that any later change gets another timestamp."""
    now = time.time_ns() if now is None else now
    return abs(now - changed) > (FINE_TIMESTAMP_NS if changed % _SECOND else COARSE_TIMESTAMP_NS)


def wait_until_at_rest(changed: int) -> None:
    """Wait until a change at that time is at rest, if that takes only milliseconds."""
    left = changed + FINE_TIMESTAMP_NS - time.time_ns()
    if 0 <= left <= FINE_TIMESTAMP_NS:
        time.sleep(left / _SECOND + 0.001)


def trusted_stamp(kept: bytes, now: int | None = None) -> bytes:
    """Return a stamp, or a record that begins with one, unchanged if the file was at rest by `now`.

    Otherwise the stamp is replaced by one that matches no file.
    """
    (changed,) = _unpack_change_time(kept, 16)
    if changed and is_at_rest(changed, now):
        return kept
    return _UNSEEN_STATS[kept[STAT.size - 1]] + kept[STAT.size :]

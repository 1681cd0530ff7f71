"""Reads a live file and returns its blob id, and its stamp while it was read.

`stoker.fs.find_changes` uses it for a file whose stamp differs from the ledger's, as does other code that
needs the current version of one file. It reads only regular files, in chunks.
"""

from __future__ import annotations

import os

from stoker.domain.git_objects import BlobHash, FileVersion
from stoker.engine.plan.ledger import STAT
from stoker.engine.plan.live import LiveEntry, LiveKind
from stoker.fs.data_folder import open_regular
from stoker.fs.stat_stamp import encode_stamp, trusted_stamp, unseen_stamp

_CHUNK = 1 << 20


def inspect_file(
    folder: int, name: str, there: os.stat_result, kept: bytes | None, *, digits: int
) -> LiveEntry | None:
    """Return what a regular file is; None if its stamp is that of the ledger, without reading it."""
    if kept is not None and kept.startswith(encode_stamp(there)):
        return None
    version, seen = _hash_file(folder, name, digits)
    return LiveEntry(LiveKind.FILE, version, seen)


def _hash_file(folder: int, name: str, digits: int) -> tuple[FileVersion | None, bytes]:
    """Return version and stamp; no version for a file that cannot be read or changes while it is read."""
    try:
        fd = open_regular(folder, name)
    except OSError:
        return None, unseen_stamp(False)
    try:
        before = os.fstat(fd)
        digest = BlobHash(before.st_size, digits=digits)
        size = 0
        while chunk := os.read(fd, _CHUNK):
            digest.update(chunk)
            size += len(chunk)
        after = encode_stamp(os.fstat(fd))
    except OSError:
        return None, unseen_stamp(False)
    finally:
        os.close(fd)
    executable = bool(after[STAT.size - 1])
    if size != before.st_size or after != encode_stamp(before):
        return None, unseen_stamp(executable)
    return FileVersion(digest.blob(), executable), trusted_stamp(after)

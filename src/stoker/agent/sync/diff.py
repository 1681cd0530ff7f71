"""A plan as a unified diff between the live files and the files that it would write.

It reads only files of the plan, never refused ones, and only up to a size that a person would still read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from stoker.domain.git_objects import Blob, BlobId
from stoker.engine.plan.plan import SyncPlan
from stoker.fs.data_folder import DataFolder

MAX_BYTES = 1 << 20

DiffBlobReader = Callable[[Sequence[BlobId]], Iterator[Blob]]


def diff_lines(folder: DataFolder, plan: SyncPlan, contents: DiffBlobReader) -> Iterator[str]:
    """Yield the diff lines, file by file in the order of the plan. Runs in a worker thread."""
    from stoker.engine.plan.unified_diff import unified_diff  # noqa: PLC0415 - few callers want a diff

    blobs = contents([write.version.blob for write in plan.writes])
    for write, blob in zip(plan.writes, blobs, strict=True):
        old = _read_live_file(folder, write.path) if write.replaces else b""
        new = _decode_text(blob)
        if old is None or new is None:
            yield f"{write.path}: too large to be shown"
        else:
            yield from unified_diff(write.path, old if write.replaces else None, new)
    for change in plan.modes:
        yield f"{change.path}: mode {change.version.mode:o}"
    for delete in plan.removals:
        gone = _read_live_file(folder, delete.path)
        if gone is None:
            yield f"{delete.path}: deleted, too large to be shown"
        else:
            yield from unified_diff(delete.path, gone, None)


def _decode_text(blob: Blob) -> bytes | None:
    if blob.size <= MAX_BYTES:
        return b"".join(blob.chunks)
    for _ in blob.chunks:
        pass
    return None


def _read_live_file(folder: DataFolder, path: str) -> bytes | None:
    try:
        with folder.reading(path) as fd, os.fdopen(os.dup(fd), "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError:
        return b""
    return None if len(content) > MAX_BYTES else content

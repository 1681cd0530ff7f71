"""Cuts a change set down to the size that the outbox ConfigMaps can hold at once.

Files of one folder stay together if possible, so that no resource arrives in half. The rest goes with the
next change set; a file that does not fit even alone is refused by name. No I/O; runs in a worker thread,
because compressing takes time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.protocol import CHANGE_MAPS, ChangedFile, ChangeSet
from stoker.domain.protocol.change_set_codec import (
    MAX_LINE,
    MAX_SET_FILES,
    MAX_UNPACKED,
    encode,
    unpacked_size,
)
from stoker.domain.reasons import Reason


class ChangeTooLarge(Stalled):
    """A single file is larger than a change set can be."""

    default_reason = Reason.CHANGE_REFUSED

    def __init__(self, path: str) -> None:
        super().__init__(
            f"is larger than a change set may be: {MAX_UNPACKED >> 20} MiB, and compressed what "
            f"{CHANGE_MAPS} ConfigMaps hold"
        )
        self.path = path


def pack_changes(changes: ChangeSet) -> tuple[ChangeSet, tuple[bytes, ...]]:
    """Return as many whole folders as fit, or as many files of the first folder, with their chunks."""
    pieces = [tuple(some) for _, some in groupby(changes.files, key=_folder)]
    while pieces:
        now = replace(changes, files=tuple(one for some in pieces for one in some))
        chunks = _encode_within_limit(now)
        if chunks is not None:
            return now, chunks
        if len(now.files) == 1:
            raise ChangeTooLarge(now.files[0].path)
        if len(pieces) == 1:
            pieces = [(one,) for one in pieces[0]]
        pieces = pieces[: len(pieces) // 2]
    return changes, ()


def _encode_within_limit(changes: ChangeSet) -> tuple[bytes, ...] | None:
    if not _fits_in_outbox(changes.files):
        return None
    try:
        return encode(changes)
    except InvalidValue:
        return None


def _folder(one: ChangedFile) -> str:
    return one.path.rpartition("/")[0]


def _fits_in_outbox(files: Sequence[ChangedFile]) -> bool:
    return len(files) <= MAX_SET_FILES and unpacked_size(files) + MAX_LINE <= MAX_UNPACKED

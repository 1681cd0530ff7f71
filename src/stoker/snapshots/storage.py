"""Where snapshots lie: named objects that are put, read, listed and deleted, and nothing more.

A folder (`stoker.snapshots.folder_storage`) and a bucket (`stoker.snapshots.bucket_storage`) are
both no more than that, so what a snapshot is stays in one place
(`stoker.snapshots.repository`). An object appears whole or not at all, and is never
changed afterwards. Every trouble of a storage is a `Retry`: it may be back later.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

MAX_OBJECTS = 100_000
"""A place with more objects than this is not one of ours."""
CHUNK_BYTES = 4 << 20
"""No more than this is asked for at once."""


class ObjectMissing(Exception):
    """There is no such object."""


class StoredObject(NamedTuple):
    """An object in the list."""

    name: str
    size: int
    modified: float


class ObjectStorage(Protocol):
    """The objects of one gateway."""

    where: str
    """As it is called in a message."""
    leftovers_rest: float
    """How many seconds old an object must be before it can be something that a crash left behind."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Be the only one who writes, as far as the storage can tell."""
        ...

    def listed(self) -> list[StoredObject]: ...

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        """Durably and in one step; when `chunks` raises, nothing is there afterwards."""
        ...

    def get(self, name: str, start: int, length: int) -> bytes:
        """That part of an object, or as much as there is of it; raises `ObjectMissing`."""
        ...

    def delete(self, name: str) -> None:
        """One that is gone already is no failure."""
        ...

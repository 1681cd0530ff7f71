"""The storage protocol of snapshots: put, get, list and delete named objects.

`stoker.snapshots.folder_storage` and `stoker.snapshots.bucket_storage` implement it and know nothing of
snapshots, which are the matter of `stoker.snapshots.repository`. An object appears atomically and is never
changed afterwards. Every failure of a storage is a `Retry`, because it may work again later.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

MAX_OBJECTS = 100_000
"""Maximum objects in a storage; with more, it is not a snapshot storage."""
CHUNK_BYTES = 4 << 20
"""Maximum bytes of one read request."""


class ObjectMissing(Exception):
    """The object does not exist."""


class StoredObject(NamedTuple):
    """An object in a listing."""

    name: str
    size: int
    modified: float


class ObjectStorage(Protocol):
    """The stored objects of one gateway."""

    where: str
    """The storage's name in messages."""
    leftovers_rest: float
    """Minimum age in seconds of an unreferenced object before it counts as left by a crash."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Lock the storage for one writer, if it supports locks."""
        ...

    def listed(self) -> list[StoredObject]: ...

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        """Store an object durably and atomically; if `chunks` raises, no object remains."""
        ...

    def get(self, name: str, start: int, length: int) -> bytes:
        """Return a part of an object, shorter at its end; raise `ObjectMissing` if it does not exist."""
        ...

    def delete(self, name: str) -> None:
        """Delete an object; a missing object is no error."""
        ...

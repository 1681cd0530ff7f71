"""What is known of the objects of one kind, in the form in which its user wants them.

`stoker.kube.watch.list_watch` writes here what a list or a watch said; every write comes
back as the `ObjectChange` (none, one, or two) that it made, and these are what the
reflector delivers. A user reads: by key, all, or by an index.

An object is kept as whatever `keep` makes of its bytes: the header, a typed
struct, the bytes themselves, a digest. Beside it stand only its uid and its
resourceVersion, which is what it takes to tell a change from a repetition. The
bytes handed to `keep` are a copy of the object alone, so that keeping them does
not keep a whole response alive.

An object that `keep` refuses is reported and not kept; what was kept of it
before stays, because a version that cannot be read is no deletion. A store must
never hold half a list: `replace_all` takes a complete one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class ObjectKey(NamedTuple):
    """An object's name among its kind; the namespace of a cluster-wide object is empty.

    A tuple and not a dataclass, because thousands are made, hashed and compared for every list.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ObjectChange(NamedTuple, Generic[T]):
    """One step in the life of one object: `old` is none when it appears, `new` when it goes.

    A name that was deleted and taken again while nobody watched is two changes,
    the end of the old uid and the beginning of the new one.
    """

    key: ObjectKey
    uid: str
    resource_version: str
    old: T | None
    new: T | None

    @property
    def added(self) -> bool:
        return self.old is None

    @property
    def deleted(self) -> bool:
        return self.new is None


class CacheEntry(NamedTuple, Generic[T]):
    """One kept object, and under which words of which index it is filed."""

    uid: str
    resource_version: str
    value: T
    filed: tuple[tuple[str, str], ...] = ()


RefusedObjectHandler = Callable[[ObjectKey, Exception], None]
"""Told of an object that could not be read, and why."""

CacheIndex = Callable[[ObjectKey, T], Iterable[str]]
"""The words under which an object is found besides its name, for instance the values of a label."""


class ObjectCache(Generic[T]):
    """Objects of one kind by key."""

    __slots__ = ("_entries", "_found", "_indexes", "_keep", "_on_refused", "_wanted", "refused")

    def __init__(
        self,
        keep: Callable[[bytes], T],
        *,
        on_refused: RefusedObjectHandler | None = None,
        indexes: Mapping[str, CacheIndex[T]] | None = None,
        wanted: Callable[[ObjectKey], bool] | None = None,
    ) -> None:
        """What is not `wanted` by its key is not even decoded; the answer for a key must never change."""
        self._keep = keep
        self._wanted = wanted
        self._on_refused = on_refused
        self._entries: dict[ObjectKey, CacheEntry[T]] = {}
        self._indexes = dict(indexes or {})
        self._found: dict[str, dict[str, set[ObjectKey]]] = {name: {} for name in self._indexes}
        self.refused = 0
        """How often an object could not be read."""

    def get(self, key: ObjectKey) -> T | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def entry(self, key: ObjectKey) -> CacheEntry[T] | None:
        """The object together with its uid and resourceVersion."""
        return self._entries.get(key)

    def keys(self) -> list[ObjectKey]:
        return list(self._entries)

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self.keys())

    def items(self) -> Iterator[tuple[ObjectKey, T]]:
        """All objects as they stand now; later changes do not disturb the iteration."""
        return ((key, entry.value) for key, entry in list(self._entries.items()))

    def find(self, index: str, word: str) -> frozenset[ObjectKey]:
        """The keys of all objects that the named index files under this word."""
        return frozenset(self._found[index].get(word, ()))

    def additions(self) -> list[ObjectChange[T]]:
        """What somebody who knows nothing yet has to be told."""
        return [
            ObjectChange(key, entry.uid, entry.resource_version, None, entry.value)
            for key, entry in self._entries.items()
        ]

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._entries

    # What follows is for `stoker.kube.watch.list_watch` alone.

    def read(self, key: ObjectKey, uid: str, version: str, raw: bytes) -> CacheEntry[T] | None:
        """What would be kept of these bytes; none, and a report, if `keep` or an index refuses them."""
        if self._wanted is not None and not self._wanted(key):
            return None
        try:
            value = self._keep(raw)
            if not self._indexes:
                return CacheEntry(uid, version, value)
            words = ((name, word) for name, index in self._indexes.items() for word in index(key, value))
            return CacheEntry(uid, version, value, tuple(words))
        except Exception as error:  # one unreadable object must not hide all others of its kind
            self.refused += 1
            if self._on_refused is not None:
                self._on_refused(key, error)
            return None

    def put(self, key: ObjectKey, entry: CacheEntry[T]) -> tuple[ObjectChange[T], ...]:
        """The object as it now is; a different uid under the same name ends the old object first."""
        before = self._entries.get(key)
        if before is None:
            self._file(key, entry)
            return (ObjectChange(key, entry.uid, entry.resource_version, None, entry.value),)
        if before.uid != entry.uid:
            return self.remove(key, entry.resource_version) + self.put(key, entry)
        if before.resource_version == entry.resource_version:
            return ()
        self._unfile(key, before)
        self._file(key, entry)
        return (ObjectChange(key, entry.uid, entry.resource_version, before.value, entry.value),)

    def remove(self, key: ObjectKey, version: str) -> tuple[ObjectChange[T], ...]:
        """The object is gone as of this resourceVersion."""
        before = self._entries.pop(key, None)
        if before is None:
            return ()
        self._unfile(key, before)
        return (ObjectChange(key, before.uid, version, before.value, None),)

    def replace_all(self, entries: Mapping[ObjectKey, CacheEntry[T]], version: str) -> list[ObjectChange[T]]:
        """All objects of a complete list that was taken at `version`: what is not in it is gone."""
        changes: list[ObjectChange[T]] = []
        for key in [key for key in self._entries if key not in entries]:
            changes.extend(self.remove(key, version))
        for key, entry in entries.items():
            changes.extend(self.put(key, entry))
        return changes

    def _file(self, key: ObjectKey, entry: CacheEntry[T]) -> None:
        self._entries[key] = entry
        for index, word in entry.filed:
            self._found[index].setdefault(word, set()).add(key)

    def _unfile(self, key: ObjectKey, entry: CacheEntry[T]) -> None:
        for index, word in entry.filed:
            keys = self._found[index].get(word, set())
            keys.discard(key)
            if not keys:
                self._found[index].pop(word, None)  # it may be gone already: an index may say a word twice

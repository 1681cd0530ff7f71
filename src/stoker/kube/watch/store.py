"""The cache of the objects of one kind, in the form that its user needs.

`stoker.kube.watch.list_watch` writes the results of lists and watches; every write returns the `ObjectChange`
values that it made (none, one, or two), which the reflector delivers. Users read by key, all objects, or by
an index.

An object is stored as the result of `keep` for its bytes: the header, a typed struct, the bytes themselves, a
digest. Besides it only its uid and resourceVersion are stored, which distinguish a change from a repetition.
The bytes that `keep` receives are a copy of the object alone, so that keeping them does not keep a whole
response in memory.

An object that `keep` refuses is reported and not stored; its previous version stays, because an unreadable
version is not a deletion. No object is removed because of an incomplete list: `replace_all` takes a complete
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class ObjectKey(NamedTuple):
    """The key of an object within its kind; the namespace of a cluster-scoped object is empty.

    A tuple and not a dataclass, because every list creates, hashes and compares thousands of them.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ObjectChange(NamedTuple, Generic[T]):
    """One change of one object: `old` is None if it was added, `new` is None if it was deleted.

    A name that was deleted and created again without a watch gives two changes: the deletion of the old uid
    and the addition of the new one.
    """

    key: ObjectKey
    uid: str
    resource_version: str
    old: T | None
    new: T | None
    raw: bytes = b""
    """The object's bytes, if it is delivered as soon as it arrived; never part of the cache."""
    listed: bool = False
    """A list showed the change; no event did."""

    @property
    def added(self) -> bool:
        return self.old is None

    @property
    def deleted(self) -> bool:
        return self.new is None


class CacheEntry(NamedTuple, Generic[T]):
    """One cached object, and its index entries."""

    uid: str
    resource_version: str
    value: T
    filed: tuple[tuple[str, str], ...] = ()


RefusedObjectHandler = Callable[[ObjectKey, Exception], None]
"""Called with an object that could not be read, and the error."""

CacheIndex = Callable[[ObjectKey, T], Iterable[str]]
"""Returns the words under which an object is indexed besides its name, for example the values of a label."""


class ObjectCache(Generic[T]):
    """The objects of one kind by key."""

    __slots__ = ("_entries", "_found", "_indexes", "_keep", "_on_refused", "_wanted", "refused")

    def __init__(
        self,
        keep: Callable[[bytes], T],
        *,
        on_refused: RefusedObjectHandler | None = None,
        indexes: Mapping[str, CacheIndex[T]] | None = None,
        wanted: Callable[[ObjectKey], bool] | None = None,
    ) -> None:
        """An object whose key is not `wanted` is not decoded; the result for a key must never change."""
        self._keep = keep
        self._wanted = wanted
        self._on_refused = on_refused
        self._entries: dict[ObjectKey, CacheEntry[T]] = {}
        self._indexes = dict(indexes or {})
        self._found: dict[str, dict[str, set[ObjectKey]]] = {name: {} for name in self._indexes}
        self.refused = 0
        """How many times an object could not be read."""

    def get(self, key: ObjectKey) -> T | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def entry(self, key: ObjectKey) -> CacheEntry[T] | None:
        """Return the object with its uid and resourceVersion."""
        return self._entries.get(key)

    def keys(self) -> list[ObjectKey]:
        return list(self._entries)

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self.keys())

    def items(self) -> Iterator[tuple[ObjectKey, T]]:
        """Iterate over all current objects; later changes do not affect the iteration."""
        return ((key, entry.value) for key, entry in list(self._entries.items()))

    def find(self, index: str, word: str) -> frozenset[ObjectKey]:
        """Return the keys of all objects that the named index has under this word."""
        return frozenset(self._found[index].get(word, ()))

    def additions(self) -> list[ObjectChange[T]]:
        """Return all objects as additions, for a new listener."""
        return [
            ObjectChange(key, entry.uid, entry.resource_version, None, entry.value)
            for key, entry in self._entries.items()
        ]

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._entries

    # The following methods are for `stoker.kube.watch.list_watch` alone.

    def read(self, key: ObjectKey, uid: str, version: str, raw: bytes) -> CacheEntry[T] | None:
        """Return the entry for these bytes; None, with a report, if `keep` or an index refuses them."""
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

    def put(
        self, key: ObjectKey, entry: CacheEntry[T], raw: bytes = b"", *, listed: bool = False
    ) -> tuple[ObjectChange[T], ...]:
        """Store the current object; if the name has a new uid, the old object is removed first."""
        before = self._entries.get(key)
        if before is not None and before.uid != entry.uid:
            removed = self.remove(key, entry.resource_version, listed=listed)
            return removed + self.put(key, entry, raw, listed=listed)
        old = None
        if before is not None:
            if before.resource_version == entry.resource_version:
                return ()
            self._unfile(key, before)
            old = before.value
        self._file(key, entry)
        return (ObjectChange(key, entry.uid, entry.resource_version, old, entry.value, raw, listed),)

    def remove(self, key: ObjectKey, version: str, *, listed: bool = False) -> tuple[ObjectChange[T], ...]:
        """Remove an object that was deleted as of this resourceVersion."""
        before = self._entries.pop(key, None)
        if before is None:
            return ()
        self._unfile(key, before)
        return (ObjectChange(key, before.uid, version, before.value, None, listed=listed),)

    def replace_all(self, entries: Mapping[ObjectKey, CacheEntry[T]], version: str) -> list[ObjectChange[T]]:
        """Replace the content by a complete list taken at `version`: any other object is gone."""
        changes: list[ObjectChange[T]] = []
        for key in [key for key in self._entries if key not in entries]:
            changes.extend(self.remove(key, version, listed=True))
        for key, entry in entries.items():
            changes.extend(self.put(key, entry, listed=True))
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
                self._found[index].pop(word, None)  # it may be gone already: an index may return a word twice

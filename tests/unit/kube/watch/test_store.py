"""The store: what it keeps, what it reports as a change, and unreadable objects."""

from collections.abc import Iterable

import msgspec
import pytest

from stoker.kube.client.objects import ObjectHeader
from stoker.kube.watch.store import CacheEntry, ObjectCache, ObjectChange, ObjectKey

KEY = ObjectKey("shop", "prices")
OTHER = ObjectKey("shop", "stock")


def text(raw: bytes) -> str:
    return raw.decode()


def put(
    store: ObjectCache[str], key: ObjectKey, uid: str, version: str, raw: str
) -> tuple[ObjectChange[str], ...]:
    entry = store.read(key, uid, version, raw.encode())
    assert entry is not None
    return store.put(key, entry)


def test_a_key_reads_as_kubectl_writes_it() -> None:
    assert str(KEY) == "shop/prices"
    assert str(ObjectKey("", "node-1")) == "node-1"


def test_a_new_object_is_an_addition() -> None:
    store = ObjectCache(text)
    assert put(store, KEY, "u1", "5", "one") == (ObjectChange(KEY, "u1", "5", None, "one"),)
    assert store.get(KEY) == "one"
    assert store.entry(KEY) == CacheEntry("u1", "5", "one")
    assert KEY in store
    assert OTHER not in store


def test_a_new_version_is_an_update_that_knows_the_old_value() -> None:
    store = ObjectCache(text)
    put(store, KEY, "u1", "5", "one")
    (change,) = put(store, KEY, "u1", "6", "two")
    assert (change.old, change.new, change.resource_version) == ("one", "two", "6")
    assert (change.added, change.deleted) == (False, False)


def test_the_same_version_again_is_no_change() -> None:
    store = ObjectCache(text)
    put(store, KEY, "u1", "5", "one")
    assert put(store, KEY, "u1", "5", "one") == ()


def test_a_name_that_was_taken_again_is_an_end_and_a_beginning() -> None:
    store = ObjectCache(text)
    put(store, KEY, "u1", "5", "one")
    ended, began = put(store, KEY, "u2", "9", "two")
    assert (ended.uid, ended.old, ended.new, ended.deleted) == ("u1", "one", None, True)
    assert (began.uid, began.old, began.new, began.added) == ("u2", None, "two", True)


def test_removing_says_what_was_there_and_removing_nothing_says_nothing() -> None:
    store = ObjectCache(text)
    put(store, KEY, "u1", "5", "one")
    assert store.remove(KEY, "8") == (ObjectChange(KEY, "u1", "8", "one", None),)
    assert store.remove(KEY, "8") == ()
    assert len(store) == 0


def test_a_complete_list_replaces_everything_and_only_differences_are_changes() -> None:
    store = ObjectCache(text)
    for name, uid in [("same", "u1"), ("newer", "u2"), ("gone", "u3"), ("again", "u4")]:
        put(store, ObjectKey("shop", name), uid, "5", name)
    changes = store.replace_all(
        {
            ObjectKey("shop", "same"): CacheEntry("u1", "5", "same"),
            ObjectKey("shop", "newer"): CacheEntry("u2", "7", "newer!"),
            ObjectKey("shop", "again"): CacheEntry("u9", "8", "again!"),
            ObjectKey("shop", "fresh"): CacheEntry("u8", "9", "fresh"),
        },
        "10",
    )
    lines = [(change.key.name, change.uid, change.old, change.new) for change in changes]
    assert lines == [
        ("gone", "u3", "gone", None),
        ("newer", "u2", "newer", "newer!"),
        ("again", "u4", "again", None),
        ("again", "u9", None, "again!"),
        ("fresh", "u8", None, "fresh"),
    ]
    assert {key.name: value for key, value in store.items()} == {
        "same": "same",
        "newer": "newer!",
        "again": "again!",
        "fresh": "fresh",
    }


def test_an_object_that_cannot_be_read_is_reported_and_the_others_are_kept() -> None:
    refused: list[tuple[ObjectKey, str]] = []
    store: ObjectCache[ObjectHeader] = ObjectCache(
        msgspec.json.Decoder(ObjectHeader).decode,
        on_refused=lambda key, error: refused.append((key, type(error).__name__)),
    )
    assert store.read(KEY, "u1", "5", b'{"metadata": {"labels": {"app": 7}}}') is None
    assert store.read(OTHER, "u2", "6", b'{"metadata": {"name": "stock"}}') is not None
    assert refused == [(KEY, "ValidationError")]
    assert store.refused == 1


def test_a_refusal_needs_no_listener() -> None:
    store = ObjectCache(int)
    assert store.read(KEY, "u1", "5", b"not a number") is None
    assert store.refused == 1


def test_iterating_is_not_disturbed_by_changes() -> None:
    store = ObjectCache(text)
    put(store, KEY, "u1", "5", "one")
    put(store, OTHER, "u2", "6", "two")
    seen = []
    for key, value in store.items():
        store.remove(key, "9")
        seen.append(value)
    assert seen == ["one", "two"]
    assert store.keys() == []


def test_a_late_subscriber_gets_all_as_additions() -> None:
    store = ObjectCache(text)
    put(store, KEY, "u1", "5", "one")
    put(store, OTHER, "u2", "6", "two")
    assert store.additions() == [
        ObjectChange(KEY, "u1", "5", None, "one"),
        ObjectChange(OTHER, "u2", "6", None, "two"),
    ]


class TestIndexes:
    """Finding objects by words of the user's choosing."""

    @staticmethod
    def words(_: ObjectKey, value: str) -> Iterable[str]:
        return value.split()

    def store(self) -> ObjectCache[str]:
        return ObjectCache(text, indexes={"words": self.words})

    def test_objects_are_found_under_each_of_their_words(self) -> None:
        store = self.store()
        put(store, KEY, "u1", "1", "red green green")
        put(store, OTHER, "u2", "2", "green")
        assert store.find("words", "red") == {KEY}
        assert store.find("words", "green") == {KEY, OTHER}
        assert store.find("words", "blue") == frozenset()

    def test_a_changed_object_leaves_its_old_words(self) -> None:
        store = self.store()
        put(store, KEY, "u1", "1", "red green green")
        put(store, KEY, "u1", "2", "blue green")
        assert store.find("words", "red") == frozenset()
        assert store.find("words", "green") == {KEY}
        assert store.find("words", "blue") == {KEY}

    def test_a_removed_object_is_found_no_more(self) -> None:
        store = self.store()
        put(store, KEY, "u1", "1", "red red")
        store.remove(KEY, "2")
        assert store.find("words", "red") == frozenset()

    def test_an_unknown_index_is_a_mistake(self) -> None:
        with pytest.raises(KeyError):
            self.store().find("colours", "red")

    def test_an_index_that_raises_refuses_the_object(self) -> None:
        store: ObjectCache[str] = ObjectCache(text, indexes={"first": lambda _, value: [value.split()[0]]})
        assert store.read(KEY, "u1", "1", b"") is None
        assert store.refused == 1


def test_what_is_not_wanted_is_neither_decoded_nor_kept_nor_reported() -> None:
    refused: list[ObjectKey] = []
    read: list[bytes] = []

    def keep(raw: bytes) -> str:
        read.append(raw)
        return raw.decode()

    store = ObjectCache(
        keep, on_refused=lambda key, _: refused.append(key), wanted=lambda key: key.namespace == "shop"
    )
    assert store.read(ObjectKey("attic", "prices"), "u1", "5", b"\xff") is None
    assert store.read(KEY, "u1", "5", b"one") == CacheEntry("u1", "5", "one")
    assert (refused, store.refused, read) == ([], 0, [b"one"])

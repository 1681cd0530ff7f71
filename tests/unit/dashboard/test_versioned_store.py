"""Values that changed since a version."""

from __future__ import annotations

import asyncio

from stoker.dashboard.versioned_store import ChangedIds, ChangeLog


def test_only_changes_since_a_version_are_sent_in_their_order() -> None:
    values: ChangeLog[int] = ChangeLog()
    values.set("a", 1)
    values.set("b", 1)
    seen = values.version
    values.set("c", 1)
    values.set("a", 2)
    assert values.since(seen) == ChangedIds(("c", "a"), ())
    assert values.since(values.version) == ChangedIds((), ())
    assert dict(values) == {"a": 2, "b": 1, "c": 1}


def test_the_same_value_again_is_no_change() -> None:
    values: ChangeLog[int] = ChangeLog()
    assert values.set("a", 1)
    before = values.version
    assert not values.set("a", 1)
    assert not values.remove("b")
    assert values.version == before


def test_what_went_and_came_back_is_a_change_and_not_gone() -> None:
    values: ChangeLog[int] = ChangeLog()
    values.set("a", 1)
    seen = values.version
    values.remove("a")
    assert values.since(seen) == ChangedIds((), ("a",))
    values.set("a", 1)
    assert values.since(seen) == ChangedIds(("a",), ())


def test_a_client_that_is_too_far_behind_takes_everything() -> None:
    values: ChangeLog[int] = ChangeLog(most_gone=2)
    for name in "abc":
        values.set(name, 1)
    seen = values.version
    values.remove("a")
    values.remove("b")
    assert values.since(seen) == ChangedIds((), ("a", "b"))
    values.remove("c")
    assert values.since(seen) is None
    assert values.since(seen + 1) == ChangedIds((), ("b", "c"))


def test_a_client_that_has_to_restart_does_so_whatever_goes_meanwhile() -> None:
    values: ChangeLog[int] = ChangeLog(most_gone=1)
    for name in "abc":
        values.set(name, 1)
    values.remove("a")
    seen = values.version
    values.begin_anew()
    values.remove("b")
    assert values.since(seen) is None


def test_a_number_that_was_never_given_takes_everything() -> None:
    values: ChangeLog[int] = ChangeLog()
    assert values.since(0) is None
    assert values.since(values.version + 1) is None


async def test_a_waiter_is_woken_by_the_next_change_and_no_other() -> None:
    values: ChangeLog[int] = ChangeLog()
    waiting = [asyncio.create_task(values.changed(values.version)) for _ in range(3)]
    later = asyncio.create_task(values.changed(values.version + 1))
    await asyncio.sleep(0)
    values.set("a", 1)
    assert await asyncio.gather(*waiting) == [values.version] * 3
    assert not later.done()
    values.set("a", 2)
    assert await later == values.version


async def test_a_client_that_restarts_takes_the_whole() -> None:
    values: ChangeLog[int] = ChangeLog()
    values.set("a", 1)
    seen = values.version
    waiting = asyncio.create_task(values.changed(seen))
    await asyncio.sleep(0)
    values.begin_anew()
    assert await waiting > seen
    assert values.since(seen) is None
    assert values.since(values.version) == ChangedIds((), ())

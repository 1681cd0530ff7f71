"""Circles are found and named; diamonds are no circles."""

import pytest

from stoker.domain.cycles import find_cycle, refuse_cycle
from stoker.domain.errors import InvalidValue
from stoker.domain.reasons import Reason


def test_a_chain_is_no_circle() -> None:
    assert find_cycle("a", {"a": ["b"], "b": ["c"]}) == ()


def test_a_diamond_is_no_circle() -> None:
    assert find_cycle("top", {"top": ["left", "right"], "left": ["end"], "right": ["end"]}) == ()


def test_the_same_dependency_twice_is_no_circle() -> None:
    assert find_cycle("a", {"a": ["b", "b"]}) == ()


def test_a_missing_name_is_no_circle() -> None:
    assert find_cycle("a", {"a": ["gone"]}) == ()
    assert find_cycle("gone", {}) == ()


def test_something_may_not_wait_for_itself() -> None:
    assert find_cycle("a", {"a": ["a"]}) == ("a", "a")


def test_a_circle_is_named_in_its_order() -> None:
    assert find_cycle("a", {"a": ["b"], "b": ["c"], "c": ["a"]}) == ("a", "b", "c", "a")


def test_a_circle_further_on_is_found_and_named_without_the_way_to_it() -> None:
    waits = {"start": ["x"], "x": ["ok", "y"], "y": ["z"], "z": ["y"], "ok": []}
    assert find_cycle("start", waits) == ("y", "z", "y")


def test_a_cycle_that_cannot_be_reached_is_not_reported() -> None:
    assert find_cycle("a", {"a": [], "b": ["c"], "c": ["b"]}) == ()


def test_a_long_chain_does_not_overflow() -> None:
    waits = {str(n): [str(n + 1)] for n in range(20_000)}
    assert find_cycle("0", waits) == ()
    waits["20000"] = ["0"]
    assert len(find_cycle("0", waits)) == 20_002


def test_the_refusal_names_the_whole_cycle() -> None:
    with pytest.raises(InvalidValue) as refusal:
        refuse_cycle("a", {"a": ["b"], "b": ["a"]}, what="SyncProfile")
    assert refusal.value.reason is Reason.DEPENDENCY_CYCLE
    assert refusal.value.message == "SyncProfile 'a' can never begin: a waits for b waits for a"

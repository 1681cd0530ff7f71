"""Which replica is to hold which branch."""

from __future__ import annotations

from collections import Counter

from stoker.reverser.writer.replica_assignment import chosen

BRANCHES = [f"gitops-reverser-{n:016x}" for n in range(300)]


def test_all_replicas_come_to_the_same_choice_whatever_the_order() -> None:
    assert [chosen(["a", "b", "c"], each) for each in BRANCHES] == [
        chosen(["c", "a", "b"], each) for each in BRANCHES
    ]


def test_every_replica_gets_its_share() -> None:
    shares = Counter(chosen(["a", "b", "c"], each) for each in BRANCHES)
    assert min(shares.values()) > 60


def test_a_replica_that_comes_or_goes_moves_only_its_share() -> None:
    before = {each: chosen(["a", "b", "c"], each) for each in BRANCHES}
    after = {each: chosen(["a", "b"], each) for each in BRANCHES}
    assert all(after[each] == before[each] for each in BRANCHES if before[each] != "c")


def test_without_replicas_nobody_is_chosen() -> None:
    assert chosen([], "x") is None

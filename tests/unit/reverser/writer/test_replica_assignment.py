"""The assignment of branches to replicas."""

from __future__ import annotations

from collections import Counter

from stoker.reverser.writer.replica_assignment import assigned_replica

BRANCHES = [f"gitops-reverser-{n:016x}" for n in range(300)]


def test_all_replicas_come_to_the_same_choice_whatever_the_order() -> None:
    assert [assigned_replica(["a", "b", "c"], each) for each in BRANCHES] == [
        assigned_replica(["c", "a", "b"], each) for each in BRANCHES
    ]


def test_every_replica_gets_its_share() -> None:
    shares = Counter(assigned_replica(["a", "b", "c"], each) for each in BRANCHES)
    assert min(shares.values()) > 60


def test_a_replica_that_comes_or_goes_moves_only_its_share() -> None:
    before = {each: assigned_replica(["a", "b", "c"], each) for each in BRANCHES}
    after = {each: assigned_replica(["a", "b"], each) for each in BRANCHES}
    assert all(after[each] == before[each] for each in BRANCHES if before[each] != "c")


def test_without_replicas_none_is_chosen() -> None:
    assert assigned_replica([], "x") is None

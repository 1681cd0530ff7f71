"""Batches: when changes become commits, which ones, and what happens without room or connection."""

from __future__ import annotations

import pytest

from stoker.reverser.authors.attribution import ObservedEvent
from stoker.reverser.authors.facts import RequestUser
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import ChangeOperation
from stoker.reverser.writer.batch import (
    BatchLimits,
    ChangeBatcher,
    PendingFileChange,
    PlannedCommit,
    PushCadence,
    QueueCapacity,
    plan_commits,
)

ALICE, BOB = RequestUser("alice"), RequestUser("bob")


def change(
    name: str,
    author: RequestUser | None = None,
    content: bytes | None = b"x",
    *,
    at: float = 0.0,
    operation: ChangeOperation | None = None,
    observed: ObservedEvent | None = None,
) -> PendingFileChange:
    done = operation or (ChangeOperation.UPDATE if content is not None else ChangeOperation.DELETE)
    key = ManifestKey("", "v1", "configmaps", "shop", name)
    return PendingFileChange(key, f"{name}.yaml", content, done, at, author, observed)


def by_author(
    commits: tuple[PlannedCommit, ...] | list[PlannedCommit],
) -> list[tuple[str | None, dict[str, bytes | None]]]:
    return [
        (commit.author and commit.author.name, {each.path[:-5]: each.content for each in commit.changes})
        for commit in commits
    ]


def test_consecutive_changes_of_one_author_are_one_commit() -> None:
    changes = [change("a", ALICE), change("b", ALICE), change("c", BOB), change("d", BOB)]
    assert by_author(plan_commits(changes, BatchLimits())) == [
        ("alice", {"a": b"x", "b": b"x"}),
        ("bob", {"c": b"x", "d": b"x"}),
    ]


def test_three_hands_on_one_object_are_three_commits_in_order() -> None:
    changes = [change("a", ALICE, b"1"), change("a", BOB, b"2"), change("a", ALICE, b"3")]
    assert by_author(plan_commits(changes, BatchLimits())) == [
        ("alice", {"a": b"1"}),
        ("bob", {"a": b"2"}),
        ("alice", {"a": b"3"}),
    ]


def test_an_unknown_author_is_no_other_author() -> None:
    changes = [change("a", ALICE, b"1"), change("a", None, b"2"), change("a", ALICE, b"3")]
    assert [author for author, _ in by_author(plan_commits(changes, BatchLimits()))] == [
        "alice",
        None,
        "alice",
    ]


@pytest.mark.parametrize(
    ("operations", "outcome"),
    [
        (["CREATE", "UPDATE"], "CREATE"),
        (["UPDATE", "UPDATE"], "UPDATE"),
        (["UPDATE", "DELETE"], "DELETE"),
        (["DELETE", "CREATE"], "UPDATE"),
        (["CREATE", "DELETE"], "DELETE"),
    ],
)
def test_the_last_state_of_an_object_counts_within_a_commit(operations: list[str], outcome: str) -> None:
    changes = [
        change(
            "a", ALICE, None if each == "DELETE" else str(n).encode(), at=n, operation=ChangeOperation(each)
        )
        for n, each in enumerate(operations)
    ]
    (commit,) = plan_commits(changes, BatchLimits())
    (only,) = commit.changes
    assert (only.operation, only.content, only.at) == (outcome, changes[-1].content, 0)


def test_a_commit_holds_no_more_files_and_bytes_than_it_may() -> None:
    files = plan_commits([change(f"n{n}") for n in range(7)], BatchLimits(max_files=3))
    assert [len(commit.changes) for commit in files] == [3, 3, 1]
    size = plan_commits([change(f"n{n}", content=b"x" * 40) for n in range(5)], BatchLimits(max_bytes=100))
    assert [len(commit.changes) for commit in size] == [2, 2, 1]
    large = plan_commits(
        [change("a"), change("b", content=b"x" * 500), change("c")], BatchLimits(max_bytes=100)
    )
    assert [[each.path for each in commit.changes] for commit in large] == [
        ["a.yaml"],
        ["b.yaml"],
        ["c.yaml"],
    ]
    same = plan_commits([change("a", content=b"x" * 60) for _ in range(50)], BatchLimits(max_bytes=100))
    assert len(same) == 1


def test_what_waits_is_due_after_the_first_change_has_waited_long_enough() -> None:
    batcher = ChangeBatcher()
    assert batcher.due_at() is None
    for n in range(100):
        batcher.add(change("a", content=str(n).encode(), at=100.0 + n))
        assert batcher.due_at() == 120.0  # a drip does not put it off
    batcher.settle(batcher.take())
    assert batcher.due_at() is None


def test_enough_files_or_bytes_are_due_at_once_and_so_is_everything_with_no_wait() -> None:
    batcher = ChangeBatcher(BatchLimits(max_files=3))
    batcher.add(change("a", at=5.0))
    batcher.add(change("a", at=6.0))
    batcher.add(change("b", at=7.0))
    assert batcher.due_at() == 25.0
    batcher.add(change("c", at=8.0))
    assert batcher.due_at() == 5.0
    heavy = ChangeBatcher(BatchLimits(max_bytes=10))
    heavy.add(change("a", content=b"x" * 10, at=5.0))
    assert heavy.due_at() == 5.0
    eager = ChangeBatcher(BatchLimits(max_wait=0.0))
    eager.add(change("a", at=5.0))
    assert eager.due_at() == 5.0


def test_a_full_queue_takes_nothing_more_and_loses_nothing() -> None:
    batcher = ChangeBatcher(BatchLimits(max_wait=1000.0), QueueCapacity(changes=3, size=1000))
    assert [batcher.add(change(f"n{n}", at=float(n))) for n in range(5)] == [True, True, True, False, False]
    assert batcher.is_full
    assert batcher.due_at() == 0.0  # or it would wait for ever
    taken = batcher.take()
    assert not batcher.add(change("n3"))  # on its way is not done
    assert len(batcher) == 3
    batcher.settle(taken)
    assert batcher.add(change("n3"))
    assert len(batcher) == 1


def test_a_change_larger_than_the_queue_goes_through_an_empty_one() -> None:
    batcher = ChangeBatcher(capacity=QueueCapacity(changes=10, size=100))
    assert batcher.add(change("big", content=b"x" * 1_500_000))
    assert not batcher.add(change("small"))
    batcher.settle(batcher.take())
    assert not batcher.is_full


def test_the_author_is_looked_up_when_changes_are_taken() -> None:
    seen = ObservedEvent(GroupResource("", "configmaps"), "u", "1", ChangeOperation.UPDATE, "blob")
    batcher = ChangeBatcher()
    batcher.add(change("a", observed=seen))
    batcher.add(change("b", BOB, observed=seen))
    batcher.add(change("c"))
    asked: list[ObservedEvent] = []

    def author_of(observed: ObservedEvent) -> RequestUser | None:
        asked.append(observed)
        return ALICE

    taken = batcher.take(author_of)
    assert by_author(taken) == [("alice", {"a": b"x"}), ("bob", {"b": b"x"}), (None, {"c": b"x"})]
    assert len(asked) == 1


def test_commits_are_pushed_at_once_or_as_the_repository_wants() -> None:
    assert PushCadence().due_at(5.0, 1) == 5.0
    assert PushCadence(interval=10.0).due_at(5.0, 1) == 15.0
    assert PushCadence(interval=10.0, max_commits=3).due_at(5.0, 2) == 15.0
    assert PushCadence(interval=10.0, max_commits=3).due_at(5.0, 3) == 5.0


def test_a_change_waits_a_moment_for_the_fact_of_another_replica_and_nothing_overtakes_it() -> None:
    first = ObservedEvent(GroupResource("", "configmaps"), "u", "1", ChangeOperation.UPDATE, "blob")
    second = first._replace(uid="v")
    batcher = ChangeBatcher(BatchLimits(max_wait=0.0))
    batcher.add(change("listed", at=1.0))
    batcher.add(change("a", observed=first, at=1.0))
    batcher.add(change("b", observed=second, at=1.02))
    known = {second: BOB}
    taken = batcher.take(known.get, now=1.03, patience=0.05)
    assert by_author(taken) == [(None, {"listed": b"x"})]
    assert batcher.due_at() == pytest.approx(1.04)  # it is asked about again soon
    known[first] = ALICE
    assert by_author(batcher.take(known.get, now=1.04, patience=0.05)) == [
        ("alice", {"a": b"x"}),
        ("bob", {"b": b"x"}),
    ]
    assert batcher.due_at() is None
    batcher.add(change("c", observed=first._replace(uid="w"), at=2.0))
    assert batcher.take(known.get, now=2.01, patience=0.05) == ()
    assert by_author(batcher.take(known.get, now=2.05, patience=0.05)) == [(None, {"c": b"x"})]
    assert len(batcher) == 4


def test_what_is_not_settled_has_an_age_until_it_is() -> None:
    batcher = ChangeBatcher()
    assert batcher.unsettled_since() is None
    batcher.add(change("a", ALICE, at=5.0))
    batcher.add(change("b", ALICE, at=6.0))
    first = batcher.take()
    batcher.add(change("c", ALICE, at=9.0))
    assert batcher.unsettled_since() == 5.0, "on its way is not there"
    batcher.settle(first)
    assert batcher.unsettled_since() == 9.0
    batcher.settle(batcher.take())
    assert batcher.unsettled_since() is None
    batcher.add(change("d", ALICE, at=12.0))
    assert batcher.unsettled_since() == 12.0

"""Laws of batching: nothing is lost, nothing changes its order, nothing waits for ever or grows for ever."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.reverser.authors.facts import RequestUser
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.rules import ChangeOperation
from stoker.reverser.writer.batch import (
    BatchLimits,
    ChangeBatcher,
    PendingFileChange,
    PlannedCommit,
    QueueCapacity,
    plan_commits,
)

USERS = (None, RequestUser("alice"), RequestUser("bob"))


def changes_of(rng: random.Random, count: int) -> list[PendingFileChange]:
    """Each has a content of its own, so that it can be distinguished."""
    made = []
    for number in range(count):
        name = rng.choice("abcd")
        content = None if rng.random() < 0.2 else b"%d" % number + b"x" * rng.choice((0, 5, 60))
        operation = ChangeOperation.DELETE if content is None else ChangeOperation.UPDATE
        key = ManifestKey("", "v1", "configmaps", "shop", name)
        made.append(PendingFileChange(key, name, content, operation, float(number), rng.choice(USERS)))
    return made


def runs(changes: list[PendingFileChange]) -> list[tuple[RequestUser | None, dict[str, bytes | None]]]:
    """What history has to say, in the plainest way: one entry for each run of an author."""
    fields: list[tuple[RequestUser | None, dict[str, bytes | None]]] = []
    for change in changes:
        if not fields or fields[-1][0] != change.author:
            fields.append((change.author, {}))
        fields[-1][1][change.path] = change.content
    return fields


def replayed(commits: list[PlannedCommit]) -> dict[str, bytes | None]:
    tree: dict[str, bytes | None] = {}
    for commit in commits:
        tree.update({change.path: change.content for change in commit.changes})
    return tree


@given(st.integers(0, 1 << 32), st.integers(1, 4), st.sampled_from([1, 10, 100, 10_000]))
def test_commits_name_every_author_in_order_and_end_in_the_last_state(
    seed: int, files: int, size: int
) -> None:
    changes = changes_of(random.Random(seed), 30)  # noqa: S311
    limits = BatchLimits(max_files=files, max_bytes=size)
    commits = plan_commits(changes, limits)
    assert replayed(commits) == {change.path: change.content for change in changes}
    for commit in commits:
        assert 0 < len({change.path for change in commit.changes}) == len(commit.changes) <= files
        assert len(commit.changes) == 1 or sum(change.size for change in commit.changes) <= size
    if files == 4 and size == 10_000:
        expected = runs(changes)
        assert [(each.author, {c.path: c.content for c in each.changes}) for each in commits] == expected
    for path in "abcd":  # of each object the hands that were on it, as they followed each other
        hands = [change.author for change in changes if change.path == path]
        seen = [commit.author for commit in commits for change in commit.changes if change.path == path]
        assert deduplicated(seen) == deduplicated(hands)


def deduplicated(authors: list[RequestUser | None]) -> list[RequestUser | None]:
    return [each for n, each in enumerate(authors) if n == 0 or authors[n - 1] != each]


@given(st.integers(0, 1 << 32))
@settings(max_examples=200)
def test_a_queue_under_pressure_with_failing_pushes_loses_nothing_and_stays_bounded(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    capacity = QueueCapacity(changes=8, size=200)
    batcher = ChangeBatcher(BatchLimits(max_files=3, max_bytes=100, max_wait=4.0), capacity)
    outside = changes_of(rng, 60)
    made: list[PlannedCommit] = []
    pushed: list[PlannedCommit] = []
    now = 0.0
    while outside or len(batcher):
        now += 1.0
        while outside and outside[0].at <= now and batcher.add(outside[0]):
            outside.pop(0)
        assert len(batcher) <= capacity.changes
        due = batcher.due_at()
        if due is not None and due <= now:
            made += batcher.take()
        if made and rng.random() >= 0.4:  # after a failed push the same commits are pushed again
            batcher.settle(made)
            pushed += made
            made = []
    changes = changes_of(random.Random(seed), 60)  # noqa: S311
    assert replayed(pushed) == {change.path: change.content for change in changes}
    for path in "abcd":
        hands = [change.author for change in changes if change.path == path]
        seen = [commit.author for commit in pushed for change in commit.changes if change.path == path]
        assert deduplicated(seen) == deduplicated(hands)


@given(st.lists(st.floats(0.01, 3.0), min_size=1, max_size=60), st.floats(0.0, 20.0))
def test_no_change_waits_longer_than_it_may_however_steady_the_drip(pauses: list[float], wait: float) -> None:
    batcher = ChangeBatcher(BatchLimits(max_wait=wait))
    now = 0.0
    key = ManifestKey("", "v1", "configmaps", "shop", "a")
    for number, pause in enumerate(pauses):
        now += pause
        due = batcher.due_at()
        while due is not None and due <= now:
            taken = batcher.take()
            assert all(due - change.at <= wait + 1e-9 for commit in taken for change in commit.changes)
            batcher.settle(taken)
            due = batcher.due_at()
        batcher.add(PendingFileChange(key, "a", b"%d" % number, ChangeOperation.UPDATE, now))
    due = batcher.due_at()
    assert due is not None
    assert due <= now + wait

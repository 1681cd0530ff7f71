"""Commits in a status, and what stays there when another replica goes on."""

from __future__ import annotations

from datetime import UTC, datetime

from stoker.api.kinds.destinations import WrittenCommit
from stoker.domain.refs import CommitId
from stoker.reverser.status.status_writer import (
    WAITS,
    DesiredStatus,
    PendingChanges,
    pending_status,
    recent_commits,
)
from stoker.reverser.writer.outbox import DeliveredCommit
from stoker_testkit.manual_clock import ManualClock

AT = datetime(2026, 5, 1, 8, tzinfo=UTC)


def commit(number: int) -> CommitId:
    return CommitId(f"{number:040x}")


def test_earlier_commits_stay_behind_new_ones() -> None:
    before = [WrittenCommit(commit=str(commit(number)), subject="old") for number in (3, 2, 1)]
    new = [DeliveredCommit(commit(number), None, "new", AT, 1.94) for number in (4, 3)]
    commits = recent_commits(new, before)
    assert [one.commit for one in commits] == [str(commit(number)) for number in (4, 3, 2, 1)]
    assert [one.subject for one in commits] == ["new", "new", "old", "old"]
    assert (commits[0].author, commits[0].time, commits[0].waited) == (None, "2026-05-01T08:00:00Z", "1.9s")
    assert recent_commits(new, commits) == commits, "nothing new is nothing to write"


def test_ten_are_enough_and_each_is_short() -> None:
    new = [DeliveredCommit(commit(number), "a" * 1000, "s" * 1000, AT, 0.0) for number in range(10)]
    commits = recent_commits(new, [WrittenCommit(commit=str(commit(99)))])
    assert len(commits) == 10
    assert (len(commits[0].author or ""), len(commits[0].subject or "")) == (253, 256)


async def test_a_wait_is_reported_after_a_while_and_its_time_stays() -> None:
    clock = ManualClock(AT)
    result = DesiredStatus([], pending=3, pending_at=clock.monotonic())
    assert pending_status(result, None, clock) == PendingChanges(), "most changes are in git in a moment"
    await clock.advance(WAITS)
    value = pending_status(result, None, clock)
    assert value == PendingChanges(3, "2026-05-01T08:00:00Z")
    await clock.advance(60.4)
    clock.jump(0.7)
    assert pending_status(result._replace(pending=4), value.since, clock) == PendingChanges(4, value.since)
    assert pending_status(result._replace(pending=0, pending_at=None), value.since, clock) == PendingChanges()
    newer = result._replace(pending_at=clock.monotonic() - 30)
    assert pending_status(newer, value.since, clock).since == "2026-05-01T08:00:33Z"

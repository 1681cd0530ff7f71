"""The deletion brake keeps its state when an outbox begins anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from stoker.domain.deletion_guard import DeletionLimits
from stoker.domain.refs import RepoUrl
from stoker.git.process.runner import GitRunner
from stoker.kube.client.client import KubeClient
from stoker.reverser.destinations import BranchKey, RepoConfigRef, WritableDestination
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.metrics import ReverserMetrics
from stoker.reverser.selection.rules import DestinationRef
from stoker.reverser.watch.watch_set import WatchSet
from stoker.reverser.writer.branch_writer import BranchWriter
from stoker.reverser.writer.commit_message import CommitOrigin
from stoker.reverser.writer.context import WriterContext
from stoker.reverser.writer.deletion_brake import WINDOW
from stoker.reverser.writer.outbox import DestinationOutbox
from stoker.reverser.writer.push import CommitPusher
from stoker.telemetry.metrics import Metrics
from stoker_testkit.manual_clock import ManualClock

PLACE = BranchKey("git.example.com/a", "main")
BUDGET = 3
TO = WritableDestination(
    DestinationRef("s", "d"),
    "uid",
    RepoConfigRef("s", "r"),
    RepoUrl("https://git.example.com/a"),
    PLACE,
    "base",
    budget=DeletionLimits(files=BUDGET, percent=100),
)


def process() -> WriterContext:
    """What the writers of one process share."""
    return WriterContext(
        cast("KubeClient", None),
        cast("GitRunner", None),
        Path(),
        "system",
        CommitOrigin("uid", "system", "gitops-reverser", "pod-0"),
        lambda _, __: None,
        lambda _: None,
        cast("WatchSet", None),
        ReverserMetrics(Metrics("test")),
        lambda: None,
    )


class Term:
    """One writer with one open outbox: from getting the Lease, or another login, to losing it."""

    def __init__(self, tools: WriterContext, clock: ManualClock, to: WritableDestination = TO) -> None:
        writer = BranchWriter(PLACE, to.config, tools, stir=lambda: None, clock=clock)
        writer.arrange({to.ref: to})
        self.box: DestinationOutbox = writer.outboxes[to.ref]
        self.box.open({self.box.path_of(key(number)): "0" * 40 for number in range(100)}, 40)
        self._delivery = CommitPusher(PLACE, tools, clock)

    def delete(self, *numbers: int) -> int:
        """How many of these deletions become commits."""
        before = len(self._delivery.paths)
        for number in numbers:
            self.box.drop(key(number), self.box.path_of(key(number)), None)
        self.box.hurry()
        self._delivery.take(self.box)
        return len(self._delivery.paths) - before


def key(number: int) -> ManifestKey:
    return ManifestKey("", "v1", "configmaps", "shop", f"m{number}")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_what_was_deleted_counts_after_the_outbox_begins_anew(clock: ManualClock) -> None:
    tools = process()
    assert Term(tools, clock).delete(0, 1, 2) == BUDGET
    later = Term(tools, clock)
    assert later.delete(3) == 0
    assert later.box.brake.plan is not None
    assert "3 deleted a moment ago" in later.box.brake.plan.why


async def test_after_the_window_the_budget_is_whole_again(clock: ManualClock) -> None:
    tools = process()
    Term(tools, clock).delete(0, 1, 2)
    await clock.advance(WINDOW)
    assert Term(tools, clock).delete(3, 4, 5) == BUDGET


def test_a_deletion_that_was_never_pushed_counts_once(clock: ManualClock) -> None:
    tools = process()
    Term(tools, clock).delete(0, 1, 2)
    assert Term(tools, clock).delete(0, 1, 2) == BUDGET


def test_what_was_held_is_held_after_the_outbox_begins_anew_however_small_it_became(
    clock: ManualClock,
) -> None:
    tools = process()
    assert Term(tools, clock).delete(0, 1, 2, 3) == 0
    assert Term(tools, clock).delete(0) == 0


def test_a_replica_that_takes_over_adds_at_most_one_budget(clock: ManualClock) -> None:
    first, second = process(), process()
    assert Term(first, clock).delete(0, 1, 2) == BUDGET
    after = Term(second, clock)
    assert [after.delete(number) for number in range(3, 8)] == [1, 1, 1, 0, 0]
    # The Lease goes back and forth: what each of them has deleted still counts.
    assert Term(first, clock).delete(8) == 0
    assert Term(second, clock).delete(9) == 0


def test_what_was_deleted_counts_although_another_folder_was_opened_meanwhile(clock: ManualClock) -> None:
    tools = process()
    first = Term(tools, clock)
    Term(tools, clock, replace(TO, ref=DestinationRef("s", "other"), base="other"))
    assert first.delete(0, 1, 2) == BUDGET
    assert Term(tools, clock).delete(3) == 0


def test_what_was_held_stays_held_when_the_first_that_is_found_again_is_wanted_again(
    clock: ManualClock,
) -> None:
    tools = process()
    assert Term(tools, clock).delete(0, 1, 2, 3) == 0
    after = Term(tools, clock)
    assert after.delete(0) == 0
    after.box.brake.returned(after.box.path_of(key(0)))
    assert after.delete(1) == 0, "the other lists came later"
    after.box.brake.returned(after.box.path_of(key(1)))
    after.box.brake.all_listed(0)
    assert after.delete(4) == 1, "all lists are in, and nothing of it is held"

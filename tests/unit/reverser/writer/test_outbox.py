"""The outbox of a destination: compared by blob id, bounded, and never lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from stoker.domain.git_objects import blob_of
from stoker.domain.refs import CommitId, RepoUrl
from stoker.kube.client.resources import ApiResource
from stoker.reverser.authors.attribution import ObservedEvent
from stoker.reverser.destinations import BranchKey, RepoConfigRef, WritableDestination
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import ChangeOperation, DestinationRef
from stoker.reverser.selection.selection import WatchedKind
from stoker.reverser.writer.batch import PlannedCommit, QueueCapacity
from stoker.reverser.writer.outbox import DeliveredCommit, DestinationOutbox
from stoker.reverser.writer.ownership_marker import FolderOwnership, OwnershipMarker
from stoker_testkit.manual_clock import ManualClock

WATCHED = WatchedKind(ApiResource("", "v1", "configmaps", "ConfigMap", namespaced=True))
STEP = ObservedEvent(GroupResource("", "configmaps"), "u", "1", ChangeOperation.UPDATE, "b")


def key(name: str) -> ManifestKey:
    return ManifestKey("", "v1", "configmaps", "shop", name)


class Box(DestinationOutbox):
    """An outbox for tests, with a shorter way to put something in."""

    def write(self, name: str, content: bytes, seen: ObservedEvent | None = None) -> None:
        self.put(key(name), self.path_of(key(name)), content, blob_of(content), WATCHED, seen)

    def erase(self, name: str) -> None:
        self.drop(key(name), self.path_of(key(name)), None)

    def taken(self) -> list[tuple[str, str]]:
        plans = self.take_all()
        return [(change.operation, change.key.name) for plan in plans for change in plan.changes]

    def take_all(self) -> tuple[PlannedCommit, ...]:
        return self.batcher.take()


@pytest.fixture
def box() -> Box:
    return made(QueueCapacity())


def made(capacity: QueueCapacity) -> Box:
    place = BranchKey("git.example.com/a", "main")
    to = WritableDestination(
        DestinationRef("s", "d"),
        "uid",
        RepoConfigRef("s", "r"),
        RepoUrl("https://git.example.com/a"),
        place,
        "base",
    )
    box = Box(to, ManualClock(), wake=lambda: None, capacity=capacity)
    box.open({}, 40)
    return box


def test_what_is_in_git_already_is_not_written(box: Box) -> None:
    box.open({box.path_of(key("a")): blob_of(b"same")}, 40)
    box.write("a", b"same")
    assert box.taken() == []
    assert not box.unclaimed


def test_a_file_is_created_and_then_updated(box: Box) -> None:
    box.write("a", b"1")
    box.write("b", b"1")
    assert box.taken() == [("CREATE", "a"), ("CREATE", "b")]
    box.write("a", b"2")
    assert box.taken() == [("UPDATE", "a")]


def test_what_is_on_its_way_counts_as_written(box: Box) -> None:
    box.write("a", b"1")
    box.write("a", b"1")
    assert len(box.batcher) == 1


def test_the_state_before_is_recorded_for_the_author_of_a_scale(box: Box) -> None:
    box.write("a", b"1")
    box.take_all()
    box.write("a", b"2", STEP)
    (plan,) = box.take_all()
    observed = plan.changes[0].observed
    assert observed is not None
    assert (observed.before_blob, observed.content) == (blob_of(b"1"), b"2")


def test_whose_a_change_is_stays_open_while_something_before_it_may_be_missing(box: Box) -> None:
    def is_told(name: str, content: bytes, seen: ObservedEvent) -> bool:
        box.write(name, content, seen)
        ((change,),) = (plan.changes for plan in box.take_all())
        return change.observed is not None

    box.open({box.path_of(key("a")): blob_of(b"two changes ago")}, 40)
    box.behind.add(WATCHED)
    assert not is_told("a", b"now", STEP)
    assert is_told("b", b"all of it is new", STEP._replace(operation=ChangeOperation.CREATE))
    box.behind.clear()
    box.skipped.add(box.path_of(key("a")))
    assert not is_told("a", b"later", STEP)
    assert is_told("a", b"still later", STEP)


def test_only_files_that_are_there_are_deleted(box: Box) -> None:
    box.erase("never")
    assert box.taken() == []
    box.write("a", b"1")
    box.take_all()
    box.erase("a")
    assert box.taken() == [("DELETE", "a")]


def test_without_room_the_list_is_remembered_and_nothing_else() -> None:
    box = made(QueueCapacity(changes=2))
    for name in ("a", "b", "c"):
        box.write(name, b"1")
    assert len(box.batcher) == 2
    assert box.missed == {WATCHED}
    assert box.known(box.path_of(key("c"))) is None, "so that it is written when it comes again"


def test_a_deletion_without_room_stays_pending_and_follows() -> None:
    box = made(QueueCapacity(changes=1))
    box.open({box.path_of(key("a")): blob_of(b"1")}, 40)
    box.write("b", b"1")
    box.erase("a")
    plans = box.take_all()
    box.freed()
    assert box.taken() == []
    box.batcher.settle(plans)
    box.freed()
    assert box.taken() == [("DELETE", "a")]


def test_a_pending_deletion_is_dropped_when_the_object_is_back() -> None:
    box = made(QueueCapacity(changes=1))
    box.open({box.path_of(key("a")): blob_of(b"1")}, 40)
    box.write("b", b"1")
    box.erase("a")
    plans = box.take_all()
    box.batcher.settle(plans)
    box.write("a", b"2")
    box.freed()
    assert box.taken() == [("CREATE", "a")]


async def test_a_writer_waits_for_room_while_pushes_succeed() -> None:
    box = made(QueueCapacity(changes=1))
    box.write("a", b"1")
    assert box.holds_up
    waiting = asyncio.create_task(box.wait_for_room())
    await asyncio.sleep(0)
    assert not waiting.done()
    box.batcher.settle(box.take_all())
    box.freed()
    await asyncio.wait_for(waiting, 1)


async def test_no_destination_waits_for_one_that_fails() -> None:
    box = made(QueueCapacity(changes=1))
    box.write("a", b"1")
    waiting = asyncio.create_task(box.wait_for_room())
    await asyncio.sleep(0)
    box.failing = True
    box.freed()
    await asyncio.wait_for(waiting, 1)
    # It recovers while it is still full: then there is something to wait for again.
    box.failing = False
    again = asyncio.create_task(box.wait_for_room())
    await asyncio.sleep(0)
    assert not again.done()
    box.release()
    await asyncio.wait_for(again, 1)


def test_an_object_that_was_refused_stays_reported_until_it_is_written(box: Box) -> None:
    path = box.path_of(key("a"))
    box.write("a", b"1")
    box.batcher.settle(box.take_all())
    box.settled([path], {path: "is a folder"})
    assert box.unwritten == {path: "is a folder"}
    box.write("a", b"1")  # once more: it is tried again, and reported as long as it fails
    assert box.unwritten
    box.batcher.settle(box.take_all())
    box.settled([path], {})
    assert not box.unwritten


def test_what_others_changed_is_noticed_but_not_what_is_on_its_way(box: Box) -> None:
    for name in ("ours", "waits"):
        box.write(name, b"1")
    box.take_all()
    ours, waits = (box.path_of(key(name)) for name in ("ours", "waits"))
    there = {ours: blob_of(b"1"), waits: blob_of(b"0"), "base/README.md": blob_of(b"")}
    assert not box.compare(there, [waits])
    assert box.compare({**there, ours: blob_of(b"theirs")}, [waits])
    box.write("ours", b"1")
    assert box.taken() == [("UPDATE", "ours")]


def test_a_file_that_others_added_where_ours_could_be_is_to_be_swept(box: Box) -> None:
    strange = box.path_of(key("strange"))
    assert box.compare({strange: blob_of(b"x")}, ())
    assert box.unclaimed == {strange}


def test_a_path_in_a_loop_is_held(box: Box) -> None:
    for content in (b"A", b"B", b"A", b"B", b"A"):
        box.write("a", content)
    box.write("other", b"1")
    assert box.loops.held == (box.path_of(key("a")),)
    assert [name for _, name in box.taken()].count("other") == 1
    assert box.known(box.path_of(key("a"))) == blob_of(b"B"), "what is there stays"


def test_the_last_commits_that_arrived_are_remembered_the_newest_first(box: Box) -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    commits = [
        DeliveredCommit(CommitId(f"{number:040x}"), "ann", f"change {number}", at, 1.0)
        for number in range(12)
    ]
    box.arrived(commits[0].commit, at, commits[:1])
    box.arrived(commits[-1].commit, at, commits[1:])
    assert [one.subject for one in box.recent] == [f"change {number}" for number in range(11, 1, -1)]
    box.arrived(None, at)
    assert len(box.recent) == 10


def _filled(count: int) -> Box:
    box = made(QueueCapacity())
    box.open({box.path_of(key(f"m{n}")): blob_of(b"%d" % n) for n in range(count)}, 40)
    return box


def test_deletions_beyond_the_budget_are_held_and_writes_go_on() -> None:
    box = _filled(60)
    for n in range(51):
        box.drop(key(f"m{n}"), box.path_of(key(f"m{n}")), STEP)
    box.write("fresh", b"1")
    box.check_deletions()
    assert box.taken() == [("CREATE", "fresh")]
    assert box.brake.plan is not None
    assert box.brake.plan.files == 51
    assert box.known(box.path_of(key("m0"))) == blob_of(b"0"), "the file is in git as before"


def test_an_approved_plan_is_deleted_whole_even_where_there_is_little_room() -> None:
    box = made(QueueCapacity(changes=20))
    box.open({box.path_of(key(f"m{n}")): blob_of(b"%d" % n) for n in range(60)}, 40)
    for n in range(51):
        box.drop(key(f"m{n}"), box.path_of(key(f"m{n}")), STEP)
    box.check_deletions()
    assert box.brake.plan is not None
    assert box.taken() == []
    box.adjust(replace(box.destination, approvals=(box.brake.plan.digest,)))
    names: list[str] = []
    for _ in range(3):
        box.check_deletions()
        plans = box.take_all()
        names += [change.key.name for plan in plans for change in plan.changes]
        box.batcher.settle(plans)
        box.settled([change.path for plan in plans for change in plan.changes], {})
        box.arrived(None, datetime(2026, 1, 1, tzinfo=UTC))
    assert sorted(names) == sorted(f"m{n}" for n in range(51))
    assert box.brake.plan is None
    assert len(box.files) == 9


def test_an_object_that_is_back_keeps_its_file_whatever_was_held() -> None:
    box = _filled(60)
    for n in range(51):
        box.drop(key(f"m{n}"), box.path_of(key(f"m{n}")), STEP)
    box.check_deletions()
    box.write("m0", b"0")
    box.check_deletions()
    assert box.taken() == []
    assert box.brake.plan is not None
    assert box.brake.plan.files == 50
    assert box.path_of(key("m0")) not in box.brake.held


def test_nothing_is_inferred_to_be_deleted_where_the_marker_is_another_installations() -> None:
    box = _filled(3)
    box.marker = OwnershipMarker(FolderOwnership.THEIRS, "another")
    box.erase("m0")
    assert box.taken() == []
    assert box.path_of(key("m0")) in box.unclaimed
    box.drop(key("m1"), box.path_of(key("m1")), STEP)
    assert box.taken() == [("DELETE", "m1")], "a deletion that was seen is not inferred"


def test_what_was_inferred_before_another_installation_took_over_stays() -> None:
    box = _filled(3)
    box.erase("m0")
    box.marker = OwnershipMarker(FolderOwnership.THEIRS, "another")
    box.check_deletions()
    assert box.taken() == []
    assert box.known(box.path_of(key("m0"))) == blob_of(b"0")


def test_a_file_with_the_same_values_is_left_and_not_compared_again() -> None:
    box = made(QueueCapacity())
    box.open({box.path_of(key("a")): blob_of(b"# theirs\nsame")}, 40)
    box.write("a", b"same")
    (change,) = box.batcher.over_foreign()
    box.equals_git(change, blob_of(b"# theirs\nsame"))
    box.write("a", b"same")
    assert box.batcher.over_foreign() == []
    assert box.taken() == []
    box.write("a", b"other")
    assert box.taken() == [("UPDATE", "a")]


def test_a_file_that_this_process_wrote_is_not_read_again() -> None:
    box = made(QueueCapacity())
    box.write("a", b"1")
    box.take_all()
    box.write("a", b"2")
    assert box.batcher.over_foreign() == []

"""Snapshots in a folder: taken, deduplicated, listed, checked, restored and deleted."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.domain.errors import Retry, Stalled
from stoker.domain.git_objects import blob_of
from stoker.domain.intent.policies import SnapshotScope
from stoker.domain.reasons import Reason
from stoker.snapshots.stable_read import LARGE, read_stable, read_whole
from stoker.snapshots.types import ScannedFile, SnapshotOrigin
from stoker_testkit.environments.snapshot_environment import SnapshotSite

NOISE = random.Random(8).randbytes  # noqa: S311 - the same in every run
NOON = 1_770_890_400.0  # 2026-02-12 10:00:00 UTC


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def site(tmp_path: Path, clock: Clock) -> SnapshotSite:
    site = SnapshotSite(tmp_path, clock=clock)
    site.write("projects/Line 1/view.json", b'{"root": {}}' * 500)
    site.write("projects/Line 1/thumbnail.png", NOISE(40_000))
    site.write("projects/Line 1/copy.json", b'{"root": {}}' * 500)
    site.write("projects/empty", b"")
    site.write("run.sh", b"#!/bin/sh\n", 0o755)
    return site


def packed(site: SnapshotSite) -> int:
    """The bytes of all packs."""
    return sum(path.stat().st_size for path in site.store.glob("*.pack"))


def names(site: SnapshotSite) -> set[str]:
    return {path.name for path in site.store.iterdir() if path.name != ".lock"}


def test_a_snapshot_of_empty_files_alone_can_be_restored(tmp_path: Path, clock: Clock) -> None:
    site = SnapshotSite(tmp_path, clock=clock)
    site.write("projects/empty", b"")
    taken = site.take()
    site.snapshots.verify(taken.id)
    assert site.restored(taken.id) == site.files()


def test_a_snapshot_gives_back_every_byte_and_mode(site: SnapshotSite) -> None:
    origin = SnapshotOrigin("c" * 40, "refs/heads/main", "digest")
    taken = site.take(scope=SnapshotScope.ALL, origin=origin, extra=b"\0what the ledger said")
    assert site.restored(taken.id) == site.files()
    manifest = site.snapshots.verify(taken.id)
    assert manifest.origin == origin
    assert manifest.extra == b"\0what the ledger said"
    assert manifest.scope is SnapshotScope.ALL
    assert manifest.taken_at == NOON
    assert manifest.size == taken.size == sum(len(content) for content, _ in site.files().values())
    assert manifest.files["run.sh"].version.executable
    assert site.snapshots.open(taken.id).content("run.sh") == b"#!/bin/sh\n"


def test_its_name_is_gateway_and_time_and_a_second_one_in_a_second_is_counted(
    site: SnapshotSite, clock: Clock
) -> None:
    assert [site.take().id for _ in range(3)] == [
        "site-20260212-100000",
        "site-20260212-100000-2",
        "site-20260212-100000-3",
    ]
    clock.now += 5
    assert site.take().id == "site-20260212-100005"
    clock.now -= 3600
    late = site.take().id
    assert late == "site-20260212-100005-2", "a clock that went back makes no snapshot older than the others"
    newest = site.snapshots.newest()
    assert newest is not None
    assert newest.id == late


def test_a_name_that_is_no_folders_name_becomes_one(tmp_path: Path) -> None:
    site = SnapshotSite(tmp_path, gateway="Linie 1: Füller")
    site.write("a", b"1")
    taken = site.take()
    assert taken.id.isascii()
    assert taken.id.startswith("Linie_1__F_ller-")
    assert site.restored(taken.id) == site.files()


def test_what_a_kept_snapshot_has_is_not_stored_again(site: SnapshotSite) -> None:
    first = site.take()
    assert first.stored > 40_000
    before = packed(site)
    assert before < 41_000, "two equal files are stored once, and text gets smaller"
    again = site.take()
    assert packed(site) == before
    assert again.stored < 2_000
    site.write("run.sh", b"#!/bin/bash\n")
    changed = site.take()
    assert before < packed(site) < before + 50
    site.write("run.sh", b"#!/bin/sh\n", 0o755)
    back = site.take()
    assert packed(site) < before + 50, "what only an older one has is found too"
    for taken in (first, again, back):
        assert site.restored(taken.id) == site.files()
    assert site.restored(changed.id)["run.sh"] == (b"#!/bin/bash\n", 0o644)


def test_five_snapshots_cost_little_more_than_one(tmp_path: Path) -> None:
    site = SnapshotSite(tmp_path)
    for number in range(50):
        site.write(f"d/{number}", NOISE(20_000))
    for number in range(5):
        site.write(f"d/{number}", NOISE(20_000))
        site.take()
    assert packed(site) == 54 * 20_000


def test_files_that_are_known_are_not_opened(site: SnapshotSite) -> None:
    first = site.take()
    known = site.snapshots.open(first.id).manifest.files
    second = site.take(known)
    assert site.opened == []
    assert site.restored(second.id) == site.files()
    site.write("projects/new", b"new")
    site.take(known)
    assert site.opened == ["projects/new"]


def test_a_known_id_is_no_promise_that_the_content_is_kept(site: SnapshotSite) -> None:
    known = site.snapshots.open(site.take().id).manifest.files
    other = SnapshotSite(site.data.parent, gateway="other")
    taken = other.take(known)
    assert set(site.files()) - set(other.opened) == {"projects/Line 1/view.json"}, "its copy was read"
    assert other.restored(taken.id) == site.files()
    # A wrong hint gives the content on disk.
    site.write("run.sh", b"longer than before\n")
    wrong = other.take(known)
    assert other.opened == ["run.sh"]
    assert other.restored(wrong.id) == site.files()


def test_ids_of_sha256_are_kept_apart(site: SnapshotSite) -> None:
    short = site.take()
    long = site.take(digits=64)
    assert site.restored(short.id) == site.restored(long.id) == site.files()
    manifest = site.snapshots.verify(long.id)
    assert manifest.files["run.sh"].blob == blob_of(b"#!/bin/sh\n", digits=64)
    assert site.take(manifest.files, digits=64).stored < 2_000


@pytest.mark.parametrize("content", [b"0123456789" * (LARGE // 4), NOISE(LARGE + 17)], ids=["text", "noise"])
def test_a_large_file_goes_through_in_pieces(tmp_path: Path, content: bytes) -> None:
    site = SnapshotSite(tmp_path)
    site.write("a", b"before")
    site.write("b/large", content)
    site.write("b/twice", content)
    site.write("c", b"after")
    taken = site.take()
    assert site.restored(taken.id) == site.files()
    assert packed(site) < len(content) + 100
    assert site.take().stored < 2_000, "known by its name, though that was not known before it was read"


def test_retention_keeps_the_newest_and_all_that_they_need(site: SnapshotSite, clock: Clock) -> None:
    expected = {}
    for number in range(7):
        clock.now += 60
        site.write(f"projects/{number}", NOISE(1000))
        site.write("projects/changes", NOISE(1000))
        expected[site.take().id] = site.files()
        gone = site.snapshots.prune(3)
        assert len(gone) == (1 if number >= 3 else 0)
    kept = site.snapshots.listed()
    assert [snapshot.id for snapshot in kept] == list(expected)[:3:-1]
    for snapshot in kept:
        site.snapshots.verify(snapshot.id)
        assert site.restored(snapshot.id) == expected[snapshot.id]
    assert len(names(site)) == 3 + 7, "the packs of the first four hold what is still needed"
    for path in site.data.rglob("*"):
        if path.is_file():
            path.unlink()
    clock.now += 60
    last = site.take()
    assert set(site.snapshots.prune(1)) == {snapshot.id for snapshot in kept}
    assert names(site) == {f"{last.id}.manifest"}, "unused packs are gone"


def test_one_that_was_asked_for_by_name_stays(site: SnapshotSite) -> None:
    first, *rest = [site.take() for _ in range(4)]
    assert set(site.snapshots.prune(1, keep=[first.id])) == {rest[0].id, rest[1].id}
    assert [one.id for one in site.snapshots.listed()] == [rest[2].id, first.id]
    assert site.restored(first.id) == site.files()


def test_a_retention_of_nothing_keeps_one(site: SnapshotSite) -> None:
    site.take()
    last = site.take()
    site.snapshots.prune(0)
    assert [one.id for one in site.snapshots.listed()] == [last.id]


def test_a_pack_that_is_mostly_dead_is_not_leaned_on(tmp_path: Path) -> None:
    site = SnapshotSite(tmp_path)
    for number in range(20):
        site.write(f"d/{number:02}", NOISE(100_000))
    first = site.take()
    for number in range(18):
        site.write(f"d/{number:02}", b"small now %d" % number)
    second = site.take()
    site.snapshots.prune(1)
    assert packed(site) > 2_000_000, "the second one needs two files of the first pack"
    third = site.take()
    site.snapshots.prune(1)
    assert packed(site) < 250_000, "and the third one has them for itself"
    assert {first.id, second.id}.isdisjoint(one.id for one in site.snapshots.listed())
    site.snapshots.verify(third.id)
    assert site.restored(third.id) == site.files()


def test_the_list_says_when_what_and_how_large(site: SnapshotSite, clock: Clock) -> None:
    assert site.snapshots.listed() == ()
    assert site.snapshots.newest() is None
    origin = SnapshotOrigin("c" * 40, "main", "s")
    taken = site.take(origin=origin)
    assert site.snapshots.listed() == (taken,)
    assert taken.files == 5
    assert taken.taken_at == clock.now
    assert taken.stored == sum((site.store / name).stat().st_size for name in names(site))


def test_a_file_that_is_gone_by_then_is_not_in_it(site: SnapshotSite) -> None:
    found = [ScannedFile("gone", 3, 0o644)]

    def open_file(path: str) -> int:
        raise FileNotFoundError(path)

    taken = site.snapshots.take(found, open_file, scope=SnapshotScope.MANAGED)
    assert site.snapshots.verify(taken.id).files == {}
    assert site.snapshots.verify(taken.id).left_out == ()


def unreadable(path: str) -> int:
    raise PermissionError(13, "Permission denied")


def restless(path: str) -> int:
    """A file that never has the size that it says."""
    return os.open("/proc/self/stat", os.O_RDONLY)


@pytest.mark.parametrize(
    ("open_file", "why"),
    [(unreadable, "Permission denied"), (restless, "keeps changing while it is read")],
)
def test_what_cannot_be_read_stops_a_strict_one_and_is_named_by_any_other(
    site: SnapshotSite, open_file: Callable[[str], int], why: str
) -> None:
    found = [ScannedFile("secret", 3, 0o600)]
    with pytest.raises(Retry, match=f"'secret' cannot be taken into the snapshot: .*{why}") as caught:
        site.snapshots.take(found, open_file, scope=SnapshotScope.MANAGED)
    assert caught.value.reason is Reason.SNAPSHOT_FAILED
    assert names(site) == set()
    taken = site.snapshots.take(found, open_file, scope=SnapshotScope.ALL, strict=False)
    assert site.snapshots.verify(taken.id).left_out == ("secret",)


def test_a_file_that_grows_meanwhile_is_read_again(site: SnapshotSite) -> None:
    log = site.data / "wrapper.txt"
    log.write_bytes(b"one line\n")
    found = [ScannedFile("wrapper.txt", 4, 0o644)]

    def open_file(path: str) -> int:
        return os.open(site.data / path, os.O_RDONLY)

    taken = site.snapshots.take(found, open_file, scope=SnapshotScope.ALL)
    assert site.snapshots.open(taken.id).content("wrapper.txt") == b"one line\n"


def test_a_large_file_that_changes_between_its_two_readings_is_read_again(tmp_path: Path) -> None:
    site = SnapshotSite(tmp_path)
    site.write("large", b"a" * LARGE)
    calls = 0

    def go_on() -> None:  # after the file was named, and before its last piece
        nonlocal calls
        calls += 1
        if calls == 2:
            site.write("large", b"b" * LARGE)

    taken = site.take(go_on=go_on)
    assert site.restored(taken.id) == site.files()
    assert site.files()["large"][0][:1] == b"b"

    def never_the_same() -> None:
        nonlocal calls
        calls += 1
        site.write("large", b"%d" % (calls % 10) * LARGE)

    with pytest.raises(Retry, match="keeps changing while it is read"):
        site.take(go_on=never_the_same)


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(b"one")
    turns = 0

    def read(fd: int, size: int) -> bytes:
        nonlocal turns
        turns += 1
        found = read_whole(fd, size)
        if turns == 1:
            place.write_bytes(b"two")
            os.utime(place, (1, 1))
        return found

    fd = os.open(place, os.O_RDONLY)
    try:
        assert read_stable(fd, read)[0] == b"two"
    finally:
        os.close(fd)
    assert turns == 2


@pytest.mark.parametrize("paths", [["../x"], ["a\\b"], [".sync-state/lock"], ["a", "a/b"]])
def test_a_snapshot_with_unreadable_paths_is_not_written(site: SnapshotSite, paths: list[str]) -> None:
    def open_file(path: str) -> int:
        return os.open(site.data / "run.sh", os.O_RDONLY)

    found = [ScannedFile(path, 10, 0o644) for path in paths]
    with pytest.raises(Retry, match="there can be no snapshot of these files: a path") as caught:
        site.snapshots.take(found, open_file, scope=SnapshotScope.ALL)
    assert caught.value.reason is Reason.SNAPSHOT_FAILED
    assert names(site) == set()


def test_asked_to_end_it_leaves_nothing(site: SnapshotSite) -> None:
    turns = 0

    def go_on() -> None:
        nonlocal turns
        turns += 1
        if turns == 4:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        site.take(go_on=go_on)
    assert names(site) == set()


def test_a_missing_snapshot_is_reported(site: SnapshotSite) -> None:
    site.take()
    for wanted in (
        "site-20250101-000000",
        "other-20260212-100000",
        "../site-20260212-100000",
        "",
        "x" * 9000,
    ):
        for ask in (site.snapshots.open, site.snapshots.verify):
            with pytest.raises(Stalled, match="there is no snapshot") as caught:
                ask(wanted)
            assert caught.value.reason is Reason.SNAPSHOT_NOT_FOUND
            assert len(caught.value.message) < 600


def test_strangers_files_are_left_alone(site: SnapshotSite) -> None:
    site.take()
    for name in ("README", "other-20260212-100000.manifest", "site.pack", "lost+found"):
        (site.store / name).write_bytes(b"theirs")
    site.take()
    site.snapshots.prune(1)
    assert len(site.snapshots.listed()) == 1
    assert {"README", "other-20260212-100000.manifest", "site.pack", "lost+found"} <= names(site)


def test_what_rides_along_is_bounded(site: SnapshotSite) -> None:
    with pytest.raises(Retry, match="cannot ride with a snapshot"):
        site.take(extra=b"x" * ((1 << 20) + 1))
    assert not site.store.exists()

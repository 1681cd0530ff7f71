"""Planned commits as git gets them, and how they are cut."""

from __future__ import annotations

from stoker.domain.refs import RepoUrl
from stoker.git.commit.types import FileEdit
from stoker.reverser.authors.facts import RequestUser
from stoker.reverser.destinations import BranchKey, RepoConfigRef, WritableDestination
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.rules import ChangeOperation, DestinationRef
from stoker.reverser.writer.batch import PendingFileChange, PlannedCommit
from stoker.reverser.writer.commit_message import CommitOrigin
from stoker.reverser.writer.commits import BuiltCommit, CommitBuilder
from stoker.reverser.writer.outbox import DestinationOutbox
from stoker.reverser.writer.ownership_marker import FolderOwnership, OwnershipMarker, marker_path
from stoker_testkit.manual_clock import ManualClock

MAKER = CommitBuilder(CommitOrigin("uid", "system", "gitops-reverser", "pod-0"))
MARKER = marker_path("base")


def box() -> DestinationOutbox:
    place, url = BranchKey("git.example.com/a", "main"), RepoUrl("https://git.example.com/a")
    to = WritableDestination(DestinationRef("s", "d"), "uid", RepoConfigRef("s", "r"), url, place, "base")
    return DestinationOutbox(to, ManualClock(), wake=lambda: None)


def planned(*names: str, author: RequestUser | None = None) -> PlannedCommit:
    return PlannedCommit(
        author,
        tuple(
            PendingFileChange(
                ManifestKey("", "v1", "configmaps", "shop", name),
                f"base/{name}",
                b"x",
                ChangeOperation.CREATE,
                1.0,
            )
            for name in names
        ),
    )


def paths(made: list[BuiltCommit]) -> list[list[str]]:
    return [[edit.path for edit in each.commit.edits] for each in made]


def test_the_first_commit_of_a_folder_that_is_free_brings_the_marker() -> None:
    outbox = box()
    made = MAKER.made(outbox, [planned("a"), planned("b")], [], at=1.0, when=5)
    assert paths(made) == [[MARKER, "base/a"], ["base/b"]]
    assert paths(MAKER.made(outbox, [planned("c")], made, at=1.0, when=5)) == [["base/c"]]


def test_a_folder_of_ours_or_of_another_gets_no_marker() -> None:
    for standing in (FolderOwnership.OURS, FolderOwnership.THEIRS):
        outbox = box()
        outbox.marker = OwnershipMarker(standing)
        assert paths(MAKER.made(outbox, [planned("a")], [], at=1.0, when=5)) == [["base/a"]]


def test_an_author_is_named_and_the_controller_commits() -> None:
    plans = [planned("a", author=RequestUser("alice")), planned("b")]
    alice, unknown = MAKER.made(box(), plans, [], at=1.0, when=5)
    assert alice.commit.author.name == "alice"
    assert unknown.commit.author == unknown.commit.committer == alice.commit.committer
    assert "X-ConfigButler-Author: alice" in alice.commit.message


def test_commits_are_cut_into_smaller_ones_with_the_same_changes_in_order() -> None:
    made = MAKER.made(box(), [planned("a", "b", "c"), planned("d")], [], at=1.0, when=5)
    cut = MAKER.cut(made, 2)
    assert paths(cut) == [[MARKER, "base/a", "base/b"], ["base/c"], ["base/d"]]
    assert {each.commit.when for each in cut} == {5}


def test_a_sealer_adds_what_belongs_to_a_commit() -> None:
    class Sealer:
        path = "base/.configbutler/digests"

        def load(self, content: bytes | None) -> None:
            raise NotImplementedError

        def sealed(self, path: str, plain: object) -> bytes:
            raise NotImplementedError

        def joined(self, edits: tuple[FileEdit, ...]) -> tuple[FileEdit, ...]:
            return (FileEdit(self.path, b"%d" % len(edits)),)

    outbox = box()
    outbox.sealer = Sealer()
    (made,) = MAKER.made(outbox, [planned("a")], [], at=1.0, when=5)
    assert made.commit.edits[-1] == FileEdit("base/.configbutler/digests", b"2")

"""The owner of a marker file."""

from __future__ import annotations

import pytest

from stoker.reverser.writer.commit_message import CommitOrigin
from stoker.reverser.writer.ownership_marker import FolderOwnership, check_marker, marker_content, marker_path

ORIGIN = CommitOrigin("uid-1", "configbutler-system", "gitops-reverser", "pod-0")


def test_our_own_marker_is_ours_whichever_replica_wrote_it() -> None:
    assert check_marker(marker_content(ORIGIN), ORIGIN).standing is FolderOwnership.OURS
    assert (
        check_marker(marker_content(ORIGIN._replace(instance_id="pod-1")), ORIGIN).standing
        is FolderOwnership.OURS
    )


def test_no_marker_is_a_free_folder() -> None:
    assert check_marker(None, ORIGIN).standing is FolderOwnership.FREE


@pytest.mark.parametrize(
    "other",
    [
        ORIGIN._replace(cluster_uid="uid-2"),
        ORIGIN._replace(controller_ns="elsewhere"),
        ORIGIN._replace(controller_name="another"),
    ],
)
def test_the_marker_of_another_is_theirs_and_names_them(other: CommitOrigin) -> None:
    marked = check_marker(marker_content(other), ORIGIN)
    assert marked.standing is FolderOwnership.THEIRS
    assert other.controller_name in marked.owner


@pytest.mark.parametrize("content", [b"\xff\xfe", b"just words", b"{}", b"x" * 100_000, b"clusterUID\n"])
def test_what_cannot_be_read_is_never_taken_for_ours(content: bytes) -> None:
    assert check_marker(content, ORIGIN).standing is FolderOwnership.THEIRS


def test_a_marker_in_quotes_with_comments_is_read() -> None:
    fields = 'clusterUID: "uid-1"\ncontrollerNS: configbutler-system\ncontrollerName: gitops-reverser\n'
    assert check_marker(f"# by hand\n---\n{fields}".encode(), ORIGIN).standing is FolderOwnership.OURS


def test_its_place_is_below_the_folder() -> None:
    assert marker_path("clusters/prod") == "clusters/prod/.configbutler/owner.yaml"

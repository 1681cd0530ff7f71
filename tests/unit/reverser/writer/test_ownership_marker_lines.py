"""A marker that is ours but for one line that no marker of ours has is not ours."""

from __future__ import annotations

import pytest

from stoker.reverser.writer.commit_message import CommitOrigin
from stoker.reverser.writer.ownership_marker import MAX_BYTES, FolderOwnership, check_marker, marker_content

ORIGIN = CommitOrigin("uid-1", "configbutler-system", "gitops-reverser", "pod-0")


@pytest.mark.parametrize(
    "line", [b"words without a colon", b"  controllerNS: indented", b"controllerNS : spaced"]
)
def test_a_line_that_is_no_field_makes_the_marker_unreadable(line: bytes) -> None:
    ours = marker_content(ORIGIN)
    assert check_marker(ours, ORIGIN).standing is FolderOwnership.OURS
    assert check_marker(ours + line + b"\n", ORIGIN).standing is FolderOwnership.THEIRS


def test_a_marker_is_read_up_to_its_limit() -> None:
    ours = marker_content(ORIGIN)
    filled = ours + b"#" * (MAX_BYTES - len(ours))
    assert check_marker(filled, ORIGIN).standing is FolderOwnership.OURS
    assert check_marker(filled + b"#", ORIGIN).standing is FolderOwnership.THEIRS

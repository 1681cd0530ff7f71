"""The deletion guard: whose file it is counts for orphans alone."""

from __future__ import annotations

import pytest

from stoker.domain.deletion_guard import DeletionCandidate, DeletionCause, DeletionLimits, decide_deletions


def test_a_file_of_another_owner_that_its_source_removed_is_deleted_and_not_also_kept() -> None:
    """An event or a commit removed it: the guard asks for the owner only where a deletion is inferred."""
    removed = DeletionCandidate("plant/configmaps/a.yaml", DeletionCause.GONE, ours=False)
    decision = decide_deletions([removed], 10, DeletionLimits(), digest="a" * 64)
    assert (decision.delete, decision.keep, decision.hold) == ((removed,), (), ())


@pytest.mark.parametrize("cause", DeletionCause)
@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("limits", [DeletionLimits(), DeletionLimits(files=0)])
@pytest.mark.parametrize("approved", ["", "a" * 64, "b" * 64])
def test_every_path_gets_exactly_one_answer(
    cause: DeletionCause, ours: bool, limits: DeletionLimits, approved: str
) -> None:
    deletions = [DeletionCandidate("a", cause, ours), DeletionCandidate("b")]
    decision = decide_deletions(deletions, 100, limits, digest="a" * 64, approved=approved)
    assert sorted([*decision.delete, *decision.keep, *decision.hold]) == sorted(deletions)

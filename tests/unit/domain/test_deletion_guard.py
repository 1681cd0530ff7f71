"""The deletion guard decides the same for every caller."""

from __future__ import annotations

import pytest

from stoker.domain.deletion_guard import (
    DeletionCandidate,
    DeletionCause,
    DeletionLimits,
    decide_deletions,
    deletions_digest,
)

PLAN = "a" * 64


def gone(count: int) -> list[DeletionCandidate]:
    return [DeletionCandidate(f"projects/line/{number}.json") for number in range(count)]


@pytest.mark.parametrize(
    ("deleted", "managed", "held"),
    [
        (1, 1, False),  # a folder of a few files may be emptied
        (10, 10, False),
        (11, 11, True),  # above the floor the share holds by itself
        (11, 22, False),  # exactly half is allowed
        (12, 23, True),
        (40, 41, True),
        (50, 1000, False),
        (51, 1000, True),  # the number holds by itself
        (0, 0, False),
    ],
)
def test_either_limit_alone_holds(deleted: int, managed: int, held: bool) -> None:
    decision = decide_deletions(gone(deleted), managed, DeletionLimits(), digest=PLAN)
    assert bool(decision.hold) is held
    assert len(decision.delete) == (0 if held else deleted)
    assert (PLAN in decision.why) is held


def test_above_a_limit_nothing_is_deleted_rather_than_some() -> None:
    decision = decide_deletions(gone(60), 1000, DeletionLimits(), digest=PLAN)
    assert not decision.delete
    assert len(decision.hold) == 60
    assert "60 files (first: projects/line/0.json) would be deleted, more than 50 files" in decision.why


def test_a_destination_that_no_mapping_covers_always_asks() -> None:
    unmapped = DeletionCandidate("projects/old/project.json", DeletionCause.UNMAPPED)
    decision = decide_deletions([*gone(1), unmapped], 1000, DeletionLimits(), digest=PLAN)
    assert decision.hold == (unmapped,)
    assert decision.delete == tuple(gone(1))
    assert "the mapping that gave projects/old/project.json was removed" in decision.why


def test_an_orphan_of_another_owner_is_kept_even_with_an_approval() -> None:
    foreign = DeletionCandidate("plant/configmaps/a.yaml", DeletionCause.ORPHAN, ours=False)
    for approved in ("", PLAN):
        decision = decide_deletions(
            [foreign], 1, DeletionLimits(files=0, floor=0), digest=PLAN, approved=approved
        )
        assert decision.keep == (foreign,)
        assert not decision.hold
        assert not decision.delete


def test_our_own_orphans_count_against_the_limits() -> None:
    orphans = [DeletionCandidate(f"{number}.yaml", DeletionCause.ORPHAN) for number in range(51)]
    assert decide_deletions(orphans, 5000, DeletionLimits(), digest=PLAN).hold == tuple(orphans)


def test_the_approval_of_this_plan_releases_everything_that_is_held() -> None:
    unmapped = [DeletionCandidate(f"projects/{number}", DeletionCause.UNMAPPED) for number in range(60)]
    decision = decide_deletions(unmapped, 60, DeletionLimits(), digest=PLAN, approved=PLAN)
    assert decision.delete == tuple(unmapped)
    assert not decision.hold
    assert not decision.stale


def test_an_approval_of_another_plan_is_stale_and_releases_nothing() -> None:
    decision = decide_deletions(gone(60), 60, DeletionLimits(), digest=PLAN, approved="b" * 64)
    assert decision.stale
    assert len(decision.hold) == 60
    assert f"the approval given names another plan, {'b' * 64}" in decision.why


def test_a_stale_approval_is_reported_where_nothing_needs_one() -> None:
    decision = decide_deletions(gone(1), 60, DeletionLimits(), digest=PLAN, approved="b" * 64)
    assert decision.stale
    assert decision.delete == tuple(gone(1))


def test_the_digest_names_the_set_and_not_its_order() -> None:
    assert deletions_digest(["b", "a"]) == deletions_digest(["a", "b"])
    assert deletions_digest(["a"]) != deletions_digest(["a", "b"])

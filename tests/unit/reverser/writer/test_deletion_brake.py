"""Deletions beyond the budget are held until a person approves exactly them."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.domain.deletion_guard import DeletionLimits, deletions_digest
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.rules import ChangeOperation
from stoker.reverser.writer.batch import PendingFileChange
from stoker.reverser.writer.deletion_brake import WINDOW, DeletionBrake, DeletionRecord, DeletionVerdict

LIMITS = DeletionLimits(files=3, percent=100)


def gone(*numbers: int) -> list[PendingFileChange]:
    return [_change(f"{number:02}.yaml") for number in numbers]


def _change(path: str) -> PendingFileChange:
    return PendingFileChange(
        ManifestKey("", "v1", "configmaps", "shop", path), path, None, ChangeOperation.DELETE, 0.0
    )


def decided(
    brake: DeletionBrake,
    waiting: Sequence[PendingFileChange],
    approvals: Sequence[str] = (),
    now: float = 0.0,
) -> DeletionVerdict:
    verdict = brake.decide(waiting, 100, LIMITS, approvals, now)
    if verdict is DeletionVerdict.HOLD:
        brake.held |= {change.path: change for change in waiting}
    elif verdict is DeletionVerdict.GO:
        brake.taken([change.path for change in waiting], now)
    return verdict


def test_within_the_budget_they_go() -> None:
    assert decided(DeletionBrake(), gone(1, 2, 3)) is DeletionVerdict.GO


def test_beyond_it_they_are_held_with_count_names_and_digest() -> None:
    brake = DeletionBrake()
    assert decided(brake, gone(1, 2, 3, 4)) is DeletionVerdict.HOLD
    assert brake.plan is not None
    assert brake.plan.files == 4
    assert brake.plan.first == ("01.yaml", "02.yaml", "03.yaml", "04.yaml")
    assert brake.plan.digest == deletions_digest(brake.held)
    assert brake.plan.digest in brake.plan.why


def test_what_comes_one_by_one_counts_together() -> None:
    brake = DeletionBrake()
    assert [decided(brake, gone(n), now=float(n)) for n in (1, 2, 3)] == [DeletionVerdict.GO] * 3
    assert decided(brake, gone(4), now=4.0) is DeletionVerdict.HOLD
    assert "3 deleted a moment ago" in brake.plan.why if brake.plan else False


def test_after_the_window_the_budget_is_whole_again() -> None:
    brake = DeletionBrake()
    assert decided(brake, gone(1, 2, 3)) is DeletionVerdict.GO
    assert decided(brake, gone(4, 5, 6), now=WINDOW) is DeletionVerdict.GO


def test_what_is_held_stays_held_however_much_time_passes_and_later_ones_join_it() -> None:
    brake = DeletionBrake()
    decided(brake, gone(1, 2, 3, 4))
    assert decided(brake, gone(5), now=10 * WINDOW) is DeletionVerdict.HOLD
    assert brake.plan is not None
    assert brake.plan.files == 5


def test_an_approval_of_exactly_this_plan_releases_it() -> None:
    brake = DeletionBrake()
    decided(brake, gone(1, 2, 3, 4))
    assert decided(brake, [], [deletions_digest(brake.held)]) is DeletionVerdict.RELEASE
    assert brake.plan is None
    assert brake.approved == {"01.yaml", "02.yaml", "03.yaml", "04.yaml"}


def test_a_stale_approval_releases_nothing_and_is_named_with_the_plan_there_is_now() -> None:
    brake = DeletionBrake()
    decided(brake, gone(1, 2, 3, 4))
    seen = deletions_digest(brake.held)
    assert decided(brake, gone(5), [seen]) is DeletionVerdict.HOLD
    assert brake.plan is not None
    assert brake.plan.digest != seen
    assert f"names another plan, {seen}" in brake.plan.why
    assert brake.plan.digest in brake.plan.why


def test_what_a_person_approved_does_not_use_up_the_budget() -> None:
    brake = DeletionBrake()
    decided(brake, gone(1, 2, 3, 4))
    decided(brake, [], [deletions_digest(brake.held)])
    brake.held.clear()
    brake.taken(sorted(brake.approved), 0.0)
    assert decided(brake, gone(5, 6, 7)) is DeletionVerdict.GO


def test_an_object_that_is_back_leaves_the_plan() -> None:
    brake = DeletionBrake()
    decided(brake, gone(1, 2, 3, 4))
    before = brake.plan
    brake.returned("04.yaml")
    assert brake.changed
    assert decided(brake, []) is DeletionVerdict.HOLD
    assert brake.plan is not None
    assert before is not None
    assert brake.plan.digest != before.digest
    assert brake.plan.files == 3


def test_when_all_objects_are_back_nothing_is_held_any_more() -> None:
    brake = DeletionBrake()
    decided(brake, gone(1, 2, 3, 4))
    for path in list(brake.held):
        brake.returned(path)
    assert decided(brake, []) is DeletionVerdict.GO
    assert brake.plan is None
    assert decided(brake, gone(5)) is DeletionVerdict.GO


def test_a_replica_that_takes_over_goes_on_holding_a_plan_that_became_small() -> None:
    brake = DeletionBrake(engaged=True)
    assert decided(brake, gone(1)) is DeletionVerdict.HOLD
    assert decided(DeletionBrake(), gone(1)) is DeletionVerdict.GO


def test_when_nothing_of_the_old_plan_is_left_deletions_go_again() -> None:
    brake = DeletionBrake(engaged=True)
    brake.all_listed(0)
    assert decided(brake, gone(1)) is DeletionVerdict.GO


def test_an_approval_whose_deletions_are_in_git_counts_once() -> None:
    record = DeletionRecord()
    brake = DeletionBrake(record=record)
    decided(brake, gone(1, 2, 3, 4))
    given = [deletions_digest(brake.held)]
    decided(brake, [], given)
    brake.held.clear()
    brake.taken(sorted(brake.approved), 0.0)
    assert not brake.approvals_used, "a push that fails gives it back"
    brake.pushed(["01.yaml", "02.yaml", "03.yaml", "04.yaml"])
    assert brake.approvals_used == set(given)
    for later in (DeletionBrake(record=record), DeletionBrake(used=given)):
        assert decided(later, gone(1, 2, 3, 4), given, now=10 * WINDOW) is DeletionVerdict.HOLD
        assert later.plan is not None
        assert "was used before and counts once" in later.plan.why
        assert decided(later, [], []) is DeletionVerdict.HOLD
        assert not later.approvals_used, "it is withdrawn"
        assert decided(later, [], given) is DeletionVerdict.RELEASE

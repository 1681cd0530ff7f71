"""The value that everybody reads: what a digest names, and what a plan is without some of its parts."""

from dataclasses import replace

import pytest

from stoker.domain.git_objects import FileVersion, HeldPath, PathNote, blob_of
from stoker.domain.paths import RelPath
from stoker.engine.plan.ledger import STAT, Ledger, encode_record
from stoker.engine.plan.plan import DeleteFile, LedgerFacts, SetFileMode, SyncPlan, WriteFile

ONE = FileVersion(blob_of(b"1"))
TWO = FileVersion(blob_of(b"2"))


def write(path: str, version: FileVersion = ONE, *, replaces: bool = False) -> WriteFile:
    return WriteFile(RelPath(path), version, replaces)


def delete(path: str) -> DeleteFile:
    return DeleteFile(RelPath(path))


WHOLE = SyncPlan(
    clearings=(delete("p/clear"), delete("q/clear")),
    writes=(write("p/add"), write("p/modify", replaces=True), write("q/add")),
    modes=(SetFileMode(RelPath("p/mode"), ONE), SetFileMode(RelPath("q/mode"), ONE)),
    deletions=(delete("p/delete"), delete("q/delete"), delete("pq/delete")),
    orphans_kept=(RelPath("p/theirs"),),
    facts=LedgerFacts(kept=frozenset({"p/theirs", "p/other"})),
)


def paths(plan: SyncPlan) -> list[str]:
    return [action.path for action in plan.actions]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SyncPlan(writes=(write("a"),)), SyncPlan(writes=(write("b"),))),
        (SyncPlan(writes=(write("a", ONE),)), SyncPlan(writes=(write("a", TWO),))),
        (
            SyncPlan(writes=(write("a"),)),
            SyncPlan(writes=(write("a", FileVersion(ONE.blob, executable=True)),)),
        ),
        (SyncPlan(writes=(write("a"),)), SyncPlan(modes=(SetFileMode(RelPath("a"), ONE),))),
        (SyncPlan(writes=(write("a"),)), SyncPlan(deletions=(delete("a"),))),
        (SyncPlan(deletions=(delete("a"), delete("b"))), SyncPlan(deletions=(delete("adelete b"),))),
        (SyncPlan(deletions=(delete("a"),)), SyncPlan(deletions=(delete("a"), delete("b")))),
        (SyncPlan(), SyncPlan(clearings=(delete("a"),))),
    ],
    ids=["path", "content", "mode", "verb", "deletion", "names run together", "one more", "clearing"],
)
def test_two_plans_that_do_different_things_have_different_digests(one: SyncPlan, other: SyncPlan) -> None:
    assert one.digest != other.digest


def test_rewrites_are_those_of_files_that_are_there_and_removals_are_all_that_goes() -> None:
    assert [one.path for one in WHOLE.rewrites] == ["p/modify", "p/mode", "q/mode"]
    assert [one.path for one in WHOLE.removals] == [
        "p/clear",
        "q/clear",
        "p/delete",
        "q/delete",
        "pq/delete",
    ]


def test_with_orphans_they_go_in_order_and_no_approval_is_requested_again() -> None:
    more = WHOLE.with_orphans()
    assert [one.path for one in more.deletions] == ["p/delete", "p/theirs", "pq/delete", "q/delete"]
    assert more.orphans_kept == ()
    assert more.facts.kept == {"p/other"}


@pytest.mark.parametrize(
    "left",
    [
        SyncPlan(refused=(PathNote("a", "is refused"),)),
        SyncPlan(conflicts=(PathNote("a", "is in the way"),)),
        SyncPlan(lingering=True),
        SyncPlan(held=(HeldPath("p", "somebody works there"),)),
    ],
    ids=["refused", "conflict", "lingering", "held"],
)
def test_a_plan_that_leaves_something_out_does_not_deliver_all(left: SyncPlan) -> None:
    assert not left.delivers_all
    assert SyncPlan(skipped=(PathNote("a", "is excluded"),)).delivers_all


def test_of_a_place_that_is_held_nothing_happens_and_the_rest_goes_on() -> None:
    held = HeldPath("p", "somebody works there")
    made = WHOLE.holding([held], Ledger(commit="c" * 40))
    assert paths(made) == ["q/clear", "q/add", "q/mode", "q/delete", "pq/delete"]
    assert made.held == (held,)
    assert made.facts.held == {f"{'c' * 40} p"}
    assert made.facts.kept == WHOLE.facts.kept
    assert WHOLE.holding([], Ledger()) is WHOLE


def test_a_place_that_stays_held_is_still_at_the_commit_at_which_it_was_left() -> None:
    before = Ledger(commit="b" * 40, held=frozenset({f"{'a' * 40} p"}))
    made = WHOLE.holding([HeldPath("p", "x"), HeldPath("q", "x")], before)
    assert made.facts.held == {f"{'a' * 40} p", f"{'b' * 40} q"}
    assert WHOLE.holding([HeldPath("p", "x")], None).facts.held == {" p"}


def test_an_equivalent_file_is_not_written_and_is_remembered_as_it_is_on_disk() -> None:
    stat = STAT.pack(1, 2, 3, 4, 0)
    known = replace(WHOLE, remembered={"p/known": encode_record(TWO)})
    made = known.adopting({"p/modify": stat, "p/nowhere": stat})
    assert [one.path for one in made.writes] == ["p/add", "q/add"]
    assert made.remembered == {"p/known": encode_record(TWO), "p/modify": encode_record(ONE, stat)}


def test_json_output_has_the_action_for_each_file() -> None:
    result = WHOLE.as_json()["actions"]
    assert isinstance(result, list)
    assert [one["action"] for one in result] == [
        "delete",
        "delete",
        "add",
        "modify",
        "add",
        "mode",
        "mode",
        "delete",
        "delete",
        "delete",
    ]

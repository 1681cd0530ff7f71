"""Guards: what stops a plan, and what a person can approve."""

import pytest

from stoker.domain.git_objects import CommitTree, FileVersion, blob_of
from stoker.domain.intent.files import (
    DeletionPolicy,
    ExcludePolicy,
    FileMapping,
    FilesIntent,
    MappingKind,
    OrphanPolicy,
)
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.layout.desired_files import DesiredFiles, ManagedPaths
from stoker.engine.layout.layout import Layout
from stoker.engine.layout.protected_paths import ProtectedPaths
from stoker.engine.plan.guards import plan_objection, stale_approval_error
from stoker.engine.plan.ledger import Ledger, encode_record
from stoker.engine.plan.live import LiveDifferences, LiveEntry, LiveKind
from stoker.engine.plan.plan import SyncPlan
from stoker.engine.plan.planner import make_plan

POLICY = DeletionPolicy(orphans=OrphanPolicy.MIRROR)
VERSION = FileVersion(blob_of(b"1"))
QUIET = LiveDifferences(walked=True)
EVERYWHERE = ManagedPaths(folders=frozenset({RelPath("")}))


def desired(
    *paths: str,
    delivered: tuple[str, ...] = ("s -> d",),
    undelivered: tuple[str, ...] = (),
    missed: tuple[str, ...] = (),
    destinations: ManagedPaths = EVERYWHERE,
) -> DesiredFiles:
    return DesiredFiles(
        files=dict.fromkeys(sorted(paths), VERSION),
        managed=ManagedPaths(folders=frozenset({RelPath("d")})),
        protection=ProtectedPaths(ExcludePolicy()),
        delivered=frozenset(delivered),
        undelivered=frozenset(undelivered),
        missed={place: f"t -> {place}" for place in missed},
        destinations=destinations,
    )


def wrote(*paths: str, mappings: frozenset[str] = frozenset()) -> Ledger:
    kept = dict.fromkeys(paths, encode_record(VERSION))
    return Ledger(kept, mappings=mappings, folders=frozenset({"d"}), mirrored=frozenset({"d"}))


def judged(
    wanted: DesiredFiles, ledger: Ledger | None, live: LiveDifferences = QUIET
) -> tuple[SyncPlan, str, Reason | None]:
    made = make_plan(wanted, live, ledger, POLICY)
    stalled = plan_objection(made, wanted, ledger, POLICY)
    return (
        made,
        stalled.message if stalled is not None else "",
        stalled.reason if stalled is not None else None,
    )


def many(count: int) -> list[str]:
    return [f"d/{number}" for number in range(count)]


def test_more_deletions_than_the_budget_stall_until_exactly_this_plan_is_approved() -> None:
    ledger = wrote("d/a", *many(51))
    wanted = desired("d/a")
    made, message, reason = judged(wanted, ledger)
    assert reason is Reason.DELETION_BUDGET_EXCEEDED
    assert f"approve plan {made.digest}" in message
    assert plan_objection(made, wanted, ledger, POLICY, approved={"0" * 64}) is not None
    assert plan_objection(made, wanted, ledger, POLICY, approved={made.digest}) is None


@pytest.mark.parametrize(("deleted", "kept"), [(51, 1000), (11, 9), (40, 0)])
def test_either_limit_alone_holds(deleted: int, kept: int) -> None:
    staying = [f"d/stay{number}" for number in range(kept)] + ["d/a"]
    made, message, reason = judged(desired(*staying), wrote(*many(deleted), *staying))
    assert reason is Reason.DELETION_BUDGET_EXCEEDED
    assert f"approve plan {made.digest}" in message


def test_a_destination_that_no_mapping_covers_any_more_is_held_whatever_its_size() -> None:
    ledger = wrote("d/a", "e/ours", "f.json")
    wanted = desired(
        "d/a", destinations=ManagedPaths(frozenset({RelPath("d")}), frozenset({RelPath("f.json")}))
    )
    made, message, reason = judged(wanted, ledger)
    assert reason is Reason.DESTINATION_UNMAPPED
    assert "e/ours" in message
    assert f"approve plan {made.digest}" in message
    stale = plan_objection(made, wanted, ledger, POLICY, approved={"0" * 64})
    assert stale is not None
    assert "0" * 64 in stale.message
    assert made.digest in stale.message
    assert plan_objection(made, wanted, ledger, POLICY, approved={"0" * 64, made.digest}) is None


@pytest.mark.parametrize(
    ("before", "now", "held"),
    [
        ((FileMapping("s/projects", "projects"),), (FileMapping("s/projects", "."),), True),
        ((FileMapping("s", "a/b"),), (FileMapping("s", "a"),), True),
        (
            (FileMapping("s/projects", "projects"), FileMapping("t", "projects/t")),
            (FileMapping("s/projects", "projects"),),
            True,
        ),
        (
            (FileMapping("s/projects", "projects"), FileMapping("t/x", "projects/x.json", MappingKind.FILE)),
            (FileMapping("s/projects", "projects"),),
            True,
        ),
        ((FileMapping("s", "."),), (FileMapping("t", "."),), True),
        ((FileMapping("s/projects", "projects"),), (FileMapping("s", "."),), False),
        ((FileMapping("s", "."),), (FileMapping("s", "."),), False),
    ],
)
def test_a_destination_is_not_emptied_unasked_because_a_wider_one_covers_it(
    before: tuple[FileMapping, ...], now: tuple[FileMapping, ...], held: bool
) -> None:
    first, then = (
        CommitTree(dict.fromkeys(("s/projects/P/view.json", *more, "t/x"), VERSION))
        for more in (("s/projects/Q/view.json", "s/fonts/f"), ())
    )
    layout = Layout(FilesIntent(before), TemplateValues())
    given = layout.map(first)
    ledger = Ledger(
        {path: encode_record(VERSION) for path in given.files},
        mappings=given.delivered,
        folders=frozenset(given.managed.folders),
        given=given.given,
        settings=layout.settings,
        complete=True,
    )
    wanted = Layout(FilesIntent(now), TemplateValues()).map(then)
    made, _, reason = judged(wanted, ledger)
    assert made.removals
    assert reason is (Reason.DESTINATION_UNMAPPED if held else None)
    assert plan_objection(made, wanted, ledger, POLICY, approved={made.digest}) is None


BASE, SITE = FileMapping("base", "projects"), FileMapping("site", "projects")
PROJECTS_OF = {"base/P/view.json", "site/P/tags.json", "other/P/view.json"}


def remapped(
    before: tuple[FileMapping, ...],
    now: tuple[FileMapping, ...],
    first: set[str],
    then: set[str],
    foreign: frozenset[str] = frozenset(),
) -> tuple[SyncPlan, str, Reason | None]:
    """A sync of the first commit with the old mappings, then the plan of the second with the new ones."""
    layout = Layout(FilesIntent(before), TemplateValues())
    given = layout.map(CommitTree(dict.fromkeys(first, VERSION)))
    ledger = Ledger(
        {path: encode_record(VERSION) for path in given.files},
        mappings=given.delivered,
        folders=frozenset(given.managed.folders),
        given=given.given,
        settings=layout.settings,
        complete=True,
    )
    wanted = Layout(FilesIntent(now), TemplateValues()).map(CommitTree(dict.fromkeys(then, VERSION)))
    other = FileVersion(blob_of(b"of others"))
    live = LiveDifferences({path: LiveEntry(LiveKind.FILE, other) for path in sorted(foreign)}, walked=True)
    made, message, reason = judged(wanted, ledger, live)
    assert plan_objection(made, wanted, ledger, POLICY, approved={made.digest}) is None
    return made, message, reason


@pytest.mark.parametrize(
    ("now", "then", "held"),
    [
        pytest.param((BASE,), PROJECTS_OF, True, id="removed"),
        pytest.param((BASE,), PROJECTS_OF - {"site/P/tags.json"}, True, id="removed with its folder"),
        pytest.param((BASE, FileMapping("other", "projects")), PROJECTS_OF, True, id="another source"),
        pytest.param((BASE, SITE), PROJECTS_OF - {"site/P/tags.json"} | {"site/P/x"}, False, id="kept"),
        pytest.param(
            (BASE, SITE, FileMapping("other", "fonts")),
            PROJECTS_OF - {"site/P/tags.json"} | {"site/P/x"},
            False,
            id="another mapping was added",
        ),
        pytest.param((SITE, BASE), PROJECTS_OF, False, id="in another order"),
    ],
)
def test_files_of_a_removed_mapping_are_held_although_another_has_the_same_destination(
    now: tuple[FileMapping, ...], then: set[str], held: bool
) -> None:
    made, message, reason = remapped((BASE, SITE), now, PROJECTS_OF, then)
    assert reason is (Reason.DESTINATION_UNMAPPED if held else None)
    if held:
        assert "projects/P/tags.json" in message
        assert f"approve plan {made.digest}" in message


def test_a_mapping_that_a_wider_one_repeats_is_not_removed() -> None:
    parts = (FileMapping("s/projects", "projects"), FileMapping("s/fonts", "fonts"))
    first = {"s/projects/P/view.json", "s/projects/P/old.json", "s/fonts/f"}
    made, message, _ = remapped(parts, (FileMapping("s", "."),), first, first - {"s/projects/P/old.json"})
    assert [str(delete) for delete in made.removals] == ["delete projects/P/old.json"]
    assert not message


LINE1 = FileMapping("s/projects/Line1", "projects/Line1")
LINES = {"s/projects/Line1/view.json", "s/projects/Line2/view.json", "s/fonts/f"}
OF_OTHERS = frozenset({"projects/Line2/view.json"})


@pytest.mark.parametrize(
    ("before", "now", "foreign", "held"),
    [
        pytest.param(LINE1, (FileMapping("s/projects", "projects"),), OF_OTHERS, True, id="wider"),
        pytest.param(
            LINE1, (LINE1, FileMapping("s/projects", "projects")), OF_OTHERS, True, id="wider beside"
        ),
        pytest.param(LINE1, (FileMapping("s", "."),), OF_OTHERS, True, id="the root"),
        pytest.param(LINE1, (FileMapping("s/projects", "projects"),), frozenset(), False, id="nothing there"),
        pytest.param(
            LINE1,
            (FileMapping("s/projects", "projects"),),
            frozenset({"projects/Line1/view.json"}),
            False,
            id="ours, changed by others",
        ),
        pytest.param(
            LINE1, (LINE1, FileMapping("s/fonts", "fonts")), frozenset({"fonts/f"}), False, id="brand-new"
        ),
        pytest.param(
            FileMapping("s", "."),
            (FileMapping("s", ".", orphans=OrphanPolicy.OWNED),),
            frozenset({"fonts/g"}),
            False,
            id="the root as before",
        ),
    ],
)
def test_a_wider_destination_overwrites_no_file_of_others_unasked(
    before: FileMapping, now: tuple[FileMapping, ...], foreign: frozenset[str], held: bool
) -> None:
    made, message, reason = remapped((before,), now, LINES, LINES | {"s/fonts/g"}, foreign)
    assert reason is (Reason.DESTINATION_WIDENED if held else None)
    if held:
        assert "projects/Line2/view.json" in message
        assert f"approve plan {made.digest}" in message
    else:
        assert foreign <= {str(write.path) for write in made.rewrites}


def test_an_approval_for_one_sync_must_name_its_plan() -> None:
    made, _, _ = judged(desired("d/a"), wrote("d/a", "d/b"))
    assert stale_approval_error(made, {made.digest}) is None
    stale = stale_approval_error(made, {"0" * 64})
    assert stale is not None
    assert stale.reason is Reason.APPROVAL_STALE
    assert made.digest in stale.message
    nothing = stale_approval_error(SyncPlan(), {"0" * 64})
    assert nothing is not None
    assert "nothing to do" in nothing.message
    assert SyncPlan().digest not in nothing.message


@pytest.mark.parametrize(("deleted", "kept"), [(10, 0), (50, 50), (11, 10), (50, 100)])
def test_few_files_or_a_small_part_of_them_stay_within_the_limits(deleted: int, kept: int) -> None:
    staying = [f"d/stay{number}" for number in range(kept)] + ["d/a"]
    made, message, _ = judged(desired(*staying), wrote(*many(deleted), *staying))
    assert len(made.removals) == deleted
    assert not message


def test_files_of_others_count_against_the_budget_too() -> None:
    strangers = LiveDifferences({path: LiveEntry(LiveKind.FILE) for path in many(51)}, walked=True)
    made, _, reason = judged(desired("d/a"), wrote("d/a"), strangers)
    assert len(made.removals) == 51
    assert reason is Reason.DELETION_BUDGET_EXCEEDED


def test_a_mapping_that_gives_nothing_loses_nothing_at_its_destination_unless_that_is_approved() -> None:
    ledger, wanted = wrote("d/a", "e/ours"), desired("d/a", missed=("e", "d"))
    made, message, reason = judged(wanted, ledger)
    assert reason is Reason.SOURCE_EMPTY
    assert "t -> e gives no file" in message
    assert "e/ours" in message
    assert plan_objection(made, wanted, ledger, POLICY, approved={made.digest}) is None


def test_what_another_mapping_manages_may_go_from_the_destination_of_one_that_gives_nothing() -> None:
    made, message, _ = judged(desired("d/a", missed=("d", "e")), wrote("d/a", "d/gone", "f/gone"))
    assert [delete.path for delete in made.deletions] == ["d/gone", "f/gone"]
    assert not message


def test_a_mapping_that_gave_files_before_and_gives_none_now_stalls_until_that_is_approved() -> None:
    ledger = wrote("d/a", "e/core", mappings=frozenset({"t -> e"}))
    wanted = desired("d/a", undelivered=("t -> e",), missed=("e",))
    made, message, reason = judged(wanted, ledger)
    assert reason is Reason.SOURCE_EMPTY
    assert "t -> e gave files before" in message
    assert made.digest in message
    assert plan_objection(made, wanted, ledger, POLICY, approved={made.digest}) is None
    assert "t -> e" not in made.facts.mappings, "the next pass asks no more"


def test_a_mapping_that_never_gave_files_may_be_absent() -> None:
    wanted = desired("d/a", undelivered=("t -> e",))
    for ledger in (None, wrote("d/a", mappings=frozenset({"s -> d"}))):
        assert not judged(wanted, ledger)[1]


@pytest.mark.parametrize("ledger", [None, wrote("d/a")])
def test_an_empty_source_changes_nothing_whatever_is_approved(ledger: Ledger | None) -> None:
    wanted = desired(delivered=(), undelivered=("s -> d",))
    made, message, reason = judged(wanted, ledger)
    assert reason is Reason.SOURCE_EMPTY
    assert "give no file" in message
    assert plan_objection(made, wanted, ledger, POLICY, approved={made.digest}) is not None


def test_where_nothing_was_written_there_is_nothing_to_lose() -> None:
    assert not judged(desired(delivered=(), undelivered=("s -> d",)), Ledger())[1]

"""Plans: what is written, in which order, and what is never deleted or replaced."""

from collections.abc import Mapping

import pytest

from stoker.domain.errors import Stalled
from stoker.domain.intent.files import DeletionPolicy, Excludes, Orphans
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.guarding import check_sources, left_behind, over_budget
from stoker.engine.ledger import Ledger, Live, LiveEntry, LiveKind
from stoker.engine.mapping import Desired, Managed
from stoker.engine.objects import FileVersion, blob_of
from stoker.engine.planning import plan
from stoker.engine.plans import Plan
from stoker.engine.protecting import Protection

POLICY = DeletionPolicy()
FOLDER = LiveEntry(LiveKind.FOLDER)
SYMLINK = LiveEntry(LiveKind.SYMLINK)


def version(content: str, *, executable: bool = False) -> FileVersion:
    return FileVersion(blob_of(content.encode()), executable)


def desired(
    files: dict[str, str],
    *,
    excludes: tuple[str, ...] = (),
    kept: tuple[str, ...] = (),
    incomplete: tuple[str, ...] = (),
    delivered: tuple[str, ...] = ("s -> d",),
    undelivered: tuple[str, ...] = (),
    missed: tuple[str, ...] = (),
) -> Desired:
    return Desired(
        files={RelPath(path): version(text) for path, text in sorted(files.items())},
        managed=Managed(folders=frozenset({RelPath("d")})),
        protection=Protection(Excludes(excludes)),
        kept=frozenset(map(RelPath, kept)),
        incomplete=frozenset(map(RelPath, incomplete)),
        delivered=frozenset(delivered),
        undelivered=frozenset(undelivered),
        missed={RelPath(place): f"t -> {place}" for place in missed},
    )


def on_disk(entries: Mapping[str, str | LiveEntry]) -> Live:
    found: dict[RelPath, LiveEntry] = {}
    for text, what in entries.items():
        path = RelPath(text)
        found[path] = LiveEntry(LiveKind.FILE, version(what).blob) if isinstance(what, str) else what
        while path.parent:
            path = path.parent
            found.setdefault(path, FOLDER)
    return Live(found)


def wrote(files: dict[str, str], **more: frozenset[str]) -> Ledger:
    return Ledger({RelPath(path): version(text) for path, text in files.items()}, **more)  # type: ignore[arg-type]


def actions(made: Plan) -> list[str]:
    return [str(action) for action in made.actions]


def conflicts(made: Plan) -> dict[str, str]:
    return {note.path: note.why for note in made.conflicts}


def test_missing_files_are_added_and_different_ones_replaced() -> None:
    made = plan(
        desired({"d/a": "1", "d/b": "2", "d/c": "3"}), on_disk({"d/b": "old", "d/c": "3"}), None, POLICY
    )
    assert actions(made) == ["add d/a", "modify d/b"]


def test_a_file_whose_content_cannot_be_read_is_replaced() -> None:
    made = plan(desired({"d/a": "1"}), on_disk({"d/a": LiveEntry(LiveKind.FILE)}), None, POLICY)
    assert actions(made) == ["modify d/a"]


def test_only_the_executable_bit_is_changed_when_only_it_differs() -> None:
    there = on_disk({"d/a": LiveEntry(LiveKind.FILE, version("1").blob, executable=True)})
    made = plan(desired({"d/a": "1"}), there, None, POLICY)
    assert actions(made) == ["mode d/a 644"]


def test_data_comes_before_its_resource_json_and_deletions_come_last() -> None:
    made = plan(
        desired({"d/v/resource.json": "new", "d/v/view.json": "new", "d/z": "new"}),
        on_disk({"d/old/resource.json": "x", "d/old/data": "x"}),
        wrote({"d/old/resource.json": "x", "d/old/data": "x"}),
        POLICY,
    )
    assert actions(made) == [
        "add d/v/view.json",
        "add d/z",
        "add d/v/resource.json",
        "delete d/old/resource.json",
        "delete d/old/data",
    ]


def test_only_what_the_ledger_names_is_deleted() -> None:
    made = plan(
        desired({"d/a": "1"}),
        on_disk({"d/a": "1", "d/ours": "x", "d/theirs": "x", "e/ours": "x"}),
        wrote({"d/a": "1", "d/ours": "x", "e/ours": "x", "d/vanished": "x"}),
        POLICY,
    )
    assert actions(made) == ["delete d/ours", "delete e/ours"]
    assert made.orphans_kept == (RelPath("d/theirs"),)


def test_without_a_ledger_nothing_is_deleted() -> None:
    made = plan(desired({"d/a": "1"}), on_disk({"d/a": "1", "d/x": "2"}), None, POLICY)
    assert not made.actions
    assert made.orphans_kept == (RelPath("d/x"),)


def test_orphans_are_not_reported_when_only_owned_files_matter() -> None:
    made = plan(desired({"d/a": "1"}), on_disk({"d/x": "2"}), None, DeletionPolicy(orphans=Orphans.OWNED))
    assert not made.orphans_kept


def test_what_is_excluded_shielded_or_kept_is_neither_deleted_nor_an_orphan() -> None:
    there = {"d/x.bak": "1", "d/.resources/x": "1", "d/link/x": "1", "d/stranger.bak": "1"}
    ledger = wrote({path: "1" for path in there if "stranger" not in path})
    made = plan(
        desired({"d/a": "1"}, excludes=("**/*.bak",), kept=("d/link",)),
        on_disk({"d/a": "1", **there}),
        ledger,
        POLICY,
    )
    assert not made.actions
    assert not made.orphans_kept
    assert made.before.files.keys() >= ledger.files.keys()


def test_an_intended_write_counts_as_ours_only_with_exactly_that_content() -> None:
    ledger = Ledger(intended={RelPath("d/reached"): version("new"), RelPath("d/stranger"): version("new")})
    made = plan(
        desired({"d/a": "1"}),
        on_disk({"d/a": "1", "d/reached": "new", "d/stranger": "theirs"}),
        ledger,
        POLICY,
    )
    assert actions(made) == ["delete d/reached"]
    assert made.orphans_kept == (RelPath("d/stranger"),)


def test_a_file_that_already_has_the_desired_content_becomes_ours() -> None:
    made = plan(desired({"d/a": "1"}), on_disk({"d/a": "1"}), None, POLICY)
    assert made.before.files == {RelPath("d/a"): version("1")}


def test_a_symlink_or_device_in_the_place_of_a_file_is_a_conflict() -> None:
    made = plan(
        desired({"d/a": "1", "d/b": "1", "d/c": "1"}),
        on_disk({"d/a": SYMLINK, "d/b": LiveEntry(LiveKind.SPECIAL)}),
        wrote({"d/a": "1"}),
        POLICY,
    )
    assert actions(made) == ["add d/c"]
    assert set(conflicts(made)) == {"d/a", "d/b"}


def test_nothing_is_written_below_a_symlink() -> None:
    made = plan(
        desired({"d/p/a": "1", "d/p/b/c": "1"}), on_disk({"d/p": SYMLINK}), wrote({"d/p": "1"}), POLICY
    )
    assert not made.actions
    assert (
        conflicts(made)["d/p/b/c"] == "cannot be written: d/p is a symlink on the data volume, not a folder"
    )


def test_our_file_makes_room_for_a_folder_of_its_name() -> None:
    made = plan(desired({"d/a/b": "1"}), on_disk({"d/a": "x"}), wrote({"d/a": "x"}), POLICY)
    assert actions(made) == ["delete d/a", "add d/a/b"]


def test_a_strangers_file_does_not_make_room() -> None:
    made = plan(desired({"d/a/b": "1"}), on_disk({"d/a": "x"}), wrote({"d/q": "x"}), POLICY)
    assert not made.actions
    assert set(conflicts(made)) == {"d/a/b"}


def test_our_folder_makes_room_for_a_file_of_its_name() -> None:
    there = on_disk({"d/a/b/c": "x", "d/a/empty": FOLDER})
    made = plan(desired({"d/a": "1"}), there, wrote({"d/a/b/c": "x"}), POLICY)
    assert actions(made) == ["delete d/a/b/c", "add d/a"]


@pytest.mark.parametrize("stranger", ["x", SYMLINK])
def test_a_folder_with_something_foreign_in_it_does_not_make_room(stranger: str | LiveEntry) -> None:
    made = plan(
        desired({"d/a": "1"}), on_disk({"d/a/b": "x", "d/a/c": stranger}), wrote({"d/a/b": "x"}), POLICY
    )
    assert actions(made) == ["delete d/a/b"]
    assert "d/a/c" in conflicts(made)["d/a"]


def test_a_folder_with_unlisted_content_does_not_make_room() -> None:
    there = Live(on_disk({"d/a/b": "x"}).entries, opaque=frozenset({RelPath("d/a")}))
    made = plan(desired({"d/a": "1"}), there, wrote({"d/a/b": "x"}), POLICY)
    assert set(conflicts(made)) == {"d/a"}


def test_a_resource_json_is_held_back_with_a_file_that_cannot_be_written() -> None:
    made = plan(
        desired({"d/v/view.json": "1", "d/v/resource.json": "1", "d/w/resource.json": "1"}),
        on_disk({"d/v/view.json": SYMLINK}),
        None,
        POLICY,
    )
    assert actions(made) == ["add d/w/resource.json"]
    assert set(conflicts(made)) == {"d/v/view.json", "d/v/resource.json"}


def test_a_resource_json_is_held_back_with_a_file_that_was_refused() -> None:
    made = plan(desired({"d/v/resource.json": "1"}, incomplete=("d/v",)), on_disk({}), None, POLICY)
    assert not made.actions
    assert set(conflicts(made)) == {"d/v/resource.json"}


def test_a_resource_json_that_stays_keeps_the_files_that_it_names() -> None:
    lying = {"d/v/resource.json": "old", "d/v/old.json": "x", "d/w/old.json": "x"}
    made = plan(
        desired({"d/v/resource.json": "new", "d/v/new.json": "1", "d/w/new.json": "1"}),
        on_disk({**lying, "d/v/new.json": SYMLINK, "d/w/new.json": SYMLINK}),
        wrote(lying),
        POLICY,
    )
    assert actions(made) == ["delete d/w/old.json"]
    assert RelPath("d/v/old.json") in made.before.files


def test_a_folder_that_is_still_to_be_emptied_stays_in_the_ledger_until_it_is() -> None:
    ledger = wrote({"e/f/old": "x"}, folders=frozenset({RelPath("e/f"), RelPath("g")}))
    made = plan(desired({"d/a": "1"}), on_disk({"e/f/old": "x"}), ledger, POLICY)
    assert made.before.folders == {"d", "e/f"}
    after = plan(desired({"d/a": "1"}), on_disk({"d/a": "1"}), made.before, POLICY)
    assert after.before.folders == {"d"}


def test_the_digest_names_exactly_the_actions() -> None:
    made = plan(desired({"d/a": "1"}), on_disk({}), None, POLICY)
    same = plan(desired({"d/a": "1"}), on_disk({"d/stranger": "x"}), None, POLICY)
    other = plan(desired({"d/a": "2"}), on_disk({}), None, POLICY)
    assert made.digest == same.digest
    assert made.digest != other.digest


def test_a_plan_prints_as_text_and_as_json() -> None:
    made = plan(
        desired({"d/a": "1", "d/b": "1"}),
        on_disk({"d/b": SYMLINK, "d/old": "x", "d/other": "x"}),
        wrote({"d/old": "x"}),
        POLICY,
    )
    assert list(made.lines()) == [
        "add d/a",
        "delete d/old",
        "conflict d/b: is a symlink on the data volume, which is never replaced",
        "keep d/other: not written by us",
    ]
    assert made.as_json()["actions"] == [
        {"action": "add", "path": "d/a", "blob": version("1").blob, "mode": "0644"},
        {"action": "delete", "path": "d/old"},
    ]


def many(count: int) -> dict[str, str]:
    return {f"d/{number}": "x" for number in range(count)}


def test_more_deletions_than_the_budget_stall_until_exactly_this_plan_is_approved() -> None:
    ledger = wrote({**many(51), "d/a": "1"})
    made = plan(desired({"d/a": "1"}), on_disk({**many(51), "d/a": "1"}), ledger, POLICY)
    stalled = over_budget(made, ledger, POLICY)
    assert stalled is not None
    assert stalled.reason is Reason.DELETION_BUDGET_EXCEEDED
    assert made.digest in stalled.message
    assert over_budget(made, ledger, POLICY, approved="0" * 64) is not None
    assert over_budget(made, ledger, POLICY, approved=made.digest) is None


@pytest.mark.parametrize(("deleted", "kept"), [(50, 0), (51, 51), (100, 100)])
def test_few_files_or_a_small_part_of_them_stay_within_the_budget(deleted: int, kept: int) -> None:
    staying = {f"d/stay{number}": "1" for number in range(kept)} | {"d/a": "1"}
    ledger = wrote({**many(deleted), **staying})
    made = plan(desired(staying), on_disk({**many(deleted), **staying}), ledger, POLICY)
    assert len(made.removals) == deleted
    assert over_budget(made, ledger, POLICY) is None


def test_a_mapping_that_gives_nothing_loses_nothing_at_its_destination_unless_that_is_approved() -> None:
    there = {"d/a": "1", "e/ours": "x"}
    wanted = desired({"d/a": "1"}, missed=("e", "d"))
    made = plan(wanted, on_disk(there), wrote(there), POLICY)
    stalled = left_behind(made, wanted)
    assert stalled is not None
    assert stalled.reason is Reason.SOURCE_EMPTY
    assert "t -> e gives no file" in stalled.message
    assert "e/ours" in stalled.message
    assert left_behind(made, wanted, approved=made.digest) is None


def test_what_another_mapping_manages_may_go_from_the_destination_of_one_that_gives_nothing() -> None:
    there = {"d/a": "1", "d/gone": "x", "f/gone": "x"}
    wanted = desired({"d/a": "1"}, missed=("d", "e"))
    made = plan(wanted, on_disk(there), wrote(there), POLICY)
    assert actions(made) == ["delete d/gone", "delete f/gone"]
    assert left_behind(made, wanted) is None


def test_a_mapping_that_gave_files_before_and_gives_none_now_stalls() -> None:
    ledger = wrote({"d/a": "1"}, mappings=frozenset({"t -> e"}))
    with pytest.raises(Stalled, match="t -> e gave files before") as stalled:
        check_sources(desired({"d/a": "1"}, undelivered=("t -> e",)), ledger)
    assert stalled.value.reason is Reason.SOURCE_EMPTY


def test_a_mapping_that_never_gave_files_may_be_absent() -> None:
    ledger = wrote({"d/a": "1"}, mappings=frozenset({"s -> d"}))
    check_sources(desired({"d/a": "1"}, undelivered=("t -> e",)), ledger)
    check_sources(desired({"d/a": "1"}, undelivered=("t -> e",)), None)
    with pytest.raises(Stalled):
        check_sources(desired({}, delivered=(), undelivered=("t -> e",)), None)

"""Plans: what is written, in which order, and what is never deleted or replaced."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from stoker.domain.git_objects import FileVersion, PathNote, blob_of
from stoker.domain.intent.files import DeletionPolicy, ExcludePolicy, OrphanPolicy
from stoker.domain.paths import RelPath
from stoker.engine.layout.desired_files import DesiredFiles, ManagedPaths
from stoker.engine.layout.protected_paths import ProtectedPaths
from stoker.engine.plan.drift import find_drift
from stoker.engine.plan.ledger import STAT, UNSEEN_STAT, Ledger, encode_record
from stoker.engine.plan.live import LiveDifferences, LiveEntry, LiveKind
from stoker.engine.plan.plan import SyncPlan
from stoker.engine.plan.planner import make_plan

POLICY = DeletionPolicy(orphans=OrphanPolicy.MIRROR)
OWNED = DeletionPolicy(orphans=OrphanPolicy.OWNED)
FOLDER = LiveEntry(LiveKind.FOLDER)
SYMLINK = LiveEntry(LiveKind.SYMLINK)
OURS = frozenset({"d"})


def version(content: str, *, executable: bool = False) -> FileVersion:
    return FileVersion(blob_of(content.encode()), executable)


def desired(
    files: dict[str, str],
    *,
    excludes: tuple[str, ...] = (),
    kept: tuple[str, ...] = (),
    incomplete: tuple[str, ...] = (),
    orphans: dict[str, OrphanPolicy] | None = None,
    folders: tuple[str, ...] = ("d",),
    removed: tuple[str, ...] | None = None,
) -> DesiredFiles:
    return DesiredFiles(
        files={path: version(text) for path, text in sorted(files.items())},
        managed=ManagedPaths(folders=frozenset(map(RelPath, folders))),
        protection=ProtectedPaths(ExcludePolicy(excludes)),
        kept=frozenset(kept),
        incomplete=frozenset(incomplete),
        delivered=frozenset({"s -> d"}),
        orphans=orphans or {},
        partial=removed is not None,
        removed=frozenset(removed or ()),
    )


def on_disk(entries: Mapping[str, str | LiveEntry], ledger: Ledger | None = None) -> LiveDifferences:
    """What a walk would find: everything that the ledger does not say."""
    found: dict[str, LiveEntry | None] = {}
    known = ledger if ledger is not None else Ledger()
    for path, what in entries.items():
        entry = LiveEntry(LiveKind.FILE, version(what)) if isinstance(what, str) else what
        if entry.version is None or entry.version != known.version(path):
            found[path] = entry
        for above in RelPath(path).ancestors():
            if above in known.files:
                found[above] = FOLDER
    folders = {above for path in entries for above in RelPath(path).ancestors()}
    found |= {path: None for path in known.files if path not in entries and path not in folders}
    return LiveDifferences(found, walked=True)


def as_folder(
    path: str, entries: Mapping[str, str | LiveEntry], ledger: Ledger | None = None
) -> LiveDifferences:
    """The same with a folder where a file shall be."""
    live = on_disk(entries, ledger)
    return LiveDifferences({**live.found, path: FOLDER}, walked=True)


def wrote(files: dict[str, str], **more: object) -> Ledger:
    facts = {"folders": OURS, "mirrored": more.get("folders", OURS), **more}
    return Ledger({path: encode_record(version(text)) for path, text in files.items()}, **facts)  # type: ignore[arg-type]


def actions(made: SyncPlan) -> list[str]:
    return [str(action) for action in made.actions]


def conflicts(made: SyncPlan) -> dict[str, str]:
    return {note.path: note.why for note in made.conflicts}


def test_missing_files_are_added_and_different_ones_replaced() -> None:
    made = make_plan(
        desired({"d/a": "1", "d/b": "2", "d/c": "3"}), on_disk({"d/b": "old", "d/c": "3"}), None, POLICY
    )
    assert actions(made) == ["add d/a", "modify d/b"]


def test_what_the_ledger_says_need_not_be_found_again() -> None:
    ledger = wrote({"d/a": "1", "d/b": "old", "d/c": "3"})
    made = make_plan(
        desired({"d/a": "1", "d/b": "2", "d/c": "3"}), LiveDifferences(walked=True), ledger, POLICY
    )
    assert actions(made) == ["modify d/b"]


def test_a_file_whose_content_cannot_be_read_is_replaced() -> None:
    made = make_plan(desired({"d/a": "1"}), on_disk({"d/a": LiveEntry(LiveKind.FILE)}), None, POLICY)
    assert actions(made) == ["modify d/a"]


def test_only_the_executable_bit_is_changed_when_only_it_differs() -> None:
    executable = version("1", executable=True)
    there = on_disk({"d/a": LiveEntry(LiveKind.FILE, executable)})
    assert actions(make_plan(desired({"d/a": "1"}), there, None, POLICY)) == ["mode d/a 644"]
    kept = encode_record(executable, STAT.pack(1, 1, 1, 1, 1))
    made = make_plan(desired({"d/a": "1"}), LiveDifferences(walked=True), Ledger({"d/a": kept}), POLICY)
    assert actions(made) == ["mode d/a 644"]


def test_data_comes_before_its_resource_json_and_deletions_come_last() -> None:
    lying = {"d/old/resource.json": "x", "d/old/data": "x"}
    made = make_plan(
        desired({"d/v/resource.json": "new", "d/v/view.json": "new", "d/z": "new"}),
        LiveDifferences(walked=True),
        wrote(lying),
        POLICY,
    )
    assert actions(made) == [
        "add d/v/view.json",
        "add d/z",
        "add d/v/resource.json",
        "delete d/old/resource.json",
        "delete d/old/data",
    ]


def test_with_owned_only_what_the_ledger_names_is_deleted() -> None:
    ledger = wrote({"d/a": "1", "d/ours": "x", "e/ours": "x", "d/vanished": "x"})
    there = on_disk({"d/a": "1", "d/ours": "x", "d/theirs": "x", "e/ours": "x"}, ledger)
    made = make_plan(desired({"d/a": "1"}), there, ledger, OWNED)
    assert actions(made) == ["delete d/ours", "delete e/ours"]
    assert not made.orphans_kept
    assert made.forgotten == {"d/vanished"}


def test_with_mirror_a_strangers_file_goes_like_ours() -> None:
    ledger = wrote({"d/a": "1", "d/ours": "x"})
    there = on_disk({"d/a": "1", "d/ours": "x", "d/theirs": "x", "e/theirs": "x"}, ledger)
    made = make_plan(desired({"d/a": "1"}), there, ledger, POLICY)
    assert actions(made) == ["delete d/ours", "delete d/theirs"]
    assert not made.orphans_kept


def test_an_api_key_that_was_made_on_the_gateway_stays_in_a_mirrored_folder() -> None:
    resources = "config/resources/core/ignition"
    git, key = f"{resources}/database/a", f"{resources}/api-token/stoker2/config.json"
    ledger = wrote({git: "1", f"{resources}/api-token/old/config.json": "x"}, folders=frozenset({"config"}))
    there = on_disk(
        {
            git: "1",
            f"{resources}/api-token/old/config.json": "x",
            key: "made by hand",
            f"{resources}/database/theirs": "x",
        },
        ledger,
    )
    made = make_plan(desired({git: "1"}, folders=("config",)), there, ledger, POLICY)
    assert actions(made) == [
        f"delete {resources}/api-token/old/config.json",
        f"delete {resources}/database/theirs",
    ]
    assert find_drift(replace(ledger, mirrored=frozenset({"config"})), there).extra == (
        f"{resources}/database/theirs",
    )
    delivered = make_plan(desired({git: "1", key: "from git"}, folders=("config",)), there, ledger, POLICY)
    assert f"modify {key}" in actions(delivered)


def test_on_first_contact_nothing_is_deleted_and_strangers_are_kept() -> None:
    made = make_plan(desired({"d/a": "1"}), on_disk({"d/a": "1", "d/x": "2"}), None, POLICY)
    assert not made.actions
    assert made.orphans_kept == ("d/x",)
    assert made.facts.kept == {"d/x"}


def test_a_ledger_does_not_help_when_the_first_boot_came_between() -> None:
    ledger = wrote({"d/a": "1", "d/ours": "x"})
    there = on_disk({"d/a": "1", "d/ours": "x", "d/theirs": "x"}, ledger)
    made = make_plan(desired({"d/a": "1"}), there, ledger, POLICY, first_contact=True)
    assert not made.actions
    assert made.facts.kept == {"d/theirs"}
    assert not made.delivers_all


def test_a_folder_that_was_not_managed_before_is_met_for_the_first_time() -> None:
    ledger = wrote({"d/a": "1"})
    there = on_disk({"d/a": "1", "e/theirs": "x", "d/theirs": "x"}, ledger)
    made = make_plan(desired({"d/a": "1", "e/b": "1"}, folders=("d", "e")), there, ledger, POLICY)
    assert actions(made) == ["add e/b", "delete d/theirs"]
    assert made.orphans_kept == ("e/theirs",)
    assert made.facts.folders == {"d", "e"}


def test_a_folder_that_was_not_walked_is_still_to_be_met() -> None:
    ledger = wrote({"d/a": "1"})
    made = make_plan(desired({"d/a": "1", "e/b": "1"}, folders=("d", "e")), LiveDifferences(), ledger, POLICY)
    assert made.facts.folders == {"d"}


def test_kept_files_stay_until_the_plan_that_deletes_them_is_approved() -> None:
    ledger = wrote({"d/a": "1"}, kept=frozenset({"d/before", "d/vanished", "d/wanted"}))
    there = on_disk({"d/a": "1", "d/before": "x", "d/new": "x", "d/wanted": "x"}, ledger)
    made = make_plan(desired({"d/a": "1", "d/wanted": "1"}), there, ledger, POLICY)
    assert actions(made) == ["modify d/wanted", "delete d/new"]
    assert made.orphans_kept == ("d/before",)
    assert made.facts.kept == {"d/before"}
    approved = made.with_orphans()
    assert actions(approved) == ["modify d/wanted", "delete d/before", "delete d/new"]
    assert approved.facts.kept == frozenset()
    assert approved.digest == made.digest, "one digest, for all that the approval does"


def test_kept_files_that_were_not_looked_for_stay_kept() -> None:
    ledger = wrote({"d/a": "1"}, kept=frozenset({"d/before"}))
    made = make_plan(desired({"d/b": "1"}, removed=()), LiveDifferences(), ledger, POLICY)
    assert made.orphans_kept == ("d/before",)
    assert made.facts.kept == {"d/before"}


def test_a_kept_file_that_vanished_and_is_desired_now_is_no_orphan() -> None:
    """Or an approval of the orphans would delete what was just written."""
    ledger = wrote({"d/a": "1"}, kept=frozenset({"d/before"}))
    made = make_plan(desired({"d/before": "1"}, removed=()), LiveDifferences(), ledger, POLICY)
    assert actions(made) == actions(made.with_orphans()) == ["add d/before"]
    assert made.facts.kept == frozenset()


def test_what_was_kept_stays_so_in_a_folder_that_welcomes_it_and_is_not_up_for_approval() -> None:
    ledger = wrote({"d/a": "1"}, kept=frozenset({"d/before", "e/elsewhere"}), mirrored=frozenset())
    made = make_plan(desired({"d/b": "1"}, removed=()), LiveDifferences(), ledger, OWNED)
    assert made.orphans_kept == ()
    assert made.facts.kept == {"d/before"}, "and what is in no managed folder is not recorded"
    there = on_disk({"d/a": "1", "d/before": "x", "e/elsewhere": "x"}, ledger)
    assert make_plan(desired({"d/a": "1"}), there, ledger, OWNED).facts.kept == {"d/before"}


def test_a_kept_file_that_a_broken_sync_may_have_deleted_is_forgotten() -> None:
    """Its folder may have been left empty; only who has looked everywhere knows that the file is gone."""
    kept = frozenset({"d/before"})
    wanted, ledger = desired({"d/a": "1"}), wrote({"d/a": "1"}, kept=kept)
    assert make_plan(wanted, LiveDifferences(walked=True), ledger, POLICY).forgotten == kept
    assert not make_plan(wanted, LiveDifferences(), ledger, POLICY).forgotten
    assert not make_plan(
        wanted, LiveDifferences(walked=True), replace(ledger, complete=True), POLICY
    ).forgotten
    assert not make_plan(wanted, on_disk({"d/a": "1", "d/before": "x"}, ledger), ledger, POLICY).forgotten


def test_the_deepest_destination_decides_about_strangers() -> None:
    ledger = wrote({"d/a": "1"})
    there = on_disk({"d/a": "1", "d/x": "2", "d/e/x": "2", "d/e/f/x": "2"}, ledger)
    rules = {"d/e": OrphanPolicy.OWNED, "d/e/f": OrphanPolicy.MIRROR}
    made = make_plan(desired({"d/a": "1"}, orphans=rules), there, ledger, POLICY)
    assert actions(made) == ["delete d/e/f/x", "delete d/x"]
    other_way = make_plan(desired({"d/a": "1"}, orphans={"d/e": OrphanPolicy.MIRROR}), there, ledger, OWNED)
    assert actions(other_way) == ["delete d/e/f/x", "delete d/e/x"]


def test_files_that_were_welcome_in_a_folder_stay_until_their_deletion_is_approved() -> None:
    ledger = wrote({"d/a": "1"}, mirrored=frozenset())
    there = on_disk({"d/a": "1", "d/theirs": "x"}, ledger)
    made = make_plan(desired({"d/a": "1"}), there, ledger, POLICY)
    assert not made.actions
    assert made.orphans_kept == ("d/theirs",)
    assert made.facts.kept == {"d/theirs"}
    assert made.facts.mirrored == OURS
    assert actions(made.with_orphans()) == ["delete d/theirs"]


def test_the_ledger_calls_mirrored_only_what_is() -> None:
    """A folder that is `owned` today must not look tomorrow as if foreign files had been forbidden in it."""
    rules = {"d/e": OrphanPolicy.OWNED}
    made = make_plan(desired({"d/a": "1"}, folders=("d", "d/e"), orphans=rules), on_disk({}), None, POLICY)
    assert made.facts.folders == {"d", "d/e"}
    assert made.facts.mirrored == {"d"}


def test_a_file_of_others_is_drift_also_where_it_stays() -> None:
    ledger = wrote({"d/a": "1", "d/e/b": "1"}, folders=frozenset({"d", "d/e"}), mirrored=OURS)
    there = on_disk({"d/a": "1", "d/e/b": "1", "d/x": "2", "d/e/x": "2"}, ledger)
    assert find_drift(ledger, there).extra == ("d/e/x", "d/x")


def test_what_is_no_file_is_never_deleted_and_is_named() -> None:
    ledger = wrote({"d/a": "1"})
    there = on_disk({"d/a": "1", "d/link": SYMLINK, "d/pipe": LiveEntry(LiveKind.SPECIAL)}, ledger)
    made = make_plan(desired({"d/a": "1"}), there, ledger, POLICY)
    assert not made.actions
    assert [note.path for note in made.skipped] == ["d/link", "d/pipe"]


def test_what_is_no_file_is_not_named_where_it_is_excluded() -> None:
    ledger = wrote({"d/a": "1"})
    there = on_disk({"d/a": "1", "d/link.bak": SYMLINK}, ledger)
    assert not make_plan(desired({"d/a": "1"}, excludes=("**/*.bak",)), there, ledger, POLICY).skipped


def test_where_something_at_the_root_was_not_delivered_nothing_goes() -> None:
    ledger = wrote({"d/a": "1", "d/ours": "1"})
    there = on_disk({"d/a": "1", "d/ours": "1", "d/theirs": "x"}, ledger)
    wanted = desired({"d/a": "1"})
    assert actions(make_plan(wanted, there, ledger, POLICY)) == ["delete d/ours", "delete d/theirs"]
    made = make_plan(wanted._replace(kept=frozenset({""})), there, ledger, POLICY)
    assert not made.actions
    assert not made.orphans_kept
    assert not made.delivers_all, "the next pass looks at everything again"


def test_what_is_excluded_shielded_or_kept_is_neither_deleted_nor_an_orphan() -> None:
    there = {"d/x.bak": "1", "d/.resources/x": "1", "d/link/x": "1"}
    ledger = wrote(there)
    made = make_plan(
        desired({"d/a": "1"}, excludes=("**/*.bak",), kept=("d/link",)),
        on_disk({"d/a": "1", "d/stranger.bak": "1", "d/link/y": "1", **there}, ledger),
        ledger,
        POLICY,
    )
    assert not made.actions
    assert not made.orphans_kept
    assert not made.forgotten
    assert not made.delivers_all, "the ledger holds what nothing desires"


def test_what_was_written_and_is_excluded_since_stays_in_the_ledger_and_leaves_nothing_undone() -> None:
    ledger = wrote({"d/a": "1", "d/x.bak": "1"})
    made = make_plan(
        desired({"d/a": "1"}, excludes=("**/*.bak",)), on_disk({"d/a": "1", "d/x.bak": "2"}), ledger, POLICY
    )
    assert (made.actions, made.forgotten) == ((), frozenset())
    assert made.delivers_all, "or each pass would look at all of the commit again"


def test_an_intended_write_counts_as_ours_only_with_exactly_that_content() -> None:
    ledger = Ledger(
        {"d/a": encode_record(version("1"))}, {"d/reached": version("new"), "d/stranger": version("new")}
    )
    there = on_disk({"d/a": "1", "d/reached": "new", "d/stranger": "theirs"}, ledger)
    made = make_plan(desired({"d/a": "1"}), there, ledger, POLICY)
    assert actions(made) == ["delete d/reached"]
    assert made.orphans_kept == ("d/stranger",)


@pytest.mark.parametrize("there", [SYMLINK, FOLDER, LiveEntry(LiveKind.FILE), None])
def test_an_unknown_file_at_the_path_of_an_intended_write_stays(
    there: LiveEntry | None,
) -> None:
    ledger = replace(wrote({"d/a": "1"}, mirrored=frozenset()), intended={"d/b": version("new")})
    live = LiveDifferences({} if there is None else {"d/b": there}, walked=True)
    made = make_plan(desired({"d/a": "1"}), live, ledger, POLICY)
    assert not made.actions
    assert [note.path for note in made.skipped] == (["d/b"] if there is SYMLINK else [])


def test_an_intended_write_that_was_reached_and_is_still_desired_stays() -> None:
    ledger = replace(wrote({"d/a": "1"}), intended={"d/b": version("new")})
    there = on_disk({"d/a": "1", "d/b": "new"}, ledger)
    made = make_plan(desired({"d/a": "1", "d/b": "new"}), there, ledger, POLICY)
    assert not made.actions
    assert set(made.remembered) == {"d/b"}


def test_a_file_that_already_has_the_desired_content_becomes_ours() -> None:
    stat = STAT.pack(1, 2, 3, 4, 0)
    there = LiveDifferences({"d/a": LiveEntry(LiveKind.FILE, version("1"), stat)}, walked=True)
    assert make_plan(desired({"d/a": "1"}), there, None, POLICY).remembered == {
        "d/a": encode_record(version("1"), stat)
    }
    ledger = wrote({"d/a": "1"})
    assert make_plan(desired({"d/a": "1"}), there, ledger, POLICY).remembered == {
        "d/a": encode_record(version("1"), stat)
    }
    same = Ledger({"d/a": encode_record(version("1"), stat)})
    assert not make_plan(desired({"d/a": "1"}), there, same, POLICY).remembered


def test_a_symlink_or_device_in_the_place_of_a_file_is_a_conflict() -> None:
    ledger = wrote({"d/a": "1"})
    made = make_plan(
        desired({"d/a": "1", "d/b": "1", "d/c": "1"}),
        on_disk({"d/a": SYMLINK, "d/b": LiveEntry(LiveKind.SPECIAL)}, ledger),
        ledger,
        POLICY,
    )
    assert actions(made) == ["add d/c"]
    assert set(conflicts(made)) == {"d/a", "d/b"}
    assert made.forgotten == {"d/a"}


def test_nothing_is_written_below_a_symlink() -> None:
    ledger = wrote({"d/p": "1"})
    made = make_plan(
        desired({"d/p/a": "1", "d/p/b/c": "1"}), on_disk({"d/p": SYMLINK}, ledger), ledger, POLICY
    )
    assert not made.actions
    assert (
        conflicts(made)["d/p/b/c"] == "cannot be written: d/p is a symlink on the data volume, not a folder"
    )


def test_nothing_is_written_below_a_symlink_that_took_the_place_of_our_folder() -> None:
    ledger = wrote({"d/p/a": "1", "d/p/b/c": "1"})
    there = LiveDifferences({"d/p": SYMLINK, "d/p/a": None, "d/p/b/c": None}, walked=True)
    made = make_plan(desired({"d/p/a": "1", "d/p/b/c": "2"}), there, ledger, POLICY)
    assert not made.actions
    assert set(conflicts(made)) == {"d/p/a", "d/p/b/c"}
    assert made.forgotten == {"d/p/a", "d/p/b/c"}


def test_a_folder_in_place_of_our_file_is_written_into() -> None:
    ledger = wrote({"d/a": "x"})
    made = make_plan(desired({"d/a/b": "1"}), as_folder("d/a", {}, ledger), ledger, POLICY)
    assert actions(made) == ["add d/a/b"]
    assert made.forgotten == {"d/a"}


def test_our_file_makes_room_for_a_folder_of_its_name() -> None:
    made = make_plan(desired({"d/a/b": "1"}), LiveDifferences(walked=True), wrote({"d/a": "x"}), POLICY)
    assert actions(made) == ["delete d/a", "add d/a/b"]


def test_a_strangers_file_makes_room_only_where_the_source_is_mirrored() -> None:
    ledger = wrote({"d/q": "x"})
    there = on_disk({"d/q": "x", "d/a": "x"}, ledger)
    wanted = desired({"d/q": "x", "d/a/b": "1"})
    assert set(conflicts(make_plan(wanted, there, ledger, OWNED))) == {"d/a/b"}
    assert actions(make_plan(wanted, there, ledger, POLICY)) == ["delete d/a", "add d/a/b"]
    assert set(conflicts(make_plan(wanted, there, None, POLICY))) == {"d/a/b"}


def test_our_folder_makes_room_for_a_file_of_its_name() -> None:
    ledger = wrote({"d/a/b/c": "x"})
    there = as_folder("d/a", {"d/a/b/c": "x", "d/a/empty": FOLDER}, ledger)
    made = make_plan(desired({"d/a": "1"}), there, ledger, POLICY)
    assert actions(made) == ["delete d/a/b/c", "add d/a"]


@pytest.mark.parametrize("stranger", ["x", SYMLINK])
def test_a_folder_with_something_foreign_in_it_does_not_make_room(stranger: str | LiveEntry) -> None:
    ledger = wrote({"d/a/b": "x"})
    there = as_folder("d/a", {"d/a/b": "x", "d/a/c": stranger}, ledger)
    made = make_plan(desired({"d/a": "1"}), there, ledger, OWNED)
    assert actions(made) == ["delete d/a/b"]
    assert "d/a/c" in conflicts(made)["d/a"]


def test_a_folder_with_unlisted_content_does_not_make_room() -> None:
    ledger = wrote({"d/a/b": "x"})
    there = LiveDifferences({"d/a": FOLDER}, opaque=frozenset({"d/a"}), walked=True)
    made = make_plan(desired({"d/a": "1"}), there, ledger, POLICY)
    assert set(conflicts(made)) == {"d/a"}


def test_a_resource_json_is_held_back_with_a_file_that_cannot_be_written() -> None:
    made = make_plan(
        desired({"d/v/view.json": "1", "d/v/resource.json": "1", "d/w/resource.json": "1"}),
        on_disk({"d/v/view.json": SYMLINK}),
        None,
        POLICY,
    )
    assert actions(made) == ["add d/w/resource.json"]
    assert set(conflicts(made)) == {"d/v/view.json", "d/v/resource.json"}


def test_a_resource_json_is_held_back_with_a_file_that_was_refused() -> None:
    made = make_plan(desired({"d/v/resource.json": "1"}, incomplete=("d/v",)), on_disk({}), None, POLICY)
    assert not made.actions
    assert set(conflicts(made)) == {"d/v/resource.json"}


def test_a_resource_json_that_stays_keeps_the_files_that_it_names() -> None:
    lying: dict[str, str] = {"d/v/resource.json": "old", "d/v/old.json": "x", "d/w/old.json": "x"}
    ledger = wrote(lying)
    made = make_plan(
        desired({"d/v/resource.json": "new", "d/v/new.json": "1", "d/w/new.json": "1"}),
        on_disk({**lying, "d/v/new.json": SYMLINK, "d/w/new.json": SYMLINK}, ledger),
        ledger,
        POLICY,
    )
    assert actions(made) == ["delete d/w/old.json"]
    assert "d/v/old.json" not in made.forgotten


def test_a_folder_that_is_still_to_be_emptied_stays_in_the_ledger_until_it_is() -> None:
    ledger = wrote({"e/f/old": "x"}, folders=frozenset({"e/f", "g"}))
    made = make_plan(desired({"d/a": "1"}), LiveDifferences(walked=True), ledger, POLICY)
    assert made.facts.folders == {"d", "e/f"}
    after = make_plan(
        desired({"d/a": "1"}),
        LiveDifferences(walked=True),
        wrote({"d/a": "1"}, folders=made.facts.folders),
        POLICY,
    )
    assert after.facts.folders == {"d"}


def test_of_a_partial_state_the_rest_stays_as_the_ledger_says() -> None:
    ledger = wrote({"d/a": "1", "d/b": "1", "d/gone": "1", "d/other": "1"})
    made = make_plan(
        desired({"d/a": "2", "d/new": "1"}, removed=("d/gone",)), LiveDifferences(), ledger, POLICY
    )
    assert actions(made) == ["modify d/a", "add d/new", "delete d/gone"]
    assert made.delivers_all


def test_of_a_partial_state_drift_is_put_right_and_touched_files_are_remembered() -> None:
    ledger = wrote({"d/a": "1", "d/changed": "1", "d/lost": "1", "d/touched": "1"})
    touched = STAT.pack(9, 9, 9, 9, 0)
    live = LiveDifferences(
        {
            "d/changed": LiveEntry(LiveKind.FILE, version("by hand")),
            "d/lost": None,
            "d/touched": LiveEntry(LiveKind.FILE, version("1"), touched),
            "d/theirs": LiveEntry(LiveKind.FILE),
        },
        walked=True,
    )
    made = make_plan(desired({}, removed=()), live, ledger, POLICY)
    assert actions(made) == ["modify d/changed", "add d/lost", "delete d/theirs"]
    assert not made.forgotten
    assert made.remembered == {"d/touched": encode_record(version("1"), touched)}


def test_of_a_partial_state_what_changes_is_never_put_back_to_what_it_was() -> None:
    """Another process touched a file that the commit changes, and one that it deletes."""
    ledger = wrote({"d/changed": "1", "d/gone": "1"})
    there = on_disk({"d/changed": "by hand", "d/gone": "by hand"}, ledger)
    made = make_plan(desired({"d/changed": "2"}, removed=("d/gone",)), there, ledger, POLICY)
    assert actions(made) == ["modify d/changed", "delete d/gone"]
    assert [write.version for write in made.writes] == [version("2")]


def test_of_a_partial_state_drift_stays_where_nothing_may_be_delivered() -> None:
    ledger = wrote({"d/a.bak": "1", "d/kept": "1", "d/put/right": "1"})
    there = on_disk({"d/a.bak": "by hand", "d/kept": "by hand", "d/put/right": "by hand"}, ledger)
    wanted = desired({}, excludes=("**/*.bak",), kept=("d/kept",), removed=())
    assert actions(make_plan(wanted, there, ledger, POLICY)) == ["modify d/put/right"]


def test_of_a_partial_state_only_what_the_ledger_names_is_removed() -> None:
    made = make_plan(desired({}, removed=("d/a", "d/theirs")), LiveDifferences(), wrote({"d/a": "1"}), POLICY)
    assert actions(made) == ["delete d/a"]


def test_a_plan_says_what_the_ledger_shall_and_what_was_left_out() -> None:
    wanted = desired({"d/a": "1"})._replace(
        skipped=(PathNote("d/s", "skipped"),),
        conflicts=(PathNote("d/A", "collides"),),
        given=frozenset({"0 d/ 1"}),
        settings="these",
        excludes=frozenset({"**/*.bak"}),
    )
    made = make_plan(
        wanted, LiveDifferences(walked=True), wrote({}, folders=frozenset({"e"})), POLICY, commit="c" * 40
    )
    facts = made.facts
    assert (facts.commit, facts.settings, facts.given) == ("c" * 40, "these", frozenset({"0 d/ 1"}))
    assert (facts.mappings, facts.excludes) == (wanted.delivered, wanted.excludes)
    assert (made.skipped, made.conflicts) == (wanted.skipped, wanted.conflicts)
    assert not made.delivers_all
    assert made.prunable == {"d", "e"}, "also what was managed until now is emptied"


def test_a_file_whose_stat_data_was_never_seen_is_not_remembered_without_need() -> None:
    ledger = Ledger({"d/a": encode_record(version("1"), UNSEEN_STAT)}, folders=OURS)
    made = make_plan(desired({"d/a": "1"}), LiveDifferences(walked=True), ledger, POLICY)
    assert made == make_plan(desired({"d/a": "1"}), LiveDifferences(walked=True), ledger, POLICY)
    assert not made.remembered


def test_the_digest_names_exactly_what_an_approval_does() -> None:
    made = make_plan(desired({"d/a": "1"}), on_disk({}), None, OWNED)
    same = make_plan(desired({"d/a": "1"}), on_disk({"d/stranger": "x"}), None, OWNED)
    kept = make_plan(desired({"d/a": "1"}), on_disk({"d/stranger": "x"}), None, POLICY)
    assert actions(kept) == actions(made)
    assert kept.digest != made.digest, "an approval would delete d/stranger as well"
    other = make_plan(desired({"d/a": "2"}), on_disk({}), None, POLICY)
    assert made.digest == same.digest
    assert made.digest != other.digest


def test_a_plan_prints_as_text_and_as_json() -> None:
    ledger = wrote({"d/old": "x"}, kept=frozenset({"d/other"}))
    made = make_plan(
        desired({"d/a": "1", "d/b": "1"}),
        on_disk({"d/b": SYMLINK, "d/old": "x", "d/other": "x"}, ledger),
        ledger,
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


def test_contents_that_are_refused_keep_the_files_on_disk() -> None:
    ledger = wrote({"d/a": "1", "d/big": "old"})
    wanted = desired({"d/a": "1", "d/big": "pointer"}).without({"d/big": "is a pointer"})
    made = make_plan(wanted, LiveDifferences(walked=True), ledger, POLICY)
    assert not made.actions
    assert made.refused == (PathNote("d/big", "is a pointer"),)


# --- orphans: owned -----------------------------------------------------------------------------------------


def test_with_owned_files_of_others_are_named_and_never_deleted() -> None:
    ledger = wrote({"d/a": "1", "d/gone": "1"}, mirrored=frozenset())
    there = on_disk({"d/a": "1", "d/gone": "1", "d/theirs": "2", "d/link": SYMLINK}, ledger)
    made = make_plan(desired({"d/a": "1"}), there, ledger, OWNED)
    assert actions(made) == ["delete d/gone"]
    assert made.not_ours == ("d/link", "d/theirs")
    assert not made.orphans_kept
    assert actions(made.with_orphans()) == actions(made), "no approval deletes them"


def test_with_owned_what_was_there_first_is_remembered_and_no_drift() -> None:
    first = make_plan(desired({"d/a": "1"}), on_disk({"d/before": "x"}), None, OWNED)
    assert first.not_ours == ("d/before",)
    assert first.facts.kept == {"d/before"}
    ledger = wrote({"d/a": "1"}, mirrored=frozenset(), kept=first.facts.kept)
    there = on_disk({"d/a": "1", "d/before": "x", "d/new": "x"}, ledger)
    assert find_drift(ledger, there).extra == ("d/new",)
    later = make_plan(desired({"d/a": "1"}), there, ledger, OWNED)
    assert later.not_ours == ("d/before", "d/new")
    assert later.facts.kept == {"d/before"}


def test_with_owned_what_was_there_first_is_remembered_also_where_the_folder_was_not_walked() -> None:
    ledger = wrote({"d/a": "1"}, mirrored=frozenset(), kept=frozenset({"d/before"}))
    made = make_plan(desired({"d/b": "1"}, removed=()), LiveDifferences(), ledger, OWNED)
    assert made.facts.kept == {"d/before"}
    assert not made.orphans_kept

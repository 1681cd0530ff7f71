"""Promises on which deletions rest: what is managed, what is kept, and a short way that says no less."""

import pytest

from stoker.domain.git_objects import (
    CommitTree,
    FileVersion,
    PathNote,
    RefusedEntry,
    RefusedEntryKind,
    TreeChange,
    blob_of,
)
from stoker.domain.intent.files import (
    ExcludePolicy,
    FileMapping,
    FilePatch,
    FilesIntent,
    MappingKind,
    MissingSourcePolicy,
    OrphanPolicy,
    TransformPolicy,
)
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.paths import RelPath
from stoker.engine.layout.desired_files import DesiredFiles, ManagedPaths
from stoker.engine.layout.incremental_collisions import may_collide
from stoker.engine.layout.layout import Layout
from stoker.engine.plan.ledger import STAT, Ledger, encode_record, recorded_stat, recorded_version
from stoker.engine.transform.three_way_text_merge import merge3
from stoker.engine.transform.transform import TransformSet

Files = dict[str, str]


def version(text: str, *, executable: bool = False) -> FileVersion:
    return FileVersion(blob_of(text.encode()), executable)


def tree(files: Files, *refused: RefusedEntry) -> CommitTree:
    return CommitTree({path: version(text) for path, text in files.items()}, refused)


def layout(*mappings: FileMapping, excludes: tuple[str, ...] = ()) -> Layout:
    return Layout(FilesIntent(mappings, excludes=ExcludePolicy(excludes)), TemplateValues())


def ledger_of(laid: Layout, files: Files, *more: str) -> Ledger:
    """After a complete pass over these files; `more` are paths that it names besides."""
    desired = laid.map(tree(files))
    return Ledger(
        {path: encode_record(one) for path, one in desired.files.items()}
        | dict.fromkeys(more, encode_record(version("1"))),
        mappings=desired.delivered,
        folders=frozenset(desired.managed.folders),
        given=desired.given,
        settings=laid.settings,
        skipped_total=len(desired.skipped),
        complete=True,
    )


def traced(laid: Layout, before: Files, after: Files, *more: str) -> DesiredFiles | None:
    """The short way from one commit to the next."""

    def at(files: Files, path: str) -> FileVersion | None:
        return version(files[path]) if path in files else None

    paths = [path for path in sorted({**before, **after}) if before.get(path) != after.get(path)]
    changes = [TreeChange(path, at(before, path), at(after, path)) for path in paths]
    answers = {path: version(after[path]) for path in laid.questions(changes) if path in after}
    return laid.map_changes(changes, answers, ledger_of(laid, before, *more))


# --- the short way ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "short"),
    [
        ({"s": "1", "t/x": "1"}, {"s": "2", "t/x": "1"}, True),
        ({"s/a": "1", "s/b": "1", "t/x": "1"}, {"s/a": "2", "t/x": "1"}, True),
        ({"s": "1", "t/x": "1"}, {"s/a": "1", "t/x": "1"}, False),
        ({"s/a": "1", "t/x": "1"}, {"s": "1", "t/x": "1"}, False),
        ({"t/x": "1"}, {"s": "1", "t/x": "1"}, False),
        ({"s": "1", "t/x": "1"}, {"t/x": "1"}, False),
    ],
    ids=["file", "folder", "file to folder", "folder to file", "begins", "ends"],
)
def test_the_short_way_without_a_type_agrees_with_the_whole_commit(
    before: Files, after: Files, short: bool
) -> None:
    laid = layout(FileMapping("s", "d/s", kind=None), FileMapping("t", "e", kind=None))
    traced_files, whole = traced(laid, before, after), laid.map(tree(after))
    assert (traced_files is not None) is short
    if traced_files is not None:
        assert traced_files.files == {
            path: one for path, one in whole.files.items() if path in traced_files.files
        }
        assert (traced_files.managed, traced_files.given) == (whole.managed, whole.given)


def test_a_file_that_comes_at_the_destination_of_a_folder_is_for_the_whole_way() -> None:
    laid = layout(FileMapping("s", "d/", kind=None), FileMapping("t", "e"))
    assert traced(laid, {"t/x": "1"}, {"t/x": "1", "s": "1"}) is None


def test_a_change_at_the_source_of_a_mapping_that_gives_nothing_is_for_the_whole_way() -> None:
    laid = layout(FileMapping("s", "d"), FileMapping("s/a", "e"))
    assert "is a file, not a folder" in laid.map(tree({"s/a": "1", "s/z": "1"})).skipped[0].why
    assert traced(laid, {"s/a": "1", "s/z": "1"}, {"s/z": "1"}) is None, (
        "it is missing for another reason now"
    )


@pytest.mark.parametrize(("before", "after"), [((), ("s/p.json",)), (("s/p.json",), ())])
def test_a_patch_that_gains_or_loses_its_file_is_for_the_whole_way(
    before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    patches = TransformPolicy(patches=(FilePatch("d/p.json", ((".a", "1"),)),))
    intent = FilesIntent((FileMapping("s", "d"),), transforms=patches)
    laid = Layout(intent, TemplateValues(), TransformSet(patches, TemplateValues()))
    rest = {"s/a.json": "1"}
    assert traced(laid, rest | dict.fromkeys(before, "{}"), rest | dict.fromkeys(after, "{}")) is None
    assert traced(laid, rest, {"s/a.json": "2"}) is not None


def test_the_short_way_says_of_what_changed_all_that_the_whole_commit_says() -> None:
    laid = layout(
        FileMapping("s", "d", orphans=OrphanPolicy.OWNED),
        FileMapping("t", "e"),
        FileMapping("none", "f"),
        excludes=("**/*.bak",),
    )
    before = {"s/a": "1", "s/b": "1", "s/old.bak": "1", "t/c": "1", "t/d": "1"}
    after = {"s/a": "2", "s/b": "1", "s/old.bak": "2", "s/new.bak": "1", "t/c": "1"}
    short, whole = traced(laid, before, after), laid.map(tree(after))
    assert short is not None
    assert short.files == {"d/a": whole.files["d/a"]}
    assert short.removed == {"e/d"}
    assert set(short.excluded) == {PathNote("d/new.bak", "is excluded"), PathNote("d/old.bak", "is excluded")}
    assert set(short.excluded) <= set(whole.excluded)
    for name in ("managed", "given", "delivered", "undelivered", "missed", "orphans", "settings", "excludes"):
        assert getattr(short, name) == getattr(whole, name), name
    assert whole.missed == {"f": "none -> f"}
    assert whole.orphans == {"d": OrphanPolicy.OWNED}


def test_the_short_way_removes_nothing_that_is_excluded_although_the_ledger_names_it() -> None:
    laid = layout(FileMapping("s", "d"), excludes=("**/*.bak",))
    short = traced(laid, {"s/a": "1", "s/x.bak": "1"}, {"s/a": "2"}, "d/x.bak")
    assert short is not None
    assert short.removed == frozenset()


def test_a_path_that_becomes_too_long_below_its_destination_needs_all_of_the_commit() -> None:
    deep = "s/" + "/".join(["d" * 100] * 39)
    assert RelPath(deep)
    laid = layout(FileMapping("s", "e" * 200))
    assert traced(laid, {"s/a": "1"}, {"s/a": "1", deep: "1"}) is None


def test_a_file_whose_place_a_placeholder_would_take_is_never_just_removed() -> None:
    laid = layout(
        FileMapping("c", "x"), FileMapping("ext", "x", when_missing=MissingSourcePolicy.CONFIG_MODE)
    )
    before, after = {"c/config-mode.json": "{}", "c/a": "1"}, {"c/a": "1"}
    assert "x/config-mode.json" in laid.map(tree(after)).files
    assert traced(laid, before, after) is None


def test_a_change_in_a_collection_that_is_there_goes_the_short_way() -> None:
    laid = layout(FileMapping("ext", "x", when_missing=MissingSourcePolicy.CONFIG_MODE))
    short = traced(laid, {"ext/a": "1"}, {"ext/a": "2"})
    assert short is not None
    assert short.files == {"x/a": version("2")}


def test_of_several_files_that_give_way_the_short_way_takes_the_same_as_the_long_one() -> None:
    laid = layout(
        FileMapping("core", "d"),
        FileMapping("one", "d", gives_way=("mode.json",)),
        FileMapping("two", "d", gives_way=("mode.json",)),
    )
    others = {"core/a": "1", "one/b": "1", "two/c": "1", "one/mode.json": "one", "two/mode.json": "two"}
    after = others
    short, whole = traced(laid, {"core/mode.json": "core", **others}, after), laid.map(tree(after))
    assert short is not None
    assert short.files == {"d/mode.json": version("one")}
    assert whole.files["d/mode.json"] == version("one")
    assert short.given == whole.given, "a file counts for its mapping although it gives way"


def test_a_mapping_for_a_file_says_nothing_of_a_longer_name() -> None:
    laid = layout(FileMapping("s/a", "x", MappingKind.FILE), FileMapping("t", "d"))
    short = traced(laid, {"s/a": "1", "t/b": "1"}, {"s/a": "1", "s/ab": "2", "t/b": "2"})
    assert short is not None
    assert short.files == {"d/b": version("2")}
    assert laid.routes[0].origin("x/below") is None


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["Line 1 (old)", "C++", "a.b[1]", "x|y"])
def test_a_name_in_a_folder_whose_own_name_looks_like_a_pattern_is_noticed(folder: str) -> None:
    there = [f"{folder}/view", f"{folder}/other"]
    assert may_collide([f"{folder}/View"], frozenset(), there)
    assert not may_collide([f"{folder}/new"], frozenset(), there)


# --- managed and kept places --------------------------------------------------------------------------------


def test_a_managed_path_holds_itself_and_what_is_below_it_and_nothing_beside() -> None:
    managed = ManagedPaths.of({"d/", "x/one.json"})
    assert all(managed.hold(path) for path in ("d", "d/a", "d/a/b", "x/one.json"))
    assert not any(managed.hold(path) for path in ("da", "x", "x/two.json", "x/one.json.bak"))


def test_what_is_taken_out_later_adds_to_what_was_kept_and_named_before() -> None:
    link = RefusedEntry("s/q/bad", RelPath("s/q/bad"), RefusedEntryKind.AMBIGUOUS)
    desired = layout(FileMapping("s", "d")).map(tree({"s/a": "1", "s/p/big": "pointer"}, link))
    without = desired.without({"d/p/big": "is none"})
    assert without.kept == {"d/q/bad", "d/p/big"}
    assert without.incomplete == {"d/q", "d/p"}
    assert [note.path for note in without.refused] == ["s/q/bad", "d/p/big"]


def test_a_shaped_file_stays_executable_and_one_that_was_taken_out_does_not_come_back() -> None:
    given = CommitTree({"s/run": version("1", executable=True), "s/a": version("1")})
    desired = layout(FileMapping("s", "d")).map(given).without({"d/a": "is none"})
    derived = desired.derived({"d/run": version("2").blob, "d/a": version("2").blob})
    assert derived.files == {"d/run": version("2", executable=True)}


# --- the whole commit ---------------------------------------------------------------------------------------


def test_a_folder_gives_nothing_of_its_neighbours_however_alike_their_names_are() -> None:
    neighbours = ("line1", "line10", "line1-old", "line1.bak", "line1 (2)", "line", "line1:x", "line10/line1")
    source = tree({f"{folder}/a": folder for folder in neighbours})
    assert layout(FileMapping("line1", "d")).map(source).files == {"d/a": version("line1")}


def test_beside_names_that_collide_nothing_is_called_complete() -> None:
    source = tree({"s/r/View": "1", "s/r/view": "2", "s/r/resource.json": "3", "s/q/resource.json": "4"})
    desired = layout(FileMapping("s", "d")).map(source)
    assert desired.incomplete == {"d/r"}


def test_where_a_name_is_none_its_folder_is_not_complete() -> None:
    bad = RefusedEntry("s/r/..", RelPath("s/r"), RefusedEntryKind.BAD_NAME)
    desired = layout(FileMapping("s", "d")).map(tree({"s/r/resource.json": "1"}, bad))
    assert desired.kept == {"d/r"}
    assert desired.incomplete == {"d/r"}


def test_a_file_whose_place_would_be_none_keeps_all_of_the_destination() -> None:
    deep = "/".join(["d" * 100] * 39)
    desired = layout(FileMapping("s", "e" * 200)).map(tree({f"s/{deep}": "1", "s/a": "2"}))
    assert list(desired.files) == [f"{'e' * 200}/a"]
    assert desired.kept == {"e" * 200}


@pytest.mark.parametrize(
    ("files", "refused"),
    [
        ({"here/ext": "a file"}, ()),
        ({}, (RefusedEntry("here", RelPath("here"), RefusedEntryKind.SYMLINK),)),
        ({}, (RefusedEntry("here/ext", RelPath("here/ext"), RefusedEntryKind.SUBMODULE),)),
    ],
    ids=["a file", "below a symlink", "a submodule"],
)
def test_a_source_of_which_the_commit_has_anything_gets_no_placeholder(
    files: Files, refused: tuple[RefusedEntry, ...]
) -> None:
    laid = layout(
        FileMapping("s", "d"), FileMapping("here/ext", "x", when_missing=MissingSourcePolicy.CONFIG_MODE)
    )
    assert list(laid.map(tree({"s/a": "1", **files}, *refused)).files) == ["d/a"]


def test_a_bad_name_beside_a_missing_source_is_not_in_its_way() -> None:
    laid = layout(
        FileMapping("s", "d"), FileMapping("here/ext", "x", when_missing=MissingSourcePolicy.CONFIG_MODE)
    )
    bad = RefusedEntry("here/..", RelPath("here"), RefusedEntryKind.BAD_NAME)
    assert list(laid.map(tree({"s/a": "1"}, bad)).files) == ["d/a", "x/config-mode.json"]


def test_a_file_that_a_later_mapping_lays_over_a_template_is_none() -> None:
    values = TemplateValues(gateway_name="gw")
    intent = FilesIntent((FileMapping("t", "d", template=True), FileMapping("s", "d")))
    laid = Layout(intent, values, TransformSet(intent.transforms, values))
    desired = laid.map(tree({"t/a": "{{.GatewayName}}", "t/b": "{{.GatewayName}}", "s/b": "{{.Mine}}"}))
    assert list(desired.recipes) == ["d/a"]
    assert desired.recipes["d/a"].apply(b"{{.GatewayName}}") == b"gw"


# --- the ledger ---------------------------------------------------------------------------------------------


def test_a_place_that_is_held_is_at_its_own_commit_and_every_other_at_that_of_the_ledger() -> None:
    ledger = Ledger(held=frozenset({"aaa projects/Line 1", "bbb projects/Line"}), commit="ccc")
    places = ("projects/Line 1", "projects/Line", "projects/1")
    assert [ledger.held_at(place) for place in places] == ["aaa", "bbb", "ccc"]


@pytest.mark.parametrize("executable", [True, False])
def test_what_the_ledger_keeps_of_a_file_is_what_was_written(executable: bool) -> None:
    stat = STAT.pack(1, 2, 3, 4, executable)
    kept = encode_record(version("1", executable=executable), stat)
    assert recorded_version(kept) == version("1", executable=executable)
    assert recorded_stat(kept) == stat
    ledger = Ledger({"d/a": kept})
    assert ledger.version("d/a") == version("1", executable=executable)
    assert ledger.version("d/b") is None


# --- two changes of one text --------------------------------------------------------------------------------


def test_what_both_changed_in_the_same_way_is_merged_once_beside_other_changes() -> None:
    assert merge3(b"a\nb\nc\n", b"A\nb\nc\n", b"A\nb\nC\n") == b"A\nb\nC\n"
    assert merge3(b"a\nb\nc\n", b"A\nb\nC\n", b"A\nb\nc\n") == b"A\nb\nC\n"


def test_lines_that_come_again_at_the_end_hide_no_contradiction() -> None:
    base = b"p\nx\nx\n"
    assert merge3(base, base + b"q\nx\nx\n", base + b"other\n") is None

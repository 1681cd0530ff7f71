"""Mappings over a tree: what is delivered where, and what is left out with which reason."""

import pytest

from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.git_objects import (
    CommitTree,
    FileVersion,
    PathNote,
    RefusedEntry,
    RefusedEntryKind,
    blob_of,
)
from stoker.domain.intent.files import (
    ExcludePolicy,
    FileMapping,
    FilesIntent,
    MappingKind,
    MissingSourcePolicy,
)
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.layout.builtin_files import CONFIG_MODE
from stoker.engine.layout.desired_files import DesiredFiles, ManagedPaths
from stoker.engine.layout.layout import Layout


def version(content: str, *, executable: bool = False) -> FileVersion:
    return FileVersion(blob_of(content.encode()), executable)


def tree(files: dict[str, str], *refused: RefusedEntry) -> CommitTree:
    return CommitTree({path: version(text) for path, text in files.items()}, refused)


def refusal(path: str, kind: RefusedEntryKind) -> RefusedEntry:
    return RefusedEntry(path, RelPath(path), kind)


def mapped(
    source: CommitTree,
    *mappings: FileMapping,
    excludes: tuple[str, ...] = (),
    mandatory: tuple[str, ...] = (),
    values: TemplateValues | None = None,
) -> DesiredFiles:
    intent = FilesIntent(mappings, excludes=ExcludePolicy(excludes, mandatory))
    return Layout(intent, values or TemplateValues()).map(source)


def paths(desired: DesiredFiles) -> list[str]:
    return list(desired.files)


def test_a_folder_goes_to_its_destination() -> None:
    desired = mapped(tree({"s/a": "1", "s/b/c": "2", "sb": "3"}), FileMapping("s", "d"))
    assert desired.files == {RelPath("d/a"): version("1"), RelPath("d/b/c"): version("2")}
    assert desired.managed.folders == {"d"}


def test_templates_become_paths_in_source_and_destination() -> None:
    values = TemplateValues(vars={"line": "l1"}, gateway_name="gw")
    desired = mapped(
        tree({"lines/l1/a": "1", "lines/l2/a": "2"}),
        FileMapping("lines/{{.Vars.line}}", "projects/{{.GatewayName}}/"),
        values=values,
    )
    assert paths(desired) == ["projects/gw/a"]


@pytest.mark.parametrize("value", ["../../etc", "a/../../b", "x/.git"])
@pytest.mark.parametrize("mapping", [FileMapping("{{.Vars.x}}", "d"), FileMapping("s", "d/{{.Vars.x}}")])
def test_a_value_that_leaves_the_folder_is_refused_after_rendering(mapping: FileMapping, value: str) -> None:
    with pytest.raises(InvalidValue):
        mapped(tree({"s/a": "1"}), mapping, values=TemplateValues(vars={"x": value}))


def test_an_absolute_path_is_refused_after_rendering() -> None:
    with pytest.raises(InvalidValue, match="absolute"):
        mapped(tree({"s/a": "1"}), FileMapping("s", "{{.Vars.x}}"), values=TemplateValues(vars={"x": "/etc"}))


def test_a_later_mapping_wins_file_by_file_and_folders_merge() -> None:
    desired = mapped(
        tree({"core/a": "1", "core/b": "1", "prod/b": "2", "prod/c": "2"}),
        FileMapping("core", "d"),
        FileMapping("prod", "d"),
    )
    assert desired.files == {
        RelPath("d/a"): version("1"),
        RelPath("d/b"): version("2"),
        RelPath("d/c"): version("2"),
    }


def test_a_file_mapping_owns_one_path() -> None:
    desired = mapped(
        tree({"s/a.json": "1", "s/b": "2"}), FileMapping("s/a.json", "x/y.json", MappingKind.FILE)
    )
    assert paths(desired) == ["x/y.json"]
    assert desired.managed.files == {"x/y.json"}
    assert not desired.managed.folders


@pytest.mark.parametrize(("source", "destination"), [("s", ""), ("s", "d/"), (".", "d"), ("s", ".")])
def test_a_file_mapping_needs_a_whole_path_on_both_sides(source: str, destination: str) -> None:
    with pytest.raises(InvalidValue, match="whole path"):
        mapped(tree({"s": "1"}), FileMapping(source, destination, MappingKind.FILE))


def test_at_the_root_only_what_the_repository_has_there_is_managed() -> None:
    desired = mapped(tree({"projects/P/a": "1", "readme": "2"}), FileMapping(".", "."))
    assert desired.managed.folders == {"projects"}
    assert desired.managed.files == {"readme"}


@pytest.mark.parametrize(
    "path",
    [
        ".uuid",
        ".UUID",
        "metro-keystore",
        "logs/wrapper.log",
        "backups/x",
        "db/config.idb",
        ".sync-staging/x",
        ".sync-state/manifest",
        "deep/.sync-state/x",
        "projects/P/.resources/x",
        "config/resources/local/x",
        "wrapper.log",
    ],
)
def test_what_the_gateway_keeps_for_itself_is_never_delivered(path: str) -> None:
    desired = mapped(tree({path: "1", "projects/ok": "2"}), FileMapping(".", "."))
    assert paths(desired) == ["projects/ok"]
    assert [note.path for note in desired.skipped] == [path]
    assert desired.skipped[0].why.startswith("is never written: ")


@pytest.mark.parametrize(
    "destination", ["db", "logs/x", ".sync-state", "config/resources/local", "DB", "ignition.conf", "var/x"]
)
def test_a_destination_that_the_gateway_keeps_for_itself_is_refused(destination: str) -> None:
    with pytest.raises(InvalidValue, match="is never written: "):
        mapped(tree({"s/a": "1"}), FileMapping("s", destination))


@pytest.mark.parametrize("destination", ["projects:x", "projects/ab:c", "{{.Vars.place}}"])
def test_a_destination_with_a_colon_is_refused(destination: str) -> None:
    values = TemplateValues(vars={"place": "projects:x"})
    with pytest.raises(InvalidValue, match="holds a ':'"):
        Layout(FilesIntent((FileMapping("s", destination),)), values)


def test_excludes_are_taken_out_and_named() -> None:
    desired = mapped(tree({"s/a.bak": "1", "s/b": "2"}), FileMapping("s", "d"), excludes=("**/*.bak",))
    assert paths(desired) == ["d/b"]
    assert desired.excluded == (PathNote("d/a.bak", "is excluded"),)
    assert desired.skipped == ()


def test_a_mandatory_exclude_in_what_would_be_written_fails_the_sync() -> None:
    source = tree({"s/.resources/x": "1", "s/b": "2"})
    with pytest.raises(Stalled, match=r"d/\.resources/x") as stalled:
        mapped(source, FileMapping("s", "d"), mandatory=("**/.resources/**",))
    assert stalled.value.reason is Reason.STAGING_CONTAINS_RUNTIME_FILES
    excluded = mapped(
        source, FileMapping("s", "d"), mandatory=("**/.resources/**",), excludes=("**/.resources/**",)
    )
    assert paths(excluded) == ["d/b"]


def test_a_missing_source_is_skipped_and_manages_nothing() -> None:
    desired = mapped(tree({"s/a": "1"}), FileMapping("s", "d"), FileMapping("gone", "e"))
    assert desired.managed.folders == {"d"}
    assert desired.undelivered == {"gone -> e"}
    assert desired.delivered == {"s -> d"}


@pytest.mark.parametrize(
    ("mapping", "why"),
    [
        (FileMapping("gone", "d", when_missing=MissingSourcePolicy.FAIL), "is not in the repository"),
        (FileMapping("s/a", "d", when_missing=MissingSourcePolicy.FAIL), "is a file, not a folder"),
        (FileMapping("s", "d", MappingKind.FILE, MissingSourcePolicy.FAIL), "is a folder or excluded"),
        (
            FileMapping("x", "d", when_missing=MissingSourcePolicy.FAIL),
            "everything below its source 'x' is excluded",
        ),
        (FileMapping("link/y", "d", when_missing=MissingSourcePolicy.FAIL), "'link' is a symlink"),
        (FileMapping("mod", "d", when_missing=MissingSourcePolicy.FAIL), "'mod' is a submodule"),
    ],
)
def test_a_required_source_that_gives_nothing_stalls_and_says_why(mapping: FileMapping, why: str) -> None:
    source = tree(
        {"s/a": "1", "x/y.bak": "2"},
        refusal("link", RefusedEntryKind.SYMLINK),
        refusal("mod", RefusedEntryKind.SUBMODULE),
    )
    with pytest.raises(Stalled, match=why) as stalled:
        mapped(source, mapping, excludes=("**/*.bak",))
    assert stalled.value.reason is Reason.SOURCE_EMPTY


def test_no_mapping_at_all_stalls() -> None:
    with pytest.raises(Stalled) as stalled:
        mapped(tree({"a": "1"}))
    assert stalled.value.reason is Reason.NO_MAPPINGS


@pytest.mark.parametrize(
    ("one", "other"),
    [("View", "view"), ("caf\u00e9", "cafe\u0301"), ("V/a", "v/b"), ("stra\u00dfe", "STRASSE")],
)
def test_names_that_a_filesystem_would_confuse_are_all_refused(one: str, other: str) -> None:
    desired = mapped(tree({f"s/{one}": "1", f"s/{other}": "2", "s/ok": "3"}), FileMapping("s", "d"))
    assert paths(desired) == ["d/ok"]
    assert {note.path for note in desired.conflicts} == {f"d/{one}", f"d/{other}"}
    assert desired.kept >= {f"d/{one}", f"d/{other}"}


def test_a_path_that_two_mappings_make_a_file_and_a_folder_is_refused() -> None:
    desired = mapped(
        tree({"s/a": "1", "t/b": "2", "t/c": "3"}), FileMapping("s", "d"), FileMapping("t", "d/a")
    )
    assert not desired.files
    assert {note.path for note in desired.conflicts} == {"d/a", "d/a/b", "d/a/c"}


def test_a_refused_entry_is_named_and_its_place_is_kept() -> None:
    source = tree(
        {"s/a": "1", "s/bad/x": "1"},
        refusal("s/link", RefusedEntryKind.SYMLINK),
        RefusedEntry(
            "s/bad/..", RelPath("s/bad"), RefusedEntryKind.BAD_NAME, "path 's/bad/..' holds the part '..'"
        ),
        refusal("elsewhere/link", RefusedEntryKind.SYMLINK),
    )
    desired = mapped(source, FileMapping("s", "d"))
    assert paths(desired) == ["d/a", "d/bad/x"]
    assert [note.path for note in desired.skipped] == ["s/link"]
    assert [note.path for note in desired.refused] == ["s/bad/.."]
    assert desired.kept == {"d/link", "d/bad"}


def test_a_path_that_is_none_below_the_destination_is_refused_alone() -> None:
    deep, link = "/".join(["d" * 100] * 39), "/".join(["l" * 100] * 39)
    source = tree({f"s/{deep}": "1", "s/a": "2"}, refusal(f"s/{link}", RefusedEntryKind.SYMLINK))
    desired = mapped(source, FileMapping("s", "e" * 200))
    assert paths(desired) == [f"{'e' * 200}/a"]
    assert [note.path for note in desired.refused] == [f"s/{deep}"]
    assert [note.path for note in desired.skipped] == [f"s/{link}"]
    assert desired.kept == {"e" * 200}


def test_a_file_below_a_symlink_of_the_same_tree_is_refused() -> None:
    source = tree({"s/link/x": "1", "s/a": "2"}, refusal("s/link", RefusedEntryKind.SYMLINK))
    desired = mapped(source, FileMapping("s", "d"))
    assert paths(desired) == ["d/a"]
    assert [note.path for note in desired.conflicts] == ["d/link/x"]


def test_contents_that_turn_out_to_be_pointers_are_taken_out() -> None:
    desired = mapped(tree({"s/big.bin": "pointer", "s/a": "1"}), FileMapping("s", "d"))
    without = desired.refusing(frozenset({version("pointer").blob}), RefusedEntryKind.LFS_POINTER)
    assert paths(without) == ["d/a"]
    assert without.refused == (PathNote("d/big.bin", RefusedEntryKind.LFS_POINTER.value),)
    assert without.kept == {"d/big.bin"}


# --- a minimal collection in the place of a missing source -------------------------------------------------

EXTERNAL = FileMapping("ext", "external", when_missing=MissingSourcePolicy.CONFIG_MODE)
OTHER = FileMapping("s", "d")
MODE = "external/config-mode.json"
STAND_IN = FileVersion(blob_of(CONFIG_MODE))


def test_a_missing_collection_is_one_file_and_manages_no_other() -> None:
    desired = mapped(tree({"s/a": "1"}), OTHER, EXTERNAL)
    assert desired.files == {"d/a": version("1"), MODE: STAND_IN}
    assert desired.managed == ManagedPaths.of({"d/", MODE})
    assert desired.delivered == {"s -> d"}, "for the guards the source gave nothing"
    assert desired.missed == {"external": "ext -> external"}
    assert desired.skipped == (), "the user asked for a placeholder"


def test_a_missing_part_of_the_service_layout_is_no_skipped_content_and_a_mapping_of_the_user_is() -> None:
    service = tuple(
        FileMapping(f"svc/{part}", part, service_path="svc") for part in ("projects", "config/resources/core")
    )
    own = FileMapping("fonts", "fonts")
    desired = mapped(tree({"svc/projects/P/x": "1"}), *service, own)
    assert [note.path for note in desired.skipped] == ["fonts -> fonts"]
    assert set(desired.missed) == {"config/resources/core", "fonts"}, "the guards still know"


def test_a_part_of_the_service_layout_that_the_commit_has_and_gives_no_file_is_named() -> None:
    core = FileMapping("svc/core", "config/resources/core", service_path="svc")
    for found, refused in (
        ({"svc/core/x.bak": "1"}, ()),
        ({}, (refusal("svc/core", RefusedEntryKind.SYMLINK),)),
    ):
        desired = mapped(tree({"s/a": "1", **found}, *refused), OTHER, core, excludes=("**/*.bak",))
        assert "svc/core -> config/resources/core" in [note.path for note in desired.skipped]


def test_a_placeholder_has_the_kind_of_id_that_its_repository_has() -> None:
    wide = CommitTree({"s/a": FileVersion(blob_of(b"1", digits=64))})
    assert mapped(wide, OTHER, EXTERNAL).files[MODE].blob == blob_of(CONFIG_MODE, digits=64)


def test_a_source_with_anything_in_it_gets_no_placeholder() -> None:
    assert paths(mapped(tree({"s/a": "1", "ext/x": "2"}), OTHER, EXTERNAL)) == ["d/a", "external/x"]
    excluded = mapped(tree({"s/a": "1", "ext/x.bak": "2"}), OTHER, EXTERNAL, excludes=("*.bak", "**/*.bak"))
    assert paths(excluded) == ["d/a"]


@pytest.mark.parametrize("at", ["ext", "ext/below"])
def test_a_source_that_was_refused_is_not_missing(at: str) -> None:
    desired = mapped(tree({"s/a": "1"}, refusal(at, RefusedEntryKind.SYMLINK)), OTHER, EXTERNAL)
    assert paths(desired) == ["d/a"]


def test_a_placeholder_never_takes_the_place_of_a_file_of_the_commit() -> None:
    given = FileMapping("c/mode.json", MODE, MappingKind.FILE)
    for order in ((given, EXTERNAL), (EXTERNAL, given)):
        assert mapped(tree({"c/mode.json": "{}"}), *order).files == {MODE: version("{}")}


def test_an_excluded_placeholder_is_not_written() -> None:
    desired = mapped(tree({"s/a": "1"}), OTHER, EXTERNAL, excludes=("external/",))
    assert (paths(desired), desired.managed.files) == (["d/a"], frozenset())


def test_a_file_has_no_placeholder() -> None:
    with pytest.raises(InvalidValue, match="is for a file"):
        mapped(tree({}), FileMapping("a", "b", MappingKind.FILE, MissingSourcePolicy.CONFIG_MODE))


def test_a_file_that_gives_way_is_used_only_where_no_earlier_mapping_has_one() -> None:
    core, over = FileMapping("core", "d"), FileMapping("prod", "d", gives_way=("mode.json",))
    source = tree({"core/mode.json": "core", "core/x": "1", "prod/mode.json": "prod", "prod/x": "2"})
    assert mapped(source, core, over).files == {"d/mode.json": version("core"), "d/x": version("2")}
    alone = tree({"core/x": "1", "prod/mode.json": "prod"})
    assert mapped(alone, core, over).files["d/mode.json"] == version("prod")
    later = FileMapping("last.json", "d/mode.json", MappingKind.FILE)
    named = tree({"core/mode.json": "core", "prod/mode.json": "prod", "last.json": "last"})
    assert mapped(named, core, over, later).files["d/mode.json"] == version("last")


# --- mappings without a type --------------------------------------------------------------------------------


def test_without_a_type_the_commit_decides_what_the_source_is() -> None:
    desired = mapped(
        tree({"f.json": "1", "s/a": "2"}),
        FileMapping("f.json", "d/f.json", kind=None),
        FileMapping("s", "e", kind=None),
    )
    assert paths(desired) == ["d/f.json", "e/a"]
    assert desired.managed == ManagedPaths.of(["d/f.json", "e/"])
    assert desired.skipped == ()


@pytest.mark.parametrize("destination", [".", "d/"])
def test_a_file_needs_its_whole_path_as_destination(destination: str) -> None:
    with pytest.raises(InvalidValue, match="is a file at this commit; write the whole path"):
        mapped(tree({"f.json": "1"}), FileMapping("f.json", destination, kind=None))
    assert paths(mapped(tree({"f.json/a": "1"}), FileMapping("f.json", destination, kind=None)))


def test_a_file_where_the_type_says_folder_is_named() -> None:
    desired = mapped(
        tree({"f.json": "1", "s/a": "2"}), FileMapping("f.json", "f.json"), FileMapping("s", "e")
    )
    (note,) = desired.skipped
    assert note.path == "f.json -> f.json"
    assert "is a file, not a folder" in note.why


def test_the_repository_itself_is_a_folder() -> None:
    assert paths(mapped(tree({"a": "1", "b/c": "2"}), FileMapping(".", "d", kind=None))) == ["d/a", "d/b/c"]

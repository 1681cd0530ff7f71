"""Layouts: what names the settings, and what a few changes mean without the rest of the commit."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from stoker.domain.git_objects import CommitTree, FileVersion, PathNote, RefusedEntryKind, TreeChange, blob_of
from stoker.domain.intent.files import (
    DeletionPolicy,
    ExcludePolicy,
    FieldTemplate,
    FileMapping,
    FilePatch,
    FilesIntent,
    InheritedTagTypes,
    MappingKind,
    MissingSourcePolicy,
    OrphanPolicy,
    TagProviderName,
    TransformPolicy,
)
from stoker.domain.intent.template_values import TemplateValues
from stoker.engine.layout.desired_files import ContentTransform, DesiredFiles
from stoker.engine.layout.layout import Layout
from stoker.engine.plan.ledger import Ledger, encode_record
from stoker.engine.transform.transform import TransformSet

VALUES = TemplateValues(gateway_name="gw", ref="main", commit="c" * 40, vars={"line": "1"})


def version(text: str) -> FileVersion:
    return FileVersion(blob_of(text.encode()))


def tree(files: dict[str, str]) -> CommitTree:
    return CommitTree({path: version(text) for path, text in files.items()})


def layout(*mappings: FileMapping, excludes: tuple[str, ...] = (), mandatory: tuple[str, ...] = ()) -> Layout:
    return Layout(FilesIntent(mappings, excludes=ExcludePolicy(excludes, mandatory)), VALUES)


def ledger_of(laid: Layout, files: dict[str, str]) -> Ledger:
    desired = laid.map(tree(files))
    return Ledger(
        {path: encode_record(one) for path, one in desired.files.items()},
        mappings=desired.delivered,
        folders=frozenset(desired.managed.folders),
        given=desired.given,
        settings=laid.settings,
        complete=True,
    )


def changed(before: dict[str, str], after: dict[str, str]) -> list[TreeChange]:
    def at(files: dict[str, str], path: str) -> FileVersion | None:
        return version(files[path]) if path in files else None

    paths = sorted(before.keys() | after.keys())
    changes = [TreeChange(path, at(before, path), at(after, path)) for path in paths]
    return [change for change in changes if change.before != change.after]


def traced(laid: Layout, before: dict[str, str], after: dict[str, str]) -> DesiredFiles | None:
    changes = changed(before, after)
    answers = {path: version(after[path]) for path in laid.questions(changes) if path in after}
    return laid.map_changes(changes, answers, ledger_of(laid, before))


BASE = FilesIntent(
    (FileMapping("s", "d"), FileMapping("t", "e")),
    TransformPolicy("{{.GatewayName}}"),
    ExcludePolicy(("*.bak",)),
)


@pytest.mark.parametrize(
    "other",
    [
        BASE._replace(mappings=BASE.mappings[::-1]),
        BASE._replace(mappings=(FileMapping("s", "d"), FileMapping("t", "e", template=True))),
        BASE._replace(
            mappings=(FileMapping("s", "d"), FileMapping("t", "e", when_missing=MissingSourcePolicy.FAIL))
        ),
        BASE._replace(mappings=(FileMapping("s", "d"), FileMapping("t", "e", MappingKind.FILE))),
        BASE._replace(mappings=(FileMapping("s", "d"), FileMapping("t", "e", orphans=OrphanPolicy.OWNED))),
        BASE._replace(mappings=(FileMapping("s", "d"), FileMapping("t", "e", gives_way=("a",)))),
        BASE._replace(transforms=TransformPolicy("x")),
        BASE._replace(transforms=TransformPolicy("{{.GatewayName}}", (FieldTemplate(".a", "b"),))),
        BASE._replace(transforms=TransformPolicy("{{.GatewayName}}", (), (FilePatch("f", ((".a", "b"),)),))),
        BASE._replace(transforms=BASE.transforms._replace(tag_provider=TagProviderName("default", "x"))),
        BASE._replace(
            transforms=BASE.transforms._replace(inherited_types=InheritedTagTypes("d", frozenset({"T"})))
        ),
        BASE._replace(excludes=ExcludePolicy()),
        BASE._replace(excludes=ExcludePolicy(("*.bak",), ("x",))),
        BASE._replace(deletion=DeletionPolicy(orphans=OrphanPolicy.MIRROR)),
    ],
)
def test_settings_differ_with_everything_that_shapes_the_files(other: FilesIntent) -> None:
    assert Layout(other, VALUES).settings != Layout(BASE, VALUES).settings


def test_settings_follow_the_values_that_are_named_and_no_others() -> None:
    laid = Layout(BASE, VALUES)
    assert Layout(BASE, VALUES._replace(gateway_name="other")).settings != laid.settings
    assert Layout(BASE, VALUES._replace(namespace="other")).settings == laid.settings
    assert Layout(BASE._replace(deletion=DeletionPolicy(budget_files=1)), VALUES).settings == laid.settings


def test_an_empty_value_is_another_setting_than_none() -> None:
    named = BASE._replace(transforms=TransformPolicy("{{.Vars.suffix}}"))
    empty = Layout(named, VALUES._replace(vars={"suffix": ""})).settings
    assert empty != Layout(named, VALUES._replace(vars={})).settings
    assert empty != Layout(named, VALUES._replace(vars={"suffix": "x"})).settings


@pytest.mark.parametrize(
    "intent",
    [
        FilesIntent((FileMapping("s/{{.Commit}}", "d"),)),
        FilesIntent((FileMapping("s", "d/{{ .Ref }}"),)),
        FilesIntent((FileMapping("s", "d"),), TransformPolicy("at {{.Commit}}")),
        FilesIntent(
            (FileMapping("s", "d"),), TransformPolicy(fields=(FieldTemplate(".t", "{{.Timestamp}}"),))
        ),
        FilesIntent((FileMapping("s", "d", template=True),)),
    ],
)
def test_what_comes_with_the_commit_changes_no_settings_but_asks_for_all_of_each_commit(
    intent: FilesIntent,
) -> None:
    laid = Layout(intent, VALUES)
    assert laid.volatile
    assert laid.settings == Layout(intent, VALUES._replace(ref="dev", commit="d" * 40)).settings
    assert not Layout(BASE, VALUES).volatile


def test_a_change_is_followed_to_its_destination() -> None:
    laid = layout(FileMapping("s", "d"))
    desired = traced(laid, {"s/a": "1", "s/b": "1", "x": "1"}, {"s/a": "2", "s/c": "1", "x": "2"})
    assert desired is not None
    assert desired.partial
    assert desired.files == {"d/a": version("2"), "d/c": version("1")}
    assert desired.removed == {"d/b"}
    assert desired.managed.folders == {"d"}


def test_what_a_later_mapping_lays_over_it_is_asked_for() -> None:
    laid = layout(FileMapping("core", "d"), FileMapping("prod", "d"))
    before = {"core/a": "1", "core/b": "1", "prod/b": "p", "prod/c": "p"}
    after = {"core/a": "2", "core/b": "2", "prod/b": "p", "core/c": "2", "prod/z": "p"}
    assert laid.questions(changed(before, after)) == {"prod/a", "prod/b"}
    desired = traced(laid, before, after)
    assert desired is not None
    assert desired.files == {
        "d/a": version("2"),
        "d/b": version("p"),
        "d/c": version("2"),
        "d/z": version("p"),
    }
    assert not desired.removed


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"s/a": "1", "t/a": "1"}, {"s/a": "1"}),
        ({"s/a": "1"}, {"s/a": "1", "t/a": "1"}),
        ({"s/View": "1", "t/a": "1"}, {"s/View": "1", "s/view": "1", "t/a": "1"}),
        ({"s/V/a": "1", "t/a": "1"}, {"s/V/a": "1", "s/v/b": "1", "t/a": "1"}),
        ({"s/x/a": "1", "s/y": "1"}, {"s/x/a": "1", "s/y": "1", "s/new/a": "1", "s/new/A": "1"}),
        ({"s/x/a": "1", "s/y": "1"}, {"s/y": "1", "s/x": "1"}),
        ({"s/y": "1"}, {"s/y": "1", "s/.resources/x": "1"}),
    ],
)
def test_what_needs_all_of_the_commit_is_not_guessed(before: dict[str, str], after: dict[str, str]) -> None:
    laid = layout(FileMapping("s", "d"), FileMapping("t", "e"), mandatory=("**/.resources/**",))
    assert traced(laid, before, after) is None


def test_a_file_that_becomes_a_folder_is_reported_by_the_changes() -> None:
    desired = traced(layout(FileMapping("s", "d")), {"s/a": "1", "s/b": "1"}, {"s/a/x": "1", "s/b": "1"})
    assert desired is not None
    assert list(desired.files) == ["d/a/x"]
    assert desired.removed == {"d/a"}


def test_at_the_root_a_new_entry_needs_all_of_the_commit() -> None:
    laid = layout(FileMapping(".", "."))
    assert traced(laid, {"p/a": "1"}, {"p/a": "1", "q/a": "1"}) is None
    assert traced(laid, {"p/a": "1", "q/a": "1"}, {"p/a": "1"}) is None
    desired = traced(laid, {"p/a": "1", "q": "1"}, {"p/a": "1", "p/b": "1", "q": "2"})
    assert desired is not None
    assert desired.managed.folders == {"p"}
    assert desired.managed.files == {"q"}


@pytest.mark.parametrize("change", [{"complete": False}, {"settings": "other"}, {"given": frozenset()}])
def test_a_ledger_that_is_not_exactly_what_the_mappings_gave_is_no_ground(change: dict[str, object]) -> None:
    laid = layout(FileMapping("s", "d"))
    ledger = replace(ledger_of(laid, {"s/a": "1"}), **change)  # type: ignore[arg-type]
    assert laid.map_changes(changed({"s/a": "1"}, {"s/a": "2"}), {}, ledger) is None


class Doubling:
    """Content that ends in `.json` is there twice."""

    def recipe(self, destination: str, *, template: bool) -> ContentTransform | None:
        return self if template or destination.endswith(".json") else None

    def patches(self, destination: str) -> bool:
        return False

    def unused_patches(self, delivered: Collection[str]) -> Sequence[str]:
        return ()

    def apply(self, content: bytes) -> bytes:
        return content + content


def test_recipes_come_with_their_destinations_and_give_derived_contents() -> None:
    intent = FilesIntent((FileMapping("s", "d"),), TransformPolicy("x"))
    laid = Layout(intent, VALUES, Doubling())
    desired = laid.map(tree({"s/a.json": "1", "s/b": "1"}))
    assert list(desired.recipes) == ["d/a.json"]
    derived = desired.derived({"d/a.json": version("11").blob})
    assert derived.files == {"d/a.json": version("11"), "d/b": version("1")}
    assert not derived.recipes
    assert laid.derives("d/a.json")
    assert not laid.derives("d/b")
    refusing = desired.refusing(frozenset({version("1").blob}), RefusedEntryKind.LFS_POINTER)
    assert not refusing.files
    assert not refusing.recipes


def test_a_patch_for_no_delivered_file_is_reported() -> None:
    transforms = TransformPolicy(
        patches=(FilePatch("d/a.json", (("x", "1"),)), FilePatch("e.json", (("x", "1"),)))
    )
    laid = Layout(FilesIntent((FileMapping("s", "d"),), transforms), VALUES, TransformSet(transforms, VALUES))
    desired = laid.map(tree({"s/a.json": "1"}))
    assert desired.skipped == (PathNote("patches[1] (e.json)", "is for no file that is delivered"),)
    assert list(desired.recipes) == ["d/a.json"]


def test_a_drifted_file_whose_content_is_made_is_named_with_its_source() -> None:
    laid = Layout(FilesIntent((FileMapping("s", "d"),), TransformPolicy("x")), VALUES, Doubling())
    ledger = ledger_of(laid, {"s/a.json": "1"})
    assert laid.questions((), ["d/a.json"]) == {"s/a.json"}
    desired = laid.map_changes((), {"s/a.json": version("1")}, ledger, drifted=["d/a.json"])
    assert desired is not None
    assert desired.files == {"d/a.json": version("1")}
    assert list(desired.recipes) == ["d/a.json"]
    assert laid.map_changes((), {}, ledger, drifted=["d/a.json"]) is None


MODE = FileMapping("t", "e", when_missing=MissingSourcePolicy.CONFIG_MODE)


def test_a_change_elsewhere_leaves_a_placeholder_as_it_is() -> None:
    found = traced(layout(FileMapping("s", "d"), MODE), {"s/a": "1"}, {"s/a": "2"})
    assert found is not None
    assert found.files == {"d/a": version("2")}
    assert found.managed.files == {"e/config-mode.json"}
    assert found.delivered == {"s -> d"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"t/a": "1"}),
        ({"t/a": "1"}, {}),
        ({}, {"t/a.bak": "1"}),
        ({"t/a.bak": "1"}, {}),
        ({"t": "1"}, {}),
        ({}, {"t": "1"}),
    ],
)
def test_where_a_placeholder_comes_or_goes_all_of_the_commit_is_read(
    before: dict[str, str], after: dict[str, str]
) -> None:
    laid = layout(FileMapping("s", "d"), MODE, excludes=("**/*.bak",))
    assert traced(laid, {"s/a": "1", **before}, {"s/a": "2", **after}) is None


def test_a_placeholder_is_not_in_the_source_so_it_is_made_again_when_it_was_touched() -> None:
    laid = layout(FileMapping("s", "d"), MODE)
    assert laid.derives("e/config-mode.json")
    assert not laid.derives("d/config-mode.json")
    assert laid.map_changes((), {}, ledger_of(laid, {"s/a": "1"}), drifted={"e/config-mode.json"}) is None

"""From a live path back to the repository: what may go, what changed, where it belongs."""

from __future__ import annotations

import pytest

from stoker.domain.git_objects import FileVersion, blob_of
from stoker.domain.intent.files import ExcludePolicy, FileMapping, FilesIntent, MappingKind
from stoker.domain.intent.template_values import TemplateValues
from stoker.engine.layout.layout import Layout
from stoker.engine.layout.reverse_map import CapturablePaths, RepositoryOrigins, file_commit, gateway_changes
from stoker.engine.plan.ledger import Ledger, encode_record

ONE, TWO = (FileVersion(blob_of(text)) for text in (b"1", b"2"))
ALLOWED = CapturablePaths(
    ("projects/**", "config/*.json"),
    ("**/secrets/**", "**/*.jar"),
    ExcludePolicy(patterns=("**/*.bak",), mandatory=("projects/system/**",)),
)


@pytest.mark.parametrize(
    ("path", "takes"),
    [
        ("projects/a/b", True),
        ("config/x.json", True),
        ("config/deep/x.json", False),
        ("other", False),
        ("projects/a/secrets/key", False),
        ("projects/lib.jar", False),
        ("projects/a.bak", False),
        ("projects/system/x", False),
        ("projects/.resources/x", False),
        ("projects/a/.sync-state/x", False),
    ],
)
def test_only_what_is_named_and_not_excluded_may_flow_back(path: str, takes: bool) -> None:
    assert ALLOWED.takes(path) is takes


@pytest.mark.parametrize(
    ("folder", "enters"),
    [
        ("projects", True),
        ("projects/a/b/c", True),
        ("config", True),
        ("config/deep", False),
        ("other", False),
        ("projects/a/.resources", False),
        (".sync-state", False),
        (".sync-staging", False),
    ],
)
def test_only_folders_that_can_hold_it_are_entered(folder: str, enters: bool) -> None:
    assert ALLOWED.enters(folder) is enters


@pytest.mark.parametrize(
    ("patterns", "roots"),
    [
        (("projects/**", "config/*.json"), ("config", "projects")),
        (("a/b/**", "a/**", "a/b/c"), ("a",)),
        (("{a,b}/x/**",), ("a/x", "b/x")),
        (("**/view.json", "a/**"), ("",)),
        (("x.json",), ("",)),
    ],
)
def test_a_walk_begins_at_the_deepest_folders_that_hold_everything(
    patterns: tuple[str, ...], roots: tuple[str, ...]
) -> None:
    assert CapturablePaths(patterns, (), ExcludePolicy()).roots == roots


def test_changes_by_others_are_distinguished_from_our_own() -> None:
    ledger = Ledger(
        files={f"projects/{name}": encode_record(ONE) for name in ("same", "edited", "gone", "excluded.bak")},
        intended={"projects/ours": TWO},
        kept=frozenset({"projects/before"}),
    )
    seen = {
        "projects/same": encode_record(ONE),
        "projects/edited": encode_record(TWO),
        "projects/gone": None,
        "projects/excluded.bak": encode_record(TWO),
        "projects/new": encode_record(TWO),
        "projects/new and gone": None,
        "projects/ours": encode_record(TWO),
        "projects/before": encode_record(TWO),
        "other/new": encode_record(TWO),
    }
    assert gateway_changes(seen, ledger, ALLOWED) == {
        "projects/edited": TWO,
        "projects/gone": None,
        "projects/new": TWO,
    }


def test_a_file_of_a_held_place_is_at_the_commit_of_its_place() -> None:
    ledger = Ledger(commit="2", held=frozenset({"1 projects/line 1", "0 projects/x"}))
    assert file_commit(ledger, "projects/line 1/view.json") == "1"
    assert file_commit(ledger, "projects/x") == "0"
    assert file_commit(ledger, "projects/xy") == "2"


def found(paths: list[str], ours: list[str], repository: set[str], *mappings: FileMapping) -> dict[str, str]:
    layout = Layout(FilesIntent(mappings), TemplateValues())
    origins = RepositoryOrigins(layout, Ledger(files={path: encode_record(ONE) for path in ours}), paths)
    answers = dict.fromkeys(repository & origins.questions(), ONE)
    return {path: origin.path for path, origin in origins.found(answers).items()}


def test_a_file_is_mapped_back_to_its_source() -> None:
    both = FileMapping("base", "projects"), FileMapping("overlay", "projects")
    assert found(["projects/a"], ["projects/a"], {"base/a"}, *both) == {"projects/a": "base/a"}
    assert found(["projects/a"], ["projects/a"], {"base/a", "overlay/a"}, *both) == {
        "projects/a": "overlay/a"
    }
    assert found(["projects/a"], ["projects/a"], set(), *both) == {}  # we made it ourselves


def test_a_new_file_goes_where_its_nearest_neighbours_were_taken_from() -> None:
    both = FileMapping("base", "projects"), FileMapping("overlay", "projects")
    ours = ["projects/a/views/x", "projects/b/views/x", "projects/c"]
    repository = {"base/a/views/x", "overlay/b/views/x", "overlay/c"}
    new = ["projects/a/views/y", "projects/b/new/y", "projects/a/new/deep/y", "projects/z/y"]
    assert found(new, ours, repository, *both) == {
        "projects/a/views/y": "base/a/views/y",
        "projects/b/new/y": "overlay/b/new/y",
        "projects/a/new/deep/y": "base/a/new/deep/y",
        "projects/z/y": "base/z/y",  # where the first of its folder's came from
    }


def test_a_new_file_without_neighbours_goes_to_the_last_mapping_that_covers_it() -> None:
    mappings = (
        FileMapping("base", "projects"),
        FileMapping("overlay", "projects"),
        FileMapping("one", "projects/one.json", MappingKind.FILE),
    )
    assert found(["projects/a", "projects/one.json", "config/x"], [], set(), *mappings) == {
        "projects/a": "overlay/a",
        "projects/one.json": "one",
    }

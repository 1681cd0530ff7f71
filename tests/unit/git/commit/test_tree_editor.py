"""Edits make the trees that git would make, and touch nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.git.commit.packfile import PackBuilder
from stoker.git.commit.tree_editor import TreeEditor, TreeFolder
from stoker.git.commit.types import FileEdit
from stoker_testkit.repositories.bare_repository import (
    FileEntry,
    Files,
    Repository,
    executable,
    submodule,
    symlink,
)


class EditedRepository:
    """A repository with one commit, and an editor on its tree."""

    def __init__(self, folder: Path, files: Files, object_format: str = "sha1") -> None:
        self.repository = Repository.create(folder / "r.git", object_format=object_format)
        self.loaded: list[str] = []
        digits = len(self.repository.commit(files))
        self.pack = PackBuilder(self.repository.path, digits)
        self.root = TreeFolder(self.load("main^{tree}"))
        self.editor = TreeEditor(self.root, self.pack, self.load)

    def load(self, name: str) -> bytes:
        self.loaded.append(name)
        return self.repository.git("cat-file", "tree", name)

    def apply(self, edits: Mapping[str, bytes | None]) -> dict[str, str] | None:
        """Mode and content of each file afterwards, None if nothing changed."""
        tree = self.editor.apply([FileEdit(path, content) for path, content in edits.items()])
        return None if tree is None else self.files(tree)

    def files(self, tree: str) -> dict[str, str]:
        self.pack.write()
        self.repository.git("fsck", "--strict")
        listed = self.repository.git("ls-tree", "-r", "-z", tree).decode().split("\0")[:-1]
        found = {}
        for line in listed:
            head, _, path = line.partition("\t")
            mode, kind, id_ = head.split(" ")
            content = self.repository.git("cat-file", "blob", id_).decode() if kind == "blob" else id_
            found[path] = f"{mode} {content}"
        return found


@pytest.fixture(params=["sha1", "sha256"])
def object_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_file_may_be_executable_where_that_is_set(tmp_path: Path, object_format: str) -> None:
    edited = EditedRepository(
        tmp_path, {"a": "1", "b": executable("2"), "c": executable("3"), "d": "4"}, object_format
    )
    edits = [FileEdit("a", b"1", True), FileEdit("b", b"9", True), FileEdit("c", b"3", False)]
    tree = edited.editor.apply([*edits, FileEdit("d", b"4", False), FileEdit("new", b"5", True)])
    assert tree is not None
    assert edited.files(tree) == {
        "a": "100755 1",
        "b": "100755 9",
        "c": "100644 3",
        "d": "100644 4",
        "new": "100755 5",
    }
    assert edited.editor.apply([FileEdit("a", b"1", True), FileEdit("c", b"3", False)]) is None


def test_files_are_added_changed_and_removed(tmp_path: Path, object_format: str) -> None:
    edited = EditedRepository(tmp_path, {"a/b/c": "1", "a/b/d": "2", "a/e": "3", "f": "4"}, object_format)
    assert edited.apply({"a/b/c": b"9", "a/b/d": None, "a/x/y": b"8", "g": b""}) == {
        "a/b/c": "100644 9",
        "a/e": "100644 3",
        "a/x/y": "100644 8",
        "f": "100644 4",
        "g": "100644 ",
    }


def test_nothing_is_made_where_nothing_changes(tmp_path: Path) -> None:
    edited = EditedRepository(tmp_path, {"a/b": "1", "run": executable("2")})
    assert edited.apply({"a/b": b"1", "run": b"2", "gone": None, "a/gone": None, "no/such": None}) is None
    assert edited.apply({}) is None
    assert edited.pack.bytes == 12


def test_only_the_folders_on_the_way_are_read(tmp_path: Path) -> None:
    edited = EditedRepository(tmp_path, {f"{top}/{sub}/f": "1" for top in "abc" for sub in "xyz"})
    edited.apply({"a/x/f": b"2"})
    assert len(edited.loaded) == 3
    edited.editor.apply([FileEdit("a/x/g", b"3"), FileEdit("a/x/f", None)])
    assert len(edited.loaded) == 3


def test_a_folder_goes_with_its_last_file(tmp_path: Path) -> None:
    edited = EditedRepository(tmp_path, {"a/b/c": "1", "d": "2"})
    assert edited.apply({"a/b/c": None}) == {"d": "100644 2"}


def test_the_last_file_of_all_leaves_an_empty_tree(tmp_path: Path) -> None:
    edited = EditedRepository(tmp_path, {"a/b": "1"})
    assert edited.apply({"a/b": None}) == {}
    assert edited.editor.refused == []


def test_folders_are_sorted_as_git_sorts_them(tmp_path: Path) -> None:
    edited = EditedRepository(tmp_path, {"a.b": "1", "a/x": "2", "a0": "3"})
    found = edited.apply({"a/y": b"4", "a-": b"5", "b/z": b"6", "b.": None, "b": None, "b0": b"7"})
    assert found is not None
    assert set(found) == {"a.b", "a/x", "a/y", "a-", "a0", "b/z", "b0"}


def test_a_file_becomes_a_folder_and_the_reverse_in_one_commit(tmp_path: Path) -> None:
    edited = EditedRepository(tmp_path, {"a": "1", "b/c": "2"})
    assert edited.apply({"a/x": b"3", "a": None, "b": b"4", "b/c": None}) == {
        "a/x": "100644 3",
        "b": "100644 4",
    }
    assert edited.editor.refused == []


BLOCKERS: dict[str, str | FileEntry] = {
    "file": "1",
    "executable": executable("1"),
    "link": symlink("/etc"),
    "submodule": submodule("1" * 40),
}


@pytest.mark.parametrize("blocker", BLOCKERS)
def test_a_file_in_the_place_of_a_folder_stays_and_the_rest_goes_on(tmp_path: Path, blocker: str) -> None:
    edited = EditedRepository(tmp_path, {"a": BLOCKERS[blocker], "b": "2"})
    before = edited.files("main^{tree}")
    found = edited.apply({"a/x": b"3", "a/y/z": b"4", "a/gone": None, "b": b"5"})
    assert found == before | {"b": "100644 5"}
    assert [note.path for note in edited.editor.refused] == ["a/x", "a/y/z"]
    assert "a is no folder in the repository" in edited.editor.refused[0].why


def test_a_folder_in_the_place_of_a_file_stays_and_the_rest_goes_on(tmp_path: Path) -> None:
    edited = EditedRepository(tmp_path, {"a/x": "1", "a/y": "2"})
    assert edited.apply({"a": b"3", "b": b"4"}) == {"a/x": "100644 1", "a/y": "100644 2", "b": "100644 4"}
    assert [(note.path, note.why) for note in edited.editor.refused] == [
        ("a", "is a folder in the repository")
    ]
    assert edited.apply({"a": None}) is None


def test_a_link_in_the_place_of_a_file_is_replaced_and_never_removed(tmp_path: Path) -> None:
    edited = EditedRepository(tmp_path, {"a": symlink("1"), "b": symlink("2"), "c": submodule("1" * 40)})
    assert edited.apply({"a": b"1", "b": None, "c": None}) == {
        "a": "100644 1",
        "b": "120000 2",
        "c": "160000 " + "1" * 40,
    }


@pytest.mark.parametrize(
    "path", ["", "/a", "a//b", "../a", ".git/config", "a/.GIT/x", "a\nb", "x" * 300, "\udcff"]
)
def test_a_path_that_is_none_is_refused_and_the_rest_goes_on(tmp_path: Path, path: str) -> None:
    edited = EditedRepository(tmp_path, {"a": "1"})
    assert edited.apply({path: b"2", "b": b"3"}) == {"a": "100644 1", "b": "100644 3"}
    assert len(edited.editor.refused) == 1


def test_of_one_path_the_last_edit_counts(tmp_path: Path) -> None:
    edited = EditedRepository(tmp_path, {"a": "1"})
    assert (
        edited.editor.apply(
            [FileEdit("a", b"2"), FileEdit("b", b"3"), FileEdit("a", b"1"), FileEdit("b", None)]
        )
        is None
    )


NAMES = st.sampled_from(["a", "a.", "a-b", "a0", "b", "ä", "a b"]).map(lambda name: name.rstrip("."))
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=st.dictionaries(PATHS, st.sampled_from(["1", "2"]), min_size=1, max_size=12),
    batches=st.lists(st.dictionaries(PATHS, st.sampled_from([b"1", b"2", None]), max_size=8), max_size=4),
)
def test_any_edits_make_the_tree_that_git_makes(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, str], batches: list[dict[str, bytes | None]]
) -> None:
    start = {
        path: content
        for path, content in first.items()
        if not any(other.startswith(path + "/") for other in first)
    }
    edited = EditedRepository(tmp_path_factory.mktemp("w"), start)
    repository = edited.repository
    for batch in batches:
        # Contradictions are left to the tests above: git would replace a file by a folder and the reverse.
        files = repository.files()
        edits = {path: it for path, it in batch.items() if not _collides(path, {*files, *batch} - {path})}
        edited.editor.apply([FileEdit(path, content) for path, content in edits.items()])
        if edits:
            repository.commit(edits)
        tree = repository.git("rev-parse", "main^{tree}").decode().strip()
        assert edited.pack.id_of("tree", edited.root.raw).hex() == tree
    assert edited.editor.refused == []


def _collides(path: str, others: set[str]) -> bool:
    return any(other.startswith(path + "/") or path.startswith(other + "/") for other in others)

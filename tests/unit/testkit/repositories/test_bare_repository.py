"""Repositories made from dictionaries."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker_testkit.repositories.bare_repository import (
    GitCommandFailed,
    Repository,
    executable,
    submodule,
    symlink,
)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "plant.git")


def test_equal_input_makes_equal_commits(tmp_path: Path) -> None:
    ids = {Repository.create(tmp_path / name).commit({"a": "1", "b/c": b"\x00\xff"}) for name in ("x", "y")}
    assert len(ids) == 1


def test_a_commit_changes_what_it_names_and_keeps_the_rest(repository: Repository) -> None:
    first = repository.commit({"kept": "1", "changed": "old", "gone": "x"})
    second = repository.commit({"changed": "new", "gone": None, "added/deep": "y"})
    assert repository.files() == {"kept": b"1", "changed": b"new", "added/deep": b"y"}
    assert repository.git("rev-parse", f"{second}^").decode().strip() == first
    repository.commit({"only": "this"}, replace=True)
    assert repository.files() == {"only": b"this"}


def test_modes_links_and_submodules_are_kept(repository: Repository) -> None:
    other = repository.commit({"x": "y"}, branch="other")
    repository.commit({"run": executable("#!/bin/sh\n"), "link": symlink("run"), "module": submodule(other)})
    listing = repository.git("ls-tree", "main").decode().splitlines()
    assert [line.split()[0] + " " + line.split()[3] for line in listing] == [
        "120000 link",
        "160000 module",
        "100755 run",
    ]
    assert repository.read("link") == b"run"


@pytest.mark.parametrize("name", ["with space", 'quo"te', "back\\slash", "new\nline", "umlaut-ä", "tab\t"])
def test_odd_names_arrive_as_they_are(repository: Repository, name: str) -> None:
    repository.commit({name: "content"})
    assert repository.files() == {name: b"content"}


def test_branches_and_tags_point_where_they_are_set(repository: Repository) -> None:
    first = repository.commit({"a": "1"}, message="First")
    second = repository.commit({"a": "2"}, message="Second\n\nwith a body")
    repository.set_branch("release", first)
    repository.tag("v1", first)
    repository.tag("v2", first, message="annotated")
    repository.tag("v2", second, message="moved")
    assert (repository.tip("release"), repository.tip("v1"), repository.tip("v2")) == (first, first, second)
    assert repository.git("cat-file", "-t", "v2") == b"tag\n"
    assert repository.messages() == ["Second\n\nwith a body", "First"]
    repository.delete_branch("release")
    repository.delete_tag("v1")
    assert not repository.has_branch("release")
    with pytest.raises(GitCommandFailed, match="v1"):
        repository.tip("v1")


def test_a_branch_can_be_rewritten(repository: Repository) -> None:
    first = repository.commit({"a": "1"}, message="First")
    repository.commit({"a": "2"}, message="Lost")
    repository.commit({"a": "3"}, message="Instead", onto=first)
    assert repository.messages() == ["Instead", "First"]


def test_sha256_repositories_are_made_too(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "long.git", object_format="sha256")
    assert len(repository.commit({"a": "b"})) == 64

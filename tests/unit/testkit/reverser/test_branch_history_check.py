"""The check of random histories finds every wrong history, so that a passed one means something."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.reverser.authors.commit_identity import commit_author
from stoker.reverser.authors.facts import RequestUser
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.branch_history_check import (
    REVERSER,
    BranchHistoryCheck,
    Commit,
    Edit,
    commits_of,
    differences,
)
from stoker_testkit.reverser.random_history import History, ObjectState

FIRST, SECOND, THIRD, STRANGE = (letter * 40 for letter in "abcd")


@pytest.fixture
def history() -> History:
    """alice makes it, bob changes it, bob deletes it, alice makes it again."""
    history = History(1, "main", Repository(Path("nowhere")))
    life = history.lives[path_in(history)]
    steps = ((FIRST, "alice"), (SECOND, "bob"), (None, "bob"), (THIRD, "alice"))
    life.steps += (ObjectState(*step) for step in steps)
    return history


def path_in(history: History) -> str:
    return next(iter(history.lives))


def written(path: str, blob: str | None, user: str = "unknown", committer: str = REVERSER) -> Commit:
    author = commit_author(RequestUser(user)).email if user != "unknown" else committer
    return Commit("c" * 40, author, committer, user, [Edit(path, blob)])


def verdict(history: History, *states: tuple[str | None, str]) -> list[str]:
    path = path_in(history)
    return BranchHistoryCheck([history]).hear([written(path, *state) for state in states])


@pytest.mark.parametrize(
    "states",
    [
        [(FIRST, "alice"), (SECOND, "bob"), (None, "bob"), (THIRD, "alice")],
        [(FIRST, "unknown"), (None, "bob"), (THIRD, "alice")],
        [(SECOND, "unknown"), (THIRD, "unknown")],
        [(THIRD, "alice")],  # all of it is hers
        [(FIRST, "alice"), (THIRD, "alice")],
    ],
    ids=["all of it", "two changes of one", "some", "the last", "a new one"],
)
def test_a_history_in_order_under_the_right_names_is_fine(
    history: History, states: list[tuple[str | None, str]]
) -> None:
    assert verdict(history, *states) == []


@pytest.mark.parametrize(
    ("states", "found"),
    [
        ([(SECOND, "unknown"), (FIRST, "unknown")], "was not after step 2"),
        ([(STRANGE, "unknown")], "was not after step 0"),
        ([(FIRST, "bob")], "names bob"),
        ([(SECOND, "bob")], "names bob"),  # what alice had done is in it
        ([(FIRST, "alice"), (None, "alice")], "names alice"),
    ],
    ids=["backwards", "never so", "another's", "another's too", "a deletion"],
)
def test_what_is_out_of_order_or_under_a_wrong_name_is_found(
    history: History, states: list[tuple[str | None, str]], found: str
) -> None:
    wrong = verdict(history, *states)
    assert len(wrong) == 1
    assert found in wrong[0]


def test_what_a_stranger_overwrote_may_be_written_again(history: History) -> None:
    path = path_in(history)
    stranger = written(path, STRANGE, committer="stranger@example.test")
    again = [written(path, SECOND), stranger, written(path, SECOND)]
    assert BranchHistoryCheck([history]).hear(again) == []
    back = [written(path, SECOND), stranger, written(path, FIRST)]
    assert len(BranchHistoryCheck([history]).hear(back)) == 1


def test_a_touched_stranger_an_empty_commit_and_a_false_address_are_found(history: History) -> None:
    marker = f"{history.base}/.configbutler/owner.yaml"
    assert BranchHistoryCheck([history]).hear([written(marker, FIRST)]) == []
    touched = written(f"{history.base}/README.md", FIRST)
    empty = Commit("c" * 40, REVERSER, REVERSER, "unknown")
    false = Commit("c" * 40, "bob@example.test", REVERSER, "alice", [Edit(path_in(history), FIRST)])
    wrong = BranchHistoryCheck([history]).hear([touched, empty, false])
    assert [each.partition(":")[2].split(",")[0].strip() for each in wrong][1] == "changes nothing"
    assert "which is a stranger's" in wrong[0]
    assert "has the author bob@example.test" in wrong[2]


def test_the_end_is_what_the_cluster_and_strangers_want_and_nothing_else(history: History) -> None:
    path, base = path_in(history), history.base
    history.strangers.files[f"{base}/README.md"] = b"hello\n"
    hello = "ce013625030ba8dba906f756967f9e9ca394464a"
    marker = f"{base}/.configbutler/owner.yaml"
    fine = {path: THIRD, f"{base}/README.md": hello, marker: FIRST, "elsewhere.md": STRANGE}
    assert differences(history, fine, {path: THIRD}) == []
    for files in (
        {**fine, path: SECOND},
        {each: blob for each, blob in fine.items() if each != path},
        {each: blob for each, blob in fine.items() if each != f"{base}/README.md"},
        {**fine, f"{base}/left-over.yaml": FIRST},
    ):
        assert len(differences(history, files, {path: THIRD})) == 1


def test_where_no_object_lives_a_strangers_text_may_stay_in_the_place_of_its_file(history: History) -> None:
    path = path_in(history)
    history.strangers.overwritten[path] = b"hello\n"
    hello = "ce013625030ba8dba906f756967f9e9ca394464a"
    assert differences(history, {path: hello}, {}) == []
    assert differences(history, {}, {}) == []
    assert len(differences(history, {path: FIRST}, {})) == 1
    assert len(differences(history, {path: hello}, {path: THIRD})) == 1, "the object lives"


def test_commits_are_read_with_their_changes(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "r.git")
    message = "Change\n\nX-ConfigButler-Author: alice\n"
    repository.commit({"a/b.yaml": "1\n"}, author=f"Reverser <{REVERSER}>", message=message)
    repository.commit({"a/b.yaml": None, "c": "2\n"})
    first, second = commits_of(repository, "main")
    assert (first.author, first.committer, first.trailer) == (REVERSER, REVERSER, "alice")
    assert first.edits == [Edit("a/b.yaml", "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d")]
    assert (second.committer, second.trailer) == ("author@example.test", "")
    assert sorted(second.edits)[0] == Edit("a/b.yaml", None)

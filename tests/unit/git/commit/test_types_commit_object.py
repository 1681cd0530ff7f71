"""Values that are to be written become commits that git accepts, whatever users are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.domain.errors import InvalidValue
from stoker.git.commit.types import MAX_MESSAGE_BYTES, CommitAuthor, FileEdit, NewCommit, commit_object
from stoker_testkit.repositories.bare_repository import WHEN, Repository

ALICE = CommitAuthor("Alice", "alice@example.test")
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def new_commit(message: str = "One", author: CommitAuthor = ALICE, when: int = WHEN) -> NewCommit:
    return NewCommit(author, ALICE, message, (FileEdit("a", b"1"),), when)


def test_a_commit_is_made_from_its_values_alone() -> None:
    who = f"Alice <alice@example.test> {WHEN} +0000"
    assert commit_object(EMPTY_TREE, "1" * 40, new_commit("One\n\nKey: value")).decode() == (
        f"tree {EMPTY_TREE}\nparent {'1' * 40}\nauthor {who}\ncommitter {who}\n\nOne\n\nKey: value\n"
    )


@pytest.mark.parametrize(
    ("author", "line"),
    [
        (CommitAuthor("system:serviceaccount:shop:web", "a@b"), "system:serviceaccount:shop:web <a@b>"),
        (CommitAuthor("", ""), "unknown <>"),
        (CommitAuthor(" <> ", "<>"), "unknown <>"),
        (CommitAuthor("Eve <eve@x>\nparent 0", "e>\n@x"), "Eve  eve@x parent 0 <e @x>"),
        (CommitAuthor("Zoë \u2028\x00", "zoë@x"), "Zoë <zoë@x>"),
        (CommitAuthor("\udcff", "a@b"), "? <a@b>"),
        (CommitAuthor("x" * 10_000, "a@b"), "x" * 512 + " <a@b>"),
    ],
)
@pytest.mark.parametrize("when", [0, WHEN, (1 << 40) - 1])
def test_no_name_breaks_a_commit(tmp_path: Path, author: CommitAuthor, line: str, when: int) -> None:
    raw = commit_object(EMPTY_TREE, None, new_commit(author=author, when=when))
    assert f"\nauthor {line} {when} +0000\n".encode() in raw
    repository = Repository.create(tmp_path / "r.git")
    repository.git("hash-object", "-t", "tree", "-w", "--stdin", stdin=b"")
    # git checks what it is given as strictly as a forge does.
    written = repository.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw).decode().strip()
    repository.set_branch("main", written)
    repository.git("fsck", "--strict")


def test_no_message_breaks_a_commit() -> None:
    raw = commit_object(EMPTY_TREE, None, new_commit("\n a\0b\x1b[31m\r\n\ud800 \n\n"))
    assert raw.endswith(b"\n\na?b?[31m?\n?\n")


@pytest.mark.parametrize("when", [-1, 1 << 40])
def test_a_time_that_no_commit_can_have_is_refused(when: int) -> None:
    with pytest.raises(InvalidValue, match="after 1970"):
        new_commit(when=when)


def test_a_message_without_end_is_refused() -> None:
    with pytest.raises(InvalidValue, match="longer than"):
        new_commit("é" * MAX_MESSAGE_BYTES)

"""A working copy as a source: every state is a commit, and only what was saved is read again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.domain.errors import Misconfigured, Retry
from stoker.domain.git_objects import FileVersion, RefusedEntryKind, blob_of
from stoker.domain.paths import RelPath
from stoker.domain.refs import GitRef
from stoker.fs import folder_source
from stoker.fs.folder_source import FolderSource

HEAD = GitRef("HEAD")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name, text in {"s/a": "1", "s/b/c": "2", "top": "3", ".git/HEAD": "x"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


async def test_uncommitted_files_have_the_ids_that_git_would_give_them(copy: Path) -> None:
    (copy / "s/run").write_text("x")
    (copy / "s/run").chmod(0o755)
    source = FolderSource(copy)
    tree = await source.tree(await source.resolve(HEAD))
    assert tree.files == {
        "s/a": FileVersion(blob_of(b"1")),
        "s/b/c": FileVersion(blob_of(b"2")),
        "s/run": FileVersion(blob_of(b"x"), executable=True),
        "top": FileVersion(blob_of(b"3")),
    }
    assert tree.refused == ()


async def test_equal_folders_are_equal_commits_and_a_change_is_another(copy: Path) -> None:
    source = FolderSource(copy)
    first = await source.resolve(HEAD)
    assert await source.resolve(HEAD) == first
    assert await FolderSource(copy).resolve(HEAD) == first
    (copy / "s/a").write_text("other")
    second = await source.resolve(HEAD)
    assert second != first
    changes = await source.changes(first, second)
    assert changes is not None
    assert [change.path for change in changes] == ["s/a"]
    (copy / "s/a").write_text("1")
    assert await source.resolve(HEAD) == first


async def test_only_what_was_saved_is_read_again(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_source, "_AT_REST_NS", -(10**18))  # the files are of this moment
    source = FolderSource(copy)
    await source.resolve(HEAD)
    read: list[str] = []
    real = folder_source._hash_blob
    monkeypatch.setattr(folder_source, "_hash_blob", lambda fd, name: read.append(name) or real(fd, name))  # type: ignore[func-returns-value]
    await source.resolve(HEAD)
    assert read == []
    (copy / "s/a").write_text("22")
    await source.resolve(HEAD)
    assert read == ["a"]


async def test_a_file_that_was_just_written_is_not_trusted_by_its_date(copy: Path) -> None:
    source = FolderSource(copy)
    for text in ("1", "2", "3", "4", "5"):  # same size, and perhaps the same tick of the clock
        (copy / "s/a").write_text(text)
        tree = await source.tree(await source.resolve(HEAD))
        assert tree.files["s/a"].blob == blob_of(text.encode())


async def test_contents_are_those_that_were_promised(copy: Path) -> None:
    source = FolderSource(copy)
    tree = await source.tree(await source.resolve(HEAD))
    blobs = [tree.files[path].blob for path in ("top", "s/a")]
    assert [b"".join(blob.chunks) for blob in source.contents(blobs)] == [b"3", b"1"]


@pytest.mark.parametrize("change", ["other", "1 and more", ""])
async def test_a_file_that_changed_meanwhile_is_refused(copy: Path, change: str) -> None:
    source = FolderSource(copy)
    tree = await source.tree(await source.resolve(HEAD))
    (copy / "s/a").write_text(change)
    with pytest.raises(Retry, match=r"changed while it was read"):
        [b"".join(blob.chunks) for blob in source.contents([tree.files["s/a"].blob])]
    (copy / "s/a").unlink()
    with pytest.raises(Retry, match="s/a changed"):
        list(source.contents([tree.files["s/a"].blob]))


async def test_links_repositories_and_odd_names_are_refused_by_name(copy: Path) -> None:
    (copy / "s/link").symlink_to("/etc/passwd")
    (copy / "s/module/.git").mkdir(parents=True)
    (copy / "s/module/f").write_text("x")
    (copy / "s/back\\slash").write_text("x")
    os.mkfifo(copy / "s/pipe")
    source = FolderSource(copy)
    tree = await source.tree(await source.resolve(HEAD))
    assert {(one.name, one.kind) for one in tree.refused} == {
        ("s/link", RefusedEntryKind.SYMLINK),
        ("s/module", RefusedEntryKind.SUBMODULE),
        ("s/back\\slash", RefusedEntryKind.BAD_NAME),
    }
    assert sorted(tree.files) == ["s/a", "s/b/c", "top"]


async def test_a_part_of_the_copy_keeps_its_paths(copy: Path) -> None:
    source = FolderSource(copy, below=RelPath("s/b"))
    tree = await source.tree(await source.resolve(HEAD))
    assert sorted(tree.files) == ["s/b/c"]


async def test_a_folder_that_is_gone_is_named(copy: Path) -> None:
    with pytest.raises(Misconfigured, match="nowhere"):
        await FolderSource(copy / "nowhere").resolve(HEAD)
    with pytest.raises(Misconfigured, match="s/nowhere"):
        await FolderSource(copy, below=RelPath("s/nowhere")).resolve(HEAD)

"""Reading a commit: names are checked, contents are streamed."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from stoker.domain.refs import CommitId
from stoker.engine.objects import BlobId, RefusalKind, blob_of
from stoker.git.errors import GitFailed
from stoker.git.reading import find_lfs_pointers, read_blobs, read_tree
from stoker.git.runner import GitRunner
from stoker.testing.repositories import Entry, Repository, executable, submodule, symlink

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"


@pytest.fixture
def runner(tmp_path: Path) -> GitRunner:
    return GitRunner(tmp_path / "cache")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "r.git")


async def test_lists_every_file_with_its_blob_and_executable_bit(
    runner: GitRunner, repository: Repository
) -> None:
    commit = repository.commit({"a b/c.json": "1", "run": executable("2"), "Línea": "3"})
    tree = await read_tree(runner, repository.path, commit)
    assert {entry.path: (entry.version.blob, entry.version.executable) for entry in tree.files} == {
        "a b/c.json": (blob_of(b"1"), False),
        "run": (blob_of(b"2"), True),
        "Línea": (blob_of(b"3"), False),
    }
    assert tree.refused == ()


async def test_symlinks_and_submodules_are_refused_by_name(runner: GitRunner, repository: Repository) -> None:
    commit = repository.commit({"a": "1", "link": symlink("/etc/passwd"), "mod": submodule("1" * 40)})
    tree = await read_tree(runner, repository.path, commit)
    assert [entry.path for entry in tree.files] == ["a"]
    assert {refusal.nearest: refusal.kind for refusal in tree.refused} == {
        "link": RefusalKind.SYMLINK,
        "mod": RefusalKind.SUBMODULE,
    }


async def test_a_commit_that_is_not_there_is_a_broken_mirror(
    runner: GitRunner, repository: Repository
) -> None:
    with pytest.raises(GitFailed):
        await read_tree(runner, repository.path, CommitId("1" * 40))


def test_contents_come_in_the_order_asked_for(runner: GitRunner, repository: Repository) -> None:
    contents = [b"", b"\n", b"a\0b", *(b"%d" % n for n in range(600)), b"x" * 300_000, b"last"]
    repository.commit({f"f{n}": Entry(content) for n, content in enumerate(contents)})
    ids = [blob_of(content) for content in contents] + [blob_of(b"7")] * 2
    got = [(blob.id, b"".join(blob.chunks)) for blob in read_blobs(runner, repository.path, ids)]
    assert got == list(zip(ids, [*contents, b"7", b"7"], strict=True))


def test_what_the_caller_leaves_of_a_content_is_passed_over(
    runner: GitRunner, repository: Repository
) -> None:
    contents = [b"x" * 200_000, b"second", b"third"]
    repository.commit({f"f{n}": Entry(content) for n, content in enumerate(contents)})
    sizes = [blob.size for blob in read_blobs(runner, repository.path, map(blob_of, contents))]
    assert sizes == [200_000, 6, 5]


def test_a_large_content_needs_little_memory(runner: GitRunner, repository: Repository) -> None:
    size = 32 << 20
    content = b"0123456789abcdef" * (size // 16)
    repository.commit({"big": Entry(content)})
    wanted = blob_of(content)
    del content
    tracemalloc.start()
    try:
        (blob,) = (sum(map(len, one.chunks)) for one in read_blobs(runner, repository.path, [wanted]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert blob == size
    assert peak < 2 << 20


def test_a_missing_content_is_a_broken_mirror(runner: GitRunner, repository: Repository) -> None:
    repository.commit({"a": "1"})
    missing = BlobId("1" * 40)
    with pytest.raises(GitFailed, match=missing):
        list(read_blobs(runner, repository.path, [blob_of(b"1"), missing]))


def test_a_repository_that_is_none_is_a_broken_mirror(runner: GitRunner, tmp_path: Path) -> None:
    with pytest.raises(GitFailed):
        list(read_blobs(runner, tmp_path / "nowhere", [blob_of(b"1")] * 1000))


def test_pointers_of_large_file_storage_are_recognised(runner: GitRunner, repository: Repository) -> None:
    others = [b"", b"version https://example.test\n", b"x" * 5000, POINTER.encode() + b"x" * 2000]
    repository.commit({"p": POINTER} | {f"f{n}": Entry(content) for n, content in enumerate(others)})
    ids = [blob_of(POINTER.encode()), *map(blob_of, others)]
    assert find_lfs_pointers(runner, repository.path, ids * 2) == {blob_of(POINTER.encode())}

"""Reading a commit: names are checked, contents are streamed, nothing is unbounded."""

from __future__ import annotations

import asyncio
import secrets
import signal
import subprocess
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.domain.git_objects import BlobId, FileVersion, RefusedEntryKind, TreeChange, blob_of
from stoker.domain.refs import CommitId
from stoker.git.errors import GitFailed, SourceTooLarge
from stoker.git.mirror import tree as git_tree
from stoker.git.mirror.objects import MirrorObjects
from stoker.git.mirror.tree import commit_time, look_up_files, read_changes, read_tree
from stoker.git.process import pipe
from stoker.git.process.runner import GitRunner
from stoker_testkit.repositories.bare_repository import (
    WHEN,
    FileEntry,
    Repository,
    executable,
    submodule,
    symlink,
)
from stoker_testkit.wait_until import eventually_async

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"


@pytest.fixture
def runner(tmp_path: Path) -> GitRunner:
    return GitRunner(tmp_path / "cache")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "r.git")


@pytest.fixture
def objects(runner: GitRunner, repository: Repository) -> Iterator[MirrorObjects]:
    objects = MirrorObjects(runner, repository.path)
    yield objects
    objects.close()


def tree_of(repository: Repository, *entries: tuple[str, bytes, str]) -> str:
    """A tree object of these (mode, name, id), in this order and unchecked."""
    raw = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(id_) for mode, name, id_ in entries)
    arguments = ("hash-object", "-t", "tree", "-w", "--literally", "--stdin")
    return repository.git(*arguments, stdin=raw).decode().strip()


def commit_of(repository: Repository, tree: str) -> CommitId:
    identity = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return CommitId(repository.git("commit-tree", "-m", "x", tree, env=identity).decode().strip())


async def test_lists_every_file_with_its_blob_and_executable_bit(
    runner: GitRunner, repository: Repository
) -> None:
    commit = repository.commit({"a b/c.json": "1", "run": executable("2"), "Línea": "3"})
    tree = await read_tree(runner, repository.path, commit)
    assert tree.files == {
        "a b/c.json": FileVersion(blob_of(b"1")),
        "run": FileVersion(blob_of(b"2"), executable=True),
        "Línea": FileVersion(blob_of(b"3")),
    }
    assert all(type(version) is FileVersion for version in tree.files.values())
    assert tree.refused == ()


async def test_a_listing_of_many_blocks_is_complete(runner: GitRunner, repository: Repository) -> None:
    paths = {f"folder {n % 7}/{'x' * 150}/{n}" for n in range(3000)}
    commit = repository.commit(dict.fromkeys(paths, "1") | {"link": symlink("x")})
    tree = await read_tree(runner, repository.path, commit)
    assert tree.files.keys() == paths
    assert [refusal.nearest for refusal in tree.refused] == ["link"]


async def test_an_empty_commit_has_no_files(runner: GitRunner, repository: Repository) -> None:
    repository.commit({"a": "1"})
    tree = await read_tree(runner, repository.path, repository.commit({"a": None}))
    assert (tree.files, tree.refused) == ({}, ())


async def test_sha256_ids_are_read_in_full(runner: GitRunner, tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "256.git", object_format="sha256")
    commit = repository.commit({"a": "1", "b": executable("2")})
    tree = await read_tree(runner, repository.path, commit)
    assert tree.files["b"] == FileVersion(blob_of(b"2", digits=64), executable=True)


async def test_symlinks_and_submodules_are_refused_by_name(runner: GitRunner, repository: Repository) -> None:
    commit = repository.commit({"a": "1", "link": symlink("/etc/passwd"), "mod": submodule("1" * 40)})
    tree = await read_tree(runner, repository.path, commit)
    assert list(tree.files) == ["a"]
    assert {refusal.nearest: refusal.kind for refusal in tree.refused} == {
        "link": RefusedEntryKind.SYMLINK,
        "mod": RefusedEntryKind.SUBMODULE,
    }


async def test_a_name_that_is_there_twice_is_refused(runner: GitRunner, repository: Repository) -> None:
    one, other = (
        repository.git("hash-object", "-w", "--stdin", stdin=content).decode().strip()
        for content in (b"1", b"2")
    )
    twice = tree_of(
        repository,
        ("100644", b"a", one),
        ("100644", b"a", other),
        ("100644", b"a", one),
        ("100644", b"b", one),
    )
    tree = await read_tree(runner, repository.path, commit_of(repository, twice))
    assert list(tree.files) == ["b"]
    assert [(refusal.name, refusal.kind) for refusal in tree.refused] == [("a", RefusedEntryKind.AMBIGUOUS)]


async def test_odd_names_are_refused_and_the_others_stay(runner: GitRunner, repository: Repository) -> None:
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"1").decode().strip()
    odd = (b"..", b".git", b"a\\b", b"new\nline", b"\xff", b"tab\there", b"dot.")
    tree = tree_of(repository, *(("100644", name, blob) for name in (*odd, b"good")))
    result = await read_tree(runner, repository.path, commit_of(repository, tree))
    assert list(result.files) == ["good"]
    assert [refusal.kind for refusal in result.refused] == [RefusedEntryKind.BAD_NAME] * len(odd)
    assert all(refusal.name.isprintable() for refusal in result.refused)


async def test_a_bomb_of_trees_is_too_large_and_no_damage(
    runner: GitRunner, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_tree, "MAX_FILES", 50_000)
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"1").decode().strip()
    tree = tree_of(repository, *(("100644", b"f%d" % n, blob) for n in range(10)))
    for _ in range(9):
        tree = tree_of(repository, *(("40000", b"d%d" % n, tree) for n in range(10)))
    with pytest.raises(SourceTooLarge, match="names more than 50000 files"):
        await read_tree(runner, repository.path, commit_of(repository, tree))


async def test_names_of_many_megabytes_are_too_large(
    runner: GitRunner, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_tree, "MAX_TREE_BYTES", 1 << 20)
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"1").decode().strip()
    tree = tree_of(repository, ("100644", b"x" * (2 << 20), blob))
    with pytest.raises(SourceTooLarge, match="need more than 1048576 bytes"):
        await read_tree(runner, repository.path, commit_of(repository, tree))


async def test_a_commit_that_is_not_there_is_a_broken_mirror(
    runner: GitRunner, repository: Repository
) -> None:
    with pytest.raises(GitFailed):
        await read_tree(runner, repository.path, CommitId("1" * 40))


class NotingRunner(GitRunner):
    """Remembers the gits that it has started."""

    def __init__(self, cache: Path) -> None:
        super().__init__(cache)
        self.started: list[subprocess.Popen[bytes]] = []

    @contextmanager
    def stream(
        self, command: Sequence[str], *, repository: Path, limited: bool = False
    ) -> Iterator[subprocess.Popen[bytes]]:
        with super().stream(command, repository=repository, limited=limited) as process:
            self.started.append(process)
            yield process


async def test_a_cancelled_listing_ends_at_once(tmp_path: Path, repository: Repository) -> None:
    runner = NotingRunner(tmp_path / "cache")
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"1").decode().strip()
    tree = tree_of(repository, *(("100644", b"f%d" % n, blob) for n in range(10)))
    for _ in range(9):
        tree = tree_of(repository, *(("40000", b"d%d" % n, tree) for n in range(10)))
    reading_it = asyncio.ensure_future(read_tree(runner, repository.path, commit_of(repository, tree)))
    await eventually_async(lambda: runner.started, message="git lists")
    assert runner.started[0].poll() is None
    reading_it.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(reading_it, 5)
    assert runner.started[0].returncode == -signal.SIGKILL


async def test_the_difference_of_two_commits(runner: GitRunner, repository: Repository) -> None:
    before = repository.commit({"same": "1", "gone/x": "2", "changed": "3", "mode": "4"})
    after = repository.commit(
        {"gone/x": None, "changed": "new", "mode": executable("4"), "added ü": executable("5")}
    )
    changes = await read_changes(runner, repository.path, before, after)
    assert changes is not None
    assert {change.path: change for change in changes} == {
        "gone/x": TreeChange("gone/x", FileVersion(blob_of(b"2")), None),
        "changed": TreeChange("changed", FileVersion(blob_of(b"3")), FileVersion(blob_of(b"new"))),
        "mode": TreeChange("mode", FileVersion(blob_of(b"4")), FileVersion(blob_of(b"4"), executable=True)),
        "added ü": TreeChange("added ü", None, FileVersion(blob_of(b"5"), executable=True)),
    }
    assert await read_changes(runner, repository.path, after, after) == ()


async def test_a_file_in_the_place_of_a_folder_is_reported_by_its_files(
    runner: GitRunner, repository: Repository
) -> None:
    before = repository.commit({"x": "1"})
    after = repository.commit({"x": None, "x/y": "2"})
    changes = await read_changes(runner, repository.path, before, after)
    assert changes is not None
    assert {change.path for change in changes} == {"x", "x/y"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"x": symlink("y")}),
        ({"x": symlink("y")}, {"x": None}),
        ({"x": symlink("y")}, {"x": "file"}),
        ({"x": "file"}, {"x": submodule("1" * 40)}),
        ({}, {"name ": "1"}),
        ({}, {"a/..b/.git": "1"}),
    ],
)
async def test_only_regular_files_with_canonical_names_are_reported_by_changes(
    runner: GitRunner,
    repository: Repository,
    before: dict[str, str | FileEntry | None],
    after: dict[str, str | FileEntry | None],
) -> None:
    first = repository.commit({"good": "1", **before})
    entries = {path: entry for path, entry in after.items() if not path.endswith(".git")}
    second = repository.commit({"good": "2", **entries})
    if "a/..b/.git" in after:  # no git command would put it there
        blob = repository.git("hash-object", "-w", "--stdin", stdin=b"1").decode().strip()
        inner = tree_of(repository, ("100644", b".git", blob))
        second = commit_of(repository, tree_of(repository, ("40000", b"a", inner)))
    assert await read_changes(runner, repository.path, first, second) is None


async def test_an_unknown_commit_has_no_changes(runner: GitRunner, repository: Repository) -> None:
    commit = repository.commit({"a": "1"})
    assert await read_changes(runner, repository.path, CommitId("1" * 40), commit) is None


async def test_too_many_changes_are_not_reported(
    runner: GitRunner, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = repository.commit({"a": "1"})
    after = repository.commit({f"f{n}": "1" for n in range(100)})
    monkeypatch.setattr(git_tree, "MAX_CHANGES_BYTES", 1000)
    assert await read_changes(runner, repository.path, before, after) is None


async def test_looks_up_exactly_the_paths_that_are_asked_for(
    runner: GitRunner, repository: Repository
) -> None:
    commit = repository.commit(
        {
            "a/b": "1",
            "a/c": "2",
            "[x]*": "3",
            "-o": "4",
            ":(glob)y": "5",
            "run": executable("6"),
            "l": symlink("a"),
        }
    )
    asked = ["a/b", "a", "nope", "a/b/c", "[x]*", "*", "-o", ":(glob)y", "run", "l"]
    assert await look_up_files(runner, repository.path, commit, asked) == {
        "a/b": FileVersion(blob_of(b"1")),
        "[x]*": FileVersion(blob_of(b"3")),
        "-o": FileVersion(blob_of(b"4")),
        ":(glob)y": FileVersion(blob_of(b"5")),
        "run": FileVersion(blob_of(b"6"), executable=True),
    }
    assert await look_up_files(runner, repository.path, commit, []) == {}


async def test_looks_up_thousands_of_paths(runner: GitRunner, repository: Repository) -> None:
    paths = [f"{'long-folder-name-' * 10}/{n}" for n in range(2000)]
    commit = repository.commit(dict.fromkeys(paths, "1"))
    asked = [paths[0].partition("/")[0], *paths[::2]]
    assert (await look_up_files(runner, repository.path, commit, asked)).keys() == set(paths[::2])


async def test_knows_when_a_commit_was_made(objects: MirrorObjects, repository: Repository) -> None:
    commit = repository.commit({"a": "1"}, message="committer Mallory <m> 1 +0000")
    assert commit_time(await objects.commit(commit)) == WHEN


@pytest.mark.parametrize(
    "commit",
    [
        b"",
        b"tree 1\n\ncommitter x <x> 5 +0000\n",
        b"committer\n",
        b"committer x\n",
        b"committer a <b> -5 +0\n",
    ],
)
def test_a_commit_without_a_time_has_none(commit: bytes) -> None:
    assert commit_time(commit) == 0


def test_contents_come_in_the_order_asked_for(objects: MirrorObjects, repository: Repository) -> None:
    contents = [b"", b"\n", b"a\0b", *(b"%d" % n for n in range(600)), b"x" * 300_000, b"last"]
    contents += [secrets.token_bytes(size) for size in (1 << 20, (1 << 20) + 1, 3 << 20, 131_072, 131_071)]
    repository.commit({f"f{n}": FileEntry(content) for n, content in enumerate(contents)})
    ids = [blob_of(content) for content in contents] + [blob_of(b"7")] * 2
    got = [(blob.id, b"".join(blob.chunks)) for blob in objects.contents(ids)]
    assert got == list(zip(ids, [*contents, b"7", b"7"], strict=True))


def test_a_small_content_is_one_piece_and_a_large_one_is_several(
    objects: MirrorObjects, repository: Repository
) -> None:
    contents = [b"x" * size for size in (1, 500_000, 1 << 20, (1 << 20) + 1)]
    repository.commit({f"f{n}": FileEntry(content) for n, content in enumerate(contents)})
    pieces = [len(list(blob.chunks)) for blob in objects.contents([blob_of(content) for content in contents])]
    assert pieces[:3] == [1, 1, 1]
    assert pieces[3] > 1


def test_what_the_caller_leaves_of_a_content_is_passed_over(
    objects: MirrorObjects, repository: Repository
) -> None:
    contents = [b"x" * 3_000_000, b"second", b"third"]
    repository.commit({f"f{n}": FileEntry(content) for n, content in enumerate(contents)})
    assert [blob.size for blob in objects.contents(list(map(blob_of, contents)))] == [3_000_000, 6, 5]


def test_contents_left_half_read_do_not_disturb_the_next_question(
    objects: MirrorObjects, repository: Repository
) -> None:
    contents = [secrets.token_bytes(5_000) for _ in range(600)]
    repository.commit({f"f{n}": FileEntry(content) for n, content in enumerate(contents)})
    ids = [blob_of(content) for content in contents]
    first = objects.contents(ids)
    next(first)
    inner = objects.contents(ids[5:6])  # while the first is still open
    assert b"".join(next(inner).chunks) == contents[5]
    inner.close()  # type: ignore[attr-defined]
    first.close()  # type: ignore[attr-defined]
    assert [b"".join(blob.chunks) for blob in objects.contents(ids[:3])] == contents[:3]


async def test_objects_that_come_later_are_seen(objects: MirrorObjects, repository: Repository) -> None:
    commit = repository.commit({"a": "1"})
    assert await objects.has(commit)
    later = repository.commit({f"f{n}": str(n) for n in range(200)})
    assert await objects.has(later)
    assert len(list(objects.contents([blob_of(b"150")]))) == 1
    assert len(objects._started) == 1, "one process answered everything"


def test_a_large_content_needs_little_memory(objects: MirrorObjects, repository: Repository) -> None:
    size = 32 << 20
    content = b"0123456789abcdef" * (size // 16)
    repository.commit({"big": FileEntry(content)})
    wanted = blob_of(content)
    del content
    tracemalloc.start()
    try:
        (blob,) = (sum(map(len, one.chunks)) for one in objects.contents([wanted]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert blob == size
    assert peak < 2 << 20


def test_a_missing_content_is_a_broken_mirror(objects: MirrorObjects, repository: Repository) -> None:
    commit = repository.commit({"a": "1"})
    missing = BlobId("1" * 40)
    with pytest.raises(GitFailed, match=missing):
        list(objects.contents([blob_of(b"1"), missing]))
    with pytest.raises(GitFailed, match="is no blob in the mirror"):
        list(objects.contents([BlobId(commit)]))
    assert len(list(objects.contents([blob_of(b"1")]))) == 1


@pytest.mark.parametrize("count", [10, 3000])
async def test_lists_missing_contents(objects: MirrorObjects, repository: Repository, count: int) -> None:
    repository.commit({f"f{n}": str(n) for n in range(count)})
    here = [blob_of(b"%d" % n) for n in range(count)]
    gone = [blob_of(b"gone %d" % n) for n in range(5)]
    assert await objects.missing(here) == []
    assert await objects.missing([*gone[:2], *here, *gone[1:]]) == gone


def test_a_repository_that_is_none_is_a_broken_mirror(runner: GitRunner, tmp_path: Path) -> None:
    objects = MirrorObjects(runner, tmp_path / "nowhere")
    with pytest.raises(GitFailed):
        list(objects.contents([blob_of(b"1")] * 1000))
    objects.close()


def test_a_git_that_says_nothing_is_given_up(
    runner: GitRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe, "SILENCE_TIMEOUT", 0.2)
    silent = tmp_path / "bin/git"
    silent.parent.mkdir()
    silent.write_text("#!/bin/sh\nsleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setenv("PATH", f"{silent.parent}:/usr/bin:/bin")
    objects = MirrorObjects(runner, tmp_path)
    with pytest.raises(GitFailed, match="was silent"):
        list(objects.contents([blob_of(b"1")]))
    objects.close()

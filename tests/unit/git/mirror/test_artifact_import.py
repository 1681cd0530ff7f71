"""Artifacts become commits of a mirror: the same ones everywhere, whole or not at all."""

from __future__ import annotations

import asyncio
import io
import re
import resource
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

import pytest

from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.intent.source import SignatureMode
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, SourceUrl
from stoker.engine.artifact_source import ArtifactFile
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.mirror.artifact_import import MAX_KEPT, artifact_commit, write_all
from stoker.git.process.runner import GitRunner
from stoker.git.remote.fetch import FetchLimits
from stoker.git.remote.remote import Remote
from stoker.git.signature.policy import CommitRules
from stoker.git.source.artifact import ArtifactSource
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.wait_until import eventually_async

REF = GitRef("v1")
URL = SourceUrl("oci://registry.invalid/plant")


def id_of(number: int) -> CommitId:
    return CommitId(f"{number:064x}")


class InMemoryOrigin:
    """An origin whose artifacts are in memory."""

    def __init__(self) -> None:
        self.artifacts: dict[str, Mapping[str, bytes]] = {}
        self.pulls: list[str] = []
        self.failure: Exception | None = None

    async def resolve(self, ref: GitRef) -> CommitId:
        return CommitId(next(reversed(self.artifacts)))

    async def pull(self, artifact: CommitId, ref: GitRef, folder: Path) -> Taken:
        self.pulls.append(artifact)
        return Taken(self.artifacts[artifact], self.failure)


class Taken:
    title = "artifact oci://registry.invalid/plant"
    made_at = 1_700_000_000

    def __init__(self, content: Mapping[str, bytes], failure: Exception | None) -> None:
        self._content = content
        self._failure = failure
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()

    def files(self) -> Iterator[ArtifactFile]:
        for path, content in self._content.items():
            yield ArtifactFile(RelPath(path), len(content), iter((content,)), path.endswith(".sh"))
        if self._failure is not None:
            raise self._failure


def source(
    memory_origin: InMemoryOrigin, cache: Path, *, rules: CommitRules | None = None, packs: int = 100
) -> ArtifactSource:
    remote = Remote(GitRunner(cache), URL, fixed_access(RepoAccess()))
    limits = FetchLimits(packs=packs)
    return ArtifactSource(
        memory_origin, remote, cache, limits=limits, rules=rules if rules is not None else CommitRules()
    )


async def test_an_artifact_is_read_like_a_commit(tmp_path: Path) -> None:
    memory_origin = InMemoryOrigin()
    files = {"a b.json": b"1", "ü/x": b"", 'quo"te': b"q", "run.sh": b"#!", "d/e/f": b"\0\n\xff" * 100}
    memory_origin.artifacts[id_of(1)] = files
    reader = source(memory_origin, tmp_path)
    async with reader.held():
        await reader.fetch(id_of(1), REF)
        tree = await reader.tree(id_of(1))
        assert set(tree.files) == set(files)
        assert tree.refused == ()
        assert [path for path, version in tree.files.items() if version.executable] == ["run.sh"]
        blobs = [tree.files[path].blob for path in files]
        assert {len(blob) for blob in blobs} == {64}, "as long as the id, by which everybody tells the hash"
        await reader.complete(blobs)
        assert [b"".join(blob.chunks) for blob in reader.contents(blobs)] == list(files.values())
        assert await reader.committed_at(id_of(1)) == 1_700_000_000
        assert set(await reader.look_up(id_of(1), ["d/e/f", "none"])) == {"d/e/f"}


async def test_the_difference_of_two_artifacts_is_that_of_their_commits(tmp_path: Path) -> None:
    memory_origin = InMemoryOrigin()
    memory_origin.artifacts = {id_of(1): {"a": b"1", "b": b"1"}, id_of(2): {"a": b"2", "c": b"1"}}
    reader = source(memory_origin, tmp_path)
    async with reader.held():
        for each in memory_origin.artifacts:
            await reader.fetch(CommitId(each), REF)
        changes = await reader.changes(id_of(1), id_of(2))
        assert changes is not None
        assert sorted(change.path for change in changes) == ["a", "b", "c"]
        assert await reader.changes(id_of(9), id_of(2)) is None
        assert await reader.changes(CommitId("a" * 40), id_of(2)) is None, "it was a repository before"


async def test_what_is_here_is_not_pulled_again_and_the_commit_is_the_same_everywhere(tmp_path: Path) -> None:
    memory_origin = InMemoryOrigin()
    memory_origin.artifacts[id_of(1)] = {"a": b"1"}
    commits = set()
    for cache in (tmp_path / "one", tmp_path / "other"):
        for _ in range(2):
            reader = source(memory_origin, cache)
            async with reader.held():
                await reader.fetch(id_of(1), REF)
                commits.add(artifact_commit(reader.repository, id_of(1)))
    assert len(commits) == 1
    assert memory_origin.pulls == [id_of(1)] * 2


async def test_what_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    memory_origin = InMemoryOrigin()
    memory_origin.artifacts[id_of(1)] = {"a": b"1", "b": b"x" * 5_000_000}
    memory_origin.failure = Stalled("no", reason=Reason.ARTIFACT_REFUSED)
    reader = source(memory_origin, tmp_path)
    async with reader.held():
        with pytest.raises(Stalled):
            await reader.fetch(id_of(1), REF)
        assert artifact_commit(reader.repository, id_of(1)) is None
        assert list((reader.repository / "objects/pack").iterdir()) == []
        with pytest.raises(StokerError):
            await reader.tree(id_of(1))
        memory_origin.failure = None
        await reader.fetch(id_of(1), REF)
        assert set((await reader.tree(id_of(1))).files) == {"a", "b"}


async def test_a_file_of_another_size_than_it_says_becomes_no_commit(tmp_path: Path) -> None:
    class Lying(InMemoryOrigin):
        async def pull(self, artifact: CommitId, ref: GitRef, folder: Path) -> Taken:
            taken = Taken({}, None)
            taken.files = lambda: iter([ArtifactFile(RelPath("a"), 100, iter((b"short",)))])  # type: ignore[method-assign]
            return taken

    reader = source(Lying(), tmp_path)
    async with reader.held():
        with pytest.raises(Retry):
            await reader.fetch(id_of(1), REF)
        assert artifact_commit(reader.repository, id_of(1)) is None


async def test_a_crowded_mirror_is_built_anew(tmp_path: Path) -> None:
    memory_origin = InMemoryOrigin()
    reader = source(memory_origin, tmp_path, packs=3)
    for number in range(1, 8):
        memory_origin.artifacts[id_of(number)] = {"a": b"%d" % number}
        async with reader.held():
            await reader.fetch(id_of(number), REF)
            assert set((await reader.tree(id_of(number))).files) == {"a"}
            assert len(list((reader.repository / "objects/pack").glob("*.pack"))) <= 4
    async with reader.held():
        await reader.fetch(id_of(1), REF)  # gone meanwhile, and asked for again
    assert memory_origin.pulls.count(id_of(1)) == 2


async def test_only_the_latest_artifacts_are_remembered(tmp_path: Path) -> None:
    memory_origin = InMemoryOrigin()
    memory_origin.artifacts[id_of(1)] = {"a": b"1"}
    reader = source(memory_origin, tmp_path)
    async with reader.held():
        await reader.fetch(id_of(1), REF)
        known = reader.repository / "refs/stoker/artifacts"
        for number in range(100, 100 + MAX_KEPT + 5):
            (known / id_of(number)).write_text(f"{artifact_commit(reader.repository, id_of(1))}\n")
        memory_origin.artifacts[id_of(2)] = {"a": b"2"}
        await reader.fetch(id_of(2), REF)
        assert len(list(known.iterdir())) == MAX_KEPT


async def test_a_planted_ref_makes_the_mirror_anew(tmp_path: Path) -> None:
    memory_origin = InMemoryOrigin()
    memory_origin.artifacts[id_of(1)] = {"a": b"1"}
    reader = source(memory_origin, tmp_path)
    async with reader.held():
        await reader.fetch(id_of(1), REF)
        (reader.repository / "refs/stoker/artifacts/evil").symlink_to("/etc/passwd")
    async with reader.held():
        await reader.fetch(id_of(1), REF)
        assert not (reader.repository / "refs/stoker/artifacts/evil").is_symlink()
    assert len(memory_origin.pulls) == 2


async def test_signatures_and_moved_tags_fail_closed(tmp_path: Path) -> None:
    demanding = source(InMemoryOrigin(), tmp_path, rules=CommitRules(SignatureMode.COMMIT))
    with pytest.raises(StokerError) as unsigned:
        await demanding.vouch(id_of(1), REF, None)
    assert unsigned.value.reason == Reason.SIGNATURE_MISSING
    strict = source(InMemoryOrigin(), tmp_path, rules=CommitRules(allow_rewrite=False))
    await strict.vouch(id_of(1), REF, None)
    await strict.vouch(id_of(1), REF, id_of(1))
    with pytest.raises(StokerError) as moved:
        await strict.vouch(id_of(2), REF, id_of(1))
    assert moved.value.reason == Reason.HISTORY_REWRITTEN


async def test_a_cancelled_import_waits_for_no_file_that_never_comes(tmp_path: Path) -> None:
    began = threading.Event()

    class Idle(Taken):
        def files(self) -> Iterator[ArtifactFile]:
            began.set()
            if self.stopped.wait(600):
                raise Retry("given up")
            yield ArtifactFile(RelPath("late"), 0, iter(()))

    class Slow(InMemoryOrigin):
        async def pull(self, artifact: CommitId, ref: GitRef, folder: Path) -> Taken:
            return Idle({}, None)

    reader = source(Slow(), tmp_path)
    async with reader.held():
        fetching = asyncio.create_task(reader.fetch(id_of(1), REF))
        await eventually_async(began.is_set)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(fetching, 300)
        assert artifact_commit(reader.repository, id_of(1)) is None


def test_a_pipe_that_takes_little_at_a_time_gets_all_of_it() -> None:
    class Narrow(io.RawIOBase):
        taken = b""

        def write(self, piece: Any) -> int:
            self.taken += bytes(piece[:3])
            return min(3, len(piece))

    pipe = Narrow()
    write_all(cast("IO[bytes]", pipe), b"0123456789")
    assert pipe.taken == b"0123456789"


def test_what_is_fed_from_outside_runs_under_the_limit_on_memory(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "plant.git").path
    runner = GitRunner(tmp_path / "cache", max_memory=300 << 20)
    with runner.stream(["cat-file", "--batch-check"], repository=repository, limited=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"HEAD\n")
        process.stdout.read(1)  # git answers, and the shell before it is gone
        limits = Path(f"/proc/{process.pid}/limits").read_text()
    assert re.search(rf"Max data size +{300 << 20} ", limits)


async def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    class Large(InMemoryOrigin):
        async def pull(self, artifact: CommitId, ref: GitRef, folder: Path) -> Taken:
            taken = Taken({}, None)
            pieces = (b"\0" * (1 << 20) for _ in range(24))
            taken.files = lambda: iter([ArtifactFile(RelPath("large"), 24 << 20, pieces)])  # type: ignore[method-assign]
            return taken

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reader = source(Large(), tmp_path)
    async with reader.held():
        await reader.fetch(id_of(1), REF)
        (version,) = (await reader.tree(id_of(1))).files.values()
        assert await reader.objects.sizes([version.blob]) == [24 << 20]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10

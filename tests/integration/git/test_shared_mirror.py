"""One mirror on a volume, one writer, many readers: real git, real folders, several syncs at once."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.jobs import SyncJob, SyncOptions
from stoker.agent.sync.open_source import open_keeper
from stoker.domain.errors import Retry, Stalled, Wait
from stoker.domain.git_objects import BlobId
from stoker.domain.intent.files import FileMapping, FilesIntent
from stoker.domain.intent.source import SignatureMode, SignaturePolicy, SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.errors import GitFailed
from stoker.git.mirror.full_mirror import FullMirror, MirrorUpkeep
from stoker.git.mirror.shared_volume import MirrorVolume
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.signature.policy import CommitRules
from stoker.git.signature.verify import TrustedKeys
from stoker.git.source.shared import SharedVolumeSource
from stoker_testkit.repositories.bare_repository import Repository, run_git
from stoker_testkit.repositories.commit_signers import ssh_signer
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.wait_until import eventually_async

MAIN = GitRef("main")


class Plant:
    """A repository behind a server, a volume, and its readers."""

    def __init__(self, folder: Path, server: GitHttpServer) -> None:
        self.folder, self.server = folder, server
        self.repository = Repository.create(server.root / "plant.git")
        self.volume = MirrorVolume(folder / "volume")
        self.url = RepoUrl(server.url("plant.git"))

    @property
    def remote(self) -> Remote:
        return Remote(GitRunner(self.folder / "writer"), self.url, fixed_access(RepoAccess()))

    def writer(self, **upkeep: float) -> FullMirror:
        mirror = FullMirror(self.volume, upkeep=replace(MirrorUpkeep(), **upkeep))  # type: ignore[arg-type]
        assert mirror.opened()
        return mirror

    async def update(self, *wanted: CommitId, **upkeep: float) -> None:
        """What a fetcher does that was started a moment ago."""
        mirror = self.writer(**upkeep)
        try:
            await mirror.update(self.remote, wanted or (self.repository.tip(),), MAIN)
        finally:
            mirror.close()

    def source(
        self, name: str = "reader", rules: Sequence[CommitRules] = (), patience: float = 0.0
    ) -> SharedVolumeSource:
        checks = tuple(each.check for each in rules)
        return SharedVolumeSource(
            GitRunner(self.folder / name), self.volume.root, rules=checks, patience=patience
        )

    def folder_sync(self, name: str) -> FolderSync:
        data = self.folder / name
        data.mkdir(exist_ok=True)
        job = SyncJob(
            SourceIntent(self.url, MAIN),
            FilesIntent((FileMapping("s", "projects"),)),
            TemplateValues(gateway_name=name),
            data,
            self.folder / f"{name}-repo",
        )
        return open_keeper(job, shared=self.volume.root)

    def generations(self) -> set[str]:
        return {each.name for each in (self.volume.root / "generations").iterdir() if each.is_dir()}


@pytest.fixture
def plant(tmp_path: Path, git_http: GitHttpServer) -> Plant:
    return Plant(tmp_path, git_http)


async def synced(folder_sync: FolderSync, commit: CommitId) -> None:
    """A sync; in a process that starts many gits at once a lock is released a moment late."""

    async def passed() -> bool:
        try:
            await folder_sync.sync(SyncOptions(commit=commit))
        except Wait as error:
            if error.reason is not Reason.SYNC_IN_PROGRESS:
                raise
            return False
        return True

    await eventually_async(passed, 30.0, "the lock is free")


async def read(source: SharedVolumeSource, commit: CommitId) -> dict[str, bytes]:
    """All files of a commit, by path."""
    tree = await source.tree(commit)
    blobs = {version.blob: path for path, version in tree.files.items()}

    def contents() -> dict[str, bytes]:
        return {blobs[blob.id]: b"".join(blob.chunks) for blob in source.contents([*blobs])}

    return await asyncio.to_thread(contents)


async def test_two_agents_read_one_mirror_while_the_fetcher_updates_it(plant: Plant) -> None:
    commits = [
        plant.repository.commit({f"s/f{n}": "x" * 50_000 + str(n), "s/version": str(n)}) for n in range(8)
    ]
    plant.repository.set_branch("main", commits[0])
    await plant.update(commits[0])
    folder_syncs = [plant.folder_sync("line-1"), plant.folder_sync("line-2")]

    async def follow(folder_sync: FolderSync) -> None:
        for commit in commits:
            await synced(folder_sync, commit)

    async def write() -> None:
        for commit in commits[1:]:
            plant.repository.set_branch("main", commit)
            await plant.update(commit, packs=1, grace=0.0)

    await asyncio.gather(write(), *map(follow, folder_syncs))
    for name in ("line-1", "line-2"):
        assert (plant.folder / name / "projects/version").read_text() == "7"
        assert len(list((plant.folder / name / "projects").iterdir())) == 9
    await plant.update(grace=0.0)
    assert plant.generations() == {plant.volume.current}


async def test_what_a_reader_holds_is_never_taken_away(plant: Plant) -> None:
    old = plant.repository.commit({"s/a": "old"})
    await plant.update(old)
    before = plant.volume.current
    source = plant.source()
    async with source.held():
        await source.fetch(old, MAIN)
        plant.repository.git("update-ref", "-d", "refs/heads/main")
        new = plant.repository.commit({"s/a": "new"}, replace=True)
        for _ in range(3):
            await plant.update(new, packs=0, grace=0.0, wanted=0)
        assert plant.volume.current != before
        assert before in plant.generations()
        assert await read(source, old) == {"s/a": b"old"}
    await plant.update(new, packs=0, grace=0.0, wanted=0)
    assert before not in plant.generations()
    async with source.held():
        await source.fetch(new, MAIN)
        assert await read(source, new) == {"s/a": b"new"}


async def test_without_locks_the_grace_keeps_a_generation(plant: Plant) -> None:
    await plant.update(plant.repository.commit({"s/a": "1"}))
    before = plant.volume.current
    await plant.update(plant.repository.commit({"s/a": "2"}), packs=0, grace=3600.0)
    await plant.update(packs=0, grace=3600.0)
    assert before in plant.generations()


async def test_a_reader_that_comes_before_the_commit_waits(plant: Plant) -> None:
    first = plant.repository.commit({"s/a": "1"})
    source = plant.source()
    async with source.held():
        with pytest.raises(Wait, match=f"does not hold commit {first} of ref 'main' yet") as raised:
            await source.fetch(first, MAIN)
    assert raised.value.reason is Reason.SHARED_MIRROR_BEHIND
    folder_sync = plant.folder_sync("line-1")
    waiting = asyncio.create_task(folder_sync.sync(SyncOptions(commit=first)))
    await eventually_async((plant.folder / "line-1/.sync-state").exists)
    assert not waiting.done()
    await plant.update(first)
    await waiting
    assert (plant.folder / "line-1/projects/a").read_text() == "1"


async def test_the_mirror_holds_all_branches_and_tags_whole(plant: Plant) -> None:
    main = plant.repository.commit({"s/a": "1", "large": b"\0" * 3_000_000})
    side = plant.repository.commit({"s/b": "2"}, branch="side")
    plant.repository.tag("v1", main, message="One")
    plant.repository.tag("side", main)
    gone = plant.repository.commit({"s/c": "3"}, branch="gone")
    await plant.update(main)
    path = plant.volume.path(plant.volume.current or "")
    assert not list(path.rglob("*.promisor"))
    run_git(f"--git-dir={path}", "fsck", "--full", "--connectivity-only", "--no-dangling")
    source = plant.source()
    assert await source.resolve(GitRef("side")) == side
    assert await source.resolve(GitRef("v1")) == main
    assert await source.resolve(GitRef("refs/tags/side")) == main, "a branch comes before a tag"
    assert await source.resolve(GitRef("gone")) == gone
    plant.repository.delete_branch("gone")
    await plant.update()
    with pytest.raises(Stalled, match="'gone' is not in repository"):
        await source.resolve(GitRef("gone"))
    async with source.held():
        await source.fetch(gone, GitRef("gone"))  # an agent whose metadata names it still can


async def test_a_commit_that_no_branch_leads_to_is_kept(plant: Plant) -> None:
    main = plant.repository.commit({"s/a": "1"})
    request = plant.repository.commit({"s/a": "2"}, branch="request")
    plant.repository.git("update-ref", "refs/pull/7/head", request)
    plant.repository.delete_branch("request")
    mirror = plant.writer(packs=0, grace=0.0)
    await mirror.update(plant.remote, (request, main), GitRef("refs/pull/7/head"))
    await mirror.update(plant.remote, (main,), MAIN)
    mirror.close()
    source = plant.source()
    async with source.held():
        await source.fetch(request, GitRef("refs/pull/7/head"))
        assert await read(source, request) == {"s/a": b"2"}


async def test_a_damaged_mirror_is_built_anew_beside_the_old_one(plant: Plant) -> None:
    await plant.update(plant.repository.commit({"s/a": "1"}))
    before = plant.volume.current or ""
    path = plant.volume.path(before)
    for pack in (path / "objects/pack").glob("*.pack"):
        pack.chmod(0o644)
        content = bytearray(pack.read_bytes())
        content[len(content) // 2] ^= 0xFF
        pack.write_bytes(content)
    second = plant.repository.commit({"s/a": "2"})
    await plant.update(second)
    assert plant.volume.current != before
    source = plant.source()
    async with source.held():
        await source.fetch(second, MAIN)
        assert await read(source, second) == {"s/a": b"2"}


async def test_locks_that_a_killed_git_left_do_not_stop_the_writer(plant: Plant) -> None:
    await plant.update(plant.repository.commit({"s/a": "1"}))
    name = plant.volume.current
    path = plant.volume.path(name or "")
    for lock in ("refs/heads/main.lock", "packed-refs.lock", "objects/pack/tmp_pack_abc"):
        (path / lock).write_text("")
    second = plant.repository.commit({"s/a": "2"})
    await plant.update(second)
    assert plant.volume.current == name
    assert plant.repository.tip() == second == CommitId((path / "refs/heads/main").read_text().strip())


async def test_a_failed_update_leaves_the_mirror_as_it_was(plant: Plant) -> None:
    first = plant.repository.commit({"s/a": "1"})
    await plant.update(first)
    before = plant.volume.current
    (plant.server.root / "plant.git").rename(plant.server.root / "elsewhere.git")
    with pytest.raises(Retry):
        await plant.update(first)
    assert plant.volume.current == before
    assert plant.generations() == {before}


async def test_only_one_process_writes(plant: Plant) -> None:
    mirror = plant.writer()
    other = FullMirror(plant.volume)
    assert not other.opened()
    mirror.close()
    assert other.opened()
    other.close()


async def test_every_process_that_mounts_the_volume_can_read_and_no_credential_is_there(plant: Plant) -> None:
    await plant.update(plant.repository.commit({"s/a": "1"}))
    for each in plant.volume.root.rglob("*"):
        mode = stat.S_IMODE(each.stat().st_mode)
        assert mode & 0o004, each
        assert not each.is_dir() or mode & 0o001, each
    assert not [each for each in plant.volume.root.rglob("*") if "askpass" in each.name or "key" in each.name]


async def test_a_planted_git_setting_is_ignored(plant: Plant) -> None:
    first = plant.repository.commit({"s/a": "1"})
    await plant.update(first)
    path = plant.volume.path(plant.volume.current or "")
    (path / "config").write_text("[core]\n\tbare = true\n\tfsmonitor = touch /tmp/planted\n")
    source = plant.source()
    async with source.held():
        with pytest.raises(GitFailed, match="is not what its writer makes"):
            await source.fetch(first, MAIN)


async def test_a_rewritten_branch_is_refused_where_that_is_not_allowed(plant: Plant) -> None:
    first = plant.repository.commit({"s/a": "1"})
    second = plant.repository.commit({"s/a": "2"})
    await plant.update(second)
    source = plant.source(rules=(CommitRules(allow_rewrite=False),))
    async with source.held():
        await source.fetch(second, MAIN)
        await source.vouch(second, MAIN, first)
    rewritten = plant.repository.commit({"s/a": "3"}, onto=str(first))
    await plant.update(rewritten)
    async with source.held():
        await source.fetch(rewritten, MAIN)
        with pytest.raises(Stalled, match="was rewritten"):
            await source.vouch(rewritten, MAIN, second)


async def test_signatures_are_checked_against_the_shared_mirror(plant: Plant, tmp_path: Path) -> None:
    alice = ssh_signer(tmp_path, "alice")
    signed = alice.commit(plant.repository, {"s/a": "1"})
    unsigned = plant.repository.commit({"s/a": "2"})
    await plant.update(unsigned)

    async def keys() -> TrustedKeys:
        return TrustedKeys(allowed_signers=b"alice@example.test " + alice.public)

    policy = SignaturePolicy(SignatureMode.COMMIT)
    source = plant.source(rules=(CommitRules(policy.mode, keys),))
    async with source.held():
        await source.fetch(signed, MAIN)
        await source.vouch(signed, MAIN, None)
        with pytest.raises(Stalled, match="signed"):
            await source.vouch(unsigned, MAIN, None)


async def test_contents_that_are_missing_are_named(plant: Plant) -> None:
    first = plant.repository.commit({"s/a": "1"})
    await plant.update(first)
    source = plant.source()
    async with source.held():
        await source.fetch(first, MAIN)
        with pytest.raises(GitFailed, match="are not in the shared mirror"):
            await source.complete([BlobId("1" * 40)])

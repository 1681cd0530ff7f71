"""A mirror belongs to one credential and one process at a time, and heals itself."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import GitLogin, GitPassword, RepoAccess, fixed_access
from stoker.git.errors import GitFailed, SourceAuthFailed, SourceUnreachable
from stoker.git.mirror.layout import TIPS
from stoker.git.mirror.mirror import HOLD_TIMEOUT, Mirror
from stoker.git.mirror.tree import read_tree
from stoker.git.process.runner import GitRunner
from stoker.git.remote.fetch import FetchLimits
from stoker.git.remote.remote import Remote
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.wait_until import eventually_async

MAIN = GitRef("main")


class MirrorSite:
    """A repository, and mirrors of it in one cache."""

    def __init__(self, tmp_path: Path) -> None:
        self.cache = tmp_path / "cache"
        self.runner = GitRunner(self.cache)
        self.repository = Repository.create(tmp_path / "r.git")
        self.url = RepoUrl(self.repository.path.as_uri())

    def mirror(
        self,
        url: RepoUrl | None = None,
        login: GitLogin | None = None,
        clock: ManualClock | None = None,
        limits: FetchLimits | None = None,
    ) -> Mirror:
        remote = Remote(self.runner, url or self.url, fixed_access(RepoAccess(login)))
        return Mirror(remote, self.cache, clock, limits or FetchLimits())

    async def fetched(self, commit: CommitId, mirror: Mirror | None = None) -> Path:
        """Its path afterwards."""
        mirror = mirror or self.mirror()
        async with mirror.held():
            await mirror.fetch(commit, MAIN)
        return mirror.path

    async def names(self, mirror: Path, commit: CommitId) -> list[str]:
        return list((await read_tree(self.runner, mirror, commit)).files)


@pytest.fixture
def site(tmp_path: Path) -> MirrorSite:
    return MirrorSite(tmp_path)


async def test_its_folder_is_private_and_its_configuration_fixed(site: MirrorSite) -> None:
    path = await site.fetched(site.repository.commit({"a": "1"}))
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert (path / "config").read_text() == "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"


def one_pack(path: Path, suffix: str = ".pack") -> Path:
    (found,) = path.rglob(f"*{suffix}")
    found.chmod(0o600)
    return found


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def plant_alternates(path: Path) -> None:
    (path / "objects/info").mkdir()
    (path / "objects/info/alternates").write_text("/nowhere\n")


def plant_info(name: str) -> Callable[[Path], None]:
    def plant(path: Path) -> None:
        (path / "info").mkdir()
        (path / "info" / name).write_text("* filter=evil\n")

    return plant


def plant_replacement(path: Path) -> None:
    (path / "refs/replace").mkdir()
    (tip,) = (path / TIPS).iterdir()
    (path / "refs/replace" / tip.read_text().strip()).write_text(tip.read_text())


def in_place_of(name: str, target: str = "/nowhere") -> Callable[[Path], None]:
    def swap(path: Path) -> None:
        (path / name).rename(path.with_name("moved"))
        (path / name).symlink_to(target)

    return swap


def become(kind: str) -> Callable[[Path], None]:
    def swap(path: Path) -> None:
        path.rename(path.with_name("moved"))
        if kind == "file":
            path.write_text("not a folder")
        elif kind == "symlink":
            path.symlink_to(path.with_name("moved"))
        elif kind == "fifo":
            os.mkfifo(path)

    return swap


DAMAGES: dict[str, Callable[[Path], object]] = {
    "shallow.lock": lambda path: (path / "shallow.lock").touch(),
    "packed-refs.lock": lambda path: (path / "packed-refs.lock").touch(),
    "index.lock": lambda path: (path / "index.lock").touch(),
    "config.lock": lambda path: (path / "config.lock").touch(),
    "lock of a ref": lambda path: next((path / TIPS).iterdir()).with_suffix(".lock").touch(),
    "half a pack": lambda path: (path / "objects/pack/tmp_pack_x").write_bytes(b"PACK"),
    "half an index": lambda path: (path / "objects/pack/tmp_idx_x").touch(),
    "pack kept": lambda path: one_pack(path).with_suffix(".keep").touch(),
    "truncated pack": lambda path: truncate(one_pack(path)),
    "empty pack": lambda path: os.truncate(one_pack(path), 0),
    "truncated index": lambda path: truncate(one_pack(path, ".idx")),
    "no index": lambda path: one_pack(path, ".idx").unlink(),
    "no pack": lambda path: one_pack(path).unlink(),
    "empty ref": lambda path: os.truncate(next((path / TIPS).iterdir()), 0),
    "torn ref": lambda path: os.truncate(next((path / TIPS).iterdir()), 20),
    "ref to nothing": lambda path: next((path / TIPS).iterdir()).write_text("1" * 40 + "\n"),
    "no refs": lambda path: (path / "refs").rename(path.with_name("moved")),
    "no objects": lambda path: (path / "objects").rename(path.with_name("moved")),
    "no HEAD": lambda path: (path / "HEAD").unlink(),
    "other HEAD": lambda path: (path / "HEAD").write_text("nonsense"),
    "nonsense in shallow": lambda path: (path / "shallow").write_text("nonsense\n"),
    "empty shallow": lambda path: os.truncate(path / "shallow", 0),
    "vanished": become("nothing"),
    "a file": become("file"),
    "a symlink": become("symlink"),
    "a pipe": become("fifo"),
    "objects are a symlink": in_place_of("objects"),
    "config is a symlink": in_place_of("config", "/dev/null"),
    "open to others": lambda path: path.chmod(0o755),
    "unreadable": lambda path: (path / "objects/pack").chmod(0),
    "planted config": lambda path: (path / "config").write_text("[core]\n\tsshCommand = touch /x\n"),
    "planted hooks": lambda path: (path / "hooks").mkdir(),
    "planted alternates": plant_alternates,
    "planted attributes": plant_info("attributes"),
    "planted grafts": plant_info("grafts"),
    "planted replacement": plant_replacement,
    "planted packed refs": lambda path: (path / "packed-refs").write_text("nonsense\n"),
    "planted worktree config": lambda path: (path / "config.worktree").write_text("[core]\n"),
    "planted commondir": lambda path: (path / "commondir").write_text("/nowhere\n"),
}


@pytest.mark.parametrize("same_commit", [True, False], ids=["same commit", "next commit"])
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_mirror_heals(site: MirrorSite, damage: str, same_commit: bool) -> None:
    commit = site.repository.commit({"a": "1"})
    path = await site.fetched(commit)
    DAMAGES[damage](path)
    if not same_commit:
        commit = site.repository.commit({"b": "1"})
    await site.fetched(commit)
    assert await site.names(path, commit) == (["a"] if same_commit else ["a", "b"])
    known = {"HEAD", "config", "objects", "refs", "shallow"}
    assert {entry.name for entry in path.iterdir()} <= known
    assert {entry.name for entry in path.parent.iterdir()} <= {path.name, f"{path.name}.lock", "moved"}
    assert not [*path.rglob("*.lock"), *path.rglob("tmp_*"), *path.rglob("*.keep")]
    assert "sshCommand" not in (path / "config").read_text()


async def test_a_left_over_lock_costs_no_second_download(site: MirrorSite) -> None:
    path = await site.fetched(site.repository.commit({"a": "1"}))
    pack = one_pack(path)
    (path / "shallow.lock").touch()
    (path / "objects/pack/tmp_pack_x").touch()
    await site.fetched(site.repository.commit({"b": "1"}))
    assert pack.exists()


async def test_what_another_user_planted_is_built_anew(site: MirrorSite) -> None:
    commit = site.repository.commit({"a": "1"})
    path = await site.fetched(commit)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        path.chmod(0o777)
    with one_pack(path).open("rb") as old:
        await site.fetched(commit)
        assert not os.path.samestat(os.fstat(old.fileno()), one_pack(path).stat())
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (os.geteuid(), 0o700)


async def test_a_missing_object_is_found_by_a_reader_and_fixed_by_discarding(site: MirrorSite) -> None:
    first = site.repository.commit({"d/a": "1", "e": "1"})
    path = await site.fetched(first)
    old = one_pack(path)
    second = site.repository.commit({"e": "2"})
    mirror = site.mirror()
    async with mirror.held():
        await mirror.fetch(second, MAIN)
        old.write_bytes(b"")  # holds the folder `d`, which the second commit shares
        with pytest.raises(GitFailed):
            await site.names(mirror.path, second)
        mirror.discard()
        await mirror.fetch(second, MAIN)
        assert await site.names(mirror.path, second) == ["d/a", "e"]


async def test_a_rebuild_that_fails_leaves_the_old_mirror(site: MirrorSite) -> None:
    commit = site.repository.commit({"a": "1"})
    mirror = site.mirror(limits=FetchLimits(packs=0))
    async with mirror.held():
        await mirror.fetch(commit, MAIN)
        later = site.repository.commit({"b": "1"})
        site.repository.path.rename(site.repository.path.with_name("away"))
        with pytest.raises(SourceUnreachable):
            await mirror.fetch(later, MAIN)
        assert await site.names(mirror.path, commit) == ["a"]
        assert not mirror.path.with_suffix(".new").exists()
        site.repository.path.with_name("away").rename(site.repository.path)
        await mirror.fetch(later, MAIN)
        assert await site.names(mirror.path, later) == ["a", "b"]


@pytest.mark.parametrize("limits", [FetchLimits(packs=2), FetchLimits(mirror=2000)], ids=["packs", "bytes"])
async def test_a_mirror_that_has_grown_is_built_anew(site: MirrorSite, limits: FetchLimits) -> None:
    mirror = site.mirror(limits=limits)
    counts = []
    async with mirror.held():
        for number in range(6):
            commit = site.repository.commit({f"f{number}": "1"})
            await mirror.fetch(commit, MAIN)
            counts.append(len(list(mirror.path.rglob("*.pack"))))
        assert len(await site.names(mirror.path, commit)) == 6
    assert counts == [1, 2, 3, 1, 2, 3] if limits.packs == 2 else max(counts) < 6


async def test_sha256_repositories_have_their_own_form(site: MirrorSite, tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "256.git", object_format="sha256")
    mirror = site.mirror(RepoUrl(repository.path.as_uri()))
    for number in range(2):
        commit = repository.commit({f"f{number}": "1"})
        await site.fetched(commit, mirror)
    assert await site.names(mirror.path, commit) == ["f0", "f1"]


async def test_what_one_credential_opened_is_not_served_to_another(
    site: MirrorSite, git_http: GitHttpServer, repositories: Path
) -> None:
    commit = Repository.create(repositories / "secret.git").commit({"a": "1"})
    git_http.users.update(alice="right", bob="right too")
    url = RepoUrl(git_http.url("secret.git"))
    alice = await site.fetched(commit, site.mirror(url, GitPassword("alice", Secret("right"))))
    mallory = [None, GitPassword("alice", Secret("wrong")), GitPassword("alic", Secret("eright"))]
    for login in mallory:
        mirror = site.mirror(url, login)
        async with mirror.held():
            assert mirror.path != alice
            with pytest.raises(SourceAuthFailed):
                await mirror.fetch(commit, MAIN)
    assert await site.fetched(commit, site.mirror(url, GitPassword("bob", Secret("right too")))) != alice
    assert await site.fetched(commit, site.mirror(url, GitPassword("alice", Secret("right")))) == alice


async def test_names_of_folders_differ_between_caches(site: MirrorSite, tmp_path: Path) -> None:
    commit = site.repository.commit({"a": "1"})
    path = await site.fetched(commit)
    site.cache = tmp_path / "other"
    assert (await site.fetched(commit)).name != path.name


async def test_a_cache_that_was_emptied_is_furnished_anew(site: MirrorSite) -> None:
    commit = site.repository.commit({"a": "1"})
    path = await site.fetched(commit)
    for name in ("mirrors", "key"):
        (site.cache / name).rename(site.cache.with_name(name))
    again = await site.fetched(commit)
    assert again.name != path.name
    assert await site.names(again, commit) == ["a"]


async def test_a_torn_key_is_made_anew(site: MirrorSite) -> None:
    commit = site.repository.commit({"a": "1"})
    path = await site.fetched(commit)
    os.truncate(site.cache / "key", 0)
    again = await site.fetched(commit)
    assert again.name != path.name
    assert len((site.cache / "key").read_bytes()) == 32
    assert await site.fetched(commit) == again


async def test_one_process_at_a_time_holds_it(site: MirrorSite) -> None:
    mirror = site.mirror()
    hold = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.flock(f, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    async with mirror.held():
        pass
    lock = mirror.path.with_suffix(".lock")
    clock = ManualClock()
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", hold, lock, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"

    async def take() -> None:
        async with site.mirror(clock=clock).held():
            raise AssertionError("two holders at once")

    taking = asyncio.ensure_future(take())
    await eventually_async(lambda: bool(clock.alarms), message="it waits")
    await clock.advance(HOLD_TIMEOUT + 1)
    with pytest.raises(SourceUnreachable, match="in use by another process"):
        await taking
    holder.kill()
    await holder.wait()
    async with mirror.held():
        assert lock.exists()


@pytest.mark.parametrize("kind", ["symlink", "folder"])
async def test_a_symlink_in_the_place_of_the_lock_is_not_followed(
    site: MirrorSite, tmp_path: Path, kind: str
) -> None:
    mirror = site.mirror()
    async with mirror.held():
        pass
    lock = mirror.path.with_suffix(".lock")
    lock.unlink()
    if kind == "symlink":
        lock.symlink_to(tmp_path / "elsewhere")
    else:
        (lock / "inside").mkdir(parents=True)
    async with mirror.held():
        assert lock.is_file()
    assert not (tmp_path / "elsewhere").exists()


async def test_no_git_outlives_the_hold(site: MirrorSite) -> None:
    commit = site.repository.commit({"a": "1"})
    mirror = site.mirror()
    async with mirror.held():
        await mirror.fetch(commit, MAIN)
        assert await mirror.objects.has(commit)
        (git,) = mirror.objects._started
        pid = git._process.pid
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_git_that_dies_meanwhile_is_started_again(site: MirrorSite) -> None:
    commit = site.repository.commit({"a": "1"})
    mirror = site.mirror()
    async with mirror.held():
        await mirror.fetch(commit, MAIN)
        (git,) = mirror.objects._started
        os.kill(git._process.pid, signal.SIGKILL)
        with pytest.raises(GitFailed):
            await mirror.objects.has(commit)
        assert await mirror.objects.has(commit)


async def test_a_cache_that_cannot_be_written_is_a_failure_with_a_name(site: MirrorSite) -> None:
    commit = site.repository.commit({"a": "1"})
    mirror = site.mirror()
    async with mirror.held():
        mirror.path.parent.rename(site.cache / "away")
        mirror.path.parent.write_text("in the way")
        with pytest.raises(GitFailed, match="cannot be made: Not a directory"):
            await mirror.fetch(commit, MAIN)

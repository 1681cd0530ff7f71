"""A mirror holds one commit, belongs to one credential, and heals itself."""

from __future__ import annotations

import asyncio
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.access import Access, Password, always
from stoker.git.errors import GitFailed, RefNotFound, SourceAuthFailed, SourceUnreachable
from stoker.git.mirror import HOLD_TIMEOUT, MAX_PACKS, Mirror
from stoker.git.reading import read_tree
from stoker.git.remote import Remote
from stoker.git.runner import GitRunner
from stoker.testing.clock import ManualClock
from stoker.testing.git_http import GitHttpServer
from stoker.testing.repositories import Repository
from stoker.testing.waiting import eventually_async

MAIN = GitRef("main")


class World:
    """A repository, and mirrors of it in one cache."""

    def __init__(self, tmp_path: Path) -> None:
        self.cache = tmp_path / "cache"
        self.runner = GitRunner(self.cache)
        self.repository = Repository.create(tmp_path / "r.git")
        self.url = RepoUrl(self.repository.path.as_uri())

    def remote(self, url: RepoUrl | None = None, login: Password | None = None) -> Remote:
        return Remote(self.runner, url or self.url, always(Access(login)))

    async def mirror(self, url: RepoUrl | None = None, login: Password | None = None) -> Mirror:
        return await Mirror.of(self.remote(url, login), self.cache)

    async def names(self, mirror: Mirror, commit: CommitId) -> list[str]:
        return [str(entry.path) for entry in (await read_tree(self.runner, mirror.path, commit)).files]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_fetches_one_commit_without_history_and_without_a_checkout(world: World) -> None:
    world.repository.commit({"old": "1"})
    commit = world.repository.commit({"a": "1"})
    mirror = await world.mirror()
    await mirror.fetch(commit, MAIN)
    assert await world.names(mirror, commit) == ["a", "old"]
    assert (mirror.path / "shallow").read_text().strip() == commit
    assert not list(mirror.path.rglob("index"))
    assert not list(mirror.path.rglob("FETCH_HEAD"))


async def test_its_folder_is_private_and_its_configuration_fixed(world: World) -> None:
    mirror = await world.mirror()
    await mirror.fetch(world.repository.commit({"a": "1"}), MAIN)
    assert stat.S_IMODE(mirror.path.stat().st_mode) == 0o700
    assert (mirror.path / "config").read_text() == "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"


async def test_a_commit_that_is_here_is_not_fetched_again(world: World) -> None:
    commit = world.repository.commit({"a": "1"})
    await (await world.mirror()).fetch(commit, MAIN)
    world.repository.path.rename(world.repository.path.with_name("moved.git"))
    mirror = await world.mirror()
    await mirror.fetch(commit, MAIN)
    assert await world.names(mirror, commit) == ["a"]


async def test_the_next_commit_brings_only_what_is_new(world: World) -> None:
    first = world.repository.commit({f"f{n}": secrets.token_bytes(1000) for n in range(200)})
    mirror = await world.mirror()
    await mirror.fetch(first, MAIN)
    second = world.repository.commit({"f0": "changed"})
    await mirror.fetch(second, MAIN)
    assert len(await world.names(mirror, second)) == 200
    sizes = sorted(pack.stat().st_size for pack in mirror.path.rglob("*.pack"))
    assert sizes[0] < 20_000
    assert sizes[1] > 200_000


class OldServer(GitHttpServer):
    """Speaks version 0 of the protocol, in which only what is advertised is given out."""

    def _environment(self, request: web.Request, user: str) -> dict[str, str]:
        return super()._environment(request, user) | {"GIT_PROTOCOL": ""}


@pytest.fixture
def old_server(repositories: Path) -> Iterator[OldServer]:
    with OldServer.start(repositories) as server:
        yield server


@pytest.fixture
def strict(repositories: Path) -> Repository:
    repository = Repository.create(repositories / "strict.git")
    repository.git("config", "uploadpack.allowAnySHA1InWant", "false")
    return repository


async def test_a_server_that_gives_out_no_ids_is_asked_for_the_ref(
    world: World, old_server: OldServer, strict: Repository
) -> None:
    tagged = strict.commit({"a": "1"})
    strict.tag("v1", tagged, message="Release")
    strict.commit({"a": "2"})
    mirror = await world.mirror(RepoUrl(old_server.url("strict.git")))
    await mirror.fetch(tagged, GitRef("v1"))
    assert await world.names(mirror, tagged) == ["a"]
    assert (mirror.path / "shallow").read_text().strip() == tagged


async def test_a_commit_in_the_history_is_found_as_a_last_resort(
    world: World, old_server: OldServer, strict: Repository
) -> None:
    old = strict.commit({"old": "1"})
    strict.commit({"new": "1"})
    mirror = await world.mirror(RepoUrl(old_server.url("strict.git")))
    await mirror.fetch(old, MAIN)
    assert await world.names(mirror, old) == ["old"]


async def test_a_commit_that_is_nowhere_is_named(
    world: World, old_server: OldServer, strict: Repository
) -> None:
    strict.commit({"a": "1"})
    missing = CommitId("1" * 40)
    for url in (RepoUrl(old_server.url("strict.git")), RepoUrl(strict.path.as_uri())):
        with pytest.raises(RefNotFound, match=missing):
            await (await world.mirror(url)).fetch(missing, MAIN)


@pytest.mark.parametrize("damage", ["config", "HEAD", "objects", "lock", "half a pack", "junk", "file"])
async def test_a_damaged_mirror_is_built_anew(world: World, damage: str) -> None:
    commit = world.repository.commit({"a": "1"})
    mirror = await world.mirror()
    await mirror.fetch(commit, MAIN)
    if damage == "config":
        (mirror.path / "config").write_text("[core]\n\tsshCommand = touch /x\n")
    elif damage == "HEAD":
        (mirror.path / "HEAD").unlink()
    elif damage == "objects":
        for pack in mirror.path.rglob("*.idx"):
            pack.unlink()
    elif damage == "lock":
        (mirror.path / "shallow.lock").touch()
        commit = world.repository.commit({"b": "1"})
    elif damage == "half a pack":
        (mirror.path / "objects/pack/tmp_pack_x").touch()
        commit = world.repository.commit({"b": "1"})
    elif damage == "junk":
        (mirror.path / "shallow").write_text("nonsense\n")
        commit = world.repository.commit({"b": "1"})
    else:
        mirror.discard()
        mirror.path.write_text("not a folder")
    await mirror.fetch(commit, MAIN)
    assert "a" in await world.names(mirror, commit)
    assert "sshCommand" not in (mirror.path / "config").read_text()
    assert not [*mirror.path.rglob("*.lock"), *mirror.path.rglob("tmp_*")]


async def test_a_mirror_that_vanishes_is_built_anew(world: World) -> None:
    commit = world.repository.commit({"a": "1"})
    mirror = await world.mirror()
    await mirror.fetch(commit, MAIN)
    mirror.discard()
    await mirror.fetch(commit, MAIN)
    assert await world.names(mirror, commit) == ["a"]


async def test_a_mirror_of_many_packs_is_built_anew(world: World) -> None:
    mirror = await world.mirror()
    await mirror.fetch(world.repository.commit({"a": "1"}), MAIN)
    for number in range(MAX_PACKS):
        (mirror.path / f"objects/pack/pack-{number}.pack").touch()
    commit = world.repository.commit({"b": "1"})
    await mirror.fetch(commit, MAIN)
    assert len(list(mirror.path.rglob("*.pack"))) == 1
    assert await world.names(mirror, commit) == ["a", "b"]


async def test_sha256_repositories_have_their_own_form(world: World, tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "256.git", object_format="sha256")
    commit = repository.commit({"a": "1"})
    mirror = await world.mirror(RepoUrl(repository.path.as_uri()))
    await mirror.fetch(commit, MAIN)
    assert await world.names(mirror, commit) == ["a"]


async def test_what_one_credential_opened_is_not_served_to_another(
    world: World, git_http: GitHttpServer, repositories: Path
) -> None:
    commit = Repository.create(repositories / "secret.git").commit({"a": "1"})
    git_http.users.update(alice="right", bob="right too")
    url = RepoUrl(git_http.url("secret.git"))
    alice = await world.mirror(url, Password("alice", Secret("right")))
    await alice.fetch(commit, MAIN)
    mallory = [None, Password("alice", Secret("wrong")), Password("alic", Secret("eright"))]
    for login in mallory:
        mirror = await world.mirror(url, login)
        assert mirror.path != alice.path
        with pytest.raises(SourceAuthFailed):
            await mirror.fetch(commit, MAIN)
    bob = await world.mirror(url, Password("bob", Secret("right too")))
    await bob.fetch(commit, MAIN)
    assert bob.path != alice.path
    assert (await world.mirror(url, Password("alice", Secret("right")))).path == alice.path


async def test_names_of_folders_differ_between_caches(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert (await Mirror.of(world.remote(), other)).path.name != (await world.mirror()).path.name


async def test_one_process_at_a_time_holds_it(world: World) -> None:
    mirror = await world.mirror()
    hold = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.flock(f, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    async with mirror.held():
        pass
    lock = str(mirror.path.with_suffix(".lock"))
    clock = ManualClock()
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", hold, lock, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    waiting = await Mirror.of(world.remote(), world.cache, clock)

    async def take() -> None:
        async with waiting.held():
            raise AssertionError("two holders at once")

    taking = asyncio.ensure_future(take())
    await eventually_async(lambda: bool(clock.alarms), message="it waits")
    await clock.advance(HOLD_TIMEOUT + 1)
    with pytest.raises(SourceUnreachable, match="in use by another process"):
        await taking
    holder.kill()
    await holder.wait()
    async with mirror.held():
        assert mirror.path.with_suffix(".lock").exists()


async def test_a_cache_that_cannot_be_written_is_a_failure_with_a_name(world: World) -> None:
    commit = world.repository.commit({"a": "1"})
    mirror = await world.mirror()
    mirror.path.parent.rmdir()
    mirror.path.parent.write_text("in the way")
    with pytest.raises(GitFailed, match="cannot be made: Not a directory"):
        await mirror.fetch(commit, MAIN)

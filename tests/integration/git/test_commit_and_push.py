"""Writing to a branch of real servers, with others, hooks, kills and full disks in between."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.domain import failpoints
from stoker.domain.clock import SystemClock
from stoker.domain.errors import InvalidValue, Retry, Stalled
from stoker.domain.git_objects import blob_of
from stoker.domain.reasons import Reason
from stoker.domain.refs import RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import GitLogin, GitPassword, GitSshKey, RepoAccess, fixed_access
from stoker.git.commit.branch import MAX_REPLAYS, RemoteBranch
from stoker.git.commit.push import PushBehind, PushDeclined, PushFailed, PushTooLarge
from stoker.git.commit.types import CommitAuthor, CommitSigner, FileEdit, NewCommit
from stoker.git.errors import GitFailed, SourceAuthFailed, SourceUnreachable
from stoker.git.process.runner import GitRunner
from stoker.git.remote.fetch import FetchLimits
from stoker.git.remote.remote import Remote
from stoker.git.signature.sign import SshSigner
from stoker_testkit.repositories.bare_repository import WHEN, Repository, executable, symlink
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer
from stoker_testkit.repositories.ssh_keys import KeyKind, make_ssh_key
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually, eventually_async

ALICE = CommitAuthor("Alice", "alice@example.test")
BOB = CommitAuthor("Bob", "bob@example.test")
ROBOT = CommitAuthor("Stoker", "stoker@example.test")


class Impatient(SystemClock):
    """Does not pause between two replays."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def new(
    message: str, edits: dict[str, str | None], author: CommitAuthor = ALICE, when: int = WHEN
) -> NewCommit:
    files = tuple(FileEdit(path, None if it is None else it.encode()) for path, it in edits.items())
    return NewCommit(author, ROBOT, message, files, when)


class CommitSite:
    """A repository that is served, and writers with caches of their own."""

    def __init__(self, folder: Path, repository: Repository, url: str, login: GitLogin | None) -> None:
        self.folder = folder
        self.repository = repository
        self.url = url
        self.login = login

    def branch(
        self,
        name: str = "main",
        *,
        cache: str = "cache",
        signer: CommitSigner | None = None,
        limits: FetchLimits | None = None,
        url: str = "",
    ) -> RemoteBranch:
        place = self.folder / cache
        remote = Remote(GitRunner(place), RepoUrl(url or self.url), fixed_access(RepoAccess(self.login)))
        more = {} if limits is None else {"limits": limits}
        return RemoteBranch(remote, place, name, signer=signer, clock=Impatient(), **more)

    def hook(self, name: str, script: str) -> None:
        path = self.repository.path / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def unhook(self) -> None:
        shutil.rmtree(self.repository.path / "hooks")

    def messages(self, ref: str = "main") -> list[str]:
        """Oldest first."""
        return self.repository.messages(ref)[::-1]

    def texts(self, ref: str = "main") -> dict[str, str]:
        return {path: content.decode() for path, content in self.repository.files(ref).items()}

    def sound(self) -> None:
        self.repository.git("fsck", "--full", "--strict")


@pytest.fixture
def plant(repositories: Path) -> Repository:
    repository = Repository.create(repositories / "plant.git")
    repository.git("config", "receive.fsckObjects", "true")
    return repository


@pytest.fixture
def local(tmp_path: Path, plant: Repository) -> CommitSite:
    return CommitSite(tmp_path, plant, plant.path.as_uri(), None)


@pytest.fixture
def http(tmp_path: Path, plant: Repository, git_http: GitHttpServer) -> CommitSite:
    git_http.users["alice"] = planted("git-password")
    return CommitSite(
        tmp_path, plant, git_http.url("plant.git"), GitPassword("alice", Secret(planted("git-password")))
    )


@pytest.fixture(params=["http", "ssh", "file"])
def site(
    request: pytest.FixtureRequest, tmp_path: Path, plant: Repository, repositories: Path
) -> Iterator[CommitSite]:
    if request.param == "http":
        with GitHttpServer.start(repositories, users={"alice": planted("git-password")}) as server:
            yield CommitSite(
                tmp_path,
                plant,
                server.url("plant.git"),
                GitPassword("alice", Secret(planted("git-password"))),
            )
    elif request.param == "ssh":
        with GitSshServer.start(repositories, tmp_path / "sshd") as daemon:
            key = Secret(daemon.authorized_key().read_bytes())
            yield CommitSite(
                tmp_path, plant, daemon.url("plant.git"), GitSshKey(key, daemon.known_hosts.read_bytes())
            )
    else:
        yield CommitSite(tmp_path, plant, plant.path.as_uri(), None)


@pytest.fixture(params=["http", "file"])
def near(request: pytest.FixtureRequest) -> CommitSite:
    """Without ssh, which takes long to connect and adds nothing here."""
    site = request.getfixturevalue("http" if request.param == "http" else "local")
    assert isinstance(site, CommitSite)
    return site


@contextmanager
def at(name: str, action: Callable[[], object], turns: int = 1) -> Iterator[None]:
    """Let something happen when this process comes to a place, so many times."""
    left = turns

    def listener(reached: str) -> None:
        nonlocal left
        if reached == name and left > 0:
            left -= 1
            action()

    failpoints.listen(listener)
    try:
        yield
    finally:
        failpoints.listen(None)


# The common way.


async def test_an_empty_repository_is_filled_and_gone_on_with(site: CommitSite) -> None:
    branch = site.branch()
    assert await branch.refresh() is None
    assert (await branch.listed("a"), await branch.read(["a/b"])) == ({}, {})
    first = await branch.commit([new("one", {"a/b": "1"}), new("two", {"a/c": "2"}, BOB)])
    assert (first.tip, first.replays) == (site.repository.tip(), 0)
    assert [str(commit) for commit in first.commits] == site.repository.git(
        "rev-list", "--reverse", "main"
    ).decode().split()
    second = await branch.commit([new("three", {"a/b": None, "d": "3"})])
    assert await branch.refresh() == second.tip == site.repository.tip()
    assert site.messages() == ["one", "two", "three"]
    assert site.texts() == {"a/c": "2", "d": "3"}
    authors = site.repository.git("log", "--reverse", "--format=%an|%ae|%at|%cn|%ct", "main").decode()
    assert authors.split("\n")[1] == f"Bob|bob@example.test|{WHEN}|Stoker|{WHEN}"
    assert await branch.listed("a") == {"a/c": blob_of(b"2")}
    assert await branch.read(["a/c", "d", "gone"]) == {"a/c": b"2", "d": b"3"}
    site.sound()


async def test_what_is_there_stays_and_a_change_goes_on_top(site: CommitSite) -> None:
    site.repository.commit({"theirs": "1", "run": executable("2"), "link": symlink("theirs"), "a/b": "3"})
    branch = site.branch()
    pushed = await branch.commit([new("ours", {"a/b": "4", "a/c/d": "5"})])
    assert site.repository.tip("main^") != pushed.tip
    assert site.messages() == ["Change", "ours"]
    listing = site.repository.git("ls-tree", "-r", "--format=%(objectmode) %(path)", "main").decode()
    assert listing.split("\n")[:-1] == [
        "100644 a/b",
        "100644 a/c/d",
        "120000 link",
        "100755 run",
        "100644 theirs",
    ]
    assert set(await branch.listed()) == {"a/b", "a/c/d", "run", "theirs"}
    assert await branch.listed("a/c") == {"a/c/d": blob_of(b"5")}
    assert await branch.listed("theirs") == {}


async def test_a_concurrent_push_is_rebased_on_at_once(site: CommitSite) -> None:
    branch = site.branch()
    await branch.commit([new("zero", {"a": "0", "b": "0"})])
    with at("push.before", lambda: site.repository.commit({"theirs": "1", "b": "1"}, message="theirs")):
        pushed = await branch.commit(
            [
                new("one", {"a": "1"}),
                new("became empty", {"b": "1"}, BOB),
                new("partly", {"b": "1", "c": "1"}, BOB),
                new("last", {"a": "2"}),
            ]
        )
    assert pushed.replays == 1
    assert len(pushed.commits) == 3
    assert site.messages() == ["zero", "theirs", "one", "partly", "last"]
    assert site.texts() == {"a": "2", "b": "1", "c": "1", "theirs": "1"}
    partly = site.repository.git("show", "--name-only", "--format=%an", "main^").decode().split()
    assert partly == ["Bob", "c"]
    site.sound()


async def test_a_new_branch_begins_empty_beside_the_others(http: CommitSite) -> None:
    http.repository.commit({"a": "1"})
    branch = http.branch("clusters/prod")
    pushed = await branch.commit([new("one", {"b": "1"})])
    assert http.repository.tip("clusters/prod") == pushed.tip
    assert http.texts("clusters/prod") == {"b": "1"}
    assert http.texts() == {"a": "1"}


async def test_another_client_makes_the_branch_in_the_same_moment(http: CommitSite) -> None:
    branch = http.branch()
    assert await branch.refresh() is None
    with at("push.before", lambda: http.repository.commit({"theirs": "1"}, message="theirs")):
        pushed = await branch.commit([new("one", {"a": "1"})])
    assert pushed.replays == 1
    assert http.messages() == ["theirs", "one"]


@pytest.mark.parametrize("how", ["deleted", "rewritten", "moved back"])
async def test_a_branch_that_was_rewritten_is_followed(http: CommitSite, how: str) -> None:
    branch = http.branch()
    first = await branch.commit([new("one", {"a": "1"})])
    await branch.commit([new("two", {"b": "1"})])
    if how == "deleted":
        http.repository.delete_branch("main")
    elif how == "rewritten":
        http.repository.delete_branch("main")
        http.repository.commit({"other": "1"}, message="other")
    else:
        assert first.tip is not None
        http.repository.set_branch("main", first.tip)
    pushed = await branch.commit([new("three", {"c": "1"})])
    assert pushed.replays == 1
    expected = {
        "deleted": ["three"],
        "rewritten": ["other", "three"],
        "moved back": ["one", "three"],
    }
    assert http.messages() == expected[how]


async def test_nothing_to_write_pushes_nothing(http: CommitSite, git_http: GitHttpServer) -> None:
    branch = http.branch()
    assert await branch.commit([new("no-op", {"a": None})]) == (None, (), 0, 0, ())
    tip = http.repository.commit({"a": "1"})
    before = len(git_http.requests)
    assert await http.branch(cache="other").commit([new("no-op", {"a": "1", "b": None})]) == (
        tip,
        (),
        0,
        0,
        (),
    )
    assert not [it for it in git_http.requests[before:] if "receive-pack" in it.path]
    assert await branch.commit([]) == (None, (), 0, 0, ())


async def test_one_change_costs_one_push_and_nothing_else(http: CommitSite, git_http: GitHttpServer) -> None:
    http.repository.commit({f"{n % 50}/{n}": "1" for n in range(1000)})
    branch = http.branch()
    await branch.commit([new("one", {"1/1": "2"})])
    git_http.requests.clear()
    await branch.commit([new("two", {"1/1": "3"})])
    accepted = [it for it in git_http.requests if it.status == 200]
    assert {it.path.partition("plant.git")[2] for it in accepted} == {
        "/info/refs?service=git-receive-pack",
        "/git-receive-pack",
    }
    assert len(accepted) == 2


async def test_file_contents_are_not_fetched_before_they_are_read(http: CommitSite) -> None:
    http.repository.commit({"large": os.urandom(1 << 20).hex(), "small": "1"})
    branch = http.branch()
    await branch.commit([new("one", {"a/b": "1"})])
    packs = list((http.folder / "cache/mirrors").rglob("*.pack"))
    assert sum(pack.stat().st_size for pack in packs) < 10_000
    assert await branch.read(["small"]) == {"small": b"1"}


async def test_a_server_that_leaves_nothing_out_will_do(http: CommitSite) -> None:
    http.repository.git("config", "uploadpack.allowFilter", "false")
    http.repository.git("config", "uploadpack.allowAnySHA1InWant", "false")
    http.repository.commit({"a": "1"})
    branch = http.branch()
    await branch.commit([new("one", {"b": "1"})])
    with at("push.before", lambda: http.repository.commit({"c": "1"})):
        await branch.commit([new("two", {"d": "1"})])
    assert http.messages() == ["Change", "one", "Change", "two"]


async def test_a_repository_with_long_ids_is_written_to(tmp_path: Path, repositories: Path) -> None:
    repository = Repository.create(repositories / "long.git", object_format="sha256")
    with GitHttpServer.start(repositories) as server:
        site = CommitSite(tmp_path, repository, server.url("long.git"), None)
        branch = site.branch()
        await branch.commit([new("one", {"a/b": "1"})])
        with at("push.before", lambda: repository.commit({"theirs": "1"})):
            pushed = await branch.commit([new("two", {"a/c": "1"})])
        assert len(pushed.commits[0]) == 64
        assert await site.branch().listed("a") == {
            "a/b": blob_of(b"1", digits=64),
            "a/c": blob_of(b"1", digits=64),
        }
    site.sound()


async def test_what_is_in_the_way_is_reported_and_takes_nothing_else_with_it(local: CommitSite) -> None:
    local.repository.commit({"a": "theirs", "b/c": "theirs"})
    pushed = await local.branch().commit([new("one", {"a/x": "1", "b": "1", "../up": "1", "fine": "1"})])
    assert [note.path for note in pushed.refused] == ["../up", "a/x", "b"]
    assert local.texts() == {"a": "theirs", "b/c": "theirs", "fine": "1"}


async def test_signed_commits_are_verified_by_git(local: CommitSite) -> None:
    key = make_ssh_key(local.folder / "key")
    branch = local.branch(signer=SshSigner(Secret(key.private.read_bytes()), local.folder / "cache"))
    with at("push.before", lambda: local.repository.commit({"theirs": "1"})):
        pushed = await branch.commit([new("one", {"a": "1"}), new("two", {"b": "1"}, BOB)])
    allowed = local.folder / "allowed"
    allowed.write_text(f"bot@example.test {key.public_line}\n")
    config = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "gpg.ssh.allowedSignersFile"}
    for commit in pushed.commits:
        local.repository.git("verify-commit", commit, env=config | {"GIT_CONFIG_VALUE_0": str(allowed)})
    assert len(pushed.commits) == 2
    assert local.messages() == ["Change", "one", "two"]
    local.sound()


async def test_a_mirror_full_of_packs_is_rebuilt_without_an_interruption(local: CommitSite) -> None:
    branch = local.branch(limits=FetchLimits(left_out="blob:none", packs=3))
    for number in range(12):
        await branch.commit([new(str(number), {f"{number % 5}": str(number)})])
        packs = list((local.folder / "cache/mirrors").rglob("*.pack"))
        assert len(packs) <= 5
    assert local.messages() == [str(number) for number in range(12)]
    assert await branch.read(["1", "4"]) == {"1": b"11", "4": b"9"}


async def test_two_writers_lose_nothing_of_each_other(http: CommitSite) -> None:
    async def write(who: str) -> None:
        branch = http.branch(cache=who)
        for number in range(6):
            await branch.commit([new(f"{who}{number}", {f"{who}/{number}": "1", f"{who}/last": str(number)})])

    await asyncio.gather(write("a"), write("b"))
    for who in "ab":
        mine = [message for message in http.messages() if message.startswith(who)]
        assert mine == [f"{who}{number}" for number in range(6)]
    assert http.texts() == {f"{who}/{number}": "1" for who in "ab" for number in range(6)} | {
        "a/last": "5",
        "b/last": "5",
    }


@pytest.mark.parametrize("name", ["", "-x", "a..b", "a b", "x.lock"])
def test_a_name_that_no_branch_can_have_is_refused(local: CommitSite, name: str) -> None:
    with pytest.raises(InvalidValue):
        local.branch(name)


# What servers refuse, and what breaks.


async def test_after_a_bounded_number_of_replays_it_is_left_for_later(local: CommitSite) -> None:
    count = iter(range(100))
    branch = local.branch()
    await branch.refresh()
    with (
        at("push.before", lambda: local.repository.commit({"theirs": str(next(count))}), turns=100),
        pytest.raises(PushBehind, match=f"{MAX_REPLAYS + 1} pushes in a row") as caught,
    ):
        await branch.commit([new("one", {"a": "1"})])
    assert caught.value.reason == Reason.NON_FAST_FORWARD
    assert next(count) == MAX_REPLAYS + 1
    await branch.commit([new("one", {"a": "1"})])
    assert local.messages()[-1] == "one"


@pytest.mark.parametrize("hook", ["pre-receive", "update"])
async def test_a_protected_branch_stalls_with_the_servers_words(site: CommitSite, hook: str) -> None:
    tip = site.repository.commit({"a": "1"})
    site.hook(hook, "echo 'Not allowed to push to protected branch main' >&2; exit 1")
    branch = site.branch()
    with pytest.raises(PushDeclined, match="Not allowed to push to protected branch main") as caught:
        await branch.commit([new("one", {"b": "1"})])
    assert caught.value.reason == Reason.PUSH_DECLINED
    assert site.repository.tip() == tip
    site.unhook()
    await branch.commit([new("one", {"b": "1"})])
    assert site.messages() == ["Change", "one"]


async def test_credentials_that_may_only_read_stall(http: CommitSite, git_http: GitHttpServer) -> None:
    http.repository.commit({"a": "1"})
    http.repository.git("config", "http.receivepack", "false")
    branch = http.branch()
    assert await branch.listed() == {"a": blob_of(b"1")}
    with pytest.raises(SourceAuthFailed, match="403") as caught:
        await branch.commit([new("one", {"b": "1"})])
    assert caught.value.reason == Reason.AUTH_FAILED
    http.repository.git("config", "http.receivepack", "true")
    await branch.commit([new("one", {"b": "1"})])
    git_http.users["alice"] = planted("another-password")
    for call in (branch.refresh(), branch.commit([new("two", {"c": "1"})])):
        with pytest.raises(SourceAuthFailed) as caught:
            await call
        assert caught.value.reason == Reason.AUTH_FAILED
        assert planted("git-password") not in caught.value.message
    assert http.messages() == ["Change", "one"]


class ReadOnlySshServer(GitSshServer):
    """Lets every key read, and says what a forge says to a deploy key that wants to write."""

    def _settings(self) -> Sequence[str]:
        script = self.folder / "only-read"
        script.write_text(
            '#!/bin/sh\ncase "$SSH_ORIGINAL_COMMAND" in git-receive-pack*)\n'
            "echo 'ERROR: The key you are authenticating with has been marked as read only.' >&2\n"
            "exit 1;; esac\n"
            'exec git shell -c "$SSH_ORIGINAL_COMMAND"\n'
        )
        script.chmod(0o755)
        others = [line for line in super()._settings() if not line.startswith("ForceCommand")]
        return [*others, f"ForceCommand {script}"]


async def test_keys_that_may_only_read_or_nothing_stall(
    tmp_path: Path, plant: Repository, repositories: Path
) -> None:
    tip = plant.commit({"a": "1"})
    with ReadOnlySshServer.start(repositories, tmp_path / "sshd") as server:
        for key, says in (
            (server.authorized_key(), "read only"),
            (server.stranger_key(), "Permission denied"),
        ):
            login = GitSshKey(Secret(key.read_bytes()), server.known_hosts.read_bytes())
            branch = CommitSite(tmp_path, plant, server.url("plant.git"), login).branch()
            with pytest.raises(SourceAuthFailed, match=says) as caught:
                await branch.commit([new("one", {"b": "1"})])
            assert caught.value.reason == Reason.AUTH_FAILED
    assert plant.tip() == tip


async def test_a_repository_that_vanished_is_waited_for(site: CommitSite) -> None:
    branch = site.branch()
    await branch.commit([new("one", {"a": "1"})])
    gone = site.repository.path.with_suffix(".gone")
    site.repository.path.rename(gone)
    for call in (branch.commit([new("two", {"b": "1"})]), branch.refresh()):
        with pytest.raises(SourceUnreachable) as caught:
            await call
        assert caught.value.reason == Reason.NETWORK_ERROR
    gone.rename(site.repository.path)
    await branch.commit([new("two", {"b": "1"})])
    assert site.messages() == ["one", "two"]


async def test_a_push_above_the_servers_limit_stalls(near: CommitSite) -> None:
    near.repository.git("config", "receive.maxInputSize", "2000")
    branch = near.branch()
    with pytest.raises(PushTooLarge) as caught:
        await branch.commit([new("large", {"a": os.urandom(5000).hex()})])
    assert isinstance(caught.value, Stalled)
    await branch.commit([new("small", {"a": "1"})])
    assert near.messages() == ["small"]


async def test_a_server_that_cannot_store_is_tried_again(near: CommitSite) -> None:
    tip = near.repository.commit({"a": "1"})
    objects = near.repository.path / "objects"
    in_the_way = [objects / f"{n:02x}" for n in range(256) if not (objects / f"{n:02x}").exists()]
    for path in in_the_way:
        path.touch()
    branch = near.branch()
    with pytest.raises(PushFailed, match="could not store") as caught:
        await branch.commit([new("one", {f"f{n}": str(n) for n in range(20)})])
    assert isinstance(caught.value, Retry)
    assert near.repository.tip() == tip
    for path in in_the_way:
        path.unlink()
    await branch.commit([new("one", {f"f{n}": str(n) for n in range(20)})])
    assert near.messages() == ["Change", "one"]


def no_room() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("name", failpoints.WRITING)
async def test_a_full_disk_here_loses_nothing(local: CommitSite, name: str) -> None:
    branch = local.branch()
    await branch.commit([new("zero", {"a": "0"})])
    batch = [new("one", {"a": "1"}), new("two", {"a": "2"}, BOB), new("three", {"a": "1"})]
    with at(name, no_room):
        if name.startswith("tip.write"):  # the push is done, and nothing else needs the record
            await branch.commit(batch)
        else:
            with pytest.raises(GitFailed, match="No space left") as caught:
                await branch.commit(batch)
            assert caught.value.reason == Reason.GIT_FAILED
            await branch.commit(batch)
    await branch.commit([new("four", {"b": "1"})])
    assert local.messages() == ["zero", "one", "two", "three", "four"]


# Pushes of which it is unknown whether they arrived.

BATCH = [new("one", {"a": "1"}), new("two", {"a": "2"}, BOB), new("three", {"a": "1"})]
"""It goes back and forth, so that only who looks at commits can tell whether it is there."""
DIES_AFTER = '[ "$1" != committed ] || kill -9 $PPID'
DIES_BEFORE = '[ "$1" != prepared ] || kill -9 $PPID'


@pytest.mark.parametrize("more", [False, True], ids=["the same again", "with more"])
@pytest.mark.parametrize("theirs", [False, True], ids=["alone", "another commit on top"])
@pytest.mark.parametrize("dies", [DIES_BEFORE, DIES_AFTER], ids=["before", "after"])
async def test_a_connection_lost_while_pushing_makes_no_commit_twice(
    near: CommitSite, dies: str, theirs: bool, more: bool
) -> None:
    branch = near.branch()
    await branch.commit([new("zero", {"a": "0", "b": "0"})])
    near.hook("reference-transaction", dies)
    with pytest.raises(Retry) as caught:
        await branch.commit(BATCH)
    assert caught.value.reason in (Reason.NETWORK_ERROR, Reason.PUSH_FAILED)
    near.unhook()
    for lock in ("refs/heads/main.lock", "HEAD.lock"):
        (near.repository.path / lock).unlink(missing_ok=True)
    arrived = ["one", "two", "three"] if dies == DIES_AFTER else []
    assert near.messages() == ["zero", *arrived]
    if theirs:
        near.repository.commit({"theirs": "1"}, message="theirs")
    extra = [new("four", {"b": "1"})] if more else []
    pushed = await branch.commit([*BATCH, *extra])
    assert len(pushed.commits) == 3 + more
    others = ["theirs"] if theirs else []
    ours = ["four"] if more else []
    expected = [*arrived, *others, *ours] if arrived else [*others, "one", "two", "three", *ours]
    assert near.messages() == ["zero", *expected]
    assert near.texts()["a"] == "1"


def git_that(folder: Path, script: str) -> str:
    """A PATH whose git does something else with a push."""
    real = shutil.which("git")
    program = folder / "bin/git"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\ncase " $* " in *" push "*) {script} ;; esac\nexec {real} "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


KILLS = {
    "at once": "kill -9 $$",
    "when all is done": '{real} "$@"; kill -9 $$',
    "while it sends": '{real} "$@" & while [ ! -e {mark} ]; do sleep 0.01; done; kill -9 -$$',
}


@pytest.mark.parametrize("moment", KILLS)
@pytest.mark.parametrize("turns", [1, 3])
async def test_a_killed_git_is_recovered_from(
    near: CommitSite, monkeypatch: pytest.MonkeyPatch, moment: str, turns: int
) -> None:
    mark = near.folder / "mark"
    branch = near.branch()
    await branch.commit([new("zero", {"a": "0"})])
    script = KILLS[moment].format(real=shutil.which("git"), mark=mark)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", git_that(near.folder, script))
        if "mark" in script:
            near.hook("pre-receive", f"touch {mark}; sleep 0.3")
        pushed = None
        while pushed is None and turns:
            turns -= 1
            with contextlib.suppress(GitFailed):
                pushed = await branch.commit(BATCH)
    assert pushed is None or moment != "at once"
    pushed = pushed or await branch.commit(BATCH)
    assert len(pushed.commits) == 3
    assert near.messages() == ["zero", "one", "two", "three"]
    near.sound()


@pytest.mark.parametrize("signed", [False, True], ids=["the same commits", "signed anew"])
async def test_a_push_that_arrives_after_the_next_one_was_begun_makes_no_commit_twice(
    http: CommitSite, monkeypatch: pytest.MonkeyPatch, signed: bool
) -> None:
    """The server works on while git here is killed. A signature of this kind is another one each time."""
    key = make_ssh_key(http.folder / "key", KeyKind.ECDSA)
    signer = SshSigner(Secret(key.private.read_bytes()), http.folder / "cache") if signed else None
    branch = http.branch(signer=signer)
    zero = (await branch.commit([new("zero", {"a": "0"})])).tip
    mark, go = http.folder / "mark", http.folder / "go"
    http.hook("pre-receive", f"touch {mark}; while [ ! -e {go} ]; do sleep 0.01; done")
    with monkeypatch.context() as patch:
        script = KILLS["while it sends"].format(real=shutil.which("git"), mark=mark)
        patch.setenv("PATH", git_that(http.folder, script))
        with pytest.raises(GitFailed):
            await branch.commit(BATCH)

    def arrive() -> None:
        go.touch()
        eventually(lambda: http.repository.tip() != zero)

    with at("push.before", arrive):
        pushed = await branch.commit(BATCH)
    assert (pushed.tip, pushed.replays, len(pushed.commits)) == (http.repository.tip(), int(signed), 3)
    assert http.messages() == ["zero", "one", "two", "three"]


async def test_a_cancelled_push_can_be_made_again(local: CommitSite) -> None:
    mark = local.folder / "mark"
    branch = local.branch()
    await branch.commit([new("zero", {"a": "0"})])
    local.hook("pre-receive", f"touch {mark}; sleep 0.2")
    pushing = asyncio.create_task(branch.commit(BATCH))
    await eventually_async(mark.exists)
    pushing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pushing
    local.unhook()
    await branch.commit(BATCH)
    assert local.messages() == ["zero", "one", "two", "three"]


PROCESS = """
import asyncio, sys
from pathlib import Path
from stoker.domain.refs import RepoUrl
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.commit.branch import RemoteBranch
from stoker.git.remote.remote import Remote
from stoker.git.process.runner import GitRunner
from stoker.git.commit.types import CommitAuthor, FileEdit, NewCommit
from stoker_testkit.faults.failpoints import FailpointAction, arm

cache, url, failure = sys.argv[1:]
if failure:
    arm(FailpointAction.parsed(failure))
who = CommitAuthor("Alice", "alice@example.test")
edits = tuple(FileEdit(f"{n}/{m}", b"1") for n in range(3) for m in range(3))
batch = [NewCommit(who, who, "one", edits[:5], 1), NewCommit(who, who, "two", edits[5:], 2)]
remote = Remote(GitRunner(Path(cache)), RepoUrl(url), fixed_access(RepoAccess()))
branch = RemoteBranch(remote, Path(cache), "main")
asyncio.run(branch.commit(batch))
"""


def run(site: CommitSite, failure: str = "") -> int:
    command = [sys.executable, "-c", PROCESS, str(site.folder / "cache"), site.url, failure]
    return subprocess.run(command, check=False, timeout=60).returncode


@pytest.mark.parametrize("name", [*failpoints.WRITING, *failpoints.CACHE[:4]])
async def test_a_killed_process_leaves_nothing_half_done(local: CommitSite, name: str) -> None:
    local.repository.commit({"theirs": "1"})
    assert run(local, name) == -signal.SIGKILL
    assert local.messages() in (["Change"], ["Change", "one", "two"])
    assert run(local) == 0
    assert local.messages() == ["Change", "one", "two"]
    assert len(local.texts()) == 10
    local.sound()
    # Nothing is left in the mirror that the next one stumbles over, or keeps for ever.
    left = [path for path in (local.folder / "cache/mirrors").rglob("*") if path.is_file()]
    assert not [
        path
        for path in left
        if path.name.startswith("tmp_") or (path.suffix == ".lock" and path.parent.name != "mirrors")
    ]


# A mirror is a cache.


def without_packs(mirror: Path) -> None:
    for path in mirror.rglob("pack-*"):
        path.unlink()


def with_a_lock(mirror: Path) -> None:
    for path in (mirror / "refs/stoker/tips").iterdir():
        path.with_suffix(".lock").touch()


def with_torn_packs(mirror: Path) -> None:
    for pack in mirror.rglob("*.pack"):
        content = pack.read_bytes()
        pack.chmod(0o600)
        pack.write_bytes(content[:12] + bytes(len(content) - 12))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": shutil.rmtree,
    "torn packs": with_torn_packs,
    "no packs": without_packs,
    "a pack without its index": lambda mirror: next(mirror.rglob("*.idx")).unlink(),
    "a torn ref": lambda mirror: [path.write_bytes(b"") for path in (mirror / "refs/stoker/tips").iterdir()],
    "a lock": with_a_lock,
    "a planted hook": lambda mirror: (mirror / "hooks").mkdir(),
}


@pytest.mark.parametrize("remembers", [True, False], ids=["the same process", "another"])
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_mirror_is_built_anew(local: CommitSite, damage: str, remembers: bool) -> None:
    local.repository.commit({"theirs/a": "1", "theirs/b": "2"})
    branch = local.branch()
    await branch.commit([new("one", {"a/b": "1"})])
    (mirror,) = [path for path in (local.folder / "cache/mirrors").iterdir() if path.is_dir()]
    DAMAGES[damage](mirror)
    branch = branch if remembers else local.branch()
    for _ in range(3):
        with contextlib.suppress(
            GitFailed, PushFailed
        ):  # a torn pack shows when git sends it; then all is built anew
            await branch.commit([new("two", {"a/c": "1"})])
            break
    else:
        pytest.fail("it does not recover")
    assert local.messages() == ["Change", "one", "two"]
    assert set(await branch.listed()) == {"theirs/a", "theirs/b", "a/b", "a/c"}
    assert await branch.read(["theirs/b"]) == {"theirs/b": b"2"}


async def test_a_new_credential_gets_a_mirror_of_its_own(http: CommitSite, git_http: GitHttpServer) -> None:
    branch = http.branch()
    access = [RepoAccess(http.login)]

    async def read() -> RepoAccess:
        return access[0]

    place = http.folder / "cache"
    branch = RemoteBranch(Remote(GitRunner(place), RepoUrl(http.url), read), place, "main")
    await branch.commit([new("one", {"a": "1"})])
    git_http.users["alice"] = planted("renewed-password")
    access[0] = RepoAccess(GitPassword("alice", Secret(planted("renewed-password"))))
    await branch.commit([new("two", {"b": "1"})])
    assert http.messages() == ["one", "two"]
    assert len([path for path in (place / "mirrors").iterdir() if path.is_dir()]) == 2

"""git runs with a fixed environment, bounded in time and output, and shows no secret."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from stoker.domain.errors import InvalidValue, Misconfigured, StokerError
from stoker.domain.refs import RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.askpass import askpass_environment, install_askpass
from stoker.git.auth.credentials import GitPassword, GitSshKey, RepoAccess
from stoker.git.errors import (
    FilterRefused,
    GitFailed,
    RefNotFound,
    SourceAuthFailed,
    SourceTooLarge,
    SourceUnreachable,
    error_for,
)
from stoker.git.private_files import private_folder
from stoker.git.process.runner import GitRunner
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.ssh_keys import make_ssh_key
from stoker_testkit.secret_leaks.process_command_lines import running
from stoker_testkit.wait_until import eventually_async

TOKEN = "t0ken-that-nobody-may-see"
LOGIN = GitPassword("alice", Secret(TOKEN))
ACCESS = RepoAccess(LOGIN)

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def runner(tmp_path: Path) -> GitRunner:
    return GitRunner(tmp_path / "cache")


@asynccontextmanager
async def tcp_server(handler: Handler) -> AsyncIterator[int]:
    """A server that behaves badly, and closes every connection in the end."""
    open_writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_writers.append(writer)
        await handler(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for writer in open_writers:
            writer.close()
        server.close()


async def test_prints_what_git_printed(runner: GitRunner) -> None:
    assert (await runner.run(["version"])).startswith(b"git version 2.")


async def test_no_setting_of_the_user_or_the_process_reaches_git(
    runner: GitRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    evil = tmp_path / "gitconfig"
    evil.write_text(f'[core]\n\tsshCommand = touch {canary}\n[alias]\n\tversion = "!touch {canary}"\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text(evil.read_text())
    for name, value in {"GIT_CONFIG_GLOBAL": str(evil), "GIT_TRACE": str(canary), "GIT_DIR": "/x"}.items():
        monkeypatch.setenv(name, value)
    listed = (await runner.run(["config", "--list", "--show-scope"])).decode().splitlines()
    assert {line.split("\t")[0] for line in listed} == {"command"}
    for setting in (
        *("http.followredirects=false", "protocol.allow=never", "core.hookspath=/dev/null"),
        *("core.fsmonitor=false", "credential.helper=", "fetch.recursesubmodules=false"),
        *("gc.auto=0", "maintenance.auto=false"),
    ):
        assert f"command\t{setting}" in listed
    assert not canary.exists()


async def test_no_hook_and_no_helper_of_a_repository_is_run(
    runner: GitRunner, tmp_path: Path, git_http: GitHttpServer, repositories: Path
) -> None:
    canary = tmp_path / "canary"
    repository = Repository.create(tmp_path / "r.git")
    tip = repository.commit({"a": "1"})
    hook = repository.path / "hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {canary}\n")
    hook.chmod(0o755)
    await runner.run(["update-ref", "refs/heads/other", tip], repository=repository.path)
    repository.git("config", "credential.helper", f"!touch {canary};")
    Repository.create(repositories / "r.git").commit({"a": "1"})
    git_http.users["alice"] = "right"
    url = RepoUrl(git_http.url("r.git"))
    with pytest.raises(SourceAuthFailed):
        await runner.run(["ls-remote"], [url], url=url, repository=repository.path)
    assert not canary.exists()


async def test_a_repository_above_the_cache_is_not_found(runner: GitRunner, tmp_path: Path) -> None:
    shutil.copytree(Repository.create(tmp_path / "r.git").path, tmp_path / ".git")
    with pytest.raises(GitFailed, match="not a git repository"):
        await runner.run(["rev-parse", "--git-dir"])


async def test_an_operand_never_becomes_an_option(runner: GitRunner, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    with pytest.raises((GitFailed, SourceUnreachable)):
        await runner.run(["ls-remote"], [f"--upload-pack=touch {canary};git-upload-pack", "file:///nowhere"])
    assert not canary.exists()


@pytest.mark.parametrize(
    "address", ["ext::sh -c 'touch {}'", "fd::7", "git://127.0.0.1/x", "ftp://127.0.0.1/x"]
)
async def test_transports_beyond_the_allowed_ones_are_refused(
    runner: GitRunner, tmp_path: Path, address: str
) -> None:
    canary = tmp_path / "canary"
    with pytest.raises(GitFailed, match="not allowed"):
        await runner.run(["ls-remote"], [address.format(canary)])
    assert not canary.exists()


async def test_a_silent_server_is_given_up_and_no_process_stays(tmp_path: Path) -> None:
    runner = GitRunner(tmp_path / "cache", timeout=0.5)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with tcp_server(silent) as port:
        url = RepoUrl(f"http://127.0.0.1:{port}/r.git")
        with pytest.raises(SourceUnreachable, match=r"within 0\.5 s"):
            await runner.run(["ls-remote"], [url], url=url)
        await eventually_async(
            lambda: not any(f"127.0.0.1:{port}" in line for line in running().values()),
            message="git and its helpers have ended",
        )


async def test_a_cancelled_call_takes_git_and_its_helpers_with_it(runner: GitRunner) -> None:
    connected = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()

    async with tcp_server(silent) as port:
        url = RepoUrl(f"http://127.0.0.1:{port}/r.git")
        call = asyncio.ensure_future(runner.run(["ls-remote"], [url], url=url))
        await asyncio.wait_for(connected.wait(), 10)
        assert any(f"127.0.0.1:{port}" in line for line in running().values())
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await eventually_async(
            lambda: not any(f"127.0.0.1:{port}" in line for line in running().values()),
            message="git and its helpers have ended",
        )


ASKING = """
import asyncio, sys
from pathlib import Path
from stoker.domain.refs import RepoUrl
from stoker.git.process.runner import GitRunner
url = RepoUrl(sys.argv[2])
asyncio.run(GitRunner(Path(sys.argv[1]), timeout=1).run(["ls-remote"], [url], url=url))
"""


async def test_git_does_not_wait_for_ever_when_its_parent_was_killed(tmp_path: Path) -> None:
    connected = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()

    async with tcp_server(silent) as port:
        address = f"http://127.0.0.1:{port}/r.git"
        starter = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ASKING, tmp_path / "cache", address
        )
        await asyncio.wait_for(connected.wait(), 20)
        starter.kill()
        await starter.wait()
        await eventually_async(
            lambda: not any(f"127.0.0.1:{port}" in line for line in running().values()),
            timeout=20,
            message="git has given up by itself",
        )


async def test_too_much_output_is_cut_off(runner: GitRunner) -> None:
    with pytest.raises(GitFailed, match="more than 100 bytes"):
        await runner.run(["help", "--all"], max_output=100)


async def test_the_token_is_sent_and_is_in_no_command_line_file_or_message(
    runner: GitRunner, tmp_path: Path
) -> None:
    """The server asks for credentials, and holds the request that brings them while all is searched."""
    sent: list[str] = []
    authorized, searched = asyncio.Event(), asyncio.Event()

    async def asking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := (await reader.readuntil(b"\r\n\r\n")).decode():
            headers = [line for line in request.splitlines() if line.lower().startswith("authorization: ")]
            if headers:
                sent.append(headers[0].split()[-1])
                authorized.set()
                await searched.wait()
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            else:
                challenge = b'WWW-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n'
                writer.write(b"HTTP/1.1 401 Unauthorized\r\n" + challenge)
            await writer.drain()

    async with tcp_server(asking) as port:
        url = RepoUrl(f"http://127.0.0.1:{port}/r.git")
        call = asyncio.ensure_future(runner.run(["ls-remote"], [url], url=url, access=ACCESS))
        await asyncio.wait_for(authorized.wait(), 10)
        lines = running().values()
        assert any(f"127.0.0.1:{port}" in line for line in lines)
        assert not any(TOKEN in line for line in lines)
        files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
        assert files
        assert not any(TOKEN.encode() in path.read_bytes() for path in files)
        searched.set()
        with pytest.raises(SourceAuthFailed) as refused:
            await call
    assert sent[0] == "YWxpY2U6dDBrZW4tdGhhdC1ub2JvZHktbWF5LXNlZQ=="
    assert TOKEN not in refused.value.message


async def test_credentials_do_not_follow_a_redirect(runner: GitRunner) -> None:
    asked: list[str] = []

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(
            b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n'
        )

    async with tcp_server(elsewhere) as other:

        async def redirecting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            target = f"Location: http://localhost:{other}/r.git/info/refs?service=git-upload-pack\r\n"
            writer.write(f"HTTP/1.1 302 Found\r\n{target}Content-Length: 0\r\n\r\n".encode())

        async with tcp_server(redirecting) as port:
            url = RepoUrl(f"http://127.0.0.1:{port}/r.git")
            with pytest.raises(SourceUnreachable, match="redirect"):
                await runner.run(["ls-remote"], [url], url=url, access=ACCESS)
    assert asked == []


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("Username for 'https://git.test': ", "alice\n"),
        ("Password for 'https://alice@git.test': ", f"{TOKEN}\n"),
        ("Username for 'https://evil.test': ", ""),
        ("Password for 'https://alice@evil.test': ", ""),
        ("Password for 'http://alice@git.test': ", ""),
        ("Password for 'https://alice@evil.test/@git.test.evil': ", ""),
        ("Are you sure you want to continue connecting? ", ""),
    ],
)
async def test_the_helper_answers_only_for_the_address_it_is_meant_for(
    runner: GitRunner, tmp_path: Path, prompt: str, answer: str
) -> None:
    helper = install_askpass(private_folder(tmp_path / "helper"))
    environment = askpass_environment(helper, RepoUrl("https://git.test/r.git"), LOGIN)
    process = await asyncio.create_subprocess_exec(
        environment["GIT_ASKPASS"], prompt, env=environment, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output.decode() == answer


async def test_a_wrong_password_is_an_authentication_failure(
    runner: GitRunner, git_http: GitHttpServer, repositories: Path
) -> None:
    Repository.create(repositories / "r.git").commit({"a": "1"})
    git_http.users["alice"] = "right"
    url = RepoUrl(git_http.url("r.git"))
    for access in (RepoAccess(), RepoAccess(GitPassword("alice", Secret("wrong")))):
        with pytest.raises(SourceAuthFailed):
            await runner.run(["ls-remote"], [url], url=url, access=access)
    right = RepoAccess(GitPassword("alice", Secret("right")))
    assert b"refs/heads/main" in await runner.run(["ls-remote"], [url], url=url, access=right)


async def test_a_local_repository_of_another_user_can_be_read(runner: GitRunner, tmp_path: Path) -> None:
    """A mirror that is mounted into a pod belongs to another user; git alone would refuse it."""
    repository = Repository.create(tmp_path / 'it\'s "quoted".git')
    tip = repository.commit({"a": "1"})
    if os.geteuid() == 0:  # only root can give files away
        for path in [repository.path, *repository.path.rglob("*")]:
            os.chown(path, 4321, 4321)
    url = RepoUrl(repository.path.as_uri())
    assert tip.encode() in await runner.run(["ls-remote"], [url], url=url)


@pytest.mark.parametrize("escaped", ["%00", "%0a", "%1b"])
async def test_an_escaped_control_character_in_a_local_address_is_refused(
    runner: GitRunner, escaped: str
) -> None:
    url = RepoUrl(f"file:///srv/a{escaped}b")
    with pytest.raises(InvalidValue, match="escaped control character"):
        await runner.run(["ls-remote"], [url], url=url)


def test_its_folders_are_private(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o755)
    GitRunner(tmp_path / "cache")
    for folder in ("cache", "cache/home"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "cache/home/askpass").stat().st_mode) == 0o700


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = Path("/usr")
    if os.geteuid() == 0:  # to whom everything else belongs
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        os.chown(theirs, 4321, 4321)
    with pytest.raises(Misconfigured, match="belongs to user"):
        private_folder(theirs)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(Misconfigured, match="not a folder of its own"):
        private_folder(tmp_path / "link")
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match="cannot be used"):
        private_folder(tmp_path / "file")


def test_local_questions_are_answered_in_a_thread(tmp_path: Path) -> None:
    runner = GitRunner(tmp_path / "cache")
    repository = Repository.create(tmp_path / "r.git")
    answers: list[bytes] = []

    def ask() -> None:
        with runner.stream(["cat-file", "--batch-check"], repository=repository.path) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"0" * 40 + b"\n")
            answers.append(process.stdout.readline())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(10)
    assert answers == [b"0" * 40 + b" missing\n"]


async def test_a_repository_cannot_name_the_program_that_is_run_as_ssh(
    runner: GitRunner, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    repository = Repository.create(tmp_path / "r.git")
    repository.git("config", "core.sshCommand", f"touch {canary};")
    url = RepoUrl("git@127.0.0.1:r.git")
    key = GitSshKey(Secret(make_ssh_key(tmp_path / "key").private.read_bytes()), b"")
    for access, error in ((RepoAccess(), Misconfigured), (RepoAccess(key), StokerError)):
        with pytest.raises(error):
            await runner.run(["fetch"], [url], url=url, access=access, repository=repository.path)
    with pytest.raises(GitFailed, match="transport 'ssh' not allowed"):
        await runner.run(["fetch"], [url], repository=repository.path)
    assert not canary.exists()


async def test_only_the_transport_of_the_address_is_allowed(runner: GitRunner, tmp_path: Path) -> None:
    url = RepoUrl("https://127.0.0.1:1/r.git")
    repository = Repository.create(tmp_path / "r.git")
    with pytest.raises(StokerError, match="transport 'file' not allowed"):
        await runner.run(["ls-remote"], [repository.path.as_uri()], url=url)


async def test_what_is_asked_on_standard_input_is_answered(runner: GitRunner, tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "r.git")
    ids = [repository.commit({"a": str(n)}) for n in range(3)]
    asked = "".join(f"{id_}\n" for id_ in ids).encode() * 10_000
    result = await runner.run(
        ["cat-file", "--batch-check=%(objecttype)"], repository=repository.path, stdin=asked
    )
    assert result == b"commit\n" * 30_000


async def test_an_emptied_cache_is_furnished_again(runner: GitRunner, tmp_path: Path) -> None:
    url = RepoUrl(Repository.create(tmp_path / "r.git").path.as_uri())
    await runner.run(["ls-remote"], [url], url=url)
    shutil.rmtree(tmp_path / "cache")
    assert await runner.run(["ls-remote"], [url], url=url) == b""
    assert runner.home.is_dir()


async def test_each_secret_is_cut_out_of_what_git_says(runner: GitRunner) -> None:
    """A server that repeats what it was sent."""
    word = "s3cr&t canary"

    async def echoing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (await reader.readuntil(b"\r\n\r\n")).lower().count(b"authorization:") == 0:
            challenge = b'WWW-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n'
            writer.write(b"HTTP/1.1 401 Unauthorized\r\n" + challenge)
        body = f"{word} {quote(word, safe='')} {b64encode(f'me:{word}'.encode()).decode()}".encode()
        head = f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        writer.write(b"HTTP/1.1 500 Broken\r\n" + head + body)

    async with tcp_server(echoing) as port:
        url = RepoUrl(f"http://127.0.0.1:{port}/r.git")
        with pytest.raises(SourceUnreachable, match="remote: <secret> <secret> <secret>") as refused:
            await runner.run(
                ["ls-remote"], [url], url=url, access=RepoAccess(GitPassword("me", Secret(word)))
            )
    assert "canary" not in refused.value.message


async def test_a_large_file_needs_no_large_git(tmp_path: Path) -> None:
    """Neither the git that fetches nor the one that serves a local mirror may hold as much as the file."""
    repository = Repository.create(tmp_path / "r.git")
    repository.git("config", "core.compression", "0")
    repository.commit({"big": os.urandom(1 << 20) * 40})
    mirror = Repository.create(tmp_path / "mirror.git")
    runner = GitRunner(tmp_path / "cache", max_memory=32 << 20)
    url = RepoUrl(repository.path.as_uri())
    await runner.run(["fetch", "--quiet", "--depth=1"], [url, "main:main"], repository=mirror.path, url=url)
    assert mirror.tip() == repository.tip()


URL = RepoUrl("https://git.test/r.git")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("fatal: couldn't find remote ref refs/heads/x", RefNotFound),
        ("fatal: remote error: upload-pack: not our ref 00", RefNotFound),
        ("error: Server does not allow request for unadvertised object 00", RefNotFound),
        ("fatal: Authentication failed for 'https://git.test/'", SourceAuthFailed),
        ("fatal: could not read Username for 'https://x': terminal prompts disabled", SourceAuthFailed),
        ("fatal: unable to access 'x': The requested URL returned error: 403", SourceAuthFailed),
        ("fatal: unable to access 'x': The requested URL returned error: 503", SourceUnreachable),
        ("fatal: unable to access 'x': Could not resolve host: git.test", SourceUnreachable),
        ("fatal: repository 'https://git.test/r.git/' not found", SourceUnreachable),
        ("fatal: the remote end hung up unexpectedly", SourceUnreachable),
        ("fatal: unable to access: SSL certificate problem: self-signed certificate", SourceUnreachable),
        ("fatal: write error: No space left on device\nfatal: index-pack failed", GitFailed),
        ("fatal: Unable to create '/x/shallow.lock': File exists.", GitFailed),
        ("fatal: Out of memory, malloc failed (tried to allocate 99 bytes)", SourceTooLarge),
        ("remote: fatal: Out of memory\nfatal: early EOF", SourceUnreachable),
        ("remote: No space left on device\nfatal: the remote end hung up", SourceUnreachable),
        ("fatal: remote error: filter 'tree' not supported", FilterRefused),
        ("fatal: unable to access 'x': CONNECT tunnel failed, response 407", SourceAuthFailed),
        ("something new", GitFailed),
    ],
)
def test_output_of_git_becomes_an_error_with_its_consequence(message: str, expected: type[Exception]) -> None:
    assert type(error_for(message, URL)) is expected


def test_a_file_is_too_large_only_where_there_was_a_limit() -> None:
    message = "fatal: write error: File too large\nfatal: fetch-pack: invalid index-pack output"
    assert type(error_for(message, URL, 1000)) is SourceTooLarge
    assert type(error_for(message, URL)) is GitFailed


def test_a_complaint_about_the_local_mirror_is_never_blamed_on_the_source() -> None:
    assert type(error_for("fatal: early EOF", None)) is GitFailed


def test_a_message_is_one_bounded_printable_line_without_a_password() -> None:
    error = error_for("remote: \x1b[31mno\n\nfatal: https://me:hunter2@git.test/r failed " + "x" * 9000, URL)
    assert "hunter2" not in error.message
    assert "\x1b" not in error.message
    assert "\n" not in error.message
    assert len(error.message) < 600

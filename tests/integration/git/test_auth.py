"""Being let in, against real servers: ssh, https with an authority of one's own, proxies, GitHub Apps.

Every credential here is a canary: after each call it is in no file, no command
line, no message and no log line.
"""

from __future__ import annotations

import asyncio
import secrets
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import GitPassword, GitSshKey, RepoAccess, fixed_access
from stoker.git.auth.ssh import UNVERIFIED_HOST_WARNING
from stoker.git.errors import HostKeyNotTrusted, SourceAuthFailed, SourceTooLarge, SourceUnreachable
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.remote.resolve import resolve_ref
from stoker.telemetry.logs import get_logger
from stoker_testkit.certificates import Authority
from stoker_testkit.faults.stream_faults import Fault, FaultKind
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer
from stoker_testkit.repositories.ssh_keys import KeyKind, make_ssh_key
from stoker_testkit.secret_leaks.process_command_lines import running
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.services.http_proxy import HttpProxy
from stoker_testkit.wait_until import eventually_async

MAIN = GitRef("main")
TOKEN = planted("git-token")


@pytest.fixture
def runner(tmp_path: Path) -> GitRunner:
    return GitRunner(tmp_path / "cache")


@pytest.fixture
def plant(repositories: Path) -> Repository:
    repository = Repository.create(repositories / "plant.git")
    repository.commit({"projects/a.json": "one"})
    return repository


@pytest.fixture(autouse=True)
def no_file_stays(tmp_path: Path, runner: GitRunner) -> Iterator[None]:
    yield
    assert [path for path in runner.home.rglob("*") if path.name.startswith("call-")] == []
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    for path in left:
        content = path.read_bytes()
        assert b"PRIVATE KEY" not in content
        assert TOKEN.encode() not in content


def key_of(path: Path) -> Secret:
    return Secret(path.read_bytes())


def known(server: GitSshServer, *kinds: KeyKind) -> bytes:
    """The lines of known_hosts, of these kinds alone if any are named."""
    lines = server.known_hosts.read_bytes().splitlines(keepends=True)
    return b"".join(line for line in lines if not kinds or any(kind.encode() in line for kind in kinds))


# ssh.


@pytest.mark.parametrize("kind", list(KeyKind))
async def test_a_key_of_each_kind_opens_a_repository_over_ssh(
    runner: GitRunner, git_ssh: GitSshServer, plant: Repository, kind: KeyKind
) -> None:
    login = GitSshKey(key_of(git_ssh.authorized_key(kind=kind)), known(git_ssh))
    remote = Remote(runner, RepoUrl(git_ssh.url("plant.git")), fixed_access(RepoAccess(login)))
    with capture_logs() as lines:
        assert await resolve_ref(remote, MAIN) == plant.tip()
    assert lines == []


async def test_a_mirror_is_fetched_over_ssh(
    runner: GitRunner, git_ssh: GitSshServer, plant: Repository, tmp_path: Path
) -> None:
    login = GitSshKey(key_of(git_ssh.authorized_key()), known(git_ssh))
    remote = Remote(runner, RepoUrl(git_ssh.url("plant.git")), fixed_access(RepoAccess(login)))
    mirror = Repository.create(tmp_path / "mirror.git")
    await remote.git(["fetch", "--quiet", "--depth=1"], [remote.url, "main:main"], repository=mirror.path)
    assert mirror.files() == plant.files()


@pytest.mark.parametrize("form", ["PEM RSA", "PEM EC", "PKCS8", "CRLF", "no last line end", "spaces around"])
async def test_keys_are_taken_in_the_forms_in_which_people_store_them(
    runner: GitRunner, git_ssh: GitSshServer, plant: Repository, form: str
) -> None:
    kind = {"PEM EC": KeyKind.ECDSA, "CRLF": KeyKind.ED25519}.get(form, KeyKind.RSA)
    path = git_ssh.authorized_key(kind=kind)
    if form in ("PEM RSA", "PEM EC", "PKCS8"):
        keygen("-p", "-P", "", "-N", "", "-m", form.partition(" ")[0], "-f", path)
        assert b"OPENSSH" not in path.read_bytes()
    raw = path.read_bytes()
    stored = {
        "CRLF": raw.replace(b"\n", b"\r\n"),
        "no last line end": raw.rstrip(),
        "spaces around": b"\n  " + raw + b"\n\n",
    }.get(form, raw)
    login = GitSshKey(Secret(stored), known(git_ssh).replace(b"\n", b"\r\n"))
    remote = Remote(runner, RepoUrl(git_ssh.url("plant.git")), fixed_access(RepoAccess(login)))
    assert await resolve_ref(remote, MAIN) == plant.tip()


@pytest.mark.parametrize("kind", list(KeyKind))
async def test_one_known_key_suffices_whichever_the_server_prefers(
    runner: GitRunner, git_ssh: GitSshServer, plant: Repository, kind: KeyKind
) -> None:
    login = GitSshKey(key_of(git_ssh.authorized_key()), known(git_ssh, kind))
    remote = Remote(runner, RepoUrl(git_ssh.url("plant.git")), fixed_access(RepoAccess(login)))
    assert await resolve_ref(remote, MAIN) == plant.tip()


async def test_hashed_names_and_certificates_of_hosts_are_known(
    runner: GitRunner, git_ssh: GitSshServer, plant: Repository, tmp_path: Path
) -> None:
    key = key_of(git_ssh.authorized_key())
    hashed = tmp_path / "hashed"
    hashed.write_bytes(b"# comment\n\nother.test " + known(git_ssh).split(b" ", 1)[1] + known(git_ssh))
    keygen("-H", "-f", hashed)
    assert b"127.0.0.1" not in hashed.read_bytes()
    url = RepoUrl(git_ssh.url("plant.git"))
    assert (
        await resolve_ref(
            Remote(runner, url, fixed_access(RepoAccess(GitSshKey(key, hashed.read_bytes())))), MAIN
        )
        == plant.tip()
    )

    authority = make_ssh_key(tmp_path / "authority")
    public = tmp_path / "host_ed25519.pub"
    public.write_text(keygen("-y", "-f", git_ssh.folder / "host_ed25519"))
    keygen("-q", "-s", authority.private, "-I", "host", "-h", "-n", "127.0.0.1", public)
    git_ssh.present_certificate(tmp_path / "host_ed25519-cert.pub")
    trusted = f"@cert-authority {git_ssh.address} {authority.public_line}\n".encode()
    assert (
        await resolve_ref(Remote(runner, url, fixed_access(RepoAccess(GitSshKey(key, trusted)))), MAIN)
        == plant.tip()
    )


def keygen(*arguments: str | Path) -> str:
    return subprocess.run(["ssh-keygen", *arguments], check=True, capture_output=True, text=True).stdout


def fingerprints(folder: Path) -> set[str]:
    """Of the server's keys, by ssh-keygen."""
    found = set()
    for path in folder.glob("host_*"):
        output = keygen("-lf", path)
        found.add(output.split()[1])
    return found


async def test_a_changed_host_key_names_the_host_and_both_fingerprints(
    runner: GitRunner, git_ssh: GitSshServer, plant: Repository
) -> None:
    login = GitSshKey(key_of(git_ssh.authorized_key()), known(git_ssh))
    remote = Remote(runner, RepoUrl(git_ssh.url("plant.git")), fixed_access(RepoAccess(login)))
    before = fingerprints(git_ssh.folder)
    git_ssh.replace_host_keys()
    after = fingerprints(git_ssh.folder)
    with pytest.raises(HostKeyNotTrusted) as refused:
        await resolve_ref(remote, MAIN)
    assert refused.value.reason is Reason.HOST_KEY_NOT_TRUSTED
    problem = refused.value.message
    assert git_ssh.address in problem
    assert all(fingerprint in problem for fingerprint in before)
    assert any(fingerprint in problem for fingerprint in after)
    assert plant.tip() not in problem


async def test_a_key_of_a_kind_that_is_not_known_names_both_fingerprints_too(
    runner: GitRunner, repositories: Path, plant: Repository, tmp_path: Path
) -> None:
    with GitSshServer.start(repositories, tmp_path / "rsa-only", host_keys=[KeyKind.RSA]) as server:
        (offered,) = fingerprints(server.folder)
        other = make_ssh_key(tmp_path / "other")
        output = keygen("-lf", other.private)
        login = GitSshKey(key_of(server.authorized_key()), f"{server.address} {other.public_line}\n".encode())
        with pytest.raises(HostKeyNotTrusted) as refused:
            await resolve_ref(
                Remote(runner, RepoUrl(server.url("plant.git")), fixed_access(RepoAccess(login))), MAIN
            )
    assert offered in refused.value.message
    assert output.split()[1] in refused.value.message


@pytest.mark.usefixtures("plant")
async def test_a_revoked_or_unknown_host_key_is_refused(runner: GitRunner, git_ssh: GitSshServer) -> None:
    key = key_of(git_ssh.authorized_key())
    revoked = b"".join(b"@revoked " + line for line in known(git_ssh).splitlines(keepends=True))
    for hosts, word in (
        (revoked, "@revoked"),
        (b"", "not in known_hosts"),
        (b"garbage\n", "not in known_hosts"),
    ):
        remote = Remote(
            runner, RepoUrl(git_ssh.url("plant.git")), fixed_access(RepoAccess(GitSshKey(key, hosts)))
        )
        with pytest.raises(HostKeyNotTrusted, match=word) as refused:
            await resolve_ref(remote, MAIN)
        assert any(fingerprint in refused.value.message for fingerprint in fingerprints(git_ssh.folder))


async def test_without_known_hosts_each_connection_is_warned_about_and_made(
    runner: GitRunner, git_ssh: GitSshServer, plant: Repository
) -> None:
    access = RepoAccess(GitSshKey(key_of(git_ssh.authorized_key())))
    remote = Remote(runner, RepoUrl(git_ssh.url("plant.git")), fixed_access(access))
    get_logger("test")  # the first one sets logging up, which would end the capture
    with capture_logs() as lines:
        for _ in range(2):
            assert await resolve_ref(remote, MAIN) == plant.tip()
    assert UNVERIFIED_HOST_WARNING == "SSH host key verification disabled — MITM risk"
    assert [(line["event"], line["log_level"]) for line in lines] == [
        (UNVERIFIED_HOST_WARNING, "warning")
    ] * 2


@pytest.mark.usefixtures("plant")
async def test_where_known_hosts_are_demanded_nothing_connects_without(
    runner: GitRunner, git_ssh: GitSshServer
) -> None:
    login = GitSshKey(key_of(git_ssh.authorized_key()))
    with FaultProxy.start(git_ssh.address.replace("[", "").replace("]", "")) as line:
        url = RepoUrl(f"ssh://{git_ssh.user}@{line.address}/plant.git")
        access = RepoAccess(login, require_known_hosts=True)
        with pytest.raises(HostKeyNotTrusted, match="demanded and not given"):
            await resolve_ref(Remote(runner, url, fixed_access(access)), MAIN)
        assert line.connections == 0


@pytest.mark.usefixtures("plant")
async def test_a_key_that_the_server_does_not_know_is_an_authentication_failure(
    runner: GitRunner, git_ssh: GitSshServer
) -> None:
    login = GitSshKey(key_of(git_ssh.stranger_key()), known(git_ssh))
    with pytest.raises(SourceAuthFailed, match="Permission denied") as refused:
        await resolve_ref(
            Remote(runner, RepoUrl(git_ssh.url("plant.git")), fixed_access(RepoAccess(login))), MAIN
        )
    assert "debug1" not in refused.value.message
    assert "OpenSSH_" not in refused.value.message


async def test_no_agent_configuration_or_home_of_the_user_is_used(
    runner: GitRunner,
    git_ssh: GitSshServer,
    plant: Repository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    canary = tmp_path / "canary"
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text(f"Host *\n\tProxyCommand touch {canary}\n")
    for name, value in {
        "HOME": str(tmp_path),
        "SSH_AUTH_SOCK": str(tmp_path / "agent"),
        "GIT_SSH_COMMAND": f"touch {canary}",
        "GIT_SSH": "/bin/false",
        "SSH_ASKPASS": f"touch {canary}",
    }.items():
        monkeypatch.setenv(name, value)
    login = GitSshKey(key_of(git_ssh.authorized_key()), known(git_ssh))
    remote = Remote(runner, RepoUrl(git_ssh.url("plant.git")), fixed_access(RepoAccess(login)))
    assert await resolve_ref(remote, MAIN) == plant.tip()
    assert not canary.exists()


async def test_ssh_reads_no_configuration_and_asks_no_agent(
    runner: GitRunner, git_ssh: GitSshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ssh finds the user's folder by itself, wherever HOME points; so its arguments are checked."""
    program = tmp_path / "bin/ssh"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/told\nenv >> {tmp_path}/told\nexit 255\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    login = GitSshKey(key_of(git_ssh.authorized_key()), known(git_ssh))
    with pytest.raises(SourceUnreachable):
        await resolve_ref(
            Remote(runner, RepoUrl(git_ssh.url("plant.git")), fixed_access(RepoAccess(login))), MAIN
        )
    output = (tmp_path / "told").read_text().splitlines()
    assert output[:2] == ["-F", "/dev/null"]
    assert {"IdentitiesOnly=yes", "IdentityAgent=none", "BatchMode=yes", "StrictHostKeyChecking=yes"} <= set(
        output
    )
    assert {"GlobalKnownHostsFile=/dev/null", "UserKnownHostsFile=known_hosts", "ProxyCommand=none"} <= set(
        output
    )
    assert not any(line.startswith("SSH_AUTH_SOCK") for line in output)


async def test_a_cache_folder_with_a_strange_name_runs_no_command(
    git_ssh: GitSshServer, plant: Repository, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    runner = GitRunner(tmp_path / f'it\'s $(touch {canary.name}) %h ${{HOME}} `x` "q" ; touch canary')
    login = GitSshKey(key_of(git_ssh.authorized_key()), known(git_ssh))
    remote = Remote(runner, RepoUrl(git_ssh.url("plant.git")), fixed_access(RepoAccess(login)))
    assert await resolve_ref(remote, MAIN) == plant.tip()
    assert not canary.exists()
    assert not (runner.home / "canary").exists()


async def test_the_key_is_in_a_private_file_while_ssh_runs_and_is_gone_after_cancellation(
    runner: GitRunner, git_ssh: GitSshServer, plant: Repository
) -> None:
    key = git_ssh.authorized_key()
    with FaultProxy.start(git_ssh.address.replace("[", "").replace("]", "")) as line:
        line.arm(Fault(FaultKind.STALL), None)
        hosts = known(git_ssh).replace(git_ssh.address.encode(), f"[127.0.0.1]:{line.port}".encode())
        login = GitSshKey(key_of(key), hosts)
        url = RepoUrl(f"ssh://{git_ssh.user}@{line.address}{plant.path}")
        call = asyncio.ensure_future(resolve_ref(Remote(runner, url, fixed_access(RepoAccess(login))), MAIN))
        await eventually_async(lambda: line.connections == 1, message="ssh has connected")
        (folder,) = runner.home.glob("call-*")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "key").stat().st_mode) == 0o600
        assert len(folder.name) > 30
        lines = running().values()
        assert any(str(line.port) in text for text in lines)
        secret_lines = [text for text in key.read_text().splitlines() if "KEY" not in text]
        assert not any(secret in text for text in lines for secret in secret_lines)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not folder.exists()
        await eventually_async(
            lambda: not any(str(line.port) in text for text in running().values()), message="ssh has ended"
        )


async def test_an_ssh_key_and_an_address_must_fit(runner: GitRunner, tmp_path: Path) -> None:
    key = GitSshKey(key_of(make_ssh_key(tmp_path / "key").private))
    for address, access, word in (
        ("git@git.test:r.git", RepoAccess(), "git.auth.sshKey is needed"),
        (
            "ssh://git@git.test/r.git",
            RepoAccess(GitPassword("me", Secret(TOKEN))),
            "git.auth.sshKey is needed",
        ),
        ("git@git.test:r.git", RepoAccess(key, proxy="http://proxy.test:3128"), "git.proxy cannot carry"),
        ("https://git.test/r.git", RepoAccess(key), "an ssh key is of no use"),
    ):
        with pytest.raises(Misconfigured, match=word):
            await resolve_ref(Remote(runner, RepoUrl(address), fixed_access(access)), MAIN)


async def test_a_dead_ssh_server_is_given_up(
    git_ssh: GitSshServer, plant: Repository, tmp_path: Path
) -> None:
    runner = GitRunner(tmp_path / "cache", timeout=1.0)
    with FaultProxy.start(git_ssh.address.replace("[", "").replace("]", "")) as line:
        line.arm(Fault(FaultKind.STALL), None)
        url = RepoUrl(f"ssh://{git_ssh.user}@{line.address}{plant.path}")
        with pytest.raises(SourceUnreachable, match="within 1 s"):
            await resolve_ref(
                Remote(runner, url, fixed_access(RepoAccess(GitSshKey(key_of(git_ssh.authorized_key()))))),
                MAIN,
            )


# https.


@pytest.fixture
def authority() -> Authority:
    return Authority("a company")


@pytest.fixture
def https(authority: Authority, repositories: Path, tmp_path: Path) -> Iterator[GitHttpServer]:
    with GitHttpServer.start(repositories, tls=authority.server().save(tmp_path, "git")) as server:
        server.users["alice"] = TOKEN
        yield server


ALICE = GitPassword("alice", Secret(TOKEN))


async def test_an_authority_of_ones_own_is_trusted_besides_the_systems(
    runner: GitRunner, https: GitHttpServer, authority: Authority, plant: Repository
) -> None:
    url = RepoUrl(https.url("plant.git"))
    bundle = b"Subject: a company\r\n" + authority.pem.replace(b"\n", b"\r\n")
    assert (
        await resolve_ref(Remote(runner, url, fixed_access(RepoAccess(ALICE, ca=bundle))), MAIN)
        == plant.tip()
    )
    for ca in (None, Authority("another company").pem):
        https.requests.clear()
        with pytest.raises(SourceUnreachable, match="certificate"):
            await resolve_ref(Remote(runner, url, fixed_access(RepoAccess(ALICE, ca=ca))), MAIN)
        assert https.requests == []


async def test_the_systems_roots_go_on_being_trusted(
    runner: GitRunner,
    https: GitHttpServer,
    authority: Authority,
    plant: Repository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server's authority plays a root of the system; the resource names another one."""
    (tmp_path / "roots.pem").write_bytes(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "roots.pem"))
    access = RepoAccess(ALICE, ca=Authority("another company").pem)
    assert (
        await resolve_ref(Remote(runner, RepoUrl(https.url("plant.git")), fixed_access(access)), MAIN)
        == plant.tip()
    )


@pytest.mark.parametrize(
    "ca", [b"", b"nonsense", b"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"]
)
async def test_certificates_that_are_none_are_refused_in_words(runner: GitRunner, ca: bytes) -> None:
    remote = Remote(runner, RepoUrl("https://git.test/r.git"), fixed_access(RepoAccess(ca=ca)))
    with pytest.raises(InvalidValue, match="no certificate in PEM form"):
        await resolve_ref(remote, MAIN)


async def test_a_token_that_is_rotated_while_running_is_read_anew(
    runner: GitRunner, git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    """Between the reading of the file and git's request the administrator changes both sides."""
    file = tmp_path / "token"
    file.write_text("old")
    git_http.users["alice"] = "new"
    reads = []

    async def read() -> RepoAccess:
        reads.append(file.read_text())
        access = RepoAccess(GitPassword("alice", Secret(reads[-1])))
        file.write_text("new")
        return access

    remote = Remote(runner, RepoUrl(git_http.url("plant.git")), read)
    assert await resolve_ref(remote, MAIN) == plant.tip()
    assert reads == ["old", "new"]
    assert await resolve_ref(remote, MAIN) == plant.tip()
    assert reads == ["old", "new", "new"]


@pytest.mark.usefixtures("plant")
async def test_a_wrong_token_that_stays_the_same_is_tried_once(
    runner: GitRunner, git_http: GitHttpServer
) -> None:
    git_http.users["alice"] = planted("git-password")
    reads = []

    async def read() -> RepoAccess:
        reads.append("wrong")
        return RepoAccess(GitPassword("alice", Secret("wrong")))

    with pytest.raises(SourceAuthFailed):
        await resolve_ref(Remote(runner, RepoUrl(git_http.url("plant.git")), read), MAIN)
    assert len(reads) == 2
    assert [seen.status for seen in git_http.requests] == [401, 401]  # without credentials, then with them


@pytest.mark.usefixtures("plant")
async def test_a_changed_token_that_is_wrong_too_is_tried_once_more_and_no_more(
    runner: GitRunner, git_http: GitHttpServer
) -> None:
    git_http.users["alice"] = planted("git-password")
    words = iter(["wrong", "also wrong", planted("git-password")])

    async def read() -> RepoAccess:
        return RepoAccess(GitPassword("alice", Secret(next(words))))

    with pytest.raises(SourceAuthFailed):
        await resolve_ref(Remote(runner, RepoUrl(git_http.url("plant.git")), read), MAIN)
    assert len(git_http.requests) == 4
    assert next(words) == planted("git-password")


async def test_credentials_do_not_go_to_another_host(
    runner: GitRunner, git_http: GitHttpServer, plant: Repository, repositories: Path
) -> None:
    """The helper is asked by git on behalf of a host that the address does not name."""
    git_http.users["alice"] = TOKEN
    url = RepoUrl(git_http.url("plant.git"))
    other = RepoUrl(git_http.url("plant.git").replace("127.0.0.1", "localhost"))
    access = RepoAccess(ALICE)
    assert plant.tip().encode() in await runner.run(["ls-remote"], [url], url=url, access=access)
    git_http.requests.clear()
    with pytest.raises(SourceAuthFailed):
        await runner.run(["ls-remote"], [other], url=url, access=access)
    assert {seen.user for seen in git_http.requests} == {None}


# Proxies.


async def test_https_goes_through_the_proxy_of_the_resource(
    runner: GitRunner, https: GitHttpServer, authority: Authority, plant: Repository
) -> None:
    url = RepoUrl(https.url("plant.git"))
    with HttpProxy.start() as proxy:
        access = RepoAccess(ALICE, ca=authority.pem, proxy=proxy.address)
        assert await resolve_ref(Remote(runner, url, fixed_access(access)), MAIN) == plant.tip()
        host = url.removeprefix("https://").split("/")[0]
        assert {(passage.method, passage.target) for passage in proxy.passages} == {("CONNECT", host)}


async def test_the_password_of_a_proxy_reaches_only_the_proxy(
    runner: GitRunner, https: GitHttpServer, authority: Authority, plant: Repository
) -> None:
    url = RepoUrl(https.url("plant.git"))
    with HttpProxy.start({"me": f"p@ss/{planted('proxy')}"}) as proxy:
        right = proxy.address.replace("://", f"://me:p%40ss%2F{planted('proxy')}@")
        access = RepoAccess(ALICE, ca=authority.pem, proxy=right)
        assert planted("proxy") not in repr(access)
        assert await resolve_ref(Remote(runner, url, fixed_access(access)), MAIN) == plant.tip()
        wrong = proxy.address.replace("://", "://me:wr0ng-canary@")
        for address in (wrong, proxy.address):
            remote = Remote(runner, url, fixed_access(RepoAccess(ALICE, ca=authority.pem, proxy=address)))
            with pytest.raises(SourceAuthFailed, match="407") as refused:
                await resolve_ref(remote, MAIN)
            assert "canary" not in refused.value.message


@pytest.mark.parametrize(
    ("variables", "through"),
    [
        ({"HTTPS_PROXY": "{}"}, True),
        ({"https_proxy": "{}"}, True),
        ({"ALL_PROXY": "{}"}, True),
        ({"HTTP_PROXY": "{}"}, False),
        ({"HTTPS_PROXY": "{}", "NO_PROXY": "127.0.0.1"}, False),
        ({"HTTPS_PROXY": "{}", "NO_PROXY": "example.test"}, True),
        ({}, False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
async def test_the_proxy_of_the_environment_is_used_where_the_resource_names_none(
    runner: GitRunner,
    https: GitHttpServer,
    authority: Authority,
    plant: Repository,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    through: bool,
) -> None:
    remote = Remote(
        runner, RepoUrl(https.url("plant.git")), fixed_access(RepoAccess(ALICE, ca=authority.pem))
    )
    with HttpProxy.start() as proxy:
        for name, value in variables.items():
            monkeypatch.setenv(name, value.format(proxy.address))
        assert await resolve_ref(remote, MAIN) == plant.tip()
        assert bool(proxy.passages) == through


async def test_no_proxy_holds_for_the_proxy_of_the_resource_too(
    runner: GitRunner,
    https: GitHttpServer,
    authority: Authority,
    plant: Repository,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with HttpProxy.start() as proxy:
        access = RepoAccess(ALICE, ca=authority.pem, proxy=proxy.address)
        remote = Remote(runner, RepoUrl(https.url("plant.git")), fixed_access(access))
        assert await resolve_ref(remote, MAIN) == plant.tip()
        assert proxy.passages == []


async def test_plain_http_goes_through_the_proxy_of_the_environment_in_either_spelling(
    runner: GitRunner, git_http: GitHttpServer, plant: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = Remote(runner, RepoUrl(git_http.url("plant.git")), fixed_access(RepoAccess()))
    with HttpProxy.start() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        assert await resolve_ref(remote, MAIN) == plant.tip()
        assert {passage.target for passage in proxy.passages if passage.method == "GET"} == {
            git_http.url("plant.git/info/refs?service=git-upload-pack")
        }


async def test_the_password_of_the_environments_proxy_is_in_no_message(
    runner: GitRunner, https: GitHttpServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = Remote(
        runner, RepoUrl(https.url("plant.git")), fixed_access(RepoAccess(ALICE, ca=authority.pem))
    )
    monkeypatch.setenv("HTTPS_PROXY", "http://me:canary-of-a-proxy@127.0.0.1:1")
    with pytest.raises(SourceUnreachable) as refused:
        await resolve_ref(remote, MAIN)
    assert "canary" not in refused.value.message


@pytest.mark.parametrize("proxy", ["proxy:3128", "ftp://proxy:1", "http://", "http://me:canary@host:99999"])
async def test_a_proxy_that_is_none_is_refused_and_not_shown(runner: GitRunner, proxy: str) -> None:
    remote = Remote(runner, RepoUrl("https://git.test/r.git"), fixed_access(RepoAccess(proxy=proxy)))
    with pytest.raises(InvalidValue, match=r"git\.proxy") as refused:
        await resolve_ref(remote, MAIN)
    assert "canary" not in refused.value.message


# What may be received.


@pytest.fixture(params=["http", "ssh", "file"])
def heavy(
    request: pytest.FixtureRequest, repositories: Path, git_http: GitHttpServer, git_ssh: GitSshServer
) -> tuple[RepoUrl, RepoAccess]:
    """A repository of three megabytes that nothing makes smaller, over each transport."""
    repository = Repository.create(repositories / "heavy.git")
    repository.commit({f"f{n}": secrets.token_bytes(300_000) for n in range(10)})
    if request.param == "http":
        return RepoUrl(git_http.url("heavy.git")), RepoAccess()
    if request.param == "ssh":
        login = GitSshKey(key_of(git_ssh.authorized_key()), known(git_ssh))
        return RepoUrl(git_ssh.url("heavy.git")), RepoAccess(login)
    return RepoUrl(repository.path.as_uri()), RepoAccess()


async def test_more_than_is_allowed_is_not_received(
    runner: GitRunner, heavy: tuple[RepoUrl, RepoAccess], tmp_path: Path
) -> None:
    url, access = heavy
    remote = Remote(runner, url, fixed_access(access))
    mirror = Repository.create(tmp_path / "mirror.git")
    fetch = ["fetch", "--quiet", "--depth=1", "--no-write-fetch-head"]
    with pytest.raises(SourceTooLarge, match="more than the 1000000 bytes") as refused:
        await remote.git(fetch, [url, "+main:refs/x"], repository=mirror.path, max_bytes=1_000_000)
    assert refused.value.reason is Reason.SOURCE_TOO_LARGE
    assert sum(path.stat().st_size for path in mirror.path.rglob("*") if path.is_file()) < 1_100_000
    await remote.git(fetch, [url, "+main:refs/x"], repository=mirror.path, max_bytes=10_000_000)
    assert len(mirror.files("refs/x")) == 10


async def test_a_server_that_lists_refs_without_end_cannot_fill_the_memory(tmp_path: Path) -> None:
    """git keeps the whole list before it prints a line; the kernel stops it."""
    runner = GitRunner(tmp_path / "cache", timeout=60, max_memory=64 << 20)
    line = b"003d" + b"0" * 39 + b"1 refs/heads/" + b"x" * 7 + b"\n"
    head = b"001e# service=git-upload-pack\n0000" + b"0039" + b"0" * 39 + b"1 HEAD\0agent=x\n".ljust(14, b" ")

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        kind = b"Content-Type: application/x-git-upload-pack-advertisement\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n" + kind + b"Connection: close\r\n\r\n" + head)
        try:
            while True:
                writer.write(line * 1000)
                await writer.drain()
        except OSError:
            writer.close()

    server = await asyncio.start_server(endless, "127.0.0.1", 0)
    try:
        url = RepoUrl(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/r.git")
        with pytest.raises(SourceTooLarge, match="more than the memory") as refused:
            await resolve_ref(Remote(runner, url, fixed_access(RepoAccess())), MAIN)
    finally:
        server.close()
    assert refused.value.reason is Reason.SOURCE_TOO_LARGE

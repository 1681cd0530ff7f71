"""A git of the cluster talks to the address that was checked, and to none that is refused."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from stoker.domain.egress import EgressPolicy
from stoker.domain.errors import StokerError
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import GitSshKey, RepoAccess, fixed_access
from stoker.git.auth.pinned_address import NO_PIN, pin_address
from stoker.git.errors import HostKeyNotTrusted
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.remote.resolve import resolve_ref
from stoker.http_client import egress
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer
from stoker_testkit.repositories.ssh_keys import make_ssh_key

MAIN = GitRef("main")
NAME = "forge.invalid"
"""No resolver answers for it (RFC 6761): a client that reaches it was given the address."""


@pytest.fixture(autouse=True)
def nothing_stays_enforced() -> Iterator[None]:
    yield
    egress.set_egress_policy(None)


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of `NAME`, known to this process alone and not to git or ssh."""
    addresses = ["127.0.0.1"]
    real = socket.getaddrinfo

    def answer(host: str, port: int, *args: Any, **options: Any) -> list[tuple[Any, ...]]:
        if host != NAME:
            return [*real(host, port, *args, **options)]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, NAME, (one, port)) for one in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return addresses


@pytest.fixture
def repository(repositories: Path) -> Repository:
    made = Repository.create(repositories / "plant.git")
    made.commit({"a": "1"})
    return made


def remote(tmp_path: Path, url: str, access: RepoAccess | None = None) -> Remote:
    return Remote(GitRunner(tmp_path / "cache"), RepoUrl(url), fixed_access(access or RepoAccess()))


async def test_a_server_of_the_machine_is_not_asked(repository: Repository, tmp_path: Path) -> None:
    with GitHttpServer.start(repository.path.parent) as server:
        url = server.url("plant.git")
        assert await resolve_ref(remote(tmp_path, url), MAIN) == repository.tip()
        server.requests.clear()
        egress.set_egress_policy(EgressPolicy.of([]))
        with pytest.raises(StokerError, match="leads to a loopback address") as caught:
            await resolve_ref(remote(tmp_path, url), MAIN)
        assert caught.value.reason is Reason.EGRESS_REFUSED
        assert "--egress-allow" in caught.value.message
        assert server.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "https://kubernetes.default.svc/x.git",
        "http://gitea.git.svc:3000/x.git",
        "http://2130706433/x.git",
        "https://[::1]/x.git",
        "http://[::ffff:127.0.0.1]/x.git",
        "ssh://git@127.0.0.1:2222/x.git",
        "git@gitea.git.svc:x.git",
        "git@localhost:x.git",
        "ssh://git@[::1]:22/x.git",
    ],
)
async def test_addresses_of_the_cluster_and_the_machine_are_refused(url: str) -> None:
    egress.set_egress_policy(EgressPolicy.of([]))
    with pytest.raises(StokerError, match="is not connected to"):
        await pin_address(RepoUrl(url), RepoAccess())


async def test_git_connects_to_the_checked_address_of_a_name(
    repository: Repository, tmp_path: Path, named: list[str]
) -> None:
    with GitHttpServer.start(repository.path.parent) as server:
        port = server.url("").split(":")[2].rstrip("/")
        egress.set_egress_policy(EgressPolicy.of(["127.0.0.1"]))
        found = await resolve_ref(remote(tmp_path, f"http://{NAME}:{port}/plant.git"), MAIN)
    assert found == repository.tip()


async def test_ssh_connects_to_the_checked_address_and_verifies_the_name(
    repository: Repository, tmp_path: Path, named: list[str]
) -> None:
    with GitSshServer.start(repository.path.parent, tmp_path / "sshd") as server:
        known = server.known_hosts.read_bytes().replace(b"[127.0.0.1]", f"[{NAME}]".encode())
        access = RepoAccess(GitSshKey(Secret(server.authorized_key().read_bytes()), known))
        egress.set_egress_policy(EgressPolicy.of(["127.0.0.1"]))
        url = server.url("plant.git").replace("127.0.0.1", NAME)
        assert await resolve_ref(remote(tmp_path, url, access), MAIN) == repository.tip()


@pytest.mark.parametrize(
    ("names", "principal", "trusted"),
    [
        ("[{name}]:{port}", NAME, True),
        ("[*.invalid]:*", NAME, True),
        ("*.invalid", NAME, True),
        ("{name}", NAME, True),
        ("[{name}]:{port}", "*.invalid", False),
        ("[{name}]:{port}", "other.invalid", False),
        ("[{name}]:{port}", "127.0.0.1", False),
        ("[{name}]:22{port}", NAME, False),
        ("other.invalid", NAME, False),
        ("*,!{name},![{name}]:*", NAME, False),
    ],
)
async def test_a_host_certificate_counts_on_any_port(
    repository: Repository, tmp_path: Path, named: list[str], names: str, principal: str, trusted: bool
) -> None:
    with GitSshServer.start(repository.path.parent, tmp_path / "sshd") as server:
        url = server.url("plant.git").replace("127.0.0.1", NAME)
        authority = certified(server, tmp_path, principal)
        known = f"@cert-authority {names.format(name=NAME, port=urlsplit(url).port)} {authority}\n"
        access = RepoAccess(GitSshKey(Secret(server.authorized_key().read_bytes()), known.encode()))
        egress.set_egress_policy(EgressPolicy.of(["127.0.0.1"]))
        asked = resolve_ref(remote(tmp_path, url, access), MAIN)
        if trusted:
            assert await asked == repository.tip()
        else:
            with pytest.raises(HostKeyNotTrusted, match=rf"host \[{NAME}\]:"):
                await asked


async def test_a_host_certificate_of_another_authority_or_a_revoked_one_is_refused(
    repository: Repository, tmp_path: Path, named: list[str]
) -> None:
    with GitSshServer.start(repository.path.parent, tmp_path / "sshd") as server:
        url = server.url("plant.git").replace("127.0.0.1", NAME)
        authority = certified(server, tmp_path, NAME)
        other = make_ssh_key(tmp_path / "other").public_line
        key = Secret(server.authorized_key().read_bytes())
        egress.set_egress_policy(EgressPolicy.of(["127.0.0.1"]))
        for known in (
            f"@cert-authority * {other}\n",
            f"@cert-authority * {authority}\n@revoked * {authority}\n",
            f"@cert-authority * {authority}\n@revoked {NAME} {authority}\n",
        ):
            with pytest.raises(HostKeyNotTrusted):
                await resolve_ref(remote(tmp_path, url, RepoAccess(GitSshKey(key, known.encode()))), MAIN)


def certified(server: GitSshServer, folder: Path, principal: str) -> str:
    """The public line of an authority; the server shows a certificate of it for the principal."""
    authority = make_ssh_key(folder / "authority")
    public = folder / "host_ed25519.pub"
    public.write_text(_keygen("-y", "-f", server.folder / "host_ed25519"))
    _keygen("-q", "-s", authority.private, "-I", "host", "-h", "-n", principal, public)
    server.present_certificate(folder / "host_ed25519-cert.pub")
    return authority.public_line


def _keygen(*arguments: str | Path) -> str:
    return subprocess.run(["ssh-keygen", *arguments], check=True, capture_output=True, text=True).stdout


async def test_a_name_that_leads_to_metadata_is_refused(named: list[str]) -> None:
    named[:] = ["169.254.169.254"]
    egress.set_egress_policy(EgressPolicy.of([]))
    with pytest.raises(StokerError, match="link-local"):
        await pin_address(RepoUrl(f"https://{NAME}/x.git"), RepoAccess())


async def test_a_proxy_of_the_resource_is_checked_and_pinned(named: list[str]) -> None:
    url = RepoUrl("https://forge.example/x.git")
    egress.set_egress_policy(EgressPolicy.of([]))
    with pytest.raises(StokerError, match="loopback"):
        await pin_address(url, RepoAccess(proxy="http://127.0.0.1:3128"))
    named[:] = ["10.0.0.9"]
    pin = await pin_address(url, RepoAccess(proxy=f"socks5h://{NAME}:1080"))
    assert pin.config == {"http.curloptResolve": f"{NAME}:1080:10.0.0.9"}
    with pytest.raises(StokerError, match="Service"):
        await pin_address(RepoUrl("https://gitea.git.svc/x.git"), RepoAccess(proxy=f"http://{NAME}:3128"))


@pytest.mark.parametrize(
    ("scheme", "port"), [("http", 1080), ("https", 443), ("socks5", 1080), ("socks5h", 1080)]
)
async def test_a_proxy_without_a_port_is_pinned_to_the_default_of_git(
    named: list[str], scheme: str, port: int
) -> None:
    named[:] = ["10.0.0.9"]
    egress.set_egress_policy(EgressPolicy.of([]))
    pin = await pin_address(RepoUrl("https://forge.example/x.git"), RepoAccess(proxy=f"{scheme}://{NAME}"))
    assert pin.config == {"http.curloptResolve": f"{NAME}:{port}:10.0.0.9"}


@pytest.mark.parametrize("host", ["fa\u00df.example", "%66orge.example", "forge\u3002example", "10.0.0.9%2e"])
async def test_a_proxy_whose_name_git_would_read_in_another_way_is_refused(host: str) -> None:
    egress.set_egress_policy(EgressPolicy.of([]))
    with pytest.raises(StokerError, match=r"git\.proxy"):
        await pin_address(RepoUrl("https://forge.example/x.git"), RepoAccess(proxy=f"http://{host}:3128"))


async def test_a_command_of_a_person_resolves_nothing(named: list[str]) -> None:
    assert await pin_address(RepoUrl("https://127.0.0.1/x.git"), RepoAccess()) == NO_PIN

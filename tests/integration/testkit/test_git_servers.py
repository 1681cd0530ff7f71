"""The git servers of other tests: real git on both ends."""

from __future__ import annotations

import base64
import secrets
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from stoker.domain.errors import Misconfigured
from stoker_testkit.certificates import Authority
from stoker_testkit.repositories.bare_repository import GitCommandFailed, Repository, run_git, symlink
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer, find_sshd
from stoker_testkit.repositories.ssh_keys import KeyKind
from stoker_testkit.wait_until import eventually

BASIC = base64.b64encode(b"alice:right").decode()


@pytest.fixture
def plant(repositories: Path) -> Repository:
    repository = Repository.create(repositories / "plant.git")
    repository.commit({"projects/a.json": "one", "big.bin": b"\0" * 200_000}, message="First")
    repository.commit({"projects/a.json": "two"}, message="Second")
    return repository


def authorization(header: str) -> tuple[str, str]:
    return "-c", f"http.extraHeader=Authorization: {header}"


def test_clones_fetches_and_pushes_over_http(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    clone = tmp_path / "clone.git"
    run_git("clone", "--quiet", "--bare", git_http.url("plant.git"), clone)
    assert run_git(f"--git-dir={clone}", "rev-parse", "main").decode().strip() == plant.tip()

    third = plant.commit({"projects/b.json": "new"}, message="Third")
    run_git(f"--git-dir={clone}", "fetch", "--quiet", "origin", "main:main")
    assert Repository(clone).tip() == third

    fourth = Repository(clone).commit({"projects/b.json": None}, message="Fourth")
    run_git(f"--git-dir={clone}", "push", "--quiet", "origin", "main")
    assert plant.tip() == fourth
    assert plant.messages() == ["Fourth", "Third", "Second", "First"]


def test_uses_protocol_version_2_and_records_requests(git_http: GitHttpServer, plant: Repository) -> None:
    listing = run_git("-c", "protocol.version=2", "ls-remote", git_http.url("plant.git"), "refs/heads/main")
    assert listing.decode().split() == [plant.tip(), "refs/heads/main"]
    assert [(seen.method, seen.path, seen.status) for seen in git_http.requests] == [
        ("GET", "/plant.git/info/refs?service=git-upload-pack", 200),
        ("POST", "/plant.git/git-upload-pack", 200),
    ]
    assert {seen.protocol for seen in git_http.requests} == {"version=2"}


def test_a_shallow_fetch_of_a_commit_by_its_id_brings_only_that_commit(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    mirror = Repository.create(tmp_path / "mirror.git")
    first = plant.git("rev-parse", "main^").decode().strip()
    plant.commit({"projects/a.json": "three"}, message="Third")
    mirror.git("fetch", "--quiet", "--depth=1", git_http.url("plant.git"), f"{first}:refs/heads/main")
    assert mirror.messages() == ["First"]


def test_a_partial_clone_leaves_large_blobs_on_the_server(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    clone = tmp_path / "partial.git"
    run_git("clone", "--quiet", "--bare", "--filter=blob:limit=1k", git_http.url("plant.git"), clone)
    absent = run_git(f"--git-dir={clone}", "rev-list", "--objects", "--missing=print", "main").decode()
    blob = plant.git("rev-parse", "main:big.bin").decode().strip()
    assert f"?{blob}" in absent.split()
    assert Repository(clone).read("projects/a.json") == b"two"
    assert len(Repository(clone).read("big.bin")) == 200_000  # fetched now that it is asked for


def test_a_push_larger_than_the_buffers_arrives(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    clone = tmp_path / "clone.git"
    run_git("clone", "--quiet", "--bare", git_http.url("plant.git"), clone)
    noise = secrets.token_bytes(3_000_000)
    pushed = Repository(clone).commit({"noise.bin": noise})
    run_git(f"--git-dir={clone}", "push", "--quiet", "origin", "main")
    assert plant.tip() == pushed
    assert plant.read("noise.bin") == noise


@pytest.mark.parametrize("header", [f"Basic {BASIC}", "Bearer sesame"], ids=["a password", "a bearer token"])
def test_credentials_open_the_server(git_http: GitHttpServer, plant: Repository, header: str) -> None:
    git_http.users["alice"] = "right"
    git_http.tokens.add("sesame")
    listing = run_git(*authorization(header), "ls-remote", git_http.url("plant.git"), "main")
    assert listing.decode().split()[0] == plant.tip()


@pytest.mark.parametrize(
    "header",
    [
        "Basic " + base64.b64encode(b"alice:wrong").decode(),
        "Basic " + base64.b64encode(b"mallory:right").decode(),
        "Basic %%%",
        "Bearer closed",
        "Negotiate sesame",
    ],
)
@pytest.mark.usefixtures("plant")
def test_wrong_credentials_are_refused(git_http: GitHttpServer, header: str) -> None:
    git_http.users["alice"] = "right"
    git_http.tokens.add("sesame")
    with pytest.raises(GitCommandFailed, match=r"could not read Username|Authentication failed"):
        run_git(*authorization(header), "ls-remote", git_http.url("plant.git"))
    assert {seen.status for seen in git_http.requests} == {401}


@pytest.mark.usefixtures("plant")
def test_missing_credentials_are_asked_for(git_http: GitHttpServer) -> None:
    git_http.users["alice"] = "right"
    address = git_http.url("plant.git").replace("http://", "http://alice:right@")
    run_git("ls-remote", address)  # git sends a password only after it was asked
    assert [seen.status for seen in git_http.requests] == [401, 200, 200]
    git_http.users["alice"] = "rotated"
    with pytest.raises(GitCommandFailed, match="Authentication failed"):
        run_git("ls-remote", address)


def test_a_public_repository_is_read_by_all_and_written_by_users(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    git_http.users["alice"] = "right"
    git_http.public = True
    clone = tmp_path / "clone.git"
    run_git("clone", "--quiet", "--bare", git_http.url("plant.git"), clone)
    mine = Repository(clone).commit({"x": "y"})
    with pytest.raises(GitCommandFailed, match="could not read Username"):
        run_git(f"--git-dir={clone}", "push", "origin", "main")
    run_git(*authorization(f"Basic {BASIC}"), f"--git-dir={clone}", "push", "--quiet", "origin", "main")
    assert plant.tip() == mine


def test_a_repository_that_does_not_exist_is_not_found(git_http: GitHttpServer) -> None:
    with pytest.raises(GitCommandFailed, match="not found"):
        run_git("ls-remote", git_http.url("nothing.git"))


@pytest.mark.usefixtures("plant")
def test_https_is_trusted_by_its_own_authority_only(repositories: Path, tmp_path: Path) -> None:
    ours, other = Authority("ours"), Authority("other")
    pair = ours.server().save(tmp_path, "git")
    with GitHttpServer.start(repositories, tls=pair) as server:
        trusted, foreign = ours.save(tmp_path, "ours").certificate, other.save(tmp_path, "other").certificate
        assert run_git("-c", f"http.sslCAInfo={trusted}", "ls-remote", server.url("plant.git"))
        with pytest.raises(GitCommandFailed, match="certificate"):
            run_git("-c", f"http.sslCAInfo={foreign}", "ls-remote", server.url("plant.git"))


@pytest.mark.usefixtures("plant")
def test_a_client_that_never_ends_its_request_does_not_hold_up_the_stop(repositories: Path) -> None:
    server = GitHttpServer.start(repositories)
    host, port = server.url("plant.git").removeprefix("http://").split("/")[0].split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            b"POST /plant.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
            b"Content-Type: application/x-git-upload-pack-request\r\n\r\n0000"
        )
        stopping = threading.Thread(target=server.stop, daemon=True)
        stopping.start()
        eventually(lambda: not stopping.is_alive(), 60.0, "the server stops although a request has no end")


@pytest.mark.parametrize("kind", list(KeyKind))
def test_clones_and_pushes_over_ssh_with_an_authorized_key(
    git_ssh: GitSshServer, plant: Repository, tmp_path: Path, kind: KeyKind
) -> None:
    environment = git_ssh.environment(git_ssh.authorized_key(kind=kind))
    clone = tmp_path / "clone.git"
    run_git("clone", "--quiet", "--bare", git_ssh.url("plant.git"), clone, env=environment)
    pushed = Repository(clone).commit({"link": symlink("projects/a.json")})
    run_git(f"--git-dir={clone}", "push", "--quiet", "origin", "main", env=environment)
    assert plant.tip() == pushed


@pytest.mark.usefixtures("plant")
def test_an_unknown_or_revoked_key_is_refused(git_ssh: GitSshServer) -> None:
    git_ssh.authorized_key("kept")
    revoked = git_ssh.authorized_key("revoked")
    run_git("ls-remote", git_ssh.url("plant.git"), env=git_ssh.environment(revoked))
    git_ssh.revoke("revoked")
    for key in (revoked, git_ssh.stranger_key()):
        with pytest.raises(GitCommandFailed, match="Permission denied"):
            run_git("ls-remote", git_ssh.url("plant.git"), env=git_ssh.environment(key))


@pytest.mark.usefixtures("plant")
def test_a_changed_host_key_is_noticed(git_ssh: GitSshServer) -> None:
    environment = git_ssh.environment(git_ssh.authorized_key())
    run_git("ls-remote", git_ssh.url("plant.git"), env=environment)
    git_ssh.replace_host_keys()
    with pytest.raises(GitCommandFailed, match="REMOTE HOST IDENTIFICATION HAS CHANGED"):
        run_git("ls-remote", git_ssh.url("plant.git"), env=environment)


@pytest.mark.usefixtures("plant")
def test_an_unknown_host_is_refused(git_ssh: GitSshServer, tmp_path: Path) -> None:
    no_hosts = tmp_path / "empty"
    no_hosts.touch()
    environment = git_ssh.environment(git_ssh.authorized_key(), known_hosts=no_hosts)
    with pytest.raises(GitCommandFailed, match="Host key verification failed"):
        run_git("ls-remote", git_ssh.url("plant.git"), env=environment)


def test_a_key_opens_repositories_and_no_shell(git_ssh: GitSshServer) -> None:
    key = git_ssh.authorized_key()
    command = git_ssh.environment(key)["GIT_SSH_COMMAND"]
    host, port = git_ssh.address.strip("[").split("]:")
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} -p {port} {git_ssh.user}@{host} id"], capture_output=True, check=False
    )
    assert done.returncode != 0
    assert b"uid=" not in done.stdout


def test_a_machine_without_sshd_gets_the_name_of_the_package(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="install the package openssh-server"):
        find_sshd([str(tmp_path)])

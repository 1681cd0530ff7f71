"""Who lets `stoker sync` in, and whose commits it takes: each way once, through the command itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.cli.exit_codes import ExitCode
from stoker_testkit.certificates import Authority
from stoker_testkit.forges.github_app_login import GitHubAppServer
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.commit_signers import Signer, ssh_signer
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.services.http_proxy import HttpProxy

FILES = {"s/a": "1"}
TOKEN = planted("git-token")


class Desk:
    """A repository, a data folder, and the command between them."""

    def __init__(self, place: Path, repositories: Path) -> None:
        self.place = place
        self.repository = Repository.create(repositories / "plant.git")
        self.data = place / "data"
        self.data.mkdir()

    def write(self, name: str, content: bytes | str) -> Path:
        path = self.place / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def run(self, url: str, *more: str, ref: str = "main") -> tuple[int, dict[str, Any], str]:
        command = [
            sys.executable,
            "-m",
            "stoker",
            "sync",
            f"--repo={url}",
            f"--ref={ref}",
            "--map=s:projects/P",
        ]
        command += [f"--data-dir={self.data}", f"--cache-dir={self.place / 'cache'}", "--output=json", *more]
        # A proxy of the machine itself must not stand in for the one under test.
        environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60, env=environment
        )
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr

    @property
    def content(self) -> str:
        path = self.data / "projects/P/a"
        return path.read_text() if path.is_file() else ""


@pytest.fixture
def desk(tmp_path: Path, repositories: Path) -> Desk:
    return Desk(tmp_path, repositories)


@pytest.fixture
def alice(tmp_path: Path) -> Signer:
    return ssh_signer(tmp_path, "alice")


def _trusting(desk: Desk, signer: Signer) -> list[str]:
    signers = desk.write("signers", b"alice@example.test " + signer.public + b"\n")
    return ["--verify-signatures=commit", f"--allowed-signers-file={signers}"]


# Whose commits.


def test_an_unsigned_commit_is_refused_and_nothing_is_written(desk: Desk, alice: Signer) -> None:
    desk.repository.commit(FILES)
    code, said, _ = desk.run(desk.repository.path.as_uri(), *_trusting(desk, alice))
    assert code == ExitCode.STALLED
    assert desk.repository.tip() in said["message"]
    assert "is not signed" in said["message"]
    assert not [path for path in desk.data.rglob("*") if path.is_file() and ".sync-state" not in path.parts]


def test_a_signed_commit_passes_and_an_unsigned_one_after_it_does_not(desk: Desk, alice: Signer) -> None:
    url, trust = desk.repository.path.as_uri(), _trusting(desk, alice)
    commit = alice.commit(desk.repository, FILES)
    code, said, errors = desk.run(url, *trust)
    assert (code, said.get("commit")) == (ExitCode.DONE, commit), (said, errors)
    assert desk.content == "1"
    desk.repository.commit({"s/a": "2"})
    assert desk.run(url, *trust)[0] == ExitCode.STALLED
    assert desk.content == "1"


def test_the_keys_are_read_anew_by_every_run(desk: Desk, alice: Signer, tmp_path: Path) -> None:
    bob = ssh_signer(tmp_path, "bob")
    url, trust = desk.repository.path.as_uri(), _trusting(desk, alice)
    bob.commit(desk.repository, FILES)
    assert desk.run(url, *trust)[0] == ExitCode.STALLED
    desk.write("signers", b"bob@example.test " + bob.public + b"\n")
    assert desk.run(url, *trust)[0] == ExitCode.DONE


def test_a_rewritten_branch_is_refused_where_rewriting_is(desk: Desk) -> None:
    url = desk.repository.path.as_uri()
    desk.repository.commit(FILES)
    assert desk.run(url, "--no-rewrite")[0] == ExitCode.DONE
    desk.repository.commit({"s/a": "2"})
    assert desk.run(url, "--no-rewrite")[0] == ExitCode.DONE, "a branch that goes on is followed"
    desk.repository.commit({"s/a": "other"}, branch="elsewhere")
    desk.repository.set_branch("main", desk.repository.tip("elsewhere"))
    code, said, _ = desk.run(url, "--no-rewrite")
    assert (code, said["reason"]) == (ExitCode.STALLED, "HistoryRewritten")
    assert desk.content == "2"
    assert desk.run(url)[0] == ExitCode.DONE, "without the flag it is followed"
    assert desk.content == "other"


# Who lets it in.


def test_a_key_opens_a_repository_over_ssh(desk: Desk, git_ssh: GitSshServer) -> None:
    desk.repository.commit(FILES)
    flags = [f"--ssh-key-file={git_ssh.authorized_key()}", f"--known-hosts-file={git_ssh.known_hosts}"]
    code, said, errors = desk.run(git_ssh.url("plant.git"), *flags, "--require-known-hosts")
    assert (code, desk.content) == (ExitCode.DONE, "1"), (said, errors)
    assert errors == ""


def test_without_known_hosts_it_warns_or_refuses(desk: Desk, git_ssh: GitSshServer) -> None:
    desk.repository.commit(FILES)
    key = f"--ssh-key-file={git_ssh.authorized_key()}"
    code, said, _ = desk.run(git_ssh.url("plant.git"), key, "--require-known-hosts")
    assert (code, desk.content) == (ExitCode.WRONG_INPUT, ""), said
    code, _, errors = desk.run(git_ssh.url("plant.git"), key)
    assert (code, desk.content) == (ExitCode.DONE, "1")
    assert "SSH host key verification disabled" in errors


def test_an_authority_of_ones_own_is_believed(desk: Desk, repositories: Path) -> None:
    desk.repository.commit(FILES)
    authority = Authority()
    with GitHttpServer.start(
        repositories, users={"x-access-token": TOKEN}, tls=authority.server().save(desk.place, "server")
    ) as server:
        token = f"--token-file={desk.write('token', TOKEN)}"
        code, said, _ = desk.run(server.url("plant.git"), token)
        assert (code, said["reason"]) == (ExitCode.UNREACHABLE, "SourceUnreachable")
        code, said, errors = desk.run(
            server.url("plant.git"), token, f"--ca-file={desk.write('ca.pem', authority.pem)}"
        )
    assert (code, desk.content) == (ExitCode.DONE, "1"), (said, errors)


def test_a_proxy_is_gone_through(desk: Desk, git_http: GitHttpServer) -> None:
    desk.repository.commit(FILES)
    with HttpProxy.start() as proxy:
        code, said, errors = desk.run(git_http.url("plant.git"), f"--proxy={proxy.address}")
        assert (code, desk.content) == (ExitCode.DONE, "1"), (said, errors)
        assert proxy.passages


def test_a_github_app_logs_in(desk: Desk, repositories: Path) -> None:
    desk.repository.commit(FILES)
    with GitHubAppServer.start(repositories, tokens={"nobody-has-this"}) as github:
        key = desk.write("app.pem", github.register(12, 3456))
        flags = ["--github-app-id=12", "--github-installation-id=3456", f"--github-key-file={key}"]
        code, said, errors = desk.run(github.url("plant.git"), *flags)
        assert (code, desk.content) == (ExitCode.DONE, "1"), (said, errors)
        assert len(github.given) == 1
        assert github.given[0] not in json.dumps(said) + errors

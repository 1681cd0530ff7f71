"""Authentication and signatures of `stoker sync`: each way once, through the command itself."""

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


class SyncSite:
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
        # A proxy of the machine itself must not take the place of the one under test.
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
def site(tmp_path: Path, repositories: Path) -> SyncSite:
    return SyncSite(tmp_path, repositories)


@pytest.fixture
def alice(tmp_path: Path) -> Signer:
    return ssh_signer(tmp_path, "alice")


def _trusting(site: SyncSite, signer: Signer) -> list[str]:
    signers = site.write("signers", b"alice@example.test " + signer.public + b"\n")
    return ["--verify-signatures=commit", f"--allowed-signers-file={signers}"]


# Whose commits.


def test_an_unsigned_commit_is_refused_and_nothing_is_written(site: SyncSite, alice: Signer) -> None:
    site.repository.commit(FILES)
    code, output, _ = site.run(site.repository.path.as_uri(), *_trusting(site, alice))
    assert code == ExitCode.STALLED
    assert site.repository.tip() in output["message"]
    assert "is not signed" in output["message"]
    assert not [path for path in site.data.rglob("*") if path.is_file() and ".sync-state" not in path.parts]


def test_a_signed_commit_is_accepted_and_an_unsigned_one_after_it_is_not(
    site: SyncSite, alice: Signer
) -> None:
    url, trust = site.repository.path.as_uri(), _trusting(site, alice)
    commit = alice.commit(site.repository, FILES)
    code, output, errors = site.run(url, *trust)
    assert (code, output.get("commit")) == (ExitCode.DONE, commit), (output, errors)
    assert site.content == "1"
    site.repository.commit({"s/a": "2"})
    assert site.run(url, *trust)[0] == ExitCode.STALLED
    assert site.content == "1"


def test_the_keys_are_read_anew_by_every_run(site: SyncSite, alice: Signer, tmp_path: Path) -> None:
    bob = ssh_signer(tmp_path, "bob")
    url, trust = site.repository.path.as_uri(), _trusting(site, alice)
    bob.commit(site.repository, FILES)
    assert site.run(url, *trust)[0] == ExitCode.STALLED
    site.write("signers", b"bob@example.test " + bob.public + b"\n")
    assert site.run(url, *trust)[0] == ExitCode.DONE


def test_a_rewritten_branch_is_refused_where_rewriting_is(site: SyncSite) -> None:
    url = site.repository.path.as_uri()
    site.repository.commit(FILES)
    assert site.run(url, "--no-rewrite")[0] == ExitCode.DONE
    site.repository.commit({"s/a": "2"})
    assert site.run(url, "--no-rewrite")[0] == ExitCode.DONE, "a branch that goes on is followed"
    site.repository.commit({"s/a": "other"}, branch="elsewhere")
    site.repository.set_branch("main", site.repository.tip("elsewhere"))
    code, output, _ = site.run(url, "--no-rewrite")
    assert (code, output["reason"]) == (ExitCode.STALLED, "HistoryRewritten")
    assert site.content == "2"
    assert site.run(url)[0] == ExitCode.DONE, "without the flag it is followed"
    assert site.content == "other"


# Who lets it in.


def test_a_key_opens_a_repository_over_ssh(site: SyncSite, git_ssh: GitSshServer) -> None:
    site.repository.commit(FILES)
    flags = [f"--ssh-key-file={git_ssh.authorized_key()}", f"--known-hosts-file={git_ssh.known_hosts}"]
    code, output, errors = site.run(git_ssh.url("plant.git"), *flags, "--require-known-hosts")
    assert (code, site.content) == (ExitCode.DONE, "1"), (output, errors)
    assert errors == ""


def test_without_known_hosts_it_warns_or_refuses(site: SyncSite, git_ssh: GitSshServer) -> None:
    site.repository.commit(FILES)
    key = f"--ssh-key-file={git_ssh.authorized_key()}"
    code, output, _ = site.run(git_ssh.url("plant.git"), key, "--require-known-hosts")
    assert (code, site.content) == (ExitCode.WRONG_INPUT, ""), output
    code, _, errors = site.run(git_ssh.url("plant.git"), key)
    assert (code, site.content) == (ExitCode.DONE, "1")
    assert "SSH host key verification disabled" in errors


def test_a_private_authority_is_trusted(site: SyncSite, repositories: Path) -> None:
    site.repository.commit(FILES)
    authority = Authority()
    with GitHttpServer.start(
        repositories, users={"x-access-token": TOKEN}, tls=authority.server().save(site.place, "server")
    ) as server:
        token = f"--token-file={site.write('token', TOKEN)}"
        code, output, _ = site.run(server.url("plant.git"), token)
        assert (code, output["reason"]) == (ExitCode.UNREACHABLE, "SourceUnreachable")
        code, output, errors = site.run(
            server.url("plant.git"), token, f"--ca-file={site.write('ca.pem', authority.pem)}"
        )
    assert (code, site.content) == (ExitCode.DONE, "1"), (output, errors)


def test_a_proxy_is_gone_through(site: SyncSite, git_http: GitHttpServer) -> None:
    site.repository.commit(FILES)
    with HttpProxy.start() as proxy:
        code, output, errors = site.run(git_http.url("plant.git"), f"--proxy={proxy.address}")
        assert (code, site.content) == (ExitCode.DONE, "1"), (output, errors)
        assert proxy.passages


def test_a_github_app_logs_in(site: SyncSite, repositories: Path) -> None:
    site.repository.commit(FILES)
    with GitHubAppServer.start(repositories, tokens={"nobody-has-this"}) as github:
        key = site.write("app.pem", github.register(12, 3456))
        flags = ["--github-app-id=12", "--github-installation-id=3456", f"--github-key-file={key}"]
        code, output, errors = site.run(github.url("plant.git"), *flags)
        assert (code, site.content) == (ExitCode.DONE, "1"), (output, errors)
        assert len(github.given) == 1
        assert github.given[0] not in json.dumps(output) + errors

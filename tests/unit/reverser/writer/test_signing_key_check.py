"""A key is tried before it is used, and git accepts what it signs on a branch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.git.commit.branch import RemoteBranch
from stoker.git.commit.types import CommitAuthor, FileEdit, NewCommit
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import local_remote
from stoker.git.signature.sign import SigningFailed
from stoker.reverser.writer.signing_key_check import check_signing_key
from stoker_testkit.repositories.bare_repository import WHEN, GitCommandFailed, Repository
from stoker_testkit.repositories.ssh_keys import KeyKind, make_ssh_key

ROBOT = CommitAuthor("gitops-reverser", "gitops-reverser@example.test")


def verify(repository: Repository, commit: str, allowed: Path) -> None:
    config = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "gpg.ssh.allowedSignersFile"}
    repository.git("verify-commit", commit, env=config | {"GIT_CONFIG_VALUE_0": str(allowed)})


@pytest.mark.parametrize("kind", list(KeyKind))
async def test_git_verifies_every_commit_that_is_pushed(tmp_path: Path, kind: KeyKind) -> None:
    key = make_ssh_key(tmp_path / "key", kind)
    signing = await check_signing_key(Secret(key.private.read_bytes()), tmp_path / "cache")
    assert signing.public_key == key.public_line
    repository = Repository.create(tmp_path / "r.git")
    cache = tmp_path / "cache"
    branch = RemoteBranch(
        local_remote(GitRunner(cache), repository.path), cache, "main", signer=signing.signer
    )
    new = [NewCommit(ROBOT, ROBOT, f"{n}", (FileEdit(f"{n}", b"x"),), WHEN + n) for n in range(2)]
    pushed = await branch.commit(new)
    allowed = tmp_path / "allowed"
    allowed.write_text(f"{ROBOT.email} {signing.public_key}\n")
    assert len(pushed.commits) == 2
    for commit in pushed.commits:
        verify(repository, commit, allowed)
    other = make_ssh_key(tmp_path / "other", kind)
    allowed.write_text(f"{ROBOT.email} {other.public_line}\n")
    with pytest.raises(GitCommandFailed):
        verify(repository, pushed.commits[0], allowed)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (b"", "not a private key"),
        (b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI", "is a public key"),
        (
            b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
            "does not accept",
        ),
        (b"x" * 70_000, "larger than"),
    ],
)
async def test_a_key_that_cannot_sign_is_refused_with_the_reason(
    tmp_path: Path, key: bytes, says: str
) -> None:
    with pytest.raises(SigningFailed, match=says) as caught:
        await check_signing_key(Secret(key), tmp_path / "cache")
    assert caught.value.reason == Reason.SIGNING_FAILED
    assert isinstance(caught.value, Stalled)


async def test_a_key_behind_a_passphrase_is_refused(tmp_path: Path) -> None:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "a passphrase", "-f", str(tmp_path / "locked")]
    subprocess.run(argv, check=True, timeout=30)  # noqa: ASYNC221 - nothing else runs
    with pytest.raises(SigningFailed, match="without a passphrase"):
        await check_signing_key(Secret((tmp_path / "locked").read_bytes()), tmp_path / "cache")

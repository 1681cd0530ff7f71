"""Keys of every kind sign, and what git checks, it accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.git.commit.types import CommitAuthor, FileEdit, NewCommit, commit_object, with_signature
from stoker.git.signature.sign import SigningFailed, SshSigner
from stoker_testkit.repositories.bare_repository import WHEN, GitCommandFailed, Repository
from stoker_testkit.repositories.ssh_keys import KeyKind, make_ssh_key

ALICE = CommitAuthor("Alice", "alice@example.test")
NEW = NewCommit(ALICE, ALICE, "One\n\nTwo", (FileEdit("a", b"1"),), WHEN)


def verified(repository: Repository, commit: str, allowed: Path) -> bytes:
    config = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "gpg.ssh.allowedSignersFile"}
    return repository.git("verify-commit", "--raw", commit, env=config | {"GIT_CONFIG_VALUE_0": str(allowed)})


@pytest.mark.parametrize("kind", list(KeyKind))
@pytest.mark.parametrize(("object_format", "digits"), [("sha1", 40), ("sha256", 64)])
async def test_git_accepts_what_was_signed(
    tmp_path: Path, kind: KeyKind, object_format: str, digits: int
) -> None:
    key = make_ssh_key(tmp_path / "key", kind)
    signer = SshSigner(Secret(key.private.read_bytes()), tmp_path / "cache")
    assert await signer.public_key() == key.public_line
    repository = Repository.create(tmp_path / "r.git", object_format=object_format)
    tree = repository.git("hash-object", "-t", "tree", "-w", "--stdin", stdin=b"").decode().strip()
    payload = commit_object(tree, None, NEW)
    signed = with_signature(payload, await signer.sign(payload), digits)
    commit = repository.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=signed).decode().strip()
    allowed = tmp_path / "allowed"
    allowed.write_text(f"alice@example.test {key.public_line}\n")
    verified(repository, commit, allowed)
    repository.git("fsck", "--strict", commit)
    other = make_ssh_key(tmp_path / "other", kind)
    allowed.write_text(f"alice@example.test {other.public_line}\n")
    with pytest.raises(GitCommandFailed, match="verify-commit"):
        verified(repository, commit, allowed)


async def test_the_key_is_stored_nowhere_afterwards(tmp_path: Path) -> None:
    key = make_ssh_key(tmp_path / "key")
    signer = SshSigner(Secret(key.private.read_bytes()), tmp_path / "cache")
    await signer.sign(b"x")
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []
    assert "PRIVATE" not in repr(vars(signer))


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (b"", "not a private key"),
        (b"ssh-ed25519 AAAA", "public key"),
        (
            b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
            "does not accept",
        ),
    ],
)
async def test_a_key_that_cannot_sign_is_named_as_the_cause(tmp_path: Path, key: bytes, says: str) -> None:
    with pytest.raises(SigningFailed, match=says) as caught:
        await SshSigner(Secret(key), tmp_path / "cache").sign(b"x")
    assert caught.value.reason == Reason.SIGNING_FAILED

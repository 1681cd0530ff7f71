"""People who sign commits and tags, with keys of their own made on the spot.

Signing is git's own: `commit-tree -S` and `tag -s`, with an environment that names the
program and key to use. Nothing of the machine's own keys or agents is touched; a GPG
home has a short path, because its agent's socket must fit into one.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stoker.domain.refs import CommitId
from stoker_testkit.repositories.bare_repository import WHEN, Repository
from stoker_testkit.repositories.ssh_keys import KeyKind, make_ssh_key

_KEY = """\
%no-protection
Key-Type: eddsa
Key-Curve: ed25519
Name-Real: {name}
Name-Email: {email}
Expire-Date: {expires}
%commit
"""


@dataclass(frozen=True, slots=True)
class Signer:
    """A signer with a key: the settings with which git signs, and what verifiers trust."""

    config: Mapping[str, str]
    public: bytes = field(repr=False)
    """A line `type base64` of an ssh key, or an armoured GPG key."""

    def commit(
        self, repository: Repository, files: Mapping[str, str], *, branch: str = "main", when: int = WHEN
    ) -> CommitId:
        """Put a signed commit on a branch."""
        parents = [repository.tip(branch)] if repository.has_branch(branch) else []
        plain = repository.commit(files, branch=branch)
        options = [option for parent in parents for option in ("-p", parent)]
        arguments = ("commit-tree", "-S", *options, "-m", "Signed", f"{plain}^{{tree}}")
        commit = CommitId(repository.git(*arguments, env=self.environment(when)).decode().strip())
        repository.set_branch(branch, commit)
        return commit

    def tag(
        self, repository: Repository, name: str, target: str, *, message: str = "Release", when: int = WHEN
    ) -> str:
        """A signed tag; returns the id of its object."""
        arguments = ("tag", "--force", "-s", f"--message={message}", name, target)
        repository.git(*arguments, env=self.environment(when))
        return repository.git("rev-parse", f"refs/tags/{name}").decode().strip()

    def environment(self, when: int = WHEN) -> dict[str, str]:
        """The environment with which git signs."""
        environment = {"GIT_CONFIG_COUNT": str(len(self.config))}
        for number, (key, value) in enumerate(self.config.items()):
            environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        for role in ("AUTHOR", "COMMITTER"):
            environment |= {
                f"GIT_{role}_NAME": "Test Author",
                f"GIT_{role}_EMAIL": "author@example.test",
                f"GIT_{role}_DATE": f"{when} +0000",
            }
        return environment


def ssh_signer(folder: Path, name: str, kind: KeyKind = KeyKind.ED25519) -> Signer:
    """A new ssh key in `folder`."""
    key = make_ssh_key(folder / name, kind)
    (folder / f"{name}.pub").write_text(key.public_line + "\n")
    return _ssh(folder / name, key.public_line.encode())


def certified_signer(folder: Path, name: str, *, principals: str, valid: str = "always:forever") -> Signer:
    """A new ssh key with a certificate for these principals; `public` is the key of the authority."""
    authority = make_ssh_key(folder / f"{name}-ca")
    ssh_signer(folder, name)
    identity = ["-I", name, "-n", principals, "-V", valid]
    _run("ssh-keygen", "-q", "-s", str(authority.private), *identity, str(folder / f"{name}.pub"))
    return _ssh(folder / f"{name}-cert.pub", authority.public_line.encode())


def _ssh(key: Path, public: bytes) -> Signer:
    return Signer({"gpg.format": "ssh", "user.signingkey": str(key)}, public)


@dataclass(frozen=True, slots=True)
class GpgHome:
    """A folder with GPG keys of tests; each key has a program that signs with it alone."""

    folder: Path

    @classmethod
    @contextmanager
    def make(cls) -> Iterator[GpgHome]:
        """A home that lasts as long as the context, and its agent with it."""
        folder = Path(tempfile.mkdtemp(prefix="gpg-", dir="/tmp"))
        try:
            yield cls(folder)
        finally:
            _run("gpgconf", "--homedir", str(folder), "--kill", "all")
            shutil.rmtree(folder, ignore_errors=True)

    def signer(
        self, name: str, *, user: str = "", expires: str = "0", options: str = "", at: str = ""
    ) -> Signer:
        """A new key; `options` are further ones of gpg when it signs, `at` is when (20250101T000000)."""
        gpg = f"gpg --homedir={self.folder} --batch --no-tty --quiet"
        if at:
            gpg += f" --faked-system-time={at}!"
        words = _KEY.format(name=user or name, email=f"{name}@example.test", expires=expires)
        _run(*gpg.split(), "--gen-key", stdin=words.encode())
        program = self.folder / f"gpg-{name}"
        program.write_text(f'#!/bin/sh\nexec {gpg} {options} "$@"\n')
        program.chmod(0o700)
        config = {
            "gpg.format": "openpgp",
            "gpg.program": str(program),
            "user.signingkey": f"<{name}@example.test>",
        }
        return Signer(config, self.export(name))

    def revoke(self, name: str) -> bytes:
        """The key as it is after its owner revoked it."""
        fingerprint = self.fingerprint(name)
        certificate = (self.folder / f"openpgp-revocs.d/{fingerprint}.rev").read_text()
        self.gpg("--import", stdin=certificate.replace(":-----BEGIN", "-----BEGIN").encode())
        return self.export(name)

    def fingerprint(self, name: str) -> str:
        listing = self.gpg("--with-colons", "--list-keys", f"<{name}@example.test>").decode()
        return next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:"))

    def export(self, name: str) -> bytes:
        return self.gpg("--armor", "--export", f"<{name}@example.test>")

    def gpg(self, *args: str, stdin: bytes = b"") -> bytes:
        return _run("gpg", f"--homedir={self.folder}", "--batch", "--no-tty", "--quiet", *args, stdin=stdin)


def _run(*argv: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(argv, input=stdin, capture_output=True, check=True).stdout

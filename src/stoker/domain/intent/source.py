"""Where the desired files come from, and how to authenticate there."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stoker.domain.refs import GitRef, RepoUrl

MINTED_KEY = "token"
"""The key under which the controller stores the short-lived token of a GitHub App."""


class SecretKey(NamedTuple):
    """One key of a Secret in the resource's own namespace."""

    name: str
    key: str
    """Empty for a file that a command-line option names; then `name` is that option."""

    @property
    def title(self) -> str:
        """The key as messages name it."""
        return f"key {self.key!r} of Secret {self.name!r}" if self.key else self.name


class GitAuthKind(StrEnum):
    NONE = "none"
    SSH = "ssh"
    TOKEN = "token"  # noqa: S105 - the name of a way to authenticate
    BASIC = "basic"
    GITHUB_APP = "githubApp"


class GitAuthPolicy(NamedTuple):
    """How git authenticates; `kind` determines which fields are set.

    `BASIC` names the key of the password; the user name is beside it under `username`.
    """

    kind: GitAuthKind = GitAuthKind.NONE
    secret: SecretKey | None = None
    known_hosts: SecretKey | None = None
    app_id: int | None = None
    installation_id: int | None = None


class SignatureMode(StrEnum):
    NONE = "none"
    COMMIT = "commit"
    TAG = "tag"


class SignaturePolicy(NamedTuple):
    """The signature that a commit must carry before anything of it is applied."""

    mode: SignatureMode = SignatureMode.NONE
    allowed_signers: SecretKey | None = None
    gpg_keys: SecretKey | None = None


class SourceIntent(NamedTuple):
    """A repository and the wanted ref."""

    url: RepoUrl
    ref: GitRef
    auth: GitAuthPolicy = GitAuthPolicy()
    ca: SecretKey | None = None
    proxy: str = ""
    allow_rewrite: bool = True
    signatures: SignaturePolicy = SignaturePolicy()

"""Readers for the repository's credentials and for the trusted signing keys.

A source names keys of Secrets. A `SecretLookup` knows where those are stored: in files of this machine or in
mounts of a pod. Every use reads them again; nothing is kept between two uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stoker.domain.intent.source import MINTED_KEY, GitAuthKind, GitAuthPolicy, SecretKey, SourceIntent
from stoker.git.auth.credentials import RepoAccess, RepoAccessReader
from stoker.git.auth.secret_login import login_access, source_access, source_keys

if TYPE_CHECKING:
    from stoker.git.signature.policy import TrustedKeysReader
    from stoker.git.signature.verify import TrustedKeys


class SecretLookup(Protocol):
    """Finds a key of a Secret; raises an error that names Secret and key if it is missing."""

    def has(self, wanted: SecretKey) -> bool: ...

    def read(self, wanted: SecretKey) -> bytes: ...


def access_reader(
    source: SourceIntent,
    secrets: SecretLookup,
    *,
    username: str = "",
    require_known_hosts: bool = False,
    pushes: bool = False,
) -> RepoAccessReader:
    """Return a reader of the source's login, called whenever git needs it; `username` goes with a token.

    With `pushes`, the token of a GitHub App can write; otherwise it can only read.
    """
    app = (
        _app_access_reader(source, secrets, pushes=pushes)
        if source.auth.kind is GitAuthKind.GITHUB_APP
        else None
    )

    async def read() -> RepoAccess:
        minted = _minted_token(source, secrets)
        if app is not None and minted is None:
            return await app()
        direct = source if minted is None else source._replace(auth=minted)
        return login_access(
            direct, _read_keys(direct, secrets), username=username, require_known_hosts=require_known_hosts
        )

    return read


def keys_reader(source: SourceIntent, secrets: SecretLookup) -> TrustedKeysReader:
    """Return a reader of the trusted signing keys, called at each use."""
    policy = source.signatures

    async def read() -> TrustedKeys:
        from stoker.git.signature.verify import TrustedKeys  # noqa: PLC0415 - most sources verify no signatures

        signers, gpg = policy.allowed_signers, policy.gpg_keys
        return TrustedKeys(
            None if signers is None else secrets.read(signers), None if gpg is None else secrets.read(gpg)
        )

    return read


def _minted_token(source: SourceIntent, secrets: SecretLookup) -> GitAuthPolicy | None:
    """Return the login with the token that the controller issued for a GitHub App; its key is not needed."""
    secret = source.auth.secret
    if source.auth.kind is not GitAuthKind.GITHUB_APP or secret is None or secret.key == MINTED_KEY:
        return None
    token = SecretKey(secret.name, MINTED_KEY)
    return GitAuthPolicy(GitAuthKind.TOKEN, token) if secrets.has(token) else None


def _app_access_reader(source: SourceIntent, secrets: SecretLookup, *, pushes: bool) -> RepoAccessReader:
    from stoker.git.auth.github_app import (  # noqa: PLC0415 - few sources use a GitHub App
        GitHubAppTokens,
        TokenRights,
    )

    tokens, rights = GitHubAppTokens(), TokenRights.PUSH if pushes else TokenRights.READ

    async def read() -> RepoAccess:
        return await source_access(source, _read_keys(source, secrets), tokens, rights)

    return read


def _read_keys(source: SourceIntent, secrets: SecretLookup) -> dict[SecretKey, bytes]:
    return {key: secrets.read(key) for key in source_keys(source)}

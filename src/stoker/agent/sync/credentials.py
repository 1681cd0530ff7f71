"""Readers for the repository's credentials and for the trusted signing keys.

A source names keys of Secrets. A `SecretLookup` knows where those are stored: in files of this machine or in
mounts of a pod. Every use reads them again; nothing is kept between two uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stoker.domain.errors import Misconfigured
from stoker.domain.intent.source import GitAuthKind, SecretKey, SourceIntent
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import (
    TOKEN_USER,
    GitLogin,
    GitPassword,
    GitSshKey,
    RepoAccess,
    RepoAccessReader,
)

if TYPE_CHECKING:
    from stoker.git.signature.policy import TrustedKeysReader
    from stoker.git.signature.verify import TrustedKeys

MINTED_KEY = "token"
"""The key under which the controller stores the short-lived token of a GitHub App."""


class SecretLookup(Protocol):
    """Finds a key of a Secret; raises an error that names Secret and key if it is missing."""

    def has(self, wanted: SecretKey) -> bool: ...

    def read(self, wanted: SecretKey) -> bytes: ...

    def line(self, wanted: SecretKey) -> Secret: ...


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
        if app is not None and not _is_token_minted(source, secrets):
            return await app()
        return RepoAccess(
            _login(source, secrets, username or TOKEN_USER),
            ca=_secret_bytes(secrets, source.ca),
            proxy=source.proxy,
            require_known_hosts=require_known_hosts,
        )

    return read


def keys_reader(source: SourceIntent, secrets: SecretLookup) -> TrustedKeysReader:
    """Return a reader of the trusted signing keys, called at each use."""
    policy = source.signatures

    async def read() -> TrustedKeys:
        from stoker.git.signature.verify import TrustedKeys  # noqa: PLC0415 - most sources verify no signatures

        return TrustedKeys(
            _secret_bytes(secrets, policy.allowed_signers), _secret_bytes(secrets, policy.gpg_keys)
        )

    return read


def _login(source: SourceIntent, secrets: SecretLookup, username: str) -> GitLogin | None:
    auth = source.auth
    if auth.secret is None or auth.kind is GitAuthKind.NONE:
        return None
    if auth.kind is GitAuthKind.GITHUB_APP:
        return GitPassword(TOKEN_USER, secrets.line(SecretKey(auth.secret.name, MINTED_KEY)))
    if auth.kind is GitAuthKind.TOKEN:
        return GitPassword(username, secrets.line(auth.secret))
    if auth.kind is GitAuthKind.BASIC:
        name = secrets.line(SecretKey(auth.secret.name, "username"))
        return GitPassword(name.reveal(), secrets.line(auth.secret))
    return GitSshKey(Secret(secrets.read(auth.secret)), _secret_bytes(secrets, auth.known_hosts))


def _is_token_minted(source: SourceIntent, secrets: SecretLookup) -> bool:
    """Return whether the controller already issued a token for the app; then its key is not needed."""
    secret = source.auth.secret
    return secret is not None and secret.key != MINTED_KEY and secrets.has(SecretKey(secret.name, MINTED_KEY))


def _app_access_reader(source: SourceIntent, secrets: SecretLookup, *, pushes: bool) -> RepoAccessReader:
    from stoker.git.auth.github_app import (  # noqa: PLC0415 - few sources use a GitHub App
        GitHubApp,
        GitHubAppTokens,
        TokenRights,
    )

    tokens, rights = GitHubAppTokens(), TokenRights.PUSH if pushes else TokenRights.READ

    async def read() -> RepoAccess:
        auth = source.auth
        if auth.secret is None or auth.app_id is None or auth.installation_id is None:
            raise Misconfigured("a GitHub App needs its id, its installation's id and its private key")
        app = GitHubApp(auth.app_id, auth.installation_id, Secret(secrets.read(auth.secret)))
        return await tokens.access(
            app, source.url, rights, ca=_secret_bytes(secrets, source.ca), proxy=source.proxy
        )

    return read


def _secret_bytes(secrets: SecretLookup, key: SecretKey | None) -> bytes | None:
    return None if key is None else secrets.read(key)

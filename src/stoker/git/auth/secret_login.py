"""Turns the keys of Secrets into the login and the connection settings of a repository.

The controller reads the Secrets from the API server, an agent from mounts, a command from files. Each of them
fetches the bytes of `source_keys` and reports a missing key with the place where it looked. This module does
the rest for all of them, so that a Secret opens a repository in every process or in none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.source import GitAuthKind, GitAuthPolicy, SecretKey, SourceIntent
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret, one_line_secret
from stoker.git.auth.credentials import TOKEN_USER, GitLogin, GitPassword, GitSshKey, RepoAccess

if TYPE_CHECKING:
    from stoker.git.auth.github_app import GitHubApp, GitHubAppTokens, TokenRights

SSH_KEYS = ("ssh-privatekey", "identity")
"""The names under which a Secret may hold an ssh key; the first that exists counts."""
_USER = "username"


def login_keys(auth: GitAuthPolicy) -> tuple[SecretKey, ...]:
    """Return the keys that this way to authenticate needs."""
    if auth.kind is GitAuthKind.NONE or auth.secret is None:
        return ()
    if auth.kind is GitAuthKind.BASIC:
        return SecretKey(auth.secret.name, _USER), auth.secret
    if auth.kind is GitAuthKind.SSH and auth.known_hosts is not None:
        return auth.secret, auth.known_hosts
    return (auth.secret,)


def source_keys(source: SourceIntent) -> tuple[SecretKey, ...]:
    """Return the keys that access to a source needs: those of its login, and its CA certificates."""
    return login_keys(source.auth) + (() if source.ca is None else (source.ca,))


async def source_access(
    source: SourceIntent,
    values: Mapping[SecretKey, bytes],
    apps: GitHubAppTokens,
    rights: TokenRights,
    *,
    require_known_hosts: bool = False,
) -> RepoAccess:
    """Return the access to a source; `values` has its `source_keys`, `rights` applies to app tokens."""
    if source.auth.kind is GitAuthKind.GITHUB_APP:
        app = github_app(source.auth, values)
        return await apps.access(app, source.url, rights, ca=_ca(source, values), proxy=source.proxy)
    return login_access(source, values, require_known_hosts=require_known_hosts)


def login_access(
    source: SourceIntent,
    values: Mapping[SecretKey, bytes],
    *,
    username: str = "",
    require_known_hosts: bool = False,
) -> RepoAccess:
    """Return the access to a source that authenticates with what its Secret holds, not as a GitHub App."""
    return RepoAccess(
        git_login(source.auth, values, username),
        ca=_ca(source, values),
        proxy=source.proxy,
        require_known_hosts=require_known_hosts,
    )


def git_login(auth: GitAuthPolicy, values: Mapping[SecretKey, bytes], username: str = "") -> GitLogin | None:
    """Return the login, None if the source needs none; `username` goes with a token."""
    if auth.kind is GitAuthKind.NONE or auth.secret is None:
        return None
    if auth.kind is GitAuthKind.SSH:
        hosts = None if auth.known_hosts is None else values[auth.known_hosts]
        return GitSshKey(Secret(values[auth.secret]), hosts)
    password = _line(auth.secret, values)
    if auth.kind is GitAuthKind.BASIC:
        username = _line(SecretKey(auth.secret.name, _USER), values).reveal()
    return GitPassword(username or TOKEN_USER, password)


def github_app(auth: GitAuthPolicy, values: Mapping[SecretKey, bytes]) -> GitHubApp:
    """Return the app with its private key; raise if the source does not name all of it."""
    from stoker.git.auth.github_app import GitHubApp  # noqa: PLC0415 - few sources use a GitHub App

    if auth.secret is None or auth.app_id is None or auth.installation_id is None:
        raise InvalidValue(
            "a GitHub App needs its id, its installation's id and its private key", reason=Reason.INVALID_SPEC
        )
    return GitHubApp(auth.app_id, auth.installation_id, Secret(values[auth.secret]))


def auth_by_keys(secret: str, keys: Collection[str]) -> GitAuthPolicy:
    """Return how to authenticate with a Secret whose keys alone decide: ssh key, token or password."""
    ssh = next((key for key in SSH_KEYS if key in keys), None)
    if ssh is not None:
        hosts = SecretKey(secret, "known_hosts") if "known_hosts" in keys else None
        return GitAuthPolicy(GitAuthKind.SSH, SecretKey(secret, ssh), hosts)
    if "token" in keys and _USER not in keys:
        return GitAuthPolicy(GitAuthKind.TOKEN, SecretKey(secret, "token"))
    return GitAuthPolicy(GitAuthKind.BASIC, SecretKey(secret, "token" if "token" in keys else "password"))


def _line(key: SecretKey, values: Mapping[SecretKey, bytes]) -> Secret:
    """Return a value that must be one line, because git gets it in an environment variable."""
    return one_line_secret(values[key], key.title)


def _ca(source: SourceIntent, values: Mapping[SecretKey, bytes]) -> bytes | None:
    return None if source.ca is None else values[source.ca]

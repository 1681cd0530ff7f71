"""Credentials and connection settings of a repository, as values.

A `RepoAccessReader` reads a `RepoAccess` again for each call that contacts the source, because the Secret or
file behind it may have changed; no caller keeps it longer than that call. `stoker.git.auth.git_env` turns
it into the environment of one git process. Secrets must never be shown, so the representations of these
values omit them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import RepoUrl
from stoker.domain.secrets import Secret
from stoker.engine.artifact_source import ArtifactCredentials

TOKEN_USER = "x-access-token"  # noqa: S105 - the user name that forges expect beside a token
_TELLING = 16  # shorter words of a key (from its BEGIN line, its last line) also occur in harmless text


@dataclass(frozen=True, slots=True)
class GitPassword:
    """A password or token over https."""

    username: str
    password: Secret

    def __post_init__(self) -> None:
        if not self.password.is_one_line or not Secret(self.username).is_one_line:
            raise InvalidValue("a user name or password for git is not one line of text")


class GitSshKey(NamedTuple):
    """A private key without a passphrase, and the keys that the server may have."""

    key: Secret
    known_hosts: bytes | None = None
    """None: any host key is accepted, and each connection logs a warning."""


GitLogin: TypeAlias = GitPassword | GitSshKey


@dataclass(frozen=True, slots=True)
class RepoAccess:
    """The current credentials and connection settings of one repository."""

    login: GitLogin | None = None
    ca: bytes | None = None
    """Certificates in PEM form that are trusted in addition to the system's."""
    proxy: str = field(default="", repr=False)
    """Proxy for https; it may contain a user and password. Empty: use the proxy variables of the process."""
    subject: str = ""
    """A stable identity for a login that changes all the time, as the token of a GitHub App does."""
    require_known_hosts: bool = False
    refused: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    """Called when the source refuses the login, so that a cache of logins drops it."""

    def hidden(self) -> Iterator[str]:
        """Yield every secret that must not appear in a message, in each form that it may have there."""
        if isinstance(self.login, GitPassword):
            password = self.login.password.reveal()
            both = f"{self.login.username}:{password}"
            yield from (password, quote(password, safe=""), base64.b64encode(both.encode()).decode())
        elif isinstance(self.login, GitSshKey):
            key = self.login.key.reveal_bytes().decode(errors="replace")
            yield from (line for line in key.split() if len(line) >= _TELLING)
        yield from proxy_secrets(self.proxy)


RepoAccessReader: TypeAlias = Callable[[], Awaitable[RepoAccess]]


def fixed_access(access: RepoAccess) -> RepoAccessReader:
    """Return a reader for an access that cannot change, such as no login at all."""

    async def read() -> RepoAccess:
        return access

    return read


def credentials_of(access: RepoAccess) -> ArtifactCredentials:
    """Convert to credentials for a registry or a bucket; raise for an ssh key, which they do not support."""
    if isinstance(access.login, GitSshKey):
        raise InvalidValue(
            "a registry or a bucket cannot be opened with an ssh key; use a token or a password"
        )
    if access.login is None:
        return ArtifactCredentials(ca=access.ca, proxy=access.proxy)
    username, password = access.login.username, access.login.password
    return ArtifactCredentials(username, password, username == TOKEN_USER, access.ca, access.proxy)


def proxy_secrets(proxy: str) -> Iterator[str]:
    """Yield the parts of a proxy's address that must not be shown."""
    userinfo, at, _ = urlsplit(proxy if "://" in proxy else f"http://{proxy}").netloc.rpartition("@")
    _, colon, password = userinfo.partition(":")
    if at and colon:
        yield from (userinfo, password, unquote(password))


def access_identity(key: bytes, url: RepoUrl, access: RepoAccess) -> str:
    """Return a name for this repository as seen with this access, for the folder of its mirror.

    Two credentials for one address have different names. The name cannot be computed without `key` and
    reveals nothing about the credential. The proxy is part of it, because through another proxy the same
    host name may lead to another server.
    """
    digest = hmac.new(key, url.encode(), hashlib.sha256)
    for part in _access_fields(access):
        digest.update(b"\0%d\0" % len(part) + part)
    return digest.hexdigest()[:40]


def _access_fields(access: RepoAccess) -> Iterator[bytes]:
    if access.subject:
        yield from (b"subject", access.subject.encode())
    elif isinstance(access.login, GitPassword):
        yield from (b"password", access.login.username.encode(), access.login.password.reveal_bytes())
    elif isinstance(access.login, GitSshKey):
        yield from (b"ssh", access.login.key.reveal_bytes().strip())
    if access.proxy:
        yield from (b"proxy", access.proxy.encode())
    if access.ca is not None:
        yield from (b"ca", access.ca)

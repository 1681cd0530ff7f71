"""What opens a repository, as values.

An `RepoAccess` is read anew for each call that talks to the source (`RepoAccessReader`),
because the Secret or file behind it may have changed; it is held no longer than
that call. `stoker.git.auth.git_env` turns it into what one git process needs. Nothing
here may be shown: representations leave out what is secret.
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
_TELLING = 16  # shorter lines of a key (its frame, its last line) also stand in texts that are harmless


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
    """None: any server is believed, which is logged on each connection."""


GitLogin: TypeAlias = GitPassword | GitSshKey


@dataclass(frozen=True, slots=True)
class RepoAccess:
    """How one repository is reached now."""

    login: GitLogin | None = None
    ca: bytes | None = None
    """Certificates in PEM form that are trusted besides the system's."""
    proxy: str = field(default="", repr=False)
    """For https; user and password in it are a secret. Empty: what the process's environment names."""
    subject: str = ""
    """Who it is, where the login itself changes all the time, as a GitHub App's does."""
    require_known_hosts: bool = False
    refused: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    """Told that the source did not accept the login; whoever keeps such logins forgets this one."""

    def hidden(self) -> Iterator[str]:
        """Everything that must stand in no message, in each form that it may take there."""
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
    """A reader for what cannot change, such as no login at all."""

    async def read() -> RepoAccess:
        return access

    return read


def credentials_of(access: RepoAccess) -> ArtifactCredentials:
    """The same for a registry or a bucket, which knows no ssh."""
    if isinstance(access.login, GitSshKey):
        raise InvalidValue(
            "a registry or a bucket cannot be opened with an ssh key; use a token or a password"
        )
    if access.login is None:
        return ArtifactCredentials(ca=access.ca, proxy=access.proxy)
    username, password = access.login.username, access.login.password
    return ArtifactCredentials(username, password, username == TOKEN_USER, access.ca, access.proxy)


def proxy_secrets(proxy: str) -> Iterator[str]:
    """What must not be shown of a proxy's address."""
    userinfo, at, _ = urlsplit(proxy if "://" in proxy else f"http://{proxy}").netloc.rpartition("@")
    _, colon, password = userinfo.partition(":")
    if at and colon:
        yield from (userinfo, password, unquote(password))


def access_identity(key: bytes, url: RepoUrl, access: RepoAccess) -> str:
    """A name for what this access sees of this repository.

    Two users of one address never share it, nobody without `key` can compute it, and
    it says nothing about the credential. The proxy belongs to it: another one may
    lead to another server of the same name.
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

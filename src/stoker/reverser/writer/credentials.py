"""Read the credentials of a repository from the Secret of its GitRepoConfig, again for each use.

The keys of the Secret are `username` and `password`, or `token`, or `ssh-privatekey` (also `identity`) with
`known_hosts`; in addition `ca.crt` for a server with a private CA. No value is cached, so a rotated Secret
applies from the next call on.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import (
    TOKEN_USER,
    GitLogin,
    GitPassword,
    GitSshKey,
    RepoAccess,
    RepoAccessReader,
    fixed_access,
)
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import NotFound
from stoker.kube.client.resources import SECRETS
from stoker.reverser.manifest.named_secrets import SecretRef

SSH_KEYS = ("ssh-privatekey", "identity")


class _RepoConfigSecret(msgspec.Struct):
    """The fields of a Secret that are needed; it lives no longer than one call."""

    data: dict[str, str] = {}


class SecretValues:
    """The values of one Secret, for the time of one call; they are never formatted."""

    def __init__(self, ref: SecretRef, data: dict[str, str]) -> None:
        self._ref = ref
        self._data = data

    def has(self, key: str) -> bool:
        return bool(self._data.get(key))

    def value(self, *keys: str) -> Secret:
        """Return the value of the first of these keys that exists."""
        key = next((each for each in keys if self._data.get(each)), None)
        if key is None:
            raise Stalled(
                f"{self._where()} has nothing under key {' or '.join(map(repr, keys))}",
                reason=Reason.SECRET_NOT_FOUND,
            )
        try:
            return Secret(base64.b64decode(self._data[key]).strip())
        except binascii.Error:
            raise Stalled(
                f"key {key!r} of {self._where()} is not base64", reason=Reason.SECRET_NOT_FOUND
            ) from None

    def line(self, key: str) -> Secret:
        """Return a value that must be one line, because git gets it in an environment variable."""
        value = self.value(key)
        if not value.is_one_line:
            raise Stalled(
                f"{self._where()} holds more or other than a line of text under {key!r}",
                reason=Reason.INVALID_VALUE,
            )
        return value

    def _where(self) -> str:
        return f"Secret {self._ref.name!r} in namespace {self._ref.namespace!r}"


async def read_secret(client: KubeClient, ref: SecretRef) -> SecretValues:
    """Read the Secret; raise an error that names it if it does not exist."""
    try:
        found = await client.get(SECRETS, ref.name, ref.namespace, into=_RepoConfigSecret)
    except NotFound:
        raise Stalled(
            f"Secret {ref.name!r} does not exist in namespace {ref.namespace!r}",
            reason=Reason.SECRET_NOT_FOUND,
        ) from None
    return SecretValues(ref, found.data)


def access_reader(
    client: KubeClient, login: SecretRef | None, *, require_known_hosts: bool = False
) -> RepoAccessReader:
    """Return a reader that gets the login from its Secret whenever git needs it."""
    if login is None:
        return fixed_access(RepoAccess(require_known_hosts=require_known_hosts))
    ref = login

    async def read() -> RepoAccess:
        values = await read_secret(client, ref)
        ca = values.value("ca.crt").reveal_bytes() if values.has("ca.crt") else None
        return RepoAccess(_login(values), ca=ca, require_known_hosts=require_known_hosts)

    return read


def _login(values: SecretValues) -> GitLogin:
    if any(map(values.has, SSH_KEYS)):
        hosts = values.value("known_hosts").reveal_bytes() if values.has("known_hosts") else None
        return GitSshKey(values.value(*SSH_KEYS), hosts)
    if values.has("token"):
        user = values.line("username").reveal() if values.has("username") else TOKEN_USER
        return GitPassword(user, values.line("token"))
    return GitPassword(values.line("username").reveal(), values.line("password"))

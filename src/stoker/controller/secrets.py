"""Secrets that a resource names, read when they are needed and never kept.

A Secret that is missing, or lacks the key, is refused by its exact name: that is
what the person who made the resource has to mend. Only the resource's own
namespace is ever read.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from stoker.domain.errors import Stalled
from stoker.domain.intent.source import AuthKind, GitAuth, SecretKey
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.git.credentials import TOKEN_USER, Credentials
from stoker.kube.client import Client
from stoker.kube.errors import NotFound
from stoker.kube.resources import SECRETS


class _SecretObject(msgspec.Struct):
    """As much of a Secret as is needed; it lives no longer than one call."""

    data: dict[str, str] = {}


class SecretReader:
    """Reads Secrets of one namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def value(self, wanted: SecretKey) -> Secret:
        return (await self._values(wanted.name, wanted.key))[0]

    async def credentials(self, auth: GitAuth) -> Credentials | None:
        """What git needs to log in; nothing where no login was asked for."""
        if auth.kind is AuthKind.NONE or auth.secret is None:
            return None
        if auth.kind is AuthKind.TOKEN:
            return Credentials(TOKEN_USER, self._line(await self.value(auth.secret), auth.secret.name))
        if auth.kind is AuthKind.BASIC:
            values = await self._values(auth.secret.name, "username", "password")
            username, password = (self._line(value, auth.secret.name) for value in values)
            return Credentials(username.reveal(), password)
        raise Stalled(
            f"this version cannot log in to git with {auth.kind}; use git.auth.token or git.auth.basic",
            reason=Reason.FEATURE_NOT_RUNNING,
        )

    async def _values(self, name: str, *keys: str) -> list[Secret]:
        try:
            found = await self._client.get(SECRETS, name, self._namespace, into=_SecretObject)
        except NotFound:
            raise Stalled(
                f"Secret {name!r} does not exist in namespace {self._namespace!r}",
                reason=Reason.SECRET_NOT_FOUND,
            ) from None
        return [self._decoded(found, name, key) for key in keys]

    def _line(self, value: Secret, name: str) -> Secret:
        """What git is handed in a variable; anything else could not even be tried."""
        if not value.is_one_line:
            where = f"Secret {name!r} in namespace {self._namespace!r}"
            raise Stalled(f"{where} holds more or other than a line of text", reason=Reason.INVALID_VALUE)
        return value

    def _decoded(self, found: _SecretObject, name: str, key: str) -> Secret:
        if not found.data.get(key):
            raise Stalled(
                f"Secret {name!r} in namespace {self._namespace!r} has nothing under key {key!r}",
                reason=Reason.SECRET_NOT_FOUND,
            )
        try:
            return Secret(base64.b64decode(found.data[key]).strip())
        except binascii.Error:
            raise Stalled(
                f"key {key!r} of Secret {name!r} is not base64", reason=Reason.SECRET_NOT_FOUND
            ) from None

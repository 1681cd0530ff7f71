"""Reads the Secrets of a namespace from the API server when they are needed; values are never cached.

An error for a missing Secret or key gives its exact name, which is what the author of the resource has to
fix. Values are stripped of white space, because a line that was written with an editor ends in a newline.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from stoker.domain.errors import Stalled
from stoker.domain.intent.source import SecretKey
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.kube.client.errors import NotFound
from stoker.kube.client.resources import SECRETS

if TYPE_CHECKING:
    from stoker.kube.client.client import KubeClient


class _SecretData(msgspec.Struct):
    """The values of a Secret; the object lives no longer than one call."""

    data: dict[str, str] = {}


class NamespaceSecretReader:
    """Reads the Secrets of one namespace."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def value(self, wanted: SecretKey, *others: SecretKey) -> Secret:
        """Return the value of this key, or else of the first of the other keys of its Secret that exists."""
        found = await self.all_values(wanted.name)
        existing = next((found[key] for key in (wanted, *others) if key in found), None)
        if existing is None:
            raise missing_secret_key(self._namespace, wanted, *others)
        return Secret(existing)

    async def values(self, wanted: Iterable[SecretKey]) -> dict[SecretKey, bytes]:
        """Return the values of these keys; each Secret is read once."""
        keys = tuple(wanted)
        found: dict[SecretKey, bytes] = {}
        for name in dict.fromkeys(key.name for key in keys):
            found |= await self.all_values(name)
        return self.required(found, keys)

    def required(
        self, found: Mapping[SecretKey, bytes], wanted: Iterable[SecretKey]
    ) -> dict[SecretKey, bytes]:
        """Return these keys of what was read; raise for the first that is missing."""
        values = {}
        for key in wanted:
            if key not in found:
                raise missing_secret_key(self._namespace, key)
            values[key] = found[key]
        return values

    async def all_values(self, name: str) -> dict[SecretKey, bytes]:
        """Return every key of a Secret that has a value."""
        try:
            found = await self._client.get(SECRETS, name, self._namespace, into=_SecretData)
        except NotFound:
            raise missing_secret(self._namespace, name) from None
        return {SecretKey(name, key): _decoded(name, key, text) for key, text in found.data.items() if text}


def _decoded(name: str, key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text).strip()
    except binascii.Error:
        raise Stalled(f"{SecretKey(name, key).title} is not base64", reason=Reason.SECRET_NOT_FOUND) from None


def missing_secret(namespace: str, name: str) -> Stalled:
    return Stalled(
        f"Secret {name!r} does not exist in namespace {namespace!r}", reason=Reason.SECRET_NOT_FOUND
    )


def missing_secret_key(namespace: str, wanted: SecretKey, *others: SecretKey) -> Stalled:
    keys = " or ".join(repr(each.key) for each in (wanted, *others))
    return Stalled(
        f"Secret {wanted.name!r} in namespace {namespace!r} has no key {keys}",
        reason=Reason.SECRET_NOT_FOUND,
    )

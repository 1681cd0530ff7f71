"""Caches which keys the Secrets have that resources name, never their values."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stoker.kube.client.client import KubeClient
from stoker.kube.client.objects import ObjectHeaderMeta
from stoker.kube.client.resources import SECRETS
from stoker.kube.watch.store import ObjectKey

_EMPTY = b'""'


class SecretHeader(msgspec.Struct, frozen=True):
    """The keys of a Secret; their values are not even decoded."""

    metadata: ObjectHeaderMeta = ObjectHeaderMeta()
    data: dict[str, msgspec.Raw] = {}

    @property
    def keys(self) -> frozenset[str]:
        """The keys with a non-empty value."""
        return frozenset(name for name, value in self.data.items() if bytes(value) != _EMPTY)


class SecretKeyNames:
    """Caches the keys of each Secret.

    The watch reports the version of each Secret, so each version is read once.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[ObjectKey, tuple[str, frozenset[str]]] = {}

    async def of(self, secret: ObjectKey, version: str) -> frozenset[str]:
        """Return the keys with a non-empty value; raise NotFound if the Secret is gone."""
        known = self._known.get(secret)
        if known is not None and known[0] == version:
            return known[1]
        found = await self._client.get(SECRETS, secret.name, secret.namespace, into=SecretHeader)
        self._known[secret] = found.metadata.resource_version, found.keys
        return found.keys

    def forget_others(self, named: Callable[[ObjectKey], bool]) -> None:
        """Drop the entries of Secrets that no resource names any more."""
        for secret in [secret for secret in self._known if not named(secret)]:
            del self._known[secret]

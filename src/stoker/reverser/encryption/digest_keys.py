"""Read the Secret with the digest keys, and create it if it does not exist.

The Secret is in the reverser's own namespace, has a type that no policy writes to git, and is shared by all
replicas. The first replica creates it, or fills the empty Secret that the installation created: then the
reverser needs no permission to create Secrets, with which it could create a token of any service account. If
the Secret is deleted, a new one is created, and every encrypted file is encrypted again once.
"""

from __future__ import annotations

import base64
import binascii
import os

import msgspec

from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import AlreadyExists, Conflict, NotFound
from stoker.kube.client.objects import ObjectHeaderMeta
from stoker.kube.client.resources import SECRETS
from stoker.reverser.encryption.digests import MIN_KEY_BYTES, NEWEST, DigestKeys
from stoker.reverser.manifest.secret_policy import DIGEST_KEYS

NAME = "gitops-reverser-digests"


class _DigestKeySecret(msgspec.Struct):
    """The fields of the Secret that are needed; it lives no longer than one call."""

    metadata: ObjectHeaderMeta = ObjectHeaderMeta()
    type: str = ""
    data: dict[str, str] = {}


async def ensure_keys(client: KubeClient, namespace: str, name: str = NAME) -> DigestKeys:
    """Return the current keys; refuse a Secret of this name with another type."""
    try:
        found = await client.get(SECRETS, name, namespace, into=_DigestKeySecret)
    except NotFound:
        try:
            found = await client.create(
                SECRETS, _new_secret(namespace, name), namespace, into=_DigestKeySecret
            )
        except AlreadyExists:  # another replica was faster
            found = await client.get(SECRETS, name, namespace, into=_DigestKeySecret)
    if found.type == DIGEST_KEYS and not found.data:
        found = await _fill_secret(client, namespace, name, found)
    if found.type != DIGEST_KEYS:
        # A Secret of another type would be written to git like all others.
        raise Stalled(
            f"Secret {namespace}/{name} is not of the type {DIGEST_KEYS}, so its keys are not used",
            reason=Reason.INVALID_SPEC,
        )
    try:
        return DigestKeys.of({key: base64.b64decode(value) for key, value in found.data.items()})
    except binascii.Error:
        raise Stalled(f"Secret {namespace}/{name} cannot be read", reason=Reason.INVALID_SPEC) from None


async def _fill_secret(
    client: KubeClient, namespace: str, name: str, empty: _DigestKeySecret
) -> _DigestKeySecret:
    version = {"resourceVersion": empty.metadata.resource_version}
    body = {"metadata": version, "data": _new_secret(namespace, name)["data"]}
    try:
        return await client.patch(SECRETS, body, name, namespace, into=_DigestKeySecret)
    except Conflict:  # another replica was faster
        return await client.get(SECRETS, name, namespace, into=_DigestKeySecret)


def _new_secret(namespace: str, name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": DIGEST_KEYS,
        "data": {NEWEST: base64.b64encode(os.urandom(MIN_KEY_BYTES)).decode()},
    }

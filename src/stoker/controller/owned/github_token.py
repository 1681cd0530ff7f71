"""Writes the short-lived token of a GitHub App into a Secret for the gateways of a resource.

The app's own key opens every repository of its installation and stays in the controller. A gateway gets a
token that reads only its repository and expires after an hour; it is renewed before that. The label
`app.kubernetes.io/managed-by: stoker` makes the reverser skip the Secret.

Secrets are written only in namespaces that the installation names, because that needs a separate permission
there. An annotation holds a digest of the token, so that the Secret is never read back.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec

from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import CachedResource, ResourceKey, owned_metadata
from stoker.domain.errors import Stalled
from stoker.domain.intent.intent import ResourceIntent
from stoker.domain.intent.source import MINTED_KEY, GitAuthKind
from stoker.domain.pods.injection import MANAGED_BY_STOKER, minted_secret_name
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import SECRETS
from stoker.kube.watch.store import ObjectKey

RENEW_EVERY = 240.0
"""Seconds between two checks of the token, shorter than the last five minutes, in which it is renewed."""
DIGEST = "stoker.io/token-digest"


class GitHubTokenWriter:
    """Writes tokens into Secrets."""

    def __init__(
        self, observed: ControllerInformers, client: KubeClient, namespaces: tuple[str, ...]
    ) -> None:
        self._observed = observed
        self._client = client
        self._namespaces = frozenset(namespaces)

    async def mint(
        self, key: ResourceKey, kept: CachedResource, intent: ResourceIntent, token: Secret | None
    ) -> None:
        """Write the token; raise if the installation does not permit the namespace."""
        if intent.source.auth.kind is not GitAuthKind.GITHUB_APP:
            return
        namespace = key.object.namespace
        if namespace not in self._namespaces:
            raise Stalled(
                f"git.auth.githubApp: tokens for gateways may not be written in namespace {namespace!r} "
                "(--github-app-namespaces)",
                reason=Reason.GITHUB_APP_NOT_PERMITTED,
            )
        if token is None:
            return
        where = ObjectKey(namespace, minted_secret_name(key.door, key.object.name))
        seen = self._observed.secrets.get(where)
        digest = hashlib.sha256(token.reveal_bytes()).hexdigest()[:16]
        if seen is not None and seen.annotations.get(DIGEST) == digest:
            return
        if seen is not None and DIGEST not in seen.annotations:
            raise Stalled(
                f"Secret {where} exists and was not created by Stoker; it is not overwritten",
                reason=Reason.ALREADY_EXISTS,
            )
        body = self._body(key, kept, where.name, token, digest)
        if seen is None:
            request = self._client.create(SECRETS, body, namespace, into=msgspec.Raw)
        else:
            body["metadata"]["resourceVersion"] = seen.version
            request = self._client.replace(SECRETS, body, where.name, namespace, into=msgspec.Raw)
        await self._observed.secrets.write(where, request)

    @staticmethod
    def _body(
        key: ResourceKey, kept: CachedResource, name: str, token: Secret, digest: str
    ) -> dict[str, Any]:
        head = {**owned_metadata(key, kept, name, MANAGED_BY_STOKER), "annotations": {DIGEST: digest}}
        data = {MINTED_KEY: base64.b64encode(token.reveal_bytes()).decode()}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": head, "type": "Opaque", "data": data}

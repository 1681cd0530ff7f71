"""The short-lived token of a GitHub App, as a Secret for the gateways of a resource (C-027).

The app's own key opens every repository of its installation and stays here; a gateway
gets a token that reads the one repository and is over in an hour, renewed before that. The
Secret carries `app.kubernetes.io/managed-by: stoker`, by which the reverser withholds it.
Secrets are written only in namespaces that the installation names, because it takes a
permission of its own there.
Which token a Secret holds is told by a digest in its annotations: what it holds is
never read back.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec

from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import CachedResource, ResourceKey, owned_metadata
from stoker.domain.errors import Stalled
from stoker.domain.injection import MANAGED_BY_STOKER, MINTED_KEY, minted_secret_name
from stoker.domain.intent.intent import ResourceIntent
from stoker.domain.intent.source import GitAuthKind
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import SECRETS
from stoker.kube.watch.store import ObjectKey

RENEW_EVERY = 240.0
"""Seconds between two looks at the token: less than the last five minutes, in which it is renewed."""
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
        """Hand the token on; raises where that is not allowed."""
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
            raise Stalled(f"Secret {where} exists and is not ours to write", reason=Reason.ALREADY_EXISTS)
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

"""Keeps the fetcher of each resource with a shared volume: service account, RBAC and Deployment.

An annotation on the RoleBinding has the digest of all applied manifests. The binding is watched anyway and is
written last, so a reconcile of a resource whose fetcher is up to date sends no request. Every `CHECK_SECONDS`
the controller reads the Deployment to see whether it was deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import CachedResource, ResourceKey
from stoker.controller.owned import fetcher_manifests as pods
from stoker.controller.owned.shared_volume import CHECK_SECONDS
from stoker.domain.clock import Clock
from stoker.domain.injection import AgentInstallation
from stoker.domain.intent.intent import ResourceIntent
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import NotFound
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import DEPLOYMENTS, ROLE_BINDINGS, ROLES, ApiResource
from stoker.kube.watch.store import ObjectKey
from stoker.telemetry.logs import get_logger

MANAGER = "stoker-controller"

ACCOUNTS = ApiResource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)

log = get_logger(__name__)


class FetcherDeployments:
    """The `VolumeFetcher` of `stoker.controller.owned.shared_volume` that runs Deployments."""

    def __init__(
        self,
        observed: ControllerInformers,
        client: KubeClient,
        installation: AgentInstallation,
        clock: Clock,
        pull_secrets: Sequence[str] = (),
    ) -> None:
        """`pull_secrets` names Secrets in the resources' namespaces; kubelets ignore missing Secrets."""
        self._observed = observed
        self._client = client
        self._installation = installation
        self._clock = clock
        self._pull_secrets = tuple(pull_secrets)
        self._looked: dict[ResourceKey, float] = {}

    async def provide(
        self, key: ResourceKey, kept: CachedResource, intent: ResourceIntent, claim: str
    ) -> None:
        account, role = pods.fetcher_account(key, kept), pods.fetcher_role(key, kept)
        deployment = pods.fetcher_deployment(key, kept, intent, self._installation, claim, self._pull_secrets)
        digest = pods.manifests_digest(account, role, deployment)
        where = ObjectKey(key.object.namespace, pods.fetcher_name(key))
        seen = self._observed.bindings.get(where)
        if (
            seen is not None
            and seen.metadata.annotations.get(pods.DIGEST) == digest
            and await self._runs(key, where)
        ):
            return
        bound = pods.fetcher_role_binding(key, kept, digest)
        await self._apply(ACCOUNTS, where, account)
        await self._observed.roles.write(where, self._apply(ROLES, where, role))
        await self._apply(DEPLOYMENTS, where, deployment)
        await self._observed.bindings.write(where, self._apply(ROLE_BINDINGS, where, bound))
        self._looked[key] = self._clock.monotonic()
        log.info("fetcher.provided", kind=key.kind, resource=str(key.object), claim=claim)

    async def withdraw(self, key: ResourceKey) -> None:
        where = ObjectKey(key.object.namespace, pods.fetcher_name(key))
        self._looked.pop(key, None)
        if self._observed.roles.get(where) is None and self._observed.bindings.get(where) is None:
            return
        for resource in (DEPLOYMENTS, ACCOUNTS):
            with suppress(NotFound):
                await self._delete(resource, where)
        await self._observed.bindings.remove(where, self._delete(ROLE_BINDINGS, where))
        await self._observed.roles.remove(where, self._delete(ROLES, where))

    async def _runs(self, key: ResourceKey, where: ObjectKey) -> bool:
        now = self._clock.monotonic()
        if now - self._looked.get(key, -CHECK_SECONDS) < CHECK_SECONDS:
            return True
        try:
            await self._client.get(DEPLOYMENTS, where.name, where.namespace, into=ObjectHeader)
        except NotFound:
            return False
        self._looked[key] = now
        return True

    async def _apply(self, resource: ApiResource, where: ObjectKey, body: dict[str, Any]) -> msgspec.Raw:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return await self._client.apply(
            resource, whole, where.name, where.namespace, manager=MANAGER, into=msgspec.Raw
        )

    async def _delete(self, resource: ApiResource, where: ObjectKey) -> None:
        await self._client.delete(resource, where.name, where.namespace)

"""The shared volume: one clone for all gateways of a resource that requests it in `spec.storage`.

Without `spec.storage`, or with a volume that only one pod can mount, each agent keeps its own clone and this
module creates nothing. Otherwise it creates a claim, which holds repository content and no signals, and
starts a fetcher that fills it; all others mount it read-only. The fetcher is injected, so that another way to
fill or serve a clone is another `VolumeFetcher` and needs no other step. The claim is deleted when the
resource no longer requests it: all its content is in git.
"""

from __future__ import annotations

from typing import Any, Protocol

from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import (
    CachedClaim,
    CachedResource,
    ResourceKey,
    belongs_to,
    owned_metadata,
)
from stoker.controller.owned.apply_objects import OwnedObjectWriter
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.intent.delivery import SharedVolumePolicy
from stoker.domain.intent.intent import ResourceIntent
from stoker.domain.pods.injection import shared_claim_name
from stoker.domain.quantities import parse_quantity
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import CLAIMS
from stoker.kube.watch.store import ObjectKey

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "ignition-sync-controller"
LEGACY_NAME_LABEL = "sync.ignition.io/cr-name"
CHECK_SECONDS = 300.0
"""Seconds between two checks of objects that are not watched, such as the fetcher's Deployment."""


class VolumeFetcher(Protocol):
    """Fills the claim of a resource."""

    async def provide(
        self, key: ResourceKey, kept: CachedResource, intent: ResourceIntent, claim: str
    ) -> None:
        """Ensure that it runs; called in every reconcile of a resource with a shared volume."""
        ...

    async def withdraw(self, key: ResourceKey) -> None:
        """Ensure that it does not run; called in every reconcile of a resource without a shared volume."""
        ...


def claim_for(key: ResourceKey, kept: CachedResource, volume: SharedVolumePolicy) -> dict[str, Any]:
    """Build the claim. An empty class is left out: if it were set, no volume would be provisioned."""
    spec: dict[str, Any] = {
        "accessModes": [str(volume.access_mode)],
        "resources": {"requests": {"storage": _format_quantity(volume.size_bytes)}},
    }
    if volume.storage_class:
        spec["storageClassName"] = volume.storage_class
    labels = {MANAGED_BY: MANAGER, LEGACY_NAME_LABEL: key.object.name}
    return {"metadata": owned_metadata(key, kept, shared_claim_name(key.object.name), labels), "spec": spec}


class SharedVolumeClaims:
    """Keeps the claim of a resource up to date."""

    def __init__(
        self,
        observed: ControllerInformers,
        client: KubeClient,
        writer: OwnedObjectWriter,
        fetcher: VolumeFetcher | None = None,
    ) -> None:
        self._observed = observed
        self._client = client
        self._writer = writer
        self._fetcher = fetcher

    async def provide(self, key: ResourceKey, kept: CachedResource, intent: ResourceIntent) -> float | None:
        """Apply the claim; return the seconds until the next check, or None if there is no claim."""
        if not self._observed.shared_volumes:
            return None
        where = ObjectKey(key.object.namespace, shared_claim_name(key.object.name))
        claim = self._observed.claims.get(where)
        if intent.shared_volume is None:
            if self._fetcher is not None:
                await self._fetcher.withdraw(key)
            leaving = claim is not None and claim.metadata.deletion_timestamp is not None
            if claim is not None and not leaving and belongs_to(claim.metadata, key, kept):
                await self._remove(where, claim)
            return None
        body = claim_for(key, kept, intent.shared_volume)
        try:
            if claim is None:
                await self._writer.create(self._observed.claims, CLAIMS, body)
            else:
                await self._adjust(key, kept, where, claim, intent.shared_volume, body)
        finally:  # a claim that cannot grow is still filled
            if self._fetcher is not None:
                await self._fetcher.provide(key, kept, intent, where.name)
        return CHECK_SECONDS

    async def _adjust(
        self,
        key: ResourceKey,
        kept: CachedResource,
        where: ObjectKey,
        claim: CachedClaim,
        volume: SharedVolumePolicy,
        body: dict[str, Any],
    ) -> None:
        """Update an existing claim, of which only the size can change, and only grow."""
        wanted = volume.storage_class
        if wanted and claim.spec.storage_class_name not in (None, wanted):
            raise Stalled(
                f"PersistentVolumeClaim {where} is of class {claim.spec.storage_class_name!r} and cannot "
                f"become {wanted!r}: delete it so that it is recreated",
                reason=Reason.REJECTED,
            )
        patch: dict[str, Any] = {}
        if not belongs_to(claim.metadata, key, kept):
            patch["metadata"] = body["metadata"]
        if _requested_bytes(claim) < volume.size_bytes:
            patch["spec"] = {"resources": body["spec"]["resources"]}
        if patch:
            await self._writer.patch(self._observed.claims, CLAIMS, where, patch)

    async def _remove(self, where: ObjectKey, claim: CachedClaim) -> None:
        request = self._client.delete(CLAIMS, where.name, where.namespace, uid=claim.metadata.uid)
        await self._observed.claims.remove(where, request)


def _format_quantity(size: int) -> str:
    """Format the size with a unit where it is a multiple."""
    for unit, factor in (("Gi", 1 << 30), ("Mi", 1 << 20)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def _requested_bytes(claim: CachedClaim) -> int:
    """The size that it requests; a size that cannot be parsed counts as large enough."""
    asked = claim.spec.resources.get("requests", {}).get("storage", "0")
    try:
        return parse_quantity(str(asked))
    except InvalidValue:
        return 1 << 62

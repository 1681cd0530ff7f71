"""Reads the other objects that a review depends on, directly from the API server.

Nothing is watched and nothing is cached: pods and resources are rarely created, a resource created a
moment ago must be found, and a webhook with every object of a cluster in memory would be as large as the
controller. A missing object is a result; a failed request raises, and then the webhook configuration's
failurePolicy decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from stoker.api.kinds.destinations import GitDestination, GitRepoConfig
from stoker.api.kinds.ignitionsync import IgnitionSync, IgnitionSyncBase, IgnitionSyncBaseSpec
from stoker.api.kinds.resource import CustomResource as Model
from stoker.api.kinds.stoker import Stoker, SyncProfile
from stoker.api.manifests.codec import decode
from stoker.api.registry import KINDS, CustomResourceKind
from stoker.api.to_intent import MODELS, base_ref, intent_for, merge_spec
from stoker.api.to_intent.annotations.annotations import PodSettings
from stoker.api.to_intent.inheritance import base_allows
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.intent import ResourceIntent
from stoker.kube.client.client import KubeClient
from stoker.kube.client.codec import decode as decode_answer
from stoker.kube.client.errors import NotFound
from stoker.kube.client.kinds import rest_resource
from stoker.kube.client.objects import ObjectHeader, RawList
from stoker.telemetry.logs import get_logger
from stoker.webhooks.admission.pod_owner import MAX_SHOWN, OwnerCandidate, wanted_kinds

M = TypeVar("M", bound=Model)

log = get_logger(__name__)

SYNCED_KINDS = tuple(kind for kind in KINDS if kind.model in MODELS)
_BY_MODEL = {kind.model: kind for kind in KINDS}


class AdmissionLookup:
    """Reads with the webhook's own service account."""

    def __init__(self, client: KubeClient, defaults: IgnitionSyncBaseSpec) -> None:
        self._client = client
        self._defaults = defaults

    async def candidates(self, pod: PodSettings, namespace: str) -> list[OwnerCandidate]:
        """Return the resources that the pod may belong to: those with the name it gives, or the first few."""
        found: list[OwnerCandidate] = []
        for kind in wanted_kinds(pod, SYNCED_KINDS):
            raws = (
                await self._named(kind, namespace, pod.resource)
                if pod.resource
                else await self._first(kind, namespace)
            )
            found += [OwnerCandidate(kind, msgspec.json.decode(raw, type=ObjectHeader), raw) for raw in raws]
        return found

    async def intent(self, candidate: OwnerCandidate) -> ResourceIntent:
        """Return the resource's intent, with everything it inherits."""
        resource = decode(candidate.raw, candidate.kind.model)
        return await self.intent_of(resource)

    async def intent_of(self, resource: Model) -> ResourceIntent:
        settled = merge_spec(resource, base=await self.base_for(resource), defaults=self._defaults)
        return intent_for(settled)

    async def base_for(self, resource: Model) -> IgnitionSyncBase | None:
        """Return the base that a resource inherits from, if it exists and allows that.

        A base that does not allow it is not even decoded: an error in it would reveal that it exists.
        """
        wanted, namespace = base_ref(resource), resource.metadata.namespace
        if wanted is None:
            return None
        home = wanted.namespace or namespace
        for raw in await self._named(_BY_MODEL[IgnitionSyncBase], home, wanted.name):
            annotations = msgspec.json.decode(raw, type=ObjectHeader).metadata.annotations
            if base_allows(home, namespace, annotations):
                return decode(raw, IgnitionSyncBase)
        return None

    async def find(self, model: type[M], namespace: str, name: str) -> M | None:
        raws = await self._named(_BY_MODEL[model], namespace, name)
        return decode(raws[0], model) if raws else None

    async def profiles(self, namespace: str) -> list[SyncProfile]:
        return await self._all(SyncProfile, namespace)

    async def bidirectional(self, namespace: str) -> bool:
        """Return whether any resource of the namespace enables bidirectional sync in its own spec."""
        stokers, syncs = await self._all(Stoker, namespace), await self._all(IgnitionSync, namespace)
        blocks = [resource.spec.bidirectional for resource in stokers]
        blocks += [resource.spec.bidirectional for resource in syncs]
        return any(block is not None and block.enabled for block in blocks)

    async def destinations(self) -> list[GitDestination]:
        return await self._all(GitDestination)

    async def repositories(self) -> list[GitRepoConfig]:
        return await self._all(GitRepoConfig)

    async def _named(self, kind: CustomResourceKind, namespace: str, name: str) -> list[bytes]:
        try:
            return [bytes(await self._client.get(rest_resource(kind), name, namespace, into=msgspec.Raw))]
        except NotFound:
            return []

    async def _first(self, kind: CustomResourceKind, namespace: str) -> list[bytes]:
        """Return enough objects to see whether there are several, and to name a few."""
        resource = rest_resource(kind)
        try:
            answer = await self._client.raw(
                "GET", resource.path(namespace), query={"limit": str(MAX_SHOWN + 1)}
            )
        except NotFound:  # the kind is not installed
            return []
        listed = decode_answer(answer.body, RawList, resource.words("list", namespace))
        return [bytes(item) for item in listed.items or ()]

    async def _all(self, model: type[M], namespace: str | None = None) -> list[M]:
        """Return the readable objects: a broken neighbour must not prevent the review of another object."""
        kind = _BY_MODEL[model]
        try:
            raws: Sequence[msgspec.Raw] = await self._client.list(
                rest_resource(kind), namespace, into=msgspec.Raw
            )
        except NotFound:
            return []
        found = []
        for raw in raws:
            try:
                found.append(decode(bytes(raw), model))
            except InvalidValue as error:
                log.info("neighbour.unreadable", kind=kind.name, error=error.message)
        return found

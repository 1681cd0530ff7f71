"""Finds a resource in the cluster by namespace, name and optional kind, and patches it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker.api.registry import KINDS as REGISTERED
from stoker.api.spec.status import SyncStatus
from stoker.api.to_intent import MODELS
from stoker.domain.errors import InvalidValue
from stoker.fleet.resource_name import KINDS, ResourceName
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import NotFound
from stoker.kube.client.kinds import rest_resource
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import ApiResource

RESOURCES: dict[str, ApiResource] = {
    kind.name: rest_resource(kind) for kind in REGISTERED if kind.model in MODELS
}


class FoundResource(NamedTuple):
    """A resource as the API server returned it."""

    kind: str
    group: str
    status: SyncStatus
    version: str = ""
    """`metadata.resourceVersion`: a patch that names it fails with a conflict on a newer object."""
    taken_back_to: str = ""
    """The snapshot or commit of `spec.rollback`."""


class _FoundMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _FoundRollback(msgspec.Struct, frozen=True, rename="camel"):
    to_snapshot: str | None = None
    to_commit: str | None = None


class _FoundSpec(msgspec.Struct, frozen=True):
    rollback: _FoundRollback | None = None


class _FoundBody(msgspec.Struct, frozen=True):
    metadata: _FoundMetadata = _FoundMetadata()
    spec: _FoundSpec = _FoundSpec()
    status: SyncStatus = msgspec.field(default_factory=SyncStatus)


async def find_resource(client: KubeClient, named: ResourceName) -> FoundResource:
    """Read the resource and its status.

    Without a kind both kinds are tried; raises `InvalidValue` if both have an object of this name.
    """
    found: list[FoundResource] = []
    missing: NotFound | None = None
    for kind in (named.kind,) if named.kind is not None else KINDS:
        resource = RESOURCES[kind]
        try:
            body = await client.get(resource, named.name, named.namespace, into=_FoundBody)
        except NotFound as error:
            missing = missing or error
        else:
            back = body.spec.rollback or _FoundRollback()
            to = back.to_snapshot or back.to_commit or ""
            found.append(FoundResource(kind, resource.group, body.status, body.metadata.resource_version, to))
    if len(found) > 1:
        raise InvalidValue(f"{named} is a Stoker and an IgnitionSync: say its kind")
    if not found:
        raise missing or InvalidValue(f"{named} does not exist")
    return found[0]


async def patch_resource(client: KubeClient, kind: str, named: ResourceName, body: object) -> None:
    """Send one merge patch, as `kubectl patch` would."""
    await client.patch(RESOURCES[kind], body, named.name, named.namespace, into=ObjectHeader)

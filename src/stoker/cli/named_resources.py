"""A resource in a cluster, found by the name that somebody gave a verb."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker.api.adapters import MODELS
from stoker.api.blocks.status import SyncStatus
from stoker.api.registry import KINDS as REGISTERED
from stoker.cli.in_cluster import KINDS, Place
from stoker.domain.errors import InvalidValue
from stoker.kube.client import Client
from stoker.kube.errors import NotFound
from stoker.kube.kinds import rest
from stoker.kube.resources import Resource

RESOURCES: dict[str, Resource] = {kind.name: rest(kind) for kind in REGISTERED if kind.model in MODELS}


class Seen(NamedTuple):
    """A resource as it stands in the cluster."""

    kind: str
    group: str
    status: SyncStatus


class _Body(msgspec.Struct, frozen=True):
    status: SyncStatus = msgspec.field(default_factory=SyncStatus)


async def look(client: Client, place: Place) -> Seen:
    """The resource with its status; where both kinds have the name, one has to be said."""
    found: list[Seen] = []
    missing: NotFound | None = None
    for kind in (place.kind,) if place.kind is not None else KINDS:
        resource = RESOURCES[kind]
        try:
            body = await client.get(resource, place.name, place.namespace, into=_Body)
        except NotFound as error:
            missing = missing or error
        else:
            found.append(Seen(kind, resource.group, body.status))
    if len(found) > 1:
        raise InvalidValue(f"{place.namespace}/{place.name} is a Stoker and an IgnitionSync: say --kind")
    if not found:
        raise missing or InvalidValue(f"{place.namespace}/{place.name} does not exist")
    return found[0]

"""The status of resources and their gateways, read from the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from stoker.api.spec.delivery import RollbackSpec
from stoker.api.spec.status import GatewayStatus, SyncStatus
from stoker.domain.clock import parse_rfc3339
from stoker.domain.errors import InvalidValue
from stoker.domain.reasons import Reason
from stoker.fleet.lookup import RESOURCES
from stoker.fleet.resource_name import KINDS
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import NotFound


class ResourceScope(NamedTuple):
    """Which resources to read: all of a namespace, all of the cluster, or one by name."""

    namespace: str | None
    name: str = ""
    kind: str | None = None


class FleetMetadata(msgspec.Struct, rename="camel", frozen=True):
    name: str
    namespace: str = ""
    creation_timestamp: str = ""


class FleetGit(msgspec.Struct, frozen=True):
    ref: str = ""


class FleetStage(msgspec.Struct, frozen=True):
    name: str = ""
    gateways: tuple[str, ...] = ()


class FleetDeployment(msgspec.Struct, frozen=True):
    stages: tuple[FleetStage, ...] | None = None


class FleetSpec(msgspec.Struct, frozen=True):
    """The fields of the spec that are shown beside the status."""

    git: FleetGit | None = None
    paused: bool | None = None
    rollback: RollbackSpec | None = None
    deployment: FleetDeployment | None = None


class FleetResource(msgspec.Struct, frozen=True):
    """The parts of a resource that its status display needs."""

    metadata: FleetMetadata
    spec: FleetSpec = FleetSpec()
    status: SyncStatus = msgspec.field(default_factory=SyncStatus)


class ResourceStatus(NamedTuple):
    """The status of one resource, with the parts of its spec that are shown beside it."""

    kind: str
    namespace: str
    name: str
    created: datetime | None
    ref: str
    paused: bool
    status: SyncStatus
    spec: FleetSpec = FleetSpec()

    @property
    def gateways(self) -> Sequence[GatewayStatus]:
        return self.status.discovered_gateways or ()

    @property
    def synced(self) -> int:
        return sum(one.sync_status == "Synced" for one in self.gateways)

    def verdict(self) -> tuple[str, str, str]:
        """Condition Ready: status, reason and message; Unknown before the controller's first reconcile."""
        for one in self.status.conditions or ():
            if one.type == "Ready":
                return one.status, one.reason or "", one.message or ""
        return "Unknown", Reason.NOT_YET_SEEN, "no controller has looked at it yet"

    def as_json(self) -> dict[str, object]:
        ready, reason, message = self.verdict()
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "ref": self.status.last_sync_ref or self.ref,
            "commit": self.status.last_sync_commit,
            "paused": self.paused,
            "ready": ready,
            "reason": reason,
            "message": message,
            "gateways": [msgspec.to_builtins(_without_history(one)) for one in self.gateways],
        }


async def read_statuses(client: KubeClient, scope: ResourceScope) -> list[ResourceStatus]:
    """All resources of the scope, sorted by namespace and name; a kind whose CRD is missing is skipped."""
    kinds = _kinds(scope)
    answers = [await _read_kind(client, kind, scope) for kind in kinds]
    found = [one for answer in answers for one in answer or ()]
    if scope.name and not found:
        raise InvalidValue(f"{scope.namespace}/{scope.name} does not exist")
    if all(answer is None for answer in answers):
        raise InvalidValue(f"this cluster knows no {' and no '.join(kinds)}: `stoker doctor` says more")
    return sorted(found, key=lambda one: (one.namespace, one.name, one.kind))


def _kinds(scope: ResourceScope) -> Sequence[str]:
    return (scope.kind,) if scope.kind is not None else KINDS


async def _read_kind(client: KubeClient, kind: str, scope: ResourceScope) -> list[ResourceStatus] | None:
    """None if the kind, or the named object, does not exist."""
    resource = RESOURCES[kind]
    try:
        if scope.name:
            bodies = [await client.get(resource, scope.name, scope.namespace, into=FleetResource)]
        else:
            bodies = await client.list(resource, scope.namespace, into=FleetResource)
    except NotFound:
        return None
    return [resource_standing(kind, one) for one in bodies]


def resource_standing(kind: str, body: FleetResource) -> ResourceStatus:
    made = body.metadata.creation_timestamp
    created = parse_rfc3339(made) if made else None
    of, spec = body.metadata, body.spec
    ref = spec.git.ref if spec.git is not None else ""
    return ResourceStatus(kind, of.namespace, of.name, created, ref, bool(spec.paused), body.status, spec)


def _without_history(one: GatewayStatus) -> GatewayStatus:
    """The gateway's status without its sync history, which `stoker history` shows."""
    return msgspec.structs.replace(one, sync_history=None)

"""How resources stand, read from their status: one row for each, or one for each gateway of one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from stoker.api.blocks.status import GatewayStatus, SyncStatus
from stoker.cli.fleet.tables import age, table
from stoker.cli.in_cluster import KINDS
from stoker.cli.named_resources import RESOURCES
from stoker.domain.clock import parse_rfc3339
from stoker.domain.errors import InvalidValue
from stoker.kube.client import Client
from stoker.kube.errors import NotFound

_FLEET = ("NAMESPACE", "NAME", "KIND", "REF", "COMMIT", "SYNCED", "READY", "REASON", "AGE")
_GATEWAYS = ("GATEWAY", "POD", "STATE", "COMMIT", "SYNCED", "DRIFT", "HELD BY", "WHY")
SHORT = 8


class Scope(NamedTuple):
    """Which resources are meant: all of a namespace, all of the cluster, or one."""

    namespace: str | None
    name: str = ""
    kind: str | None = None


class _Metadata(msgspec.Struct, rename="camel", frozen=True):
    name: str
    namespace: str = ""
    creation_timestamp: str = ""


class _Git(msgspec.Struct, frozen=True):
    ref: str = ""


class _Spec(msgspec.Struct, frozen=True):
    git: _Git = _Git()
    paused: bool = False


class _Body(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: SyncStatus = msgspec.field(default_factory=SyncStatus)


class Standing(NamedTuple):
    """One resource as it stands."""

    kind: str
    namespace: str
    name: str
    created: datetime | None
    ref: str
    paused: bool
    status: SyncStatus

    @property
    def gateways(self) -> Sequence[GatewayStatus]:
        return self.status.discovered_gateways or ()

    @property
    def synced(self) -> int:
        return sum(one.sync_status == "Synced" for one in self.gateways)

    def verdict(self) -> tuple[str, str, str]:
        """Condition Ready: its status, reason and message; Unknown before the controller has looked."""
        for one in self.status.conditions or ():
            if one.type == "Ready":
                return one.status, one.reason or "", one.message or ""
        return "Unknown", "NotYetSeen", "no controller has looked at it yet"

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
            "gateways": [msgspec.to_builtins(_brief(one)) for one in self.gateways],
        }


async def read(client: Client, scope: Scope) -> list[Standing]:
    """All that the scope means, by namespace and name; a kind that is not installed is passed over."""
    found = [one for kind in _kinds(scope) for one in await _of_kind(client, kind, scope)]
    if scope.name and not found:
        raise InvalidValue(f"{scope.namespace}/{scope.name} does not exist")
    return sorted(found, key=lambda one: (one.namespace, one.name, one.kind))


def fleet_lines(standings: Sequence[Standing], now: datetime) -> Iterator[str]:
    """One row for each resource."""
    if not standings:
        yield "no resources found"
        return
    rows = []
    for one in standings:
        ready, reason, _ = one.verdict()
        commit, ref = one.status.last_sync_commit or "", one.status.last_sync_ref or one.ref
        synced, old = f"{one.synced}/{len(one.gateways)}", age(one.created, now)
        rows.append([one.namespace, one.name, one.kind, ref, commit[:SHORT], synced, ready, reason, old])
    yield from table(_FLEET, rows)


def resource_lines(standing: Standing, now: datetime) -> Iterator[str]:
    """One resource: what it says of itself, and one row for each of its gateways."""
    ready, reason, message = standing.verdict()
    commit = (standing.status.last_sync_commit or "no commit yet")[:SHORT]
    whose = f"{standing.kind} {standing.namespace}/{standing.name}"
    yield f"{whose}: {message or reason} (Ready {ready}, {reason})"
    yield f"delivers {standing.status.last_sync_ref or standing.ref} at {commit}"
    approval = standing.status.approval
    if approval is not None and approval.state == "Pending":
        yield f"waits for approval: stoker plan --namespace {standing.namespace} --name {standing.name}"
    if standing.gateways:
        yield ""
        yield from table(_GATEWAYS, [_gateway_row(one, now) for one in standing.gateways])


def _kinds(scope: Scope) -> Sequence[str]:
    return (scope.kind,) if scope.kind is not None else KINDS


async def _of_kind(client: Client, kind: str, scope: Scope) -> list[Standing]:
    resource = RESOURCES[kind]
    try:
        if scope.name:
            bodies = [await client.get(resource, scope.name, scope.namespace, into=_Body)]
        else:
            bodies = await client.list(resource, scope.namespace, into=_Body)
    except NotFound:
        return []
    return [_standing(kind, one) for one in bodies]


def _standing(kind: str, body: _Body) -> Standing:
    made = body.metadata.creation_timestamp
    created = parse_rfc3339(made) if made else None
    of = body.metadata
    return Standing(kind, of.namespace, of.name, created, body.spec.git.ref, body.spec.paused, body.status)


def _gateway_row(one: GatewayStatus, now: datetime) -> list[str]:
    people = ", ".join(sorted({held.user or held.project for held in one.held_projects or ()}))
    drift = str(one.drift.files) if one.drift is not None and one.drift.files else ""
    synced = parse_rfc3339(one.last_sync_time) if one.last_sync_time else None
    state = one.sync_status or "Pending"
    why = one.error_message or (one.reason if state != "Synced" else "") or ""
    return [
        one.name,
        one.pod_name,
        state,
        (one.synced_commit or "")[:SHORT],
        age(synced, now),
        drift,
        people,
        why,
    ]


def _brief(one: GatewayStatus) -> GatewayStatus:
    """Without its history, which is what `stoker history` is for."""
    return msgspec.structs.replace(one, sync_history=None)

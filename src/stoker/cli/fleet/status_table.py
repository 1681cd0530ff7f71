"""Text output of `stoker status`: one row per resource, or one row per gateway of a resource."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from stoker.api.spec.status import GatewayStatus
from stoker.cli.fleet.tables import format_age, table_lines
from stoker.domain.clock import parse_rfc3339
from stoker.fleet.status import ResourceStatus

_FLEET = ("NAMESPACE", "NAME", "KIND", "REF", "COMMIT", "SYNCED", "READY", "REASON", "AGE")
_GATEWAYS = ("GATEWAY", "POD", "STATE", "COMMIT", "SYNCED", "DRIFT", "HELD BY", "WHY")
SHORT = 8


def fleet_lines(standings: Sequence[ResourceStatus], now: datetime) -> Iterator[str]:
    """One row for each resource."""
    if not standings:
        yield "no resources found"
        return
    rows = []
    for one in standings:
        ready, reason, _ = one.verdict()
        commit, ref = one.status.last_sync_commit or "", one.status.last_sync_ref or one.ref
        synced, old = f"{one.synced}/{len(one.gateways)}", format_age(one.created, now)
        rows.append([one.namespace, one.name, one.kind, ref, commit[:SHORT], synced, ready, reason, old])
    yield from table_lines(_FLEET, rows)


def resource_lines(standing: ResourceStatus, now: datetime) -> Iterator[str]:
    """One resource: its Ready condition, and one row for each of its gateways."""
    ready, reason, message = standing.verdict()
    commit = (standing.status.last_sync_commit or "no commit yet")[:SHORT]
    whose = f"{standing.kind} {standing.namespace}/{standing.name}"
    yield f"{whose}: {message or reason} (Ready {ready}, {reason})"
    yield f"delivers {standing.status.last_sync_ref or standing.ref} at {commit}"
    approval = standing.status.approval
    if approval is not None and approval.state == "Pending":
        yield f"waiting for approval: stoker plan {standing.name} --namespace {standing.namespace}"
    if standing.gateways:
        yield ""
        yield from table_lines(_GATEWAYS, [_gateway_row(one, now) for one in standing.gateways])


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
        format_age(synced, now),
        drift,
        people,
        why,
    ]

"""Audit records as Events on the resource, if the installation enables them. Pure.

Agents have no right to write Events, so that no process in a gateway's pod can forge or change an audit
record. The controller emits an Event for each new entry in a gateway's history. The message is the record as
one line of JSON, without the fields that the Event itself has. A failure enters the history when it begins. A
pending plan and a pause are only in the agent's own log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from stoker.api.spec.status import GatewayStatus, SyncHistoryEntry, SyncStatus
from stoker.controller.context import ReconcileContext
from stoker.controller.status.events import NORMAL, WARNING, StatusEvent
from stoker.domain.reasons import Reason
from stoker.kube.runtime.conditions import MAX_MESSAGE_LENGTH

SUCCESS = "success"
MAX_PROJECTS = 16


def audit_events(context: ReconcileContext, after: SyncStatus) -> Iterator[StatusEvent]:
    """Yield an Event for each sync that the previous status does not have, oldest first."""
    before = {one.pod_name: one for one in context.status.discovered_gateways or ()}
    for gateway in after.discovered_gateways or ():
        known = before.get(gateway.pod_name)
        told = {_entry_identity(one) for one in (known.sync_history or () if known is not None else ())}
        newest = max((one.timestamp for one in known.sync_history or ()), default="") if known else ""
        for entry in reversed(gateway.sync_history or ()):
            # Older entries were recorded before the bounded history dropped them.
            if _entry_identity(entry) not in told and entry.timestamp >= newest:
                well = entry.result == SUCCESS
                yield StatusEvent(
                    NORMAL if well else WARNING, Reason.AUDIT, _audit_line(context, gateway, entry)
                )


def _entry_identity(entry: SyncHistoryEntry) -> tuple[str, str | None, str | None]:
    return entry.timestamp, entry.commit, entry.result


def _audit_line(context: ReconcileContext, gateway: GatewayStatus, entry: SyncHistoryEntry) -> str:
    what = context.what
    delivered = what is not None and what.commit == entry.commit
    record = {
        "timestamp": entry.timestamp,
        "gateway": gateway.name,
        "podName": gateway.pod_name,
        "trigger": what.trigger if what is not None and delivered else "",
        "commit": entry.commit or "",
        "ref": entry.ref or "",
        "filesChanged": entry.files_changed or 0,
        "projectsSynced": list((entry.projects_synced or ())[:MAX_PROJECTS]),
        "duration": entry.duration or "",
        "result": entry.result or "",
        "scanResult": (gateway.last_scan_result or "") if gateway.synced_commit == entry.commit else "",
    }
    text = _json(record)
    return text if len(text) <= MAX_MESSAGE_LENGTH else _json({**record, "projectsSynced": []})


def _json(record: dict[str, object]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))

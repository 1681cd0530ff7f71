"""The resource intent: the part of a spec that applies to the resource as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.api.to_intent.alerting import alert_notices, alerts_of
from stoker.api.to_intent.delivery import (
    agent_of,
    approval_of,
    deployment_of,
    polling_of,
    rate_limit_of,
    receiver_of,
    rollback_of,
)
from stoker.api.to_intent.policies import access_notices, policies_of
from stoker.api.to_intent.snapshots import snapshot_notices
from stoker.api.to_intent.source import source_of
from stoker.api.to_intent.types import SyncResource
from stoker.domain.intent.delivery import SharedVolumePolicy
from stoker.domain.intent.intent import Notice, ResourceIntent


def resource_intent(
    door: SyncResource,
    notices: Iterable[Notice],
    shared_volume: SharedVolumePolicy | None = None,
    *,
    single_gateway: bool = False,
) -> ResourceIntent:
    """Return the intent; the arguments hold the parts that only one kind has."""
    spec = door.spec
    policies = policies_of(spec)
    requests, request_notices = door.requests()
    return ResourceIntent(
        identity=door.identity,
        source=source_of(spec.git),
        policies=policies,
        polling=polling_of(spec.polling),
        receiver=receiver_of(spec.webhook),
        shared_volume=shared_volume,
        single_gateway=single_gateway,
        deployment=deployment_of(spec.deployment),
        rate_limit=rate_limit_of(spec.rate_limit),
        approval=approval_of(spec.approval),
        rollback=rollback_of(spec.rollback),
        alerts=alerts_of(spec.alerting),
        agent=agent_of(spec.agent),
        requests=requests,
        paused=bool(spec.paused),
        notices=(
            *notices,
            *access_notices(policies.access),
            *snapshot_notices(spec.snapshots),
            *alert_notices(spec.alerting),
            *request_notices,
        ),
    )

"""Pauses and resumes one resource, or every resource of an installation.

One resource is paused by its field `spec.paused`. All resources are paused by the pause ConfigMap that the
controller watches (the emergency stop).
"""

from __future__ import annotations

from datetime import timedelta

from stoker.controller.cache.informers import PAUSE_MAP
from stoker.controller.sharding.division import shard_index
from stoker.domain.clock import LONG_AGO, Clock, SystemClock, rfc3339_or
from stoker.fleet.lookup import find_resource, patch_resource
from stoker.fleet.resource_name import ResourceName
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import Forbidden
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import CONFIG_MAPS, LEASES
from stoker.kube.leader.lease import Lease

__all__ = ["PAUSE_MAP", "has_live_controller", "pause_installation", "pause_resource"]

STALE_SECONDS = 60.0
"""A Lease that was not renewed for this long has no live holder, even if the clocks differ."""


async def pause_resource(client: KubeClient, named: ResourceName, *, paused: bool) -> str:
    """Pause or resume one resource; return a sentence that describes the change."""
    kind = (await find_resource(client, named)).kind
    await patch_resource(client, kind, named, {"spec": {"paused": paused}})
    return f"{kind} {named} {'is paused' if paused else 'is resumed'}"


async def pause_installation(client: KubeClient, home: str, *, paused: bool, manager: str) -> str:
    """Set or clear the emergency stop of the operator in namespace `home`; return a sentence about it.

    In an emergency the ConfigMap is written first; the caller checks `has_live_controller` afterwards.
    """
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PAUSE_MAP, "namespace": home},
        "data": {"paused": "true" if paused else "false"},
    }
    await client.apply(CONFIG_MAPS, body, PAUSE_MAP, home, manager=manager, into=ObjectHeader)
    where = f"by {PAUSE_MAP} in namespace {home}"
    return f"everything is paused {where}" if paused else f"everything is resumed, {where}"


async def has_live_controller(client: KubeClient, home: str, clock: Clock | None = None) -> bool:
    """Return whether a controller holds a fresh Lease in `home`; True if the user may not list Leases."""
    try:
        leases = await client.list(LEASES, home, into=Lease)
    except Forbidden:
        return True
    oldest = (clock or SystemClock()).now() - timedelta(seconds=STALE_SECONDS)
    return any(
        shard_index(one) is not None
        and one.spec.holder_identity
        # A controller that was killed or uninstalled remains the holder of its Lease.
        and rfc3339_or(one.spec.renew_time, LONG_AGO) >= oldest
        for one in leases
    )

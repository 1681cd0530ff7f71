"""Builds the rollback of a gateway from its resource, if it needs one.

An agent without snapshots and rollback does not pay for them: the other modules of this package are imported
only if there is work to do, or if a record of an earlier process requires it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.engine.layout.protected_paths import STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from stoker.agent.rollback.rollback import FolderRollback
    from stoker.agent.sync.hooks import SyncHook
    from stoker.domain.clock import Clock
    from stoker.domain.intent.delivery import RollbackTrigger
    from stoker.domain.intent.intent import ResourceIdentity
    from stoker.domain.intent.policies import SnapshotPolicy
    from stoker.domain.intent.source import SecretKey
    from stoker.ignition.content.noise import ResourceNoise
    from stoker.ignition.sync.gateway_hook import GatewayHook


def open_rollback(
    policy: SnapshotPolicy | None,
    triggers: Collection[RollbackTrigger],
    *,
    data_dir: Path,
    gateway: str,
    clock: Clock,
    mount: Path | None = None,
    secret: Callable[[SecretKey], bytes] | None = None,
    attendant: GatewayHook | None = None,
    files_only: SyncHook | None = None,
    noise: ResourceNoise | None = None,
    asked: bool = False,
    resource: ResourceIdentity | None = None,
) -> FolderRollback | None:
    """Return None unless snapshots or rollback are configured or requested, or a record of them exists."""
    from stoker.agent.rollback.state import RollbackRecords  # noqa: PLC0415 - see the module docstring

    notes = RollbackRecords(data_dir / STATE)
    if not (
        (policy is not None and policy.enabled) or (triggers and attendant is not None) or asked or notes.any
    ):
        return None
    from stoker.agent.rollback.rollback import FolderRollback  # noqa: PLC0415
    from stoker.agent.rollback.storage import SnapshotLocation, owner_of  # noqa: PLC0415
    from stoker.domain.intent.policies import SnapshotPolicy  # noqa: PLC0415

    owner = owner_of(resource.namespace, resource.door, resource.name) if resource is not None else ""
    place = SnapshotLocation(data_dir, gateway, mount, secret, owner)
    return FolderRollback(
        policy or SnapshotPolicy(),
        triggers,
        place,
        notes,
        clock,
        attendant=attendant,
        files_only=files_only,
        noise=noise,
    )

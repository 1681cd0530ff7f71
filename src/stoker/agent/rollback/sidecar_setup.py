"""Builds the rollback of a sidecar from its desired state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.agent.desired_state import DesiredState
from stoker.agent.identity import AgentPaths
from stoker.agent.rollback.setup import open_rollback
from stoker.agent.sidecar.mounted_secrets import MountedSecrets
from stoker.domain.clock import Clock

if TYPE_CHECKING:
    from stoker.agent.rollback.rollback import FolderRollback
    from stoker.agent.sync.hooks import SyncHook
    from stoker.ignition.content.noise import ResourceNoise
    from stoker.ignition.sync.gateway_hook import GatewayHook


def sidecar_rollback(
    direction: DesiredState,
    places: AgentPaths,
    secrets: MountedSecrets,
    attendant: GatewayHook | None,
    files_only: SyncHook | None,
    noise: ResourceNoise | None,
    clock: Clock,
) -> FolderRollback | None:
    """Return the rollback; None if the pod needs none."""
    return open_rollback(
        direction.intent.policies.snapshots,
        direction.auto_rollback,
        data_dir=places.data,
        gateway=direction.snapshot_name,
        mount=places.snapshots,
        secret=secrets.read,
        attendant=attendant,
        files_only=files_only,
        noise=noise,
        clock=clock,
        asked=bool(direction.pinned_at),
        resource=direction.intent.resource,
    )

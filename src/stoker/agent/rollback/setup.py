"""Who takes changes back at a gateway, made of what its resource says; nobody where nothing asks for it.

Whoever neither copies nor goes back pays for none of it: the rest of this room is
imported only where something is to be done, or where a note of earlier says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.engine.layout.protected_paths import STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from stoker.agent.rollback.rollback import Undoing
    from stoker.agent.sync.hooks import Noise, PassHook
    from stoker.domain.clock import Clock
    from stoker.domain.intent.delivery import RollbackTrigger
    from stoker.domain.intent.intent import Identity
    from stoker.domain.intent.policies import Snapshots
    from stoker.domain.intent.source import SecretKey
    from stoker.ignition.sync.gateway_hook import Attending


def make(
    policy: Snapshots | None,
    triggers: Collection[RollbackTrigger],
    *,
    data_dir: Path,
    gateway: str,
    clock: Clock,
    mount: Path | None = None,
    secret: Callable[[SecretKey], bytes] | None = None,
    attendant: Attending | None = None,
    files_only: PassHook | None = None,
    noise: Noise | None = None,
    asked: bool = False,
    resource: Identity | None = None,
) -> Undoing | None:
    """None unless somebody wants copies, a way back, or there is a note about one."""
    from stoker.agent.rollback.state import Notes  # noqa: PLC0415 - see above

    notes = Notes(data_dir / STATE)
    if not (
        (policy is not None and policy.enabled) or (triggers and attendant is not None) or asked or notes.any
    ):
        return None
    from stoker.agent.rollback.rollback import Undoing  # noqa: PLC0415
    from stoker.agent.rollback.storage import Place, owner_of  # noqa: PLC0415
    from stoker.domain.intent.policies import Snapshots  # noqa: PLC0415

    owner = owner_of(resource.namespace, resource.door, resource.name) if resource is not None else ""
    place = Place(data_dir, gateway, mount, secret, owner)
    return Undoing(
        policy or Snapshots(),
        triggers,
        place,
        notes,
        clock,
        attendant=attendant,
        files_only=files_only,
        noise=noise,
    )

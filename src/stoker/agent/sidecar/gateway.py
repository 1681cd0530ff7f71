"""The gateway of this pod, opened for a direction.

It answers on the loopback address, and only where the resource names its port. A key
that is missing or malformed, or an authority that is not mounted, is an error of the
first question to the gateway: no file is written then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from stoker.agent.desired_state import DesiredState
from stoker.agent.sidecar.mounted_secrets import MountedSecrets
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.secrets import Secret
from stoker.engine.layout.protected_paths import STATE

if TYPE_CHECKING:
    from stoker.ignition.sync.files_only import FilesOnlyHook
    from stoker.ignition.sync.gateway_hook import GatewayHook

HOST = "127.0.0.1"
FILES_ONLY_NOTE = (
    "spec.gateway is missing or has filesOnly: files are written without asking the gateway, "
    "and nothing is scanned"
)


def gateway_stamp(direction: DesiredState, secrets: MountedSecrets) -> tuple[object, ...]:
    """What differs once the gateway's key or authority is another one, or can be read at last."""
    access = direction.access
    if access.files_only:
        return ()
    authority = ""
    if access.ca is not None:
        try:
            authority = hashlib.sha256(secrets.read(access.ca)).hexdigest()
        except StokerError as error:
            authority = error.message
    return authority, secrets.stamp(access.api_key)


def files_only_for(direction: DesiredState) -> FilesOnlyHook | None:
    """Leaves a scan pending and asks the gateway nothing; None where the gateway is asked."""
    if not direction.access.files_only:
        return None
    from stoker.ignition.sync.files_only import FilesOnlyHook  # noqa: PLC0415 - few gateways are not asked

    return FilesOnlyHook(direction.job.data_dir / STATE, direction.intent.policies.ignition)


def gateway_attendant(
    direction: DesiredState,
    secrets: MountedSecrets,
    clock: Clock,
    answered: Callable[[float], None] | None = None,
) -> GatewayHook | None:
    """Asks the gateway around each pass; None where only files are written (`spec.gateway.filesOnly`)."""
    access = direction.access
    if access.files_only:
        return None
    from stoker.ignition.client.address import GatewayAddress  # noqa: PLC0415 - files alone need no gateway
    from stoker.ignition.client.gateway import GatewayClient  # noqa: PLC0415
    from stoker.ignition.sync.gateway_hook import GatewayHook, GatewayHookOptions  # noqa: PLC0415

    key, ca = secrets.api_key(access.api_key), None
    try:
        ca = secrets.read(access.ca) if access.ca is not None else None
    except StokerError as error:
        why = error

        def key() -> Secret:
            raise why  # nobody whose certificate cannot be checked gets to see the key

    gateway = GatewayClient(
        GatewayAddress(HOST, access.port, access.tls),
        key,
        header=access.api_key_header,
        ca=ca,
        insecure_skip_verify=access.insecure_skip_verify,
        clock=clock,
    )
    data_dir = direction.job.data_dir
    options = GatewayHookOptions(
        data_dir=data_dir,
        state_dir=data_dir / STATE,
        order=access.scan_order,
        policy=direction.intent.policies.ignition,
    )
    return GatewayHook(gateway, options, clock, answered)

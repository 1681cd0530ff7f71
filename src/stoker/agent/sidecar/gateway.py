"""Builds the hook and client for the gateway of this pod from the desired state.

The gateway listens on the loopback address; the agent contacts it only if the resource names its port. A
missing or malformed key, or a CA certificate that is not mounted, raises at the first request to the gateway;
then no file is written.
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
    "spec.gateway is missing or has filesOnly: files are written without contacting the gateway, and no scan "
    "is requested"
)


def gateway_stamp(direction: DesiredState, secrets: MountedSecrets) -> tuple[object, ...]:
    """Return a value that changes when the gateway's key or CA certificate changes or becomes readable."""
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
    """Return a hook that only leaves a scan pending; None if the agent contacts the gateway."""
    if not direction.access.files_only:
        return None
    from stoker.ignition.sync.files_only import FilesOnlyHook  # noqa: PLC0415 - few gateways are not contacted

    return FilesOnlyHook(direction.job.data_dir / STATE, direction.intent.policies.ignition)


def gateway_attendant(
    direction: DesiredState,
    secrets: MountedSecrets,
    clock: Clock,
    answered: Callable[[float], None] | None = None,
) -> GatewayHook | None:
    """Return the hook that contacts the gateway around each sync; None with `spec.gateway.filesOnly`."""
    access = direction.access
    if access.files_only:
        return None
    from stoker.ignition.client.address import GatewayAddress  # noqa: PLC0415 - not needed for files only
    from stoker.ignition.client.gateway import GatewayClient  # noqa: PLC0415
    from stoker.ignition.sync.gateway_hook import GatewayHook, GatewayHookOptions  # noqa: PLC0415

    key, ca = secrets.api_key(access.api_key), None
    try:
        ca = secrets.read(access.ca) if access.ca is not None else None
    except StokerError as error:
        why = error

        def key() -> Secret:
            raise why  # never send the key to a server whose certificate cannot be checked

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

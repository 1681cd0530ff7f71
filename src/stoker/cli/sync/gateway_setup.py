"""Opens the gateway of a sync request; `stoker.ignition.sync.gateway_hook` then acts around each sync."""

from __future__ import annotations

from stoker.cli.sync.sync_request import SyncRequest
from stoker.domain.intent.policies import IgnitionPolicy
from stoker.domain.intent.source import SecretKey
from stoker.domain.secrets import Secret
from stoker.engine.layout.protected_paths import STATE
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.api_key import ApiKeyReader
from stoker.ignition.client.gateway import GatewayClient
from stoker.ignition.sync.gateway_hook import GatewayHook, GatewayHookOptions
from stoker.ignition.sync.scans import ResponseObserver


def open_attendant(order: SyncRequest, answered: ResponseObserver | None = None) -> GatewayHook | None:
    """Return the hook for the request's gateway, or None if the request names none."""
    access = order.access
    if access is None or not order.host:
        return None
    ca = order.secrets.read(access.ca) if access.ca is not None else None
    gateway = GatewayClient(
        GatewayAddress(order.host, access.port, access.tls),
        _api_key_reader(order, access.api_key),
        header=access.api_key_header,
        ca=ca,
        insecure_skip_verify=access.insecure_skip_verify,
    )
    data_dir = order.job.data_dir
    options = GatewayHookOptions(
        data_dir=data_dir,
        state_dir=data_dir / STATE,
        order=access.scan_order,
        policy=order.ignition or IgnitionPolicy(),
    )
    return GatewayHook(gateway, options, answered=answered)


def _api_key_reader(order: SyncRequest, wanted: SecretKey | None) -> ApiKeyReader:
    def read() -> Secret:
        if wanted is None:
            return Secret("")
        return order.secrets.api_key(wanted)

    return read

"""The checks of `stoker doctor` for a gateway, ordered so that each depends on the ones before.

Each check sends one request and returns one finding; `advice` explains it. The checks change
nothing on the gateway, except that a scan is requested with `--try-scan`. The first finding
that is wrong ends the examination.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.findings import Finding, FindingStatus
from stoker.domain.reasons import Reason
from stoker.domain.text import first_names, one_line
from stoker.ignition.client.api_key import ApiKeyReader, api_key_name
from stoker.ignition.client.gateway import GatewayClient, ScanKind
from stoker.ignition.client.inventory import GatewayInfo
from stoker.ignition.client.responses import GatewayPresence, PathNotOffered
from stoker.ignition.doctor import advice

CONNECT_SECONDS = 5.0


@dataclass(slots=True)
class CheckedGateway:
    """The gateway under examination, and the results of earlier checks."""

    gateway: GatewayClient
    key: ApiKeyReader
    try_scan: bool = False
    here: GatewayPresence = field(default_factory=GatewayPresence)
    info: GatewayInfo = field(default_factory=lambda: GatewayInfo("", ""))
    refused: Stalled | None = None


async def examine_gateway(patient: CheckedGateway) -> AsyncIterator[Finding]:
    """Yield findings up to the first that is wrong."""
    for name, look in CHECKS:
        try:
            finding = await look(patient)
        except StokerError as error:
            finding = advice.error_finding(name, error, patient.gateway.address)
        yield finding
        if finding.mark is FindingStatus.WRONG:
            return


async def _check_address(patient: CheckedGateway) -> Finding:
    host = patient.gateway.address.host
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return Finding("address", FindingStatus.WELL, host)
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _unreachable_error(patient, "its name is not known") from None
    addresses = sorted({str(one[4][0]) for one in found})
    return Finding("address", FindingStatus.WELL, f"{host} is {first_names(addresses, advice.MAX_NAMES)}")


async def _check_port(patient: CheckedGateway) -> Finding:
    address = patient.gateway.address
    try:
        # wait_for instead of asyncio.timeout, which has a bug in Python 3.11.2.
        opening = asyncio.open_connection(address.host, address.port)
        _, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
    except TimeoutError:
        raise _unreachable_error(patient, f"no connection within {CONNECT_SECONDS:g} s") from None
    except OSError as error:
        raise _unreachable_error(patient, _os_error_text(error)) from None
    writer.close()
    return Finding("port", FindingStatus.WELL, f"{address.port} is open")


async def _check_transport(patient: CheckedGateway) -> Finding:
    """Send the first request; it fails if the connection does."""
    patient.here = await patient.gateway.presence()
    return advice.transport_finding(patient.gateway.address, patient.gateway.trust)


async def _check_ignition(patient: CheckedGateway) -> Finding:
    return advice.ignition_finding(patient.here, patient.gateway.address)


async def _check_state(patient: CheckedGateway) -> Finding:
    patient.gateway.require_running(patient.here)
    return Finding("state", FindingStatus.WELL, patient.here.state.value.lower())


async def _check_version(patient: CheckedGateway) -> Finding:
    return advice.version_finding(patient.here)


async def _check_key(patient: CheckedGateway) -> Finding:
    return Finding(
        "key", FindingStatus.WELL, f"of the form NAME:SECRET, its name is {api_key_name(patient.key())!r}"
    )


async def _check_key_accepted(patient: CheckedGateway) -> Finding:
    try:
        patient.info = await patient.gateway.check()
    except Stalled as error:
        if error.reason is not Reason.LEVEL_NOT_GRANTED:
            raise
        patient.refused = error
    return Finding("login", FindingStatus.WELL, "the gateway knows the key")


async def _check_read(patient: CheckedGateway) -> Finding:
    if patient.refused is not None:
        raise patient.refused
    called = f", the gateway is called {patient.info.name!r}" if patient.info.name else ""
    return Finding("read", FindingStatus.WELL, f"Gateway Read is granted{called}")


async def _check_write(patient: CheckedGateway) -> Finding:
    if patient.try_scan:
        await patient.gateway.scan(ScanKind.PROJECTS)
        return Finding(
            "write", FindingStatus.WELL, "Gateway Write is granted, a scan of projects was accepted"
        )
    try:
        await patient.gateway.may_write()
    except PathNotOffered:
        said = "not tried: with --try-scan a scan of projects is asked for, which does no harm"
        return Finding("write", FindingStatus.UNTRIED, said)
    return Finding("write", FindingStatus.WELL, "Gateway Write is granted")


async def _check_scan_lock(patient: CheckedGateway) -> Finding:
    try:
        held = await patient.gateway.lock_info(ScanKind.PROJECTS)
    except PathNotOffered:
        said = "not offered by this gateway: a sync goes on without it, each file whole in itself"
        return Finding("scan lock", FindingStatus.NOTE, said)
    if held:
        return Finding(
            "scan lock",
            FindingStatus.NOTE,
            "held by another client at this moment",
            "A sync waits for its end.",
        )
    return Finding("scan lock", FindingStatus.WELL, "offered and free")


async def _check_projects(patient: CheckedGateway) -> Finding:
    names = sorted(await patient.gateway.project_names())
    return Finding(
        "projects", FindingStatus.WELL, first_names(names, advice.MAX_NAMES) if names else "none yet"
    )


async def _check_modules(patient: CheckedGateway) -> Finding:
    return advice.modules_finding(await patient.gateway.modules())


async def _check_restart(patient: CheckedGateway) -> Finding:
    return advice.restarts_finding(await patient.gateway.pending_restarts())


async def _check_redundancy(patient: CheckedGateway) -> Finding:
    return advice.redundancy_finding(patient.info)


async def _check_designers(patient: CheckedGateway) -> Finding:
    return advice.designers_finding(await patient.gateway.designers())


CHECKS: tuple[tuple[str, Callable[[CheckedGateway], Awaitable[Finding]]], ...] = (
    ("address", _check_address),
    ("port", _check_port),
    ("tls", _check_transport),
    ("ignition", _check_ignition),
    ("state", _check_state),
    ("version", _check_version),
    ("key", _check_key),
    ("login", _check_key_accepted),
    ("read", _check_read),
    ("write", _check_write),
    ("scan lock", _check_scan_lock),
    ("projects", _check_projects),
    ("modules", _check_modules),
    ("restart", _check_restart),
    ("redundancy", _check_redundancy),
    ("designers", _check_designers),
)


def _unreachable_error(patient: CheckedGateway, why: str) -> Retry:
    return Retry(
        f"the gateway at {patient.gateway.address} cannot be reached: {why}",
        reason=Reason.GATEWAY_UNREACHABLE,
    )


def _os_error_text(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else one_line(str(error), 200)

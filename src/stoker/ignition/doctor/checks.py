"""The checks of `stoker doctor` that concern a gateway, in the order in which things go wrong.

Each check asks one thing and makes one finding; `advice` knows what it means.
None of them changes anything on the gateway, except that a scan is asked for where
that was wished. The first thing that is wrong ends it.
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
from stoker.ignition.client.api_key import ApiKeyReader, name_of
from stoker.ignition.client.gateway import GatewayClient, ScanKind
from stoker.ignition.client.inventory import GatewayInfo
from stoker.ignition.client.responses import GatewayPresence, PathNotOffered, one_line
from stoker.ignition.doctor import advice

CONNECT_SECONDS = 5.0


@dataclass(slots=True)
class CheckedGateway:
    """The gateway under examination, and what earlier checks learned of it."""

    gateway: GatewayClient
    key: ApiKeyReader
    try_scan: bool = False
    here: GatewayPresence = field(default_factory=GatewayPresence)
    info: GatewayInfo = field(default_factory=lambda: GatewayInfo("", ""))
    refused: Stalled | None = None


async def examine(patient: CheckedGateway) -> AsyncIterator[Finding]:
    """Finding after finding, up to the first that is wrong."""
    for name, look in CHECKS:
        try:
            finding = await look(patient)
        except StokerError as error:
            finding = advice.trouble(name, error, patient.gateway.address)
        yield finding
        if finding.mark is FindingStatus.WRONG:
            return


async def _address(patient: CheckedGateway) -> Finding:
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
        raise _unreachable(patient, "its name is not known") from None
    addresses = sorted({str(one[4][0]) for one in found})
    return Finding("address", FindingStatus.WELL, f"{host} is {advice.some(addresses)}")


async def _port(patient: CheckedGateway) -> Finding:
    address = patient.gateway.address
    try:
        # wait_for and not asyncio.timeout: the latter misjudges in Python 3.11.2.
        opening = asyncio.open_connection(address.host, address.port)
        _, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
    except TimeoutError:
        raise _unreachable(patient, f"no connection within {CONNECT_SECONDS:g} s") from None
    except OSError as error:
        raise _unreachable(patient, _system(error)) from None
    writer.close()
    return Finding("port", FindingStatus.WELL, f"{address.port} is open")


async def _transport(patient: CheckedGateway) -> Finding:
    """The first request: it fails where the connection does."""
    patient.here = await patient.gateway.presence()
    return advice.transport(patient.gateway.address, patient.gateway.trust)


async def _ignition(patient: CheckedGateway) -> Finding:
    return advice.is_ignition(patient.here, patient.gateway.address)


async def _state(patient: CheckedGateway) -> Finding:
    patient.gateway.require_running(patient.here)
    return Finding("state", FindingStatus.WELL, patient.here.state.value.lower())


async def _version(patient: CheckedGateway) -> Finding:
    return advice.version(patient.here)


async def _key(patient: CheckedGateway) -> Finding:
    return Finding(
        "key", FindingStatus.WELL, f"of the form NAME:SECRET, its name is {name_of(patient.key())!r}"
    )


async def _accepted(patient: CheckedGateway) -> Finding:
    try:
        patient.info = await patient.gateway.check()
    except Stalled as error:
        if error.reason is not Reason.LEVEL_NOT_GRANTED:
            raise
        patient.refused = error
    return Finding("login", FindingStatus.WELL, "the gateway knows the key")


async def _read(patient: CheckedGateway) -> Finding:
    if patient.refused is not None:
        raise patient.refused
    called = f", the gateway is called {patient.info.name!r}" if patient.info.name else ""
    return Finding("read", FindingStatus.WELL, f"Gateway Read is granted{called}")


async def _write(patient: CheckedGateway) -> Finding:
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


async def _scan_lock(patient: CheckedGateway) -> Finding:
    try:
        held = await patient.gateway.lock_info(ScanKind.PROJECTS)
    except PathNotOffered:
        said = "not offered by this gateway: a sync goes on without it, each file whole in itself"
        return Finding("scan lock", FindingStatus.NOTE, said)
    if held:
        return Finding(
            "scan lock", FindingStatus.NOTE, "held by somebody at this moment", "A sync waits for its end."
        )
    return Finding("scan lock", FindingStatus.WELL, "offered and free")


async def _projects(patient: CheckedGateway) -> Finding:
    names = sorted(await patient.gateway.project_names())
    return Finding("projects", FindingStatus.WELL, advice.some(names) if names else "none yet")


async def _modules(patient: CheckedGateway) -> Finding:
    return advice.modules(await patient.gateway.modules())


async def _restart(patient: CheckedGateway) -> Finding:
    return advice.restarts(await patient.gateway.pending_restarts())


async def _redundancy(patient: CheckedGateway) -> Finding:
    return advice.redundancy(patient.info)


async def _designers(patient: CheckedGateway) -> Finding:
    return advice.designers(await patient.gateway.designers())


CHECKS: tuple[tuple[str, Callable[[CheckedGateway], Awaitable[Finding]]], ...] = (
    ("address", _address),
    ("port", _port),
    ("tls", _transport),
    ("ignition", _ignition),
    ("state", _state),
    ("version", _version),
    ("key", _key),
    ("login", _accepted),
    ("read", _read),
    ("write", _write),
    ("scan lock", _scan_lock),
    ("projects", _projects),
    ("modules", _modules),
    ("restart", _restart),
    ("redundancy", _redundancy),
    ("designers", _designers),
)


def _unreachable(patient: CheckedGateway, why: str) -> Retry:
    return Retry(
        f"the gateway at {patient.gateway.address} cannot be reached: {why}",
        reason=Reason.GATEWAY_UNREACHABLE,
    )


def _system(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else one_line(str(error), 200)

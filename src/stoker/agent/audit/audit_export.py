"""Exports audit records to a log server by syslog.

Records are always in the process log and in `.sync-state/audit.jsonl`; the export is for sites that collect
neither. It must never delay a sync: `stoker.telemetry.log_shipper` queues a record and returns.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from stoker.domain.errors import Misconfigured
from stoker.telemetry.syslog import INFO, WARNING, SyslogAddress, SyslogTransport, syslog_message

if TYPE_CHECKING:
    from ssl import SSLContext

    from stoker.telemetry.log_shipper import LogShipper

AuditExport: TypeAlias = Callable[[Mapping[str, Any]], None]

SYSLOG_ADDRESS_VARIABLE = "STOKER_AUDIT_SYSLOG"
FACILITY = "STOKER_AUDIT_SYSLOG_FACILITY"
SYSLOG_CA_VARIABLE = "STOKER_AUDIT_SYSLOG_CA"
"""Certificates in PEM form, or the path of a file with them."""
SUCCESS = "success"
KIND = "audit"


def shipper_for(environment: Mapping[str, str]) -> LogShipper | None:
    """Return the shipper that the environment configures; None if it names no server."""
    address = environment.get(SYSLOG_ADDRESS_VARIABLE, "").strip()
    if not address:
        return None
    from stoker.telemetry.log_shipper import LogShipper  # noqa: PLC0415 - most agents export nothing

    server = SyslogAddress.parse(address, environment.get(FACILITY, "").strip() or "audit")
    if server.via is not SyslogTransport.TLS:
        return LogShipper(server)
    authority = _read_ca_bundle(environment.get(SYSLOG_CA_VARIABLE, ""))
    context = partial(_tls_context, authority)
    context()  # report an unreadable certificate at the start, not at the first record
    return LogShipper(server, tls=context)


def check_export_settings(environment: Mapping[str, str]) -> None:
    """Check the agents' export settings in the process that passes them on, where a person sees the error.

    A CA path is not checked: it names a file of the agent's own pod.
    """
    authority = environment.get(SYSLOG_CA_VARIABLE, "")
    shipper_for({**environment, SYSLOG_CA_VARIABLE: authority if "-----BEGIN " in authority else ""})


def exporter_for(shipper: LogShipper, host: str = "") -> AuditExport:
    """Return a function that hands records to the shipper; `host` identifies this agent on the log server."""
    name, process = host or socket.gethostname(), os.getpid()

    def export(record: Mapping[str, Any]) -> None:
        severity = INFO if record.get("result") == SUCCESS else WARNING
        facility = shipper.server.facility
        shipper.offer(
            syslog_message(
                record, facility=facility, severity=severity, host=name, process=process, kind=KIND
            )
        )

    return export


def _read_ca_bundle(text: str) -> bytes | None:
    if not text.strip():
        return None
    if "-----BEGIN " in text:
        return text.encode()
    from stoker.http_client.tls import MAX_CA_BYTES  # noqa: PLC0415

    try:
        with Path(text.strip()).open("rb") as file:
            return file.read(MAX_CA_BYTES + 1)
    except OSError as error:
        raise Misconfigured(f"{SYSLOG_CA_VARIABLE} names {text.strip()[:200]!r}: {error.strerror}") from None


def _tls_context(authority: bytes | None) -> SSLContext:
    from stoker.http_client.tls import client_tls_context  # noqa: PLC0415

    return client_tls_context(authority)

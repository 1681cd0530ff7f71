"""Formats RFC 5424 messages and parses syslog addresses. Pure.

An address is `unix:/dev/log`, `udp://host:514`, `tcp://host:601` or `tls://host:6514`. The text of a
message is the record as one line of ASCII JSON, so that no collector has to guess an encoding. A few values
are repeated as structured data, for collectors that route by them. `stoker.telemetry.log_shipper` sends
the messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from stoker.domain.errors import Misconfigured

FACILITIES: Final = {"user": 1, "daemon": 3, "auth": 4, "authpriv": 10, "audit": 13} | {
    f"local{number}": 16 + number for number in range(8)
}
INFO: Final = 6
WARNING: Final = 4
MAX_MESSAGE_BYTES: Final = 8192
"""Limit of a message in bytes: rsyslog's default limit, and small enough for one datagram."""
SD_ID: Final = "stoker@32473"
"""32473 is the enterprise number that RFC 5612 reserves for documentation."""
APP_NAME: Final = "stoker"
_SD_VALUES: Final = ("cr", "namespace", "gateway", "trigger", "result")
_LIST: Final = "projectsSynced"
_PORTS: Final = {"udp": 514, "tcp": 601, "tls": 6514}
_UNPRINTABLE = re.compile(r"[^!-~]")


class SyslogTransport(StrEnum):
    """The transport of messages."""

    UNIX = "unix"
    UDP = "udp"
    TCP = "tcp"
    TLS = "tls"


@dataclass(frozen=True, slots=True)
class SyslogAddress:
    """The address of a log server."""

    via: SyslogTransport
    host: str
    """The host name; for a Unix socket, its path."""
    port: int = 0
    facility: int = FACILITIES["audit"]

    @classmethod
    def parse(cls, address: str, facility: str = "audit") -> SyslogAddress:
        number = FACILITIES.get(facility)
        if number is None:
            raise Misconfigured(f"syslog facility {facility[:40]!r} is none of {', '.join(FACILITIES)}")
        if address.startswith("unix:/"):
            path = address.removeprefix("unix:")
            return cls(SyslogTransport.UNIX, f"/{path.lstrip('/')}", facility=number)
        refused = Misconfigured(
            f"syslog address {address[:200]!r} is none of unix:/PATH, udp://HOST:PORT, tcp://HOST:PORT, "
            "tls://HOST:PORT"
        )
        try:
            parts = urlsplit(address)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise refused from None
        rest = parts.username, parts.password, parts.query, parts.fragment, parts.path.strip("/")
        if parts.scheme not in _PORTS or not host or any(rest):
            raise refused
        return cls(SyslogTransport(parts.scheme), host, port or _PORTS[parts.scheme], number)

    def __str__(self) -> str:
        return (
            f"unix:{self.host}"
            if self.via is SyslogTransport.UNIX
            else f"{self.via}://{self.host}:{self.port}"
        )


def syslog_message(
    record: Mapping[str, Any], *, facility: int, severity: int, host: str, process: int, kind: str
) -> bytes:
    """Return a message without framing; `record` has its own `timestamp`, and is truncated until it fits."""
    told = dict(record)
    head = " ".join(
        (
            f"<{facility * 8 + severity}>1",
            _header_field(str(told.get("timestamp", "")), 32),
            _header_field(host, 255),
            APP_NAME,
            str(process),
            _header_field(kind, 32),
            _structured(told),
        )
    )
    while True:
        text = json.dumps(told, ensure_ascii=True, separators=(",", ":"))
        listed = told.get(_LIST)
        if len(head) + 1 + len(text) <= MAX_MESSAGE_BYTES or not listed:
            break
        told[_LIST] = listed[: len(listed) // 2]
        told["cut"] = True
    return f"{head} {text}".encode()[:MAX_MESSAGE_BYTES]


def frame_message(message: bytes) -> bytes:
    """Frame a message for a stream by its octet count (RFC 6587, RFC 5425): it may contain any octet."""
    return b"%d %b" % (len(message), message)


def _structured(record: Mapping[str, Any]) -> str:
    said = ((name, str(record[name])) for name in _SD_VALUES if record.get(name))
    values = "".join(f' {name}="{_escaped(value)}"' for name, value in said)
    return f"[{SD_ID}{values}]"


def _escaped(value: str) -> str:
    text = value[:255].encode("ascii", "backslashreplace").decode()
    return re.sub(r'(["\\\]])', r"\\\1", text)


def _header_field(text: str, longest: int) -> str:
    """Return a header field: printable without spaces, or "-" if it is empty."""
    return _UNPRINTABLE.sub("_", text)[:longest] or "-"

"""The address of a gateway: scheme, host and port, checked once.

People write `localhost:8043`, `https://gw.plant.example` or `10.0.0.5:8088`. Without a
scheme, ports 443 and 8043 mean TLS and any other port means plain HTTP.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from stoker.domain.errors import InvalidValue

PLAIN_PORT = 8088
TLS_PORT = 8043
_TLS_PORTS = frozenset({443, TLS_PORT})
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._]{0,251}[A-Za-z0-9])?\.?")


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """The address of one gateway's web server."""

    host: str
    port: int
    tls: bool

    @classmethod
    def parse(cls, text: str) -> GatewayAddress:
        """Parse `host:port`, `host`, or a URL without a path."""
        if "@" in text:
            raise InvalidValue("a gateway address holds no user name and no password; the key is a file")
        shown = ascii(text[:100])
        scheme, slashes, rest = text.partition("://")
        if not slashes:
            scheme, rest = "", text
        if scheme not in {"", "http", "https"}:
            raise InvalidValue(f"gateway address {shown} begins with neither http:// nor https://")
        try:
            if not rest.isprintable() or rest.endswith(":"):  # urlsplit silently drops line breaks
                raise ValueError
            parts = urlsplit(f"//{rest}")
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise InvalidValue(f"gateway address {shown} is not of the form host:port") from None
        if parts.path not in {"", "/"} or "?" in rest or "#" in rest or not _is_host(host) or port == 0:
            raise InvalidValue(f"gateway address {shown} is not of the form host:port")
        tls = scheme == "https" or (not scheme and port in _TLS_PORTS)
        return cls(host, port or (TLS_PORT if tls else PLAIN_PORT), tls)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether it is this machine (or pod); its certificate then names another host."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.rstrip(".").lower() == "localhost"

    def __str__(self) -> str:
        return self.url


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return bool(_NAME.fullmatch(host)) and all(len(label) <= 63 for label in host.split("."))
    return True

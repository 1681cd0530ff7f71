"""Selects the proxy for a server from the environment, by the rules of kubectl.

HTTPS_PROXY or HTTP_PROXY by the server's scheme, unless NO_PROXY matches the host (itself, a parent domain,
an address, a network in CIDR form, `*`). A server on this machine never uses a proxy. The `proxy-url` of a
kubeconfig takes precedence over all of this, and a pod's own service account uses no proxy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from stoker.domain.errors import Misconfigured
from stoker.domain.secrets import Secret


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> Secret | None:
    """Return the proxy for a server's address, if any."""
    target = urlsplit(server)
    host = target.hostname or ""
    name = f"{target.scheme}_proxy"
    address = environ.get(name.upper()) or environ.get(name) or ""
    if not address or _is_local(host):
        return None
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if any(_covers_host(each.strip(), host, target.port) for each in exceptions.split(",")):
        return None
    return check_proxy(address if "://" in address else f"http://{address}", f"the variable {name.upper()}")


def check_proxy(address: str, where: str) -> Secret:
    """Validate a proxy's address and return it as a Secret, because it may contain a password."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise Misconfigured(
            f"{where} names a proxy that is not of the form http://host:port or https://host:port"
        )
    return Secret(address)


def _is_local(host: str) -> bool:
    address = _parse_ip(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _covers_host(exception: str, host: str, port: int | None) -> bool:
    if not exception:
        return False
    if exception == "*":
        return True
    address = _parse_ip(host)
    if address is not None and "/" in exception:
        try:
            return address in ipaddress.ip_network(exception, strict=False)
        except ValueError:
            return False
    name, _, wanted = exception.rpartition(":") if exception.count(":") == 1 else (exception, "", "")
    if wanted and wanted != str(port or 443):
        return False
    name = name.lstrip("*").lstrip(".").strip("[]").lower()
    return host == name or (address is None and host.endswith(f".{name}"))


def _parse_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None

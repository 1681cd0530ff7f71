"""Selects the proxy for the API server, by the rules of kubectl.

HTTPS_PROXY or HTTP_PROXY by the server's scheme, unless NO_PROXY lists the host. A server on this machine
never uses a proxy. The `proxy-url` of a kubeconfig takes precedence over all of this, and a pod's own service
account uses no proxy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from stoker.domain.errors import Misconfigured
from stoker.domain.secrets import Secret
from stoker.http_client.proxy import environment_proxy, is_proxy_address


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> Secret | None:
    """Return the proxy for a server's address, if any."""
    target = urlsplit(server)
    if _is_local(target.hostname or ""):
        return None
    proxy = environment_proxy(server, environ, (target.scheme,))
    return None if proxy is None else check_proxy(proxy, f"the variable {target.scheme.upper()}_PROXY")


def check_proxy(address: str, where: str) -> Secret:
    """Validate a proxy's address and return it as a Secret, because it may contain a password."""
    if not is_proxy_address(address, ("http", "https")):
        raise Misconfigured(
            f"{where} names a proxy that is not of the form http://host:port or https://host:port"
        )
    return Secret(address)


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

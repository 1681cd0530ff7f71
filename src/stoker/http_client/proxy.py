"""Chooses the proxy of a connection; the only module that reads the proxy variables of the environment.

A configured proxy (`git.proxy`, the `proxy-url` of a kubeconfig) has precedence over the variables. NO_PROXY
lists hosts to reach directly: a host with or without its port, a parent domain, an address, a network in CIDR
form, `*`. The list is read as generously as any of git, curl and kubectl do. A host that git reaches directly
would otherwise count as reached through the proxy, and its addresses would not be checked.

        HTTP       `proxy_for`: the same proxy that git would use
        git        `inherited_proxies`, `no_proxy_variables`: in the environment of the process, because an
                   address may contain a password
        Kubernetes `stoker.kube.config.proxy`
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import why_not_host

_SCHEMES = ("http", "https", "socks5", "socks5h")
_EXCEPTIONS = ("NO_PROXY", "no_proxy")
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def is_proxy_address(proxy: str, schemes: Collection[str] = _SCHEMES) -> bool:
    """Return whether it is of the form scheme://host:port."""
    try:
        parts = urlsplit(proxy)
        usable = parts.scheme in schemes and why_not_host(parts.hostname or "") is None
        return usable and parts.port != 0 and proxy.isprintable()
    except ValueError:
        return False


def check_proxy(proxy: str) -> str:
    """Return a valid proxy URL; the error never quotes the value, because it may hold a password."""
    if not is_proxy_address(proxy):
        raise InvalidValue("git.proxy is not of the form http://host:port, https://… or socks5h://…")
    return proxy


def proxy_for(address: str, proxy: str = "") -> str | None:
    """Return the proxy that git would use for this URL; raises if our HTTP client cannot use it (SOCKS)."""
    chosen = chosen_proxy(address, proxy)
    if chosen is not None and chosen.startswith("socks"):
        host = urlsplit(address).hostname
        raise InvalidValue(f"{host} cannot be reached through a SOCKS proxy; use an http proxy")
    return chosen


def chosen_proxy(address: str, proxy: str = "") -> str | None:
    """Return the proxy that git would use for this URL; None if there is none."""
    if not proxy:
        return environment_proxy(address, os.environ, (urlsplit(address).scheme, "all"))
    return None if is_direct(address, os.environ) else check_proxy(proxy)


def environment_proxy(address: str, environ: Mapping[str, str], kinds: Collection[str]) -> str | None:
    """Return the proxy of the first variable `<kind>_proxy` that is set; None for a direct connection."""
    variables = (name for kind in kinds for name in (f"{kind}_proxy", f"{kind}_proxy".upper()))
    chosen = next((environ[name] for name in variables if environ.get(name)), "")
    if not chosen or is_direct(address, environ):
        return None
    return chosen if "://" in chosen else f"http://{chosen}"


def is_direct(address: str, environ: Mapping[str, str]) -> bool:
    """Return whether NO_PROXY lists the host of a URL."""
    target = urlsplit(address)
    host = (target.hostname or "").rstrip(".")
    port = target.port or (80 if target.scheme == "http" else 443)
    listed = ",".join(environ.get(name, "") for name in _EXCEPTIONS)
    return any(_covers_host(each, host, port) for each in listed.replace(",", " ").split())


def inherited_proxies(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the proxy variables of this process, for a git without an explicit proxy."""
    found = {name: environ[name] for name in (*_PROXIES, *_EXCEPTIONS) if environ.get(name)}
    if "HTTP_PROXY" in found:  # curl reads only the lower-case variable
        found.setdefault("http_proxy", found["HTTP_PROXY"])
    return found


def no_proxy_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that list hosts to reach directly, whichever proxy is set."""
    return {name: environ[name] for name in _EXCEPTIONS if environ.get(name)}


def _covers_host(exception: str, host: str, port: int) -> bool:
    if exception == "*":
        return True
    if "/" in exception:
        return _covers_address(exception, host)
    name, _, wanted = exception.rpartition(":") if exception.count(":") == 1 else (exception, "", "")
    if wanted and wanted != str(port):
        return False
    name = name.lstrip("*").strip(".").strip("[]").lower()
    return bool(name) and (host == name or (host.endswith(f".{name}") and not _is_address(host)))


def _covers_address(network: str, host: str) -> bool:
    import ipaddress  # noqa: PLC0415 - few environments list networks

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    return host.replace(".", "").isdecimal()

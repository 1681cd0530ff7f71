"""Chooses the proxy of a request: the configured proxy, or that of the environment variables."""

from __future__ import annotations

from urllib.parse import urlsplit

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import why_not_host

_SCHEMES = ("http", "https", "socks5", "socks5h")


def check_proxy(proxy: str) -> str:
    """Return a valid proxy URL; the error never quotes the value, because it may hold a password."""
    try:
        parts = urlsplit(proxy)
        usable = parts.scheme in _SCHEMES and why_not_host(parts.hostname or "") is None
        usable = usable and parts.port != 0 and proxy.isprintable()
    except ValueError:
        usable = False
    if not usable:
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
    from urllib.request import getproxies_environment, proxy_bypass  # noqa: PLC0415 - slow import

    target = urlsplit(address)
    known = getproxies_environment()
    chosen = check_proxy(proxy) if proxy else known.get(target.scheme, known.get("all", ""))
    if not chosen or proxy_bypass(target.hostname or ""):
        return None
    return chosen if "://" in chosen else f"http://{chosen}"

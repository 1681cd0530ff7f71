"""Checks the address of a repository's server before git starts, and pins git to it.

git and ssh resolve names themselves and could get another address than the checked one (DNS rebinding). So
they get the checked address: git with `http.curloptResolve` (git 2.37; an older git ignores it and resolves
again), ssh with `HostName`. If the process enforces no egress policy (`stoker.http_client.egress`), this
module resolves nothing.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from stoker.domain.egress import parse_address
from stoker.domain.refs import RepoUrl, without_userinfo
from stoker.git.auth.credentials import RepoAccess
from stoker.git.auth.known_hosts import host_and_port
from stoker.git.errors import SourceUnreachable
from stoker.http_client import egress
from stoker.http_client.errors import EgressRefused, ServiceUnreachable
from stoker.http_client.proxy import chosen_proxy


class PinnedAddress(NamedTuple):
    """Settings and variables that pin one git process to a checked address."""

    config: dict[str, str]
    environment: dict[str, str]


NO_PIN = PinnedAddress({}, {})


async def pin_address(url: RepoUrl, access: RepoAccess) -> PinnedAddress:
    """Return the pin for the server of `url`; raise if the egress policy forbids the connection."""
    if egress.current_egress_policy() is None or url.scheme not in ("http", "https", "ssh"):
        return NO_PIN
    try:
        return await (_pin_ssh(url) if url.scheme == "ssh" else _pin_http(url, access))
    except ServiceUnreachable as error:
        reason = error.reason if isinstance(error, EgressRefused) else None
        place = without_userinfo(url)
        raise SourceUnreachable(
            f"repository {place} cannot be read: {error.message}", reason=reason
        ) from None


async def _pin_http(url: RepoUrl, access: RepoAccess) -> PinnedAddress:
    host, port = egress.host_and_port(url)
    proxy = chosen_proxy(url, access.proxy)
    if proxy is not None:  # the proxy resolves the host name itself
        egress.check_host_name(host)
        if not access.proxy:
            return NO_PIN
        parts = urlsplit(proxy)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else _PROXY_PORT)
    found = await egress.checked_addresses(host, port)
    if parse_address(host) is not None:
        return NO_PIN
    addresses = ",".join(f"[{one.address}]" if ":" in one.address else one.address for one in found)
    return PinnedAddress({"http.curloptResolve": f"{host}:{port}:{addresses}"}, {})


_PROXY_PORT = 1080
"""The port that git (libcurl) uses for a proxy without a port, even for an http proxy."""


async def _pin_ssh(url: RepoUrl) -> PinnedAddress:
    host, port = host_and_port(url)
    found = await egress.checked_addresses(host, port)
    if parse_address(host) is not None:
        return NO_PIN
    return PinnedAddress({}, {"STOKER_SSH_ADDRESS": found[0].address})

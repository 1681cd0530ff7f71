"""The address of a repository's server: checked before git starts, and told to git.

git and ssh resolve names by themselves, and could get another answer than the one that was
checked (DNS rebinding). So they are told the checked address: git by `http.curloptResolve`
(git 2.37; an older one ignores it and resolves again), ssh by `HostName`. Where the process
does not enforce a policy (`stoker.http_client.egress`) nothing is resolved here.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from stoker.domain.egress import address_of
from stoker.domain.refs import RepoUrl, without_userinfo
from stoker.git.auth.credentials import RepoAccess
from stoker.git.auth.known_hosts import host_and_port
from stoker.git.errors import SourceUnreachable
from stoker.http_client import egress
from stoker.http_client.errors import EgressRefused, ServiceUnreachable
from stoker.http_client.proxy import chosen_proxy


class PinnedAddress(NamedTuple):
    """What is added for one git process."""

    config: dict[str, str]
    environment: dict[str, str]


NOT_PINNED = PinnedAddress({}, {})


async def pinned(url: RepoUrl, access: RepoAccess) -> PinnedAddress:
    """Raise if the server of `url` may not be connected to."""
    if egress.enforced() is None or url.scheme not in ("http", "https", "ssh"):
        return NOT_PINNED
    try:
        return await (_for_ssh(url) if url.scheme == "ssh" else _for_http(url, access))
    except ServiceUnreachable as error:
        reason = error.reason if isinstance(error, EgressRefused) else None
        place = without_userinfo(url)
        raise SourceUnreachable(
            f"repository {place} cannot be read: {error.message}", reason=reason
        ) from None


async def _for_http(url: RepoUrl, access: RepoAccess) -> PinnedAddress:
    host, port = egress.endpoint_of(url)
    proxy = chosen_proxy(url, access.proxy)
    if proxy is not None:  # which resolves the name where it stands
        egress.demand_name(host)
        if not access.proxy:
            return NOT_PINNED
        parts = urlsplit(proxy)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else _PROXY_PORT)
    found = await egress.checked_addresses(host, port)
    if address_of(host) is not None:
        return NOT_PINNED
    addresses = ",".join(f"[{one.address}]" if ":" in one.address else one.address for one in found)
    return PinnedAddress({"http.curloptResolve": f"{host}:{port}:{addresses}"}, {})


_PROXY_PORT = 1080
"""Where git (libcurl) looks for a proxy without a port, also for one of http."""


async def _for_ssh(url: RepoUrl) -> PinnedAddress:
    host, port = host_and_port(url)
    found = await egress.checked_addresses(host, port)
    if address_of(host) is not None:
        return NOT_PINNED
    return PinnedAddress({}, {"STOKER_SSH_ADDRESS": found[0].address})

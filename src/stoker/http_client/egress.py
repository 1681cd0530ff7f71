"""The address check of this process: resolves a host and returns only addresses that it may connect to.

The role of a process decides: `stoker controller`, `agent`, `fetcher` and `reverser` call
`set_egress_policy` when they start, because there the author of a resource names the hosts. A command
that a person runs never does: person and author are the same, and 127.0.0.1 is theirs.

        HTTP      `stoker.http_client.connections` connects only to checked addresses
        git       receives the checked addresses (`stoker.git.auth.pinned_address`)
        buckets   are checked before each use; their library resolves the name again, so an endpoint
                  without TLS must be an IP address, or a host that the installation lists

Code that connects must take the addresses from here: a name that is resolved twice may resolve to
two addresses.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from stoker.domain.egress import HOW_TO_ALLOW, EgressPolicy, parse_address
from stoker.http_client.errors import EgressRefused, ServiceUnreachable

_FLAGS = socket.AI_ADDRCONFIG | socket.AI_CANONNAME
_PORTS = {"http": 80, "https": 443, "ssh": 22}


class _ProcessEgress:
    policy: EgressPolicy | None = None


class ResolvedAddress(NamedTuple):
    """One address of a host, as `socket` describes it."""

    family: int
    proto: int
    address: str


def set_egress_policy(policy: EgressPolicy | None) -> None:
    """Decide by this policy from now on; None: connect to everything."""
    _ProcessEgress.policy = policy


def current_egress_policy() -> EgressPolicy | None:
    return _ProcessEgress.policy


def check_host_name(host: str, services_of: str = "") -> None:
    """Raise if a host may not be requested at all; for names that a proxy resolves."""
    policy = _ProcessEgress.policy
    why = None if policy is None else policy.refuses_name(host, services_of)
    if why is not None:
        raise egress_refused(host, why)


async def checked_addresses(host: str, port: int, services_of: str = "") -> list[ResolvedAddress]:
    """Return the addresses of a host that may be connected to; raises `EgressRefused` if there is none."""
    check_host_name(host, services_of)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=_FLAGS
        )
    except OSError as error:
        raise _unresolved_host(host, error) from None
    return _allowed_addresses(host, found, services_of)


async def check_egress(url: str) -> None:
    """Raise if a URL's host resolves to a forbidden address; for libraries that connect by themselves."""
    if _ProcessEgress.policy is not None:
        await checked_addresses(*host_and_port(url))


def check_egress_blocking(url: str) -> None:
    """Do the same as `check_egress`, in a worker thread."""
    if _ProcessEgress.policy is None:
        return
    host, port = host_and_port(url)
    check_host_name(host)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=_FLAGS)
    except OSError as error:
        raise _unresolved_host(host, error) from None
    _allowed_addresses(host, found, "")


def demand_one_place(url: str) -> None:
    """Raise if a library that connects by itself could reach another host after the check.

    It resolves the name again, and follows redirects to names below the host (`single_host_options`). TLS
    prevents both, because the certificate must match; without TLS, only an IP address is certain to stay
    the checked address.
    """
    policy, host = _ProcessEgress.policy, host_and_port(url)[0]
    if policy is None or not url.startswith("http://") or parse_address(host) is not None:
        return
    if not policy.allows_host(host) and not policy.may_be_called(host):
        raise egress_refused(host, "is an endpoint without TLS that is named by a host and no address")


def single_host_options(url: str) -> dict[str, str]:
    """Return options with which the library obstore reaches only the host of `url`.

    It follows redirects and has no option against that, so requests to every other host are sent to a proxy
    name that never resolves (RFC 6761). Names below the host are still reached: see `demand_one_place`.
    """
    return {"proxy_url": "http://redirects-are-not-followed.invalid", "proxy_excludes": host_and_port(url)[0]}


def host_and_port(url: str) -> tuple[str, int]:
    """Return host and port of a URL."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)


def egress_refused(host: str, why: str) -> EgressRefused:
    return EgressRefused(f"{host} {why} and is not connected to; {HOW_TO_ALLOW}")


def _allowed_addresses(
    host: str, found: Iterable[tuple[Any, ...]], services_of: str
) -> list[ResolvedAddress]:
    infos = [(family, proto, canonical, str(target[0])) for family, _, proto, canonical, target in found]
    everything = [ResolvedAddress(family, proto, address) for family, proto, _, address in infos]
    policy = _ProcessEgress.policy
    if policy is None or policy.allows_host(host):
        return everything
    # The canonical name matters: a name without dots or an alias may resolve to a Service as well.
    name = next((canonical for _, _, canonical, _ in infos if canonical), host)
    why = policy.refuses_name(name, services_of)
    if why is not None:
        raise egress_refused(host, why)
    in_cluster = policy.may_be_called(name, services_of)
    allowed = []
    for one in everything:
        address = parse_address(one.address)
        refusal = "leads to an address that cannot be read" if address is None else None
        if address is not None:
            refusal = policy.refuses_address(address, in_cluster=in_cluster)
        if refusal is None:
            allowed.append(one)
        why = why or refusal
    if not allowed:
        raise egress_refused(host, why or "has no address")
    return allowed


def _unresolved_host(host: str, error: OSError) -> ServiceUnreachable:
    return ServiceUnreachable(f"{host} cannot be reached: {error.strerror or 'its name is unknown'}")

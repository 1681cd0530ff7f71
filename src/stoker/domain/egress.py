"""Egress policy: the addresses that a process of the cluster may connect to on behalf of a resource.

A resource names hosts: of its repository, registry, bucket, forge, alert receivers, webhooks
and health checks. The controller, the reverser and the agents can reach networks that the
author of a resource may not reach. So one policy decides about the name, and again about
every address that it resolves to (`stoker.http_client.egress` applies it and connects).

    refused        loopback, link-local, unspecified, multicast, reserved, cloud metadata,
                   the API server, ranges configured as the cluster's own, names of Services
    allowed        everything else, private ranges (RFC 1918, fc00::/7) included: plants have
                   their forges and registries there
    the exception  entries that the installation lists: networks, hosts, and *.domains

Pure: this module resolves no names. A message must never hold a resolved address, because the
author of a resource could use it to learn how names resolve inside the cluster.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from stoker.domain.errors import Misconfigured

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

HOW_TO_ALLOW = "the installation can allow it with --egress-allow (chart value egress.allow)"

# Cloud services that return credentials of the machine, outside of the link-local ranges:
# Alibaba, Azure, Oracle, and the IPv6 forms of AWS and Google.
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.IPv6Network("64:ff9b:1::/48")
_IPV4_COMPATIBLE = ipaddress.IPv6Network("::/96")
_IPV4_TRANSLATED = ipaddress.IPv6Network("::ffff:0:0:0/96")
_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")
_ISATAP = (0x00005EFE, 0x02005EFE)
_HOST = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?")
_SERVICE = re.compile(r"(?:^|\.)svc(?:\.|$)")
_API_SERVER = re.compile(r"kubernetes(?:\.default(?:\.svc(?:\..*)?)?)?")
_CLUSTER = "cluster.local"


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """The policy of one process; `EgressPolicy.of` builds it from options and environment variables."""

    networks: tuple[IpNetwork, ...] = ()
    """Allowed addresses, also if they are in a refused range."""
    hosts: frozenset[str] = frozenset()
    """Names allowed exactly or as `*.domain`, whatever address they resolve to."""
    cluster: tuple[IpNetwork, ...] = ()
    """Ranges of pods and Services."""
    api_server: str = ""
    namespace: str = ""
    """Set in an agent: the author of its resource runs pods there, so Services there may be called."""

    @classmethod
    def of(
        cls,
        allowed: Iterable[str],
        cluster: Iterable[str] = (),
        environ: Mapping[str, str] | None = None,
        namespace: str = "",
    ) -> EgressPolicy:
        """Build a policy; `allowed` are CIDRs, addresses and host names; `cluster` are CIDRs."""
        networks, hosts = [], set()
        for entry in allowed:
            network = _parse_entry(entry)
            if network is not None:
                networks.append(network)
            else:
                hosts.add(_entry_host(entry))
        return cls(
            tuple(networks),
            frozenset(hosts),
            tuple(_parse_cidr(entry) for entry in cluster),
            _normalize_host((environ or {}).get("KUBERNETES_SERVICE_HOST", "")),
            namespace,
        )

    def allows_host(self, host: str) -> bool:
        """Return whether the installation lists this name, so that its addresses are not checked."""
        name = _normalize_host(host)
        parents = (f"*{name[at:]}" for at, char in enumerate(name) if char == ".")
        # An escaped name is not the listed name: a proxy may read `a%2f.example.com` as the host `a`.
        return "%" not in host and (name in self.hosts or any(parent in self.hosts for parent in parents))

    def refuses_name(self, host: str, services_of: str = "") -> str | None:
        """Return why a name is refused, or None; names of Services of `services_of` are not refused."""
        name = _normalize_host(host)
        literal = parse_address(name)
        if literal is not None:
            return self.refuses_address(literal)
        if self.allows_host(host):
            return None
        if name == self.api_server or _API_SERVER.fullmatch(name):
            return "leads to the API server"
        if name == "localhost" or name.endswith(".localhost"):
            return None if self._allows(_LOOPBACK) else "leads to this machine"
        if not is_service(name) or self.may_be_called(name, services_of):
            return None
        return "leads to a Service of the cluster"

    def may_be_called(self, name: str, services_of: str = "") -> bool:
        """Return whether it is a Service of a namespace that is open to the resource."""
        return is_service_of(name, services_of) or is_service_of(name, self.namespace)

    def refuses_address(self, address: IpAddress, *, in_cluster: bool = False) -> str | None:
        """Return why an address is refused, or None; `in_cluster`: the cluster's own ranges are allowed."""
        if self._allows(address):
            return None
        for form in (address, *embedded_ipv4(address)):
            why = _always_refused_reason(form) or self._refused_here(form, in_cluster)
            if why is not None:
                return why
        return None

    def _allows(self, address: IpAddress) -> bool:
        return any(address in network for network in self.networks)

    def _refused_here(self, address: IpAddress, in_cluster: bool) -> str | None:
        if parse_address(self.api_server) == address:
            return "leads to the API server"
        if not in_cluster and any(address in network for network in self.cluster):
            return "leads to an address of the cluster's own ranges"
        return None


_LOOPBACK = ipaddress.IPv4Address("127.0.0.1")


def parse_address(host: str) -> IpAddress | None:
    """Parse a host that is an address, also in forms that resolvers and proxies take: 2130706433, 0x7f.1."""
    text = host.strip("[]").partition("%")[0]
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(text))
    except (OSError, UnicodeError):
        return None


def is_service(name: str) -> bool:
    """Return whether cluster DNS would resolve this name to a Service or a pod."""
    name = _normalize_host(name)
    return bool(_SERVICE.search(name)) or name == _CLUSTER or name.endswith(f".{_CLUSTER}")


def is_service_of(name: str, namespace: str) -> bool:
    """Return whether it is the name of a Service, or of a pod behind a Service, of that namespace."""
    # Only this suffix counts: `a.svc.example.dev` is a public name, and a namespace may be called `dev`.
    return bool(namespace) and _normalize_host(name).removesuffix(f".{_CLUSTER}").endswith(
        f".{namespace}.svc"
    )


def embedded_ipv4(address: IpAddress) -> Iterator[IpAddress]:
    """Yield the IPv4 addresses inside an IPv6 address; a router or the kernel connects to these instead."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    number = int(address)
    last = ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _NAT64 or address in _IPV4_TRANSLATED:
        yield last
    if address in _NAT64_LOCAL:  # only that network knows its prefix length (RFC 6052), so yield each form
        after_48 = ((number >> 64) & 0xFFFF) << 16 | ((number >> 40) & 0xFFFF)
        after_56 = ((number >> 64) & 0xFF) << 24 | ((number >> 32) & 0xFFFFFF)
        after_64 = (number >> 24) & 0xFFFFFFFF
        forms = (last, *map(ipaddress.IPv4Address, (after_48, after_56, after_64)))
        yield from (form for form in forms if form not in _THIS_NETWORK)
    if address in _IPV4_COMPATIBLE and number > 1:
        yield last
    if (number >> 32) & 0xFFFFFFFF in _ISATAP:
        yield last


def _always_refused_reason(address: IpAddress) -> str | None:
    if address.is_unspecified or (isinstance(address, ipaddress.IPv4Address) and address in _THIS_NETWORK):
        return "leads to an unspecified address"
    if address.is_loopback:
        return "leads to a loopback address"
    if address.is_link_local or (isinstance(address, ipaddress.IPv6Address) and address.is_site_local):
        return "leads to a link-local address, where clouds give out credentials of the machine"
    if address in _METADATA:
        return "leads to a cloud's metadata service"
    if address.is_multicast:
        return "leads to a multicast address"
    if isinstance(address, ipaddress.IPv4Address) and address.is_reserved:  # for IPv6 this includes NAT64
        return "leads to a reserved address"
    return None


def _parse_entry(entry: str) -> IpNetwork | None:
    try:
        return ipaddress.ip_network(entry.strip().strip("[]"), strict=False)
    except ValueError:
        return None


def _parse_cidr(entry: str) -> IpNetwork:
    network = _parse_entry(entry)
    if network is None:
        raise Misconfigured(f"--egress-cluster-range {entry[:80]!r} is no network such as 10.96.0.0/12")
    return network


def _entry_host(entry: str) -> str:
    host = _normalize_host(entry.strip())
    if not _HOST.fullmatch(host) or "/" in entry or re.fullmatch(r"[0-9.]+", host):
        raise Misconfigured(
            f"--egress-allow {entry[:80]!r} is neither a network (10.0.0.0/8), an address, "
            "a host (forge.example.com) nor a domain (*.example.com)"
        )
    return host


def _normalize_host(host: str) -> str:
    """Return a name as a resolver or a proxy reads it: unescaped, with other scripts folded to ASCII."""
    text = unquote(host)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("\u3002", ".")
    return text.lower().rstrip(".")

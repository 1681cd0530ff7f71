"""Whether an address is that of a gateway, by the names that are known of it. Pure.

What a resource says of its gateways' certificates (`gateway.insecureSkipVerify`) is said of
them alone. An address of anybody else may carry a key, and its answer lets a stage pass: it
is never believed on the word of a host that nobody vouches for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from stoker.controller.rollout.gateways import RolloutMember

_CLUSTER = ".cluster.local"
_ORDINAL = re.compile(r"-\d+$")


def is_gateway_host(members: Iterable[RolloutMember], url: str) -> bool:
    """Whether the host is called like one of them, by itself or as a Service of its namespace."""
    try:
        host = (urlsplit(url).hostname or "").removesuffix(".").removesuffix(_CLUSTER)
    except ValueError:
        return False
    return any(_is_member_host(member, host) for member in members)


def _is_member_host(member: RolloutMember, host: str) -> bool:
    pod = member.gateway.pod
    names = {member.name.lower(), pod.name, _ORDINAL.sub("", pod.name)}  # a StatefulSet's pods are numbered
    if "." not in host:
        return host in names
    inside = host.removesuffix(f".{pod.namespace}.svc")
    if inside == host:
        return False
    service, _, rest = inside.partition(".")
    # A Service that has no address of its own names each of its pods: POD.SERVICE.
    return service in names if not rest else service == pod.name and "." not in rest

"""Decides whether a URL's host is a gateway, by the gateway's known names. Pure.

`gateway.insecureSkipVerify` of a resource applies only to its gateways. A URL of any other server may carry a
key, and its answer lets a stage pass, so its certificate is always verified.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from stoker.controller.rollout.gateways import RolloutMember

_CLUSTER = ".cluster.local"
_ORDINAL = re.compile(r"-\d+$")


def is_gateway_host(members: Iterable[RolloutMember], url: str) -> bool:
    """Whether the host has the name of a gateway, alone or as a Service of its namespace."""
    try:
        host = (urlsplit(url).hostname or "").removesuffix(".").removesuffix(_CLUSTER)
    except ValueError:
        return False
    return any(_is_member_host(member, host) for member in members)


def _is_member_host(member: RolloutMember, host: str) -> bool:
    pod = member.gateway.pod
    names = {member.name.lower(), pod.name, _ORDINAL.sub("", pod.name)}  # StatefulSet pods have an ordinal
    if "." not in host:
        return host in names
    inside = host.removesuffix(f".{pod.namespace}.svc")
    if inside == host:
        return False
    service, _, rest = inside.partition(".")
    # A headless Service gives each of its pods a name: POD.SERVICE.
    return service in names if not rest else service == pod.name and "." not in rest

"""Names the gateway that a gate, a report or an audit record is about."""

from __future__ import annotations

from typing import NamedTuple


class GatewayRef(NamedTuple):
    """A gateway and its owner; without a cluster `resource` may be empty and `pod` always is."""

    name: str
    namespace: str = ""
    resource: str = ""
    pod: str = ""

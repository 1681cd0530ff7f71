"""Which gateway a gate, a report or an audit line is about."""

from __future__ import annotations

from typing import NamedTuple


class GatewayRef(NamedTuple):
    """Its name, and whose it is; without a cluster there may be no resource, and there is no pod."""

    name: str
    namespace: str = ""
    resource: str = ""
    pod: str = ""

"""Settings of a test gateway, from an administrator or from its version; may be changed while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as an administrator made it: its secret, and what its security level is granted."""

    secret: str = field(repr=False)
    read: bool = True
    write: bool = True


class PlainHttpPolicy(StrEnum):
    """The handling of plain HTTP requests."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    REDIRECTED = "redirected"


class Paths(StrEnum):
    """The generation of API paths, where the API of 8.3 (v1) and the specified v2 API differ."""

    V83 = "8.3"
    V2 = "v2"
    BOTH = "both"


class Role(StrEnum):
    """The role of a gateway in a redundant pair."""

    INDEPENDENT = "Independent"
    MASTER = "Master"
    BACKUP = "Backup"


@dataclass(slots=True)
class GatewaySettings:
    """One gateway's settings, with the defaults of a stock 8.3 that lets its key do everything."""

    name: str = "gateway"
    version: str = "8.3.7"
    edition: str = "standard"
    deployment_mode: str = ""
    role: Role = Role.INDEPENDENT
    keys: dict[str, ApiKey] = field(default_factory=dict)
    key_header: str = "X-Ignition-API-Token"
    """The header of a key; a proxy in front of a real gateway may need another name."""
    insecure: PlainHttpPolicy = PlainHttpPolicy.ALLOWED
    commissioned: bool = True
    """Whether its set-up was completed; otherwise it redirects every request to /welcome."""
    paths: Paths = Paths.V83
    status_only: bool = False
    """It knows `status` and not `gateway-info`."""
    scan_lock: bool = True
    """Older gateways have none and answer 404."""
    scan_refusal: str = ""
    """A scan is answered with 200, `success:false` and these words."""
    rewrites: bool = True
    """A `resource.json` whose signature does not fit is written anew by a scan, as `external`."""
    page_limit: int = 0
    """The number of items in a list without a requested limit; 0 is all."""
    modules: tuple[str, ...] = ("com.inductiveautomation.perspective", "com.inductiveautomation.opcua")
    quarantined: tuple[str, ...] = ()
    managed_providers: tuple[str, ...] = ()
    """Tag providers that a module brings: they are listed, and no file is theirs."""
    restart_delay: float = 0.1
    """Seconds for which it is still RUNNING after a restart request, which misleads an early check."""
    restart_seconds: float = 0.3
    """Seconds for which it is STARTING after that."""

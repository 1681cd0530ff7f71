"""Findings about a gateway and advice how to fix them, for the engineers of a plant.

Pure: `checks` sends the requests and passes the results. Every message states what was
found, every advice states where to click or what to write. The page names are those of
the 8.3 gateway's own web interface.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stoker.domain.errors import InvalidValue, Misconfigured, StokerError
from stoker.domain.findings import Finding, FindingStatus
from stoker.domain.reasons import Reason
from stoker.domain.text import first_names
from stoker.ignition.client.address import PLAIN_PORT, TLS_PORT, GatewayAddress
from stoker.ignition.client.designer_sessions import DesignerSession
from stoker.ignition.client.inventory import GatewayInfo, ModuleHealth, is_older_than_api
from stoker.ignition.client.responses import GatewayPresence, GatewayState

MAX_NAMES = 10

_KEYS = "Platform > Security > API Keys"
_PAGE = "On the gateway's web page"

_ADVICE = {
    Reason.TOKEN_MALFORMED: (
        "The file must hold the whole line that the gateway showed when the key was made, NAME:SECRET, and "
        f"nothing else. It is shown only once. {_PAGE}, {_KEYS}, you can make a new one."
    ),
    Reason.TOKEN_REJECTED: (
        f"{_PAGE}, {_KEYS}: there must be a key of that name, and it must be enabled. If in doubt make a new "
        "one and put its whole line NAME:SECRET into the file."
    ),
    Reason.SECURE_REQUIRED: (
        f"Use the gateway's TLS port (--gateway https://HOST:{TLS_PORT}), or untick 'Require secure "
        f"connections' of this key on its web page, {_KEYS}."
    ),
    Reason.GATEWAY_STARTING: "Wait until it has started (a minute or two) and run this again.",
    Reason.GATEWAY_FAULTED: (
        "Read logs/wrapper.log of the gateway. Common causes: a file in its data folder that its user may "
        "not write (in the container that is user 2003), or too little memory."
    ),
    Reason.NOT_COMMISSIONED: "Open the gateway in a browser and finish its set-up, then make an API key.",
    Reason.NOT_IGNITION_83: (
        "Scans, locks and API keys exist from Ignition 8.3 on: upgrade the gateway, or sync its files "
        "without --gateway and restart it afterwards."
    ),
    Reason.GATEWAY_ERROR: "Read logs/wrapper.log of the gateway; it says more than its answer.",
    Reason.SCAN_LOCK_HELD: "Wait for a minute; a lock ends by itself.",
}

_CERTIFICATES = (
    (
        "not valid for",
        "Call the gateway by a name in its certificate, or make a certificate for the name that you use.",
    ),
    ("expired", "Renew the gateway's certificate in its web server settings."),
    ("not yet valid", "Look at the clocks of both machines."),
)
_AUTHORITY = (
    "Give the file of the authority that signed it, or of the certificate itself if it is self-signed, with "
    "--gateway-ca-file FILE. --gateway-insecure accepts any certificate: good for a try, not for a plant."
)


def error_finding(check: str, error: StokerError, address: GatewayAddress) -> Finding:
    """Convert an error into the finding that ends the examination."""
    of_input = isinstance(error, InvalidValue | Misconfigured)
    fix = advice_for(error, address)
    return Finding(check, FindingStatus.WRONG, error.message, fix, error.reason, of_input)


def advice_for(error: StokerError, address: GatewayAddress) -> str:
    """Return how to fix an error."""
    match error.reason:
        case Reason.CERTIFICATE_NOT_TRUSTED:
            words = error.message.lower()
            return next((fix for sign, fix in _CERTIFICATES if sign in words), _AUTHORITY)
        case Reason.LEVEL_NOT_GRANTED:
            return _permission_advice("Write" if "Gateway Write" in error.message else "Read", address)
        case Reason.TOKEN_REJECTED if not address.tls:
            return f"{_ADVICE[Reason.TOKEN_REJECTED]} {_ADVICE[Reason.SECURE_REQUIRED]}"
        case Reason.GATEWAY_UNREACHABLE:
            return _unreachable_advice(error.message, address)
    return _ADVICE.get(error.reason, "")


def _permission_advice(permission: str, address: GatewayAddress) -> str:
    plain = "" if address.tls else " and untick 'Require secure connections', as this is plain HTTP"
    return (
        f"{_PAGE}: if no security level is meant for this, make one at Platform > Security > Levels; at "
        f"Platform > Security > General Settings add it to 'Gateway {permission} Permissions' (AnyOf); at "
        f"{_KEYS} tick it for the key{plain}."
    )


def _unreachable_advice(message: str, address: GatewayAddress) -> str:
    words = message.lower()
    if "name is not known" in words:
        return "Look at the spelling, or use the IP address. On this machine `ping NAME` must find it."
    if "refused" in words:
        return (
            "The machine is there and nothing listens on that port. Is the gateway's service running? Its "
            f"usual ports are {PLAIN_PORT} (plain) and {TLS_PORT} (TLS)."
        )
    if "does not speak tls" in words or "wrong version" in words:
        return (
            f"That port speaks plain HTTP: write http://{_host_and_port(address)}, or use the TLS port "
            f"({TLS_PORT})."
        )
    if not address.tls and ("does not answer in http" in words or "closed the connection" in words):
        return f"That port may speak TLS: write https://{_host_and_port(address)}."
    return (
        "Between here and the gateway something drops the packets, or the machine is off: look at firewalls, "
        "routes and VPN."
    )


def _host_and_port(address: GatewayAddress) -> str:
    return address.url.partition("://")[2]


def transport_finding(address: GatewayAddress, trust: str) -> Finding:
    """Report how the connection is protected."""
    if not address.tls:
        if address.loopback:
            return Finding("tls", FindingStatus.WELL, "plain HTTP, and it does not leave this machine")
        fix = f"Use https://HOST:{TLS_PORT}, so that the key cannot be read on the network."
        return Finding("tls", FindingStatus.NOTE, "plain HTTP: the key can be read on the network", fix)
    if trust == "verified":
        return Finding("tls", FindingStatus.WELL, "the certificate is trusted")
    if address.loopback:
        return Finding(
            "tls", FindingStatus.WELL, "unverified loopback: the certificate was not checked, on this machine"
        )
    return Finding(
        "tls", FindingStatus.NOTE, "the certificate was not checked (--gateway-insecure)", _AUTHORITY
    )


def ignition_finding(here: GatewayPresence, address: GatewayAddress) -> Finding:
    if here.state is GatewayState.UNKNOWN and not here.version:
        said = f"what answers at {address} is not Ignition"
        fix = (
            "Open that address in a browser: does the gateway's own page come? If not, host or port is wrong."
        )
        return Finding("ignition", FindingStatus.WRONG, said, fix, Reason.NOT_IGNITION_83)
    return Finding(
        "ignition", FindingStatus.WELL, f"Ignition {here.version}" if here.version else "it is Ignition"
    )


def version_finding(here: GatewayPresence) -> Finding:
    if is_older_than_api(here.version):
        reason = Reason.NOT_IGNITION_83
        said = f"the gateway runs Ignition {here.version}; its API begins with 8.3"
        return Finding("version", FindingStatus.WRONG, said, _ADVICE[reason], reason)
    return Finding("version", FindingStatus.WELL, here.version or "not told before the key is known")


def redundancy_finding(info: GatewayInfo) -> Finding:
    if info.role.lower() == "backup":
        fix = "Sync the master; what it loads reaches the backup by itself."
        return Finding(
            "redundancy", FindingStatus.NOTE, "it is the backup of a pair and refuses changes", fix
        )
    return Finding("redundancy", FindingStatus.WELL, info.role or "not told")


def modules_finding(health: ModuleHealth | None) -> Finding:
    if health is None:
        return Finding("modules", FindingStatus.UNTRIED, "this gateway does not list them")
    if not health.quarantined:
        return Finding("modules", FindingStatus.WELL, f"{len(health.healthy)} healthy, none quarantined")
    put_aside = [f"{name} ({why})" if why else name for name, why in sorted(health.quarantined.items())]
    fix = "Resources of these modules are not loaded: see the list of modules on the gateway's web page."
    return Finding("modules", FindingStatus.NOTE, f"quarantined: {first_names(put_aside, MAX_NAMES)}", fix)


def designers_finding(sessions: Sequence[DesignerSession] | None) -> Finding:
    if sessions is None:
        return Finding(
            "designers", FindingStatus.UNTRIED, "this gateway does not list them; none is waited for"
        )
    if not sessions:
        return Finding("designers", FindingStatus.WELL, "no project is open")
    who = first_names(
        [f"{one.project or 'no project'} by {one.user or 'an unknown user'}" for one in sessions]
    )
    return Finding(
        "designers", FindingStatus.NOTE, f"open: {who}", "A sync holds these projects back meanwhile."
    )


def restarts_finding(tasks: Collection[str] | None) -> Finding:
    if tasks is None:
        return Finding("restart", FindingStatus.UNTRIED, "this gateway does not say whether one is due")
    if not tasks:
        return Finding("restart", FindingStatus.WELL, "none is due")
    return Finding(
        "restart", FindingStatus.NOTE, f"a restart is due for: {first_names(sorted(tasks), MAX_NAMES)}"
    )

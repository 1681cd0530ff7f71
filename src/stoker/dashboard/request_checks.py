"""What is checked of a request before anybody reads it, and what every answer carries.

Pure functions over headers. A page of somebody else can make a browser send requests
here, but cannot hide where they come from, cannot add a header of ours without being
asked first, and cannot read what it has no origin for. A name that somebody points at
this machine (DNS rebinding) is not one of ours, so what is served for it is a refusal.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Collection, Mapping

from stoker.dashboard.interfaces import ActionRefused

CSRF_HEADER = "X-Stoker-CSRF"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Mapping[str, str] = {
    "Server": "stoker",
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
NO_STORE: Mapping[str, str] = {**HEADERS, "Cache-Control": "no-store"}

_PORTS = {"http": ":80", "https": ":443"}
_MAX_PORT_DIGITS = 5
_LOCAL = frozenset({"localhost"})


def check_host(host: str, names: Collection[str] | None) -> None:
    """Addresses, localhost and the names that were given; None: whatever leads here is fine."""
    if names is None:
        return
    name = host_name(host)
    if name in _LOCAL or name in names or name.endswith(".localhost") or _is_address(name):
        return
    raise ActionRefused(421, "this dashboard is not known by that name; --dashboard-host NAME makes it so")


def check_source(headers: Mapping[str, str], *, changes: bool) -> None:
    """A browser says where a request comes from; only our own page may make those of the API.

    Who sends neither header is no browser, or not one that carries a cookie to here
    (SameSite=Strict), and needs the CSRF token all the same.
    """
    site = headers.get("Sec-Fetch-Site", "")
    if site not in ({"", "same-origin"} if changes else {"", "same-origin", "none"}):
        raise ActionRefused(403, "another page may not ask this one for anything")
    origin = headers.get("Origin")
    if origin is not None:
        scheme, _, authority = origin.lower().partition("://")
        host = headers.get("Host", "").strip().lower()
        # A browser leaves out the port that is usual; a proxy may have put it in.
        if scheme not in _PORTS or authority not in (host, host.removesuffix(_PORTS[scheme])):
            raise ActionRefused(
                403, "the request does not come from this page, or a proxy does not pass Host on"
            )


def check_csrf(headers: Mapping[str, str], expected: str) -> None:
    offered = headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(offered.encode(errors="replace"), expected.encode()):
        raise ActionRefused(403, f"the header {CSRF_HEADER} is missing, or belongs to another session")


def check_json(headers: Mapping[str, str]) -> None:
    """A form of another page can send text and forms, but not this type."""
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
        raise ActionRefused(415, "the body must be application/json")
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise ActionRefused(415, "the body must not be compressed")


def check_query(path: str, query: str) -> None:
    """Addresses stand in histories and logs; nothing that is asked for belongs there."""
    if query and (path.startswith("/api/") or "token" in query.lower()):
        raise ActionRefused(400, "nothing is said behind a question mark here, least of all a token")


def bearer_token(headers: Mapping[str, str]) -> str:
    """The token that a proxy in front, or a script, brings; empty where there is none."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def host_name(host: str) -> str:
    """The name of a Host header, without port and brackets."""
    text = host.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def cookie_name(host: str, *, secure: bool) -> str:
    """Of the session. Cookies do not know ports; the name has to, where one name has several dashboards.

    The port is the one that the browser knows: through a tunnel or a proxy ours is another.
    """
    port = host.strip().rpartition("]")[2].rpartition(":")[2] if ":" in host else ""
    name = (
        f"stoker-{port}" if port.isascii() and port.isdigit() and len(port) <= _MAX_PORT_DIGITS else "stoker"
    )
    return f"__Host-{name}" if secure else name


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

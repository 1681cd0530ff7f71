"""Checks of a request's headers before the server reads its body, and the headers of every response.

Pure functions over headers. A page of another origin can make a browser send requests here. It cannot
hide its origin, cannot add our CSRF header without a CORS preflight, and cannot read the response. A
foreign DNS name that points at this machine (DNS rebinding) is not an accepted host, so the request is
refused.
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
    """Accept IP addresses, localhost and the given names; None accepts every host."""
    if names is None:
        return
    name = host_name(host)
    if name in _LOCAL or name in names or name.endswith(".localhost") or _is_address(name):
        return
    raise ActionRefused(421, "this dashboard is not known by that name; --dashboard-host NAME makes it so")


def check_source(headers: Mapping[str, str], *, changes: bool) -> None:
    """Refuse an API request that a browser sends from another page.

    A client that sends neither Sec-Fetch-Site nor Origin is no browser, or a browser that does not
    send the cookie here (SameSite=Strict). It needs the CSRF token all the same.
    """
    site = headers.get("Sec-Fetch-Site", "")
    if site not in ({"", "same-origin"} if changes else {"", "same-origin", "none"}):
        raise ActionRefused(403, "another page may not ask this one for anything")
    origin = headers.get("Origin")
    if origin is not None:
        scheme, _, authority = origin.lower().partition("://")
        host = headers.get("Host", "").strip().lower()
        # A browser omits the default port; a proxy may have added it to Host.
        if scheme not in _PORTS or authority not in (host, host.removesuffix(_PORTS[scheme])):
            raise ActionRefused(
                403, "the request does not come from this page, or a proxy does not pass Host on"
            )


def check_csrf(headers: Mapping[str, str], expected: str) -> None:
    offered = headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(offered.encode(errors="replace"), expected.encode()):
        raise ActionRefused(403, f"the header {CSRF_HEADER} is missing, or belongs to another session")


def check_json(headers: Mapping[str, str]) -> None:
    """Require application/json: an HTML form of another page can send text and forms, but not this type."""
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
        raise ActionRefused(415, "the body must be application/json")
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise ActionRefused(415, "the body must not be compressed")


def check_query(path: str, query: str) -> None:
    """Refuse query strings on the API and tokens in any: browser histories and logs keep addresses."""
    if query and (path.startswith("/api/") or "token" in query.lower()):
        raise ActionRefused(400, "nothing is said behind a question mark here, least of all a token")


def bearer_token(headers: Mapping[str, str]) -> str:
    """Return the token of a script or of a proxy in front; empty if there is none."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def host_name(host: str) -> str:
    """Return the name in a Host header, without port and brackets."""
    text = host.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def cookie_name(host: str, *, secure: bool) -> str:
    """Return the name of the session cookie, which contains the port.

    Browsers share cookies between the ports of a host, so two dashboards on one host need different names.
    The port is that of the browser's address: behind a tunnel or a proxy the server's own port differs.
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

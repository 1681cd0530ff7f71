"""Client of one gateway's API, with the requests that a sync needs.

Defines which paths to call: first those of 8.3, then those of the documented `/data/api/v2`.
`requests` and `http` send them, `responses` classifies the responses, `designer_sessions`
and `inventory` parse them. Every method returns the requested value or raises one of our own
errors with the first problem. The client does not decide when to call what; its callers
in `stoker.ignition.sync` do.
"""

from __future__ import annotations

import json
from enum import StrEnum
from urllib.parse import quote, urlencode

from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.api_key import HEADER, ApiKeyReader
from stoker.ignition.client.designer_sessions import (
    DesignerSession,
    PerspectiveSession,
    parse_designers,
    parse_perspective_sessions,
    parse_project_designers,
)
from stoker.ignition.client.inventory import (
    TYPES_FOLDER,
    GatewayInfo,
    ModuleHealth,
    is_older_than_api,
    module_ids,
    parse_gateway_info,
    parse_managed_providers,
    parse_module_list,
    parse_names,
    parse_quarantined,
    parse_restart_tasks,
    parse_tag_types,
)
from stoker.ignition.client.requests import REQUEST_SECONDS, GatewayRequests
from stoker.ignition.client.responses import (
    GatewayBusy,
    GatewayPresence,
    GatewayState,
    PathNotOffered,
    ScanLockRefused,
)

API = "/data/api/v1"
DOCUMENTED_API = "/data/api/v2"
PERSPECTIVE = "/data/perspective/api/v1/sessions"
NO_PAGE_LIMIT = "?limit=-1"
"""Without it, some lists return only a first page."""

_PROVIDERS = (f"{API}/resources/list/ignition/tag-provider{NO_PAGE_LIMIT}", f"{DOCUMENTED_API}/tag-providers")
_LISTING = "listing tag providers"


class ScanKind(StrEnum):
    """The two kinds of content that a gateway scans and locks separately."""

    PROJECTS = "projects"
    CONFIG = "config"


class GatewayClient:
    """The client; `aclose` closes its connections."""

    def __init__(
        self,
        address: GatewayAddress,
        key: ApiKeyReader,
        *,
        header: str = HEADER,
        ca: bytes | None = None,
        insecure_skip_verify: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.address = address
        self._asking = GatewayRequests(
            address, key, header=header, ca=ca, insecure_skip_verify=insecure_skip_verify, clock=clock
        )
        self._version = ""

    @property
    def trust(self) -> str:
        """How far the server's identity is verified, for the status."""
        return self._asking.trust

    async def presence(self) -> GatewayPresence:
        """Return state and version; needs no key, and an 8.1 gateway answers too."""
        what = "asking for its state"
        answer = await self._asking.send("GET", "/system/gwinfo", what=what)
        found = GatewayPresence.from_gwinfo(answer.body) if answer.status == 200 else GatewayPresence()
        if found.state is GatewayState.UNKNOWN:
            answer = await self._asking.send("GET", "/StatusPing", what=what)
            found = found._replace(state=GatewayPresence.from_ping(answer.json()).state)
        if found == GatewayPresence() and (trouble := self._asking.away(answer, what)) is not None:
            raise trouble
        if found.version != self._version or found.state is not GatewayState.RUNNING:
            self._version = found.version
            self._asking.forget()
        return found

    async def check(self) -> GatewayInfo:
        """Check that the gateway is usable; raise with the first problem."""
        here = await self.presence()
        self.require_running(here)
        try:
            paths = (f"{API}/gateway-info", f"{API}/status")
            said = await self._asking.first(
                paths, "asking for its version", lambda _, said: parse_gateway_info(said)
            )
        except PathNotOffered:
            # Do not cache the 404: the gateway may still be starting and offer the path later.
            self._asking.forget()
            raise self._not_ours(here.version) from None
        if is_older_than_api(said.version):
            raise self._not_ours(said.version)
        return said

    def require_running(self, here: GatewayPresence) -> None:
        """Raise if the gateway reports that it is starting or has faulted."""
        if here.state is GatewayState.STARTING:
            raise Retry(f"the gateway at {self.address} is still starting", reason=Reason.GATEWAY_STARTING)
        if here.state is GatewayState.FAULTED:
            raise Retry(
                f"the gateway at {self.address} has faulted; its own log says why",
                reason=Reason.GATEWAY_FAULTED,
            )

    async def may_write(self) -> None:
        """Raise if the key may not write; raise `PathNotOffered` if only a real write would show it.

        The request for a scan lock has timeouts that are no numbers. Without permission the gateway
        refuses it for that reason, and with permission it refuses the timeouts. Nothing is locked.
        """
        body = json.dumps({"acquireTimeout": "none", "holdTimeout": "none"}).encode()
        try:
            await self._asking.known("POST", _lock_name(ScanKind.PROJECTS), "looking for Gateway Write", body)
        except StokerError as error:
            if error.reason is not Reason.GATEWAY_ERROR:
                raise

    async def project_names(self) -> frozenset[str]:
        """Return the projects that the gateway has loaded."""
        paths = (f"{API}/projects/list{NO_PAGE_LIMIT}", f"{API}/projects/names")
        return await self._asking.first(paths, "listing projects", lambda _, said: parse_names(said))

    async def tag_providers(self) -> frozenset[str]:
        """Return the tag providers that the gateway has loaded."""
        return await self._asking.first(_PROVIDERS, _LISTING, lambda _, said: parse_names(said))

    async def managed_providers(self) -> frozenset[str]:
        """Return the tag providers whose tags a module creates by itself, such as MQTT Engine's."""
        return await self._asking.first(_PROVIDERS, _LISTING, lambda _, said: parse_managed_providers(said))

    async def types_of(self, provider: str) -> frozenset[str] | None:
        """Return the tag type definitions of a provider, by path; None if the gateway cannot export them."""
        asked = {"provider": provider, "type": "json", "path": TYPES_FOLDER, "recursive": "true"}
        path = f"{API}/tags/export?{urlencode({**asked, 'includeUdts': 'true'}, quote_via=quote)}"
        what = "exporting tag types"
        try:
            found = parse_tag_types((await self._asking.ask("GET", path, what)).json())
        except PathNotOffered:
            return None
        if found is None:
            raise self._asking.unreadable(what)
        return found

    async def designers(self) -> tuple[DesignerSession, ...] | None:
        """Return the open Designers with their projects; None if this gateway does not list them."""
        mixed = f"{DOCUMENTED_API}/sessions"
        paths = (f"{API}/designers{NO_PAGE_LIMIT}", f"{DOCUMENTED_API}/design/sessions", mixed)
        found = await self._asking.first_or_none(
            paths, "listing designers", lambda path, said: parse_designers(said, mixed=path == mixed)
        )
        return found if found is not None else await self._designers_by_project()

    async def perspective_sessions(self) -> tuple[PerspectiveSession, ...] | None:
        """Return the browsers that show a project; None if this gateway offers no such list."""
        return await self._asking.first_or_none(
            (f"{PERSPECTIVE}/{NO_PAGE_LIMIT}", f"{DOCUMENTED_API}/sessions"),
            "listing Perspective sessions",
            lambda _, said: parse_perspective_sessions(said),
        )

    async def message_session(self, session: str, text: str) -> None:
        """Show a message in a session; raise `PathNotOffered` if the gateway cannot, or it does not exist."""
        what = "writing to a Perspective session"
        path = f"{DOCUMENTED_API}/sessions/{self._one(session, what)}/message"
        await self._asking.ask("POST", path, what, json.dumps({"message": text}).encode())

    async def close_session(self, session: str, text: str) -> None:
        """Close a session with a message; raise `PathNotOffered` if it does not exist."""
        what = "closing a Perspective session"
        named = f"sessionId={self._one(session, what)}&message={quote(text, safe='')}"
        said = (await self._asking.ask("DELETE", f"{PERSPECTIVE}?{named}", what)).json()
        if isinstance(said, dict) and said.get("terminated") == 0:
            raise PathNotOffered(f"{what}: the gateway at {self.address} has no session {session}")

    async def modules(self) -> ModuleHealth | None:
        """Return which modules run and which are quarantined; None if this gateway does not list them."""
        what = "listing modules"
        healthy, put_aside = (
            f"{API}/modules/{health}{NO_PAGE_LIMIT}" for health in ("healthy", "quarantined")
        )
        found = await self._asking.first_or_none((healthy,), what, lambda _, said: module_ids(said))
        if found is None:
            return await self._asking.first_or_none(
                (f"{DOCUMENTED_API}/modules",), what, lambda _, said: parse_module_list(said)
            )
        sick = await self._asking.first((put_aside,), what, lambda _, said: parse_quarantined(said))
        return ModuleHealth(found, sick)

    async def pending_restarts(self) -> tuple[str, ...] | None:
        """Return the tasks that wait for a restart; only changes made in the gateway itself are listed."""
        return await self._asking.first_or_none(
            (f"{API}/restart-tasks/pending",), "listing restarts", lambda _, said: parse_restart_tasks(said)
        )

    async def restart(self) -> None:
        """Request a restart; the gateway answers at once and goes down a few seconds later."""
        what = "restarting the gateway"
        try:
            await self._asking.known("POST", f"{API}/restart-tasks/restart?confirm=true", what)
        except PathNotOffered:
            await self._asking.known("POST", f"{API}/restart", what)

    async def scan(self, kind: ScanKind) -> int:
        """Request a scan of its files; the gateway answers at once and scans later."""
        return (await self._asking.ask("POST", f"{API}/scan/{kind}", f"scan of {kind}")).status

    async def scans(self) -> bool:
        """Return whether a scan is running; False if the gateway does not report it."""
        for kind in ScanKind:
            said = (await self._asking.ask("GET", f"{API}/scan/{kind}", f"scan of {kind}")).json()
            if isinstance(said, dict) and said.get("scanActive") is True:
                return True
        return False

    async def lock(self, kind: ScanKind, *, acquire: int, hold: int) -> None:
        """Block the gateway's own changes for `hold` seconds; raise `PathNotOffered` if it has no lock."""
        # A request without a body is answered with 500.
        body = json.dumps({"acquireTimeout": acquire, "holdTimeout": hold}).encode()
        what, within = f"scan lock of {kind}", REQUEST_SECONDS + acquire
        try:
            await self._asking.known("POST", _lock_name(kind), what, body, within=within)
        except GatewayBusy as busy:
            how = "was not given up in time" if busy.status == 408 else "is held by another client"
            message = f"{what}: the gateway at {self.address} says that it {how} ({busy.status})"
            raise ScanLockRefused(message) from None

    async def lock_info(self, kind: ScanKind) -> bool:
        """Return whether a client holds the lock; raise `PathNotOffered` if the gateway has no such lock."""
        answer = await self._asking.known("GET", _lock_name(kind), f"scan lock of {kind}")
        return answer.status == 200

    async def aclose(self) -> None:
        await self._asking.aclose()

    async def _designers_by_project(self) -> tuple[DesignerSession, ...] | None:
        """List the Designers project by project, the oldest form; skip projects deleted meanwhile."""
        family = f"{DOCUMENTED_API}/projects/"
        if self._asking.lacks(family):
            return None
        told: list[tuple[DesignerSession, ...]] = []
        for name in sorted(await self.project_names()):
            try:
                answer = await self._asking.ask("GET", f"{family}{quote(name, safe='')}", "listing designers")
            except PathNotOffered:
                continue
            if (these := parse_project_designers(name, answer.json())) is not None:
                told.append(these)
        if not told:
            self._asking.remember_lack(family)
            return None
        return tuple(one for these in told for one in these)

    def _one(self, session: str, what: str) -> str:
        """Return a session's id as a path segment; refuse an id that would address all sessions or none."""
        if session in {"", ".", ".."}:
            raise PathNotOffered(
                f"{what}: the gateway at {self.address} gave it no id by which it can be named"
            )
        return quote(session, safe="")

    def _not_ours(self, version: str) -> Stalled:
        runs = f"runs Ignition {version}" if version else "does not answer like Ignition"
        return Stalled(
            f"the gateway at {self.address} {runs}; its API begins with 8.3", reason=Reason.NOT_IGNITION_83
        )


def _lock_name(kind: ScanKind) -> str:
    return f"{API}/scan-lock/{kind}"


def error_note(error: StokerError) -> str:
    """Format an error for a note: its reason, then its message."""
    return f"{error.reason}: {error.message}"

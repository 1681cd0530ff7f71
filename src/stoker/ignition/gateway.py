"""One gateway's API, as far as a sync needs it.

Says what to ask and reads what came back; `wire` carries it, `answers` judges it.
Every method either returns what was asked for or raises an error of our own with
the first thing that is wrong. It keeps no opinion about when to ask what: that is
`scanning`'s.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from stoker.domain.errors import Misconfigured, Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.ignition.addressing import GatewayAddress
from stoker.ignition.answers import (
    Answer,
    Asked,
    GatewayState,
    NotOffered,
    Presence,
    one_line,
    trouble_with,
    unreadable,
)
from stoker.ignition.keys import HEADER, KeyReader, name_of

if TYPE_CHECKING:
    from stoker.ignition.wire import Wire

API = "/data/api/v1"
REQUEST_SECONDS = 20.0


class ScanKind(StrEnum):
    """The two things that a gateway scans, and locks, apart from each other."""

    PROJECTS = "projects"
    CONFIG = "config"


@dataclass(frozen=True, slots=True)
class GatewayInfo:
    """What the gateway says of itself to whoever may ask."""

    name: str
    version: str


class Gateway:
    """The client; `aclose` ends its connections."""

    def __init__(
        self,
        address: GatewayAddress,
        key: KeyReader,
        *,
        ca: bytes | None = None,
        insecure_skip_verify: bool = False,
    ) -> None:
        if ca is not None and insecure_skip_verify:
            raise Misconfigured(f"for {address} both an authority and no verification were asked for")
        self.address = address
        self._key = key
        self._ca = ca
        self._insecure = insecure_skip_verify
        self._wire: Wire | None = None

    @property
    def trust(self) -> str:
        """How far the other end is who it says it is, for the status."""
        if not self.address.tls:
            return "plain HTTP"
        if self._ca is None and self.address.loopback:
            return "unverified loopback"
        return "unverified" if self._insecure else "verified"

    async def presence(self) -> Presence:
        """Its state and version; needs no key, and an 8.1 gateway answers too."""
        answer = await self._send("GET", "/system/gwinfo", what="asking for its state")
        found = Presence.from_gwinfo(answer.body) if answer.status == 200 else Presence()
        if found.state is GatewayState.UNKNOWN:
            ping = await self._send("GET", "/StatusPing", what="asking for its state")
            found = found._replace(state=Presence.from_ping(ping.json()).state)
        return found

    async def check(self) -> GatewayInfo:
        """Whether it can be worked with; raises with the first thing that is wrong."""
        here = await self.presence()
        if here.state is GatewayState.STARTING:
            raise Retry(f"the gateway at {self.address} is still starting", reason=Reason.GATEWAY_STARTING)
        if here.state is GatewayState.FAULTED:
            raise Retry(
                f"the gateway at {self.address} has faulted; its own log says why",
                reason=Reason.GATEWAY_FAULTED,
            )
        try:
            said = await self._info()
        except NotOffered:
            runs = f"runs Ignition {here.version}" if here.version else "does not answer like Ignition"
            raise Stalled(
                f"the gateway at {self.address} {runs}; its API begins with 8.3",
                reason=Reason.NOT_IGNITION_83,
            ) from None
        return said

    async def project_names(self) -> frozenset[str]:
        """The projects that it has loaded."""
        what = "listing projects"
        said = await self._get(f"{API}/projects/list", what)
        items = said.get("items") if isinstance(said, dict) else said
        if not isinstance(items, list):
            raise unreadable(self._asked(what, "", writes=False))
        names = (item.get("name") if isinstance(item, dict) else item for item in items)
        return frozenset(name for name in names if isinstance(name, str))

    async def scan(self, kind: ScanKind) -> int:
        """Ask it to read its files again; it says yes at once and does it later."""
        return (await self._ask("POST", f"{API}/scan/{kind}", f"scan of {kind}")).status

    async def lock(self, kind: ScanKind, *, acquire: int, hold: int) -> None:
        """Hold back its own changes for `hold` seconds; raises NotOffered where it knows no such lock."""
        # Without a body it answers 500, so there always is one.
        body = json.dumps({"acquireTimeout": acquire, "holdTimeout": hold}).encode()
        within = REQUEST_SECONDS + acquire
        await self._ask("POST", f"{API}/scan-lock/{kind}", f"scan lock of {kind}", body, within=within)

    async def aclose(self) -> None:
        if self._wire is not None:
            await self._wire.aclose()
            self._wire = None

    async def _info(self) -> GatewayInfo:
        what = "asking for its version"
        try:
            said = await self._get(f"{API}/gateway-info", what)
        except NotOffered:
            said = await self._get(f"{API}/status", what)
        version = said.get("ignitionVersion") if isinstance(said, dict) else None
        if not isinstance(said, dict) or not isinstance(version, str) or not version:
            raise unreadable(self._asked(what, "", writes=False))
        return GatewayInfo(one_line(str(said.get("name", "")), 100), one_line(version, 40))

    async def _get(self, path: str, what: str) -> object:
        answer = await self._ask("GET", path, what)
        said = answer.json()
        if said is None:
            raise unreadable(self._asked(what, "", writes=False))
        return said

    async def _ask(
        self, method: str, path: str, what: str, body: bytes | None = None, *, within: float = REQUEST_SECONDS
    ) -> Answer:
        """An answer that is not a refusal. The key is read now: it may have been replaced."""
        key = self._key()
        headers = {HEADER: key.reveal()}
        if body is not None:
            headers["Content-Type"] = "application/json"
        answer = await self._send(method, path, what=what, headers=headers, body=body, within=within)
        trouble = trouble_with(answer, self._asked(what, name_of(key), writes=method != "GET"))
        if trouble is not None:
            raise trouble
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        *,
        what: str,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        within: float = REQUEST_SECONDS,
    ) -> Answer:
        if self._wire is None:
            from stoker.ignition.wire import Wire  # noqa: PLC0415 - aiohttp costs 180 ms of CPU

            verified = not self._insecure and not (self._ca is None and self.address.loopback)
            self._wire = Wire(self.address, self._ca, verified=verified)
        return await self._wire.send(method, path, headers or {}, body, what=what, within=within)

    def _asked(self, what: str, key_name: str, *, writes: bool) -> Asked:
        return Asked(what, self.address, key_name, writes)


def sentence(error: StokerError) -> str:
    """An error as part of a note: its reason, then its words."""
    return f"{error.reason}: {error.message}"

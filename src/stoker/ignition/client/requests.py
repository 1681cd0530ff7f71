"""Requests to a gateway: adds the key, applies timeouts, and remembers missing paths.

Sits between `gateway`, which knows the paths, and `http`, which sends the bytes. The key
is read for every request, because a rotation replaces the file. After a 404 a path is
not requested again for `ABSENT_SECONDS`, unless the gateway was down meanwhile: it may
have been upgraded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Misconfigured, Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.api_key import HEADER, ApiKeyReader, api_key_name, check_api_key
from stoker.ignition.client.responses import (
    GatewayRequestInfo,
    GatewayResponse,
    PathNotOffered,
    answer_error,
    unreadable_answer,
)

if TYPE_CHECKING:
    from stoker.ignition.client.http import GatewayHttp

T = TypeVar("T")

REQUEST_SECONDS = 20.0
ABSENT_SECONDS = 300.0
_AWAY_REASONS = frozenset({Reason.GATEWAY_UNREACHABLE, Reason.GATEWAY_STARTING})
_GATEWAY_STATE_REASONS = _AWAY_REASONS | {Reason.NOT_COMMISSIONED, Reason.SECURE_REQUIRED}


class GatewayRequests:
    """Sends requests to one gateway; `aclose` closes its connections."""

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
        if ca is not None and insecure_skip_verify:
            raise Misconfigured(f"for {address} both an authority and no verification were asked for")
        self.address = address
        self._key = key
        self._header = header
        self._ca = ca
        self._insecure = insecure_skip_verify
        self._clock = clock if clock is not None else SystemClock()
        self._wire: GatewayHttp | None = None
        self._absent: dict[str, float] = {}

    @property
    def trust(self) -> str:
        """How far the server's identity is verified, for the status."""
        if not self.address.tls:
            return "plain HTTP"
        if self._ca is None and self.address.loopback:
            return "unverified loopback"
        return "unverified" if self._insecure else "verified"

    async def first(self, paths: Sequence[str], what: str, read: Callable[[str, object], T | None]) -> T:
        """Return the value of the first path that this gateway has; raise `PathNotOffered` if it has none.

        `read` receives the path and the JSON, and returns None for a response that it cannot parse.
        """
        for path in paths:
            try:
                said = (await self.known("GET", path, what)).json()
            except PathNotOffered as error:
                missing = error
                continue
            found = None if said is None else read(path, said)
            if found is None:
                raise self.unreadable(what)
            return found
        raise missing

    async def first_or_none(
        self, paths: Sequence[str], what: str, read: Callable[[str, object], T | None]
    ) -> T | None:
        """Do the same as `first`, but return None if this gateway has none of the paths."""
        try:
            return await self.first(paths, what, read)
        except PathNotOffered:
            return None

    async def known(
        self, method: str, path: str, what: str, body: bytes | None = None, *, within: float = REQUEST_SECONDS
    ) -> GatewayResponse:
        """Do the same as `ask`, but remember a 404: the path names no single object, so it is unsupported."""
        if self.lacks(path):
            raise PathNotOffered(f"{what}: the gateway at {self.address} has no such path (404)")
        try:
            return await self.ask(method, path, what, body, within=within)
        except PathNotOffered:
            self.remember_lack(path)
            raise

    async def ask(
        self, method: str, path: str, what: str, body: bytes | None = None, *, within: float = REQUEST_SECONDS
    ) -> GatewayResponse:
        """Return the response if it is no refusal. If the key was rotated meanwhile, try the new key too."""
        key = check_api_key(self._key(), "the API key")
        try:
            return await self._ask_with(key, method, path, what, body, within)
        except Stalled as error:
            if error.reason is not Reason.TOKEN_REJECTED:
                raise
            newer = check_api_key(self._key(), "the API key")
            if newer == key:
                raise
        return await self._ask_with(newer, method, path, what, body, within)

    async def _ask_with(
        self, key: Secret, method: str, path: str, what: str, body: bytes | None, within: float
    ) -> GatewayResponse:
        headers = {self._header: key.reveal()}
        if body is not None:
            headers["Content-Type"] = "application/json"
        answer = await self.send(method, path, what=what, headers=headers, body=body, within=within)
        trouble = answer_error(
            answer, GatewayRequestInfo(what, self.address, api_key_name(key), method != "GET", key)
        )
        if trouble is None:
            return answer
        if trouble.reason in _AWAY_REASONS:
            self.forget()
        raise trouble

    async def send(
        self,
        method: str,
        path: str,
        *,
        what: str,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        within: float = REQUEST_SECONDS,
    ) -> GatewayResponse:
        """Return any response, without the key unless it is among the headers."""
        if self._wire is None:
            from stoker.ignition.client.http import GatewayHttp  # noqa: PLC0415 - aiohttp costs 180 ms of CPU

            verified = not self._insecure and not (self._ca is None and self.address.loopback)
            self._wire = GatewayHttp(self.address, self._ca, verified=verified)
        try:
            return await self._wire.send(method, path, headers or {}, body, what=what, within=within)
        except Retry:
            self.forget()
            raise

    def away(self, answer: GatewayResponse, what: str) -> StokerError | None:
        """Return the error if a response to a request without a key shows the gateway's state, else None."""
        trouble = answer_error(answer, GatewayRequestInfo(what, self.address, "", writes=False))
        return trouble if trouble is not None and trouble.reason in _GATEWAY_STATE_REASONS else None

    def unreadable(self, what: str) -> Retry:
        return unreadable_answer(GatewayRequestInfo(what, self.address, "", writes=False))

    def lacks(self, path: str) -> bool:
        """Return whether the gateway answered recently that it has no such path."""
        return self._clock.monotonic() < self._absent.get(path, 0.0)

    def remember_lack(self, path: str) -> None:
        self._absent[path] = self._clock.monotonic() + ABSENT_SECONDS

    def forget(self) -> None:
        """Forget missing paths: the gateway was down, or it is another gateway now."""
        self._absent.clear()

    async def aclose(self) -> None:
        if self._wire is not None:
            await self._wire.aclose()
            self._wire = None

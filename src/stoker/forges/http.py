"""One question to a forge's API: JSON out, a checked shape back, everything bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from stoker.domain.errors import Retry
from stoker.domain.json_cost import decoded_size
from stoker.forges.detect import ForgeRepository
from stoker.forges.errors import ForgeUnavailable, forge_refusal, unreadable_answer
from stoker.http_client import ServiceRequest, ServiceResponse, ServiceUnreachable, send_request

TIMEOUT = 30.0
MAX_REPLY = 4 << 20  # twenty requests with descriptions as long as they may be
MAX_DECODED = 32 << 20
"""Bytes that an answer may take in memory: whoever names the forge writes it, in a shared controller."""
PAGE = 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ForgeHttpOptions:
    """How a forge is reached."""

    ca: bytes | None = None
    proxy: str = field(default="", repr=False)
    timeout: float = TIMEOUT


@dataclass(frozen=True, slots=True)
class ForgeApi:
    """The API of one forge, for one repository."""

    place: ForgeRepository
    headers: Mapping[str, str] = field(repr=False)
    reach: ForgeHttpOptions = field(default_factory=ForgeHttpOptions)

    async def ask(
        self,
        method: str,
        path: str,
        into: type[T],
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> T:
        """What it answers; anything else than a success of the right shape is an error of the tree."""
        return self.read(await self.answer(method, path, query=query, body=body), into)

    async def answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> ServiceResponse:
        """The bare answer, whatever its status."""
        address = f"{self.place.api}{path}" + (f"?{urlencode(query)}" if query else "")
        content = None if body is None else msgspec.json.encode(body)
        headers = {**self.headers, **({} if content is None else {"Content-Type": "application/json"})}
        try:
            return await send_request(
                ServiceRequest(
                    address,
                    method,
                    headers,
                    content,
                    timeout=self.reach.timeout,
                    ca=self.reach.ca,
                    proxy=self.reach.proxy,
                    max_reply=MAX_REPLY,
                )
            )
        except ServiceUnreachable as error:
            raise ForgeUnavailable(f"the forge {error.message}", after=error.after) from None

    def read(self, answer: ServiceResponse, into: type[T]) -> T:
        """What a success holds; a refusal is raised as what it means."""
        if not answer.ok:
            raise self.refusal(answer)
        if decoded_size(answer.body, MAX_DECODED) > MAX_DECODED:
            raise unreadable_answer(self.place.host, self.place.project)
        try:
            return msgspec.json.decode(answer.body, type=into)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the first covers wrong types too
            raise unreadable_answer(self.place.host, self.place.project) from None

    def refusal(self, answer: ServiceResponse) -> Retry:
        return forge_refusal(answer, self.place.host, self.place.project)

"""One request to a forge's API: JSON body out, typed response back, with bounds on time and size."""

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
MAX_REPLY = 4 << 20  # twenty requests with descriptions of maximal length
MAX_DECODED = 32 << 20
"""Memory that a decoded response may take: a tenant chooses the server, and the controller is shared."""
PAGE = 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ForgeHttpOptions:
    """CA, proxy and timeout for the connection to a forge."""

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
        """Send a request and decode the response; raises unless it is a success of the expected type."""
        return self.read(await self.answer(method, path, query=query, body=body), into)

    async def answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> ServiceResponse:
        """Send a request and return the raw response, whatever its status."""
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
        """Decode a successful response; raises the matching error for any other."""
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

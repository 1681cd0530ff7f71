"""A visitor of a dashboard without a browser: signs in, looks, orders, and reads the event stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import aiohttp

CSRF = "X-Stoker-CSRF"


@dataclass(frozen=True)
class DashboardAnswer:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        found = json.loads(self.body)
        assert isinstance(found, dict)  # noqa: S101 - every answer of the API is one object
        return found

    @property
    def error(self) -> str:
        return str(self.json["error"])


@dataclass(frozen=True)
class DashboardEvent:
    name: str
    data: dict[str, Any]


class DashboardClient:
    """One client with a cookie jar of its own."""

    def __init__(self, url: str, **session: Any) -> None:
        self.url = url.rstrip("/")
        self.csrf = ""
        self._options = session

    async def __aenter__(self) -> Self:
        jar = aiohttp.CookieJar(unsafe=True)  # cookies of an address, not of a name
        timeout = aiohttp.ClientTimeout(total=30)
        self.client = aiohttp.ClientSession(cookie_jar=jar, timeout=timeout, **self._options)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    async def ask(self, method: str, path: str, **options: Any) -> DashboardAnswer:
        async with self.client.request(method, self.url + path, **options) as answer:
            return DashboardAnswer(answer.status, answer.headers, await answer.read())

    async def get(self, path: str, **headers: str) -> DashboardAnswer:
        return await self.ask("GET", path, headers=_spelled(headers))

    async def sign_in(self, token: str, **headers: str) -> DashboardAnswer:
        response = await self.ask("POST", "/api/session", json={"token": token}, headers=_spelled(headers))
        if response.status == 200:
            self.csrf = response.json["csrf"]
        return response

    async def sign_out(self) -> DashboardAnswer:
        return await self.ask("DELETE", "/api/session", headers={CSRF: self.csrf})

    async def order(self, **order: object) -> DashboardAnswer:
        return await self.ask("POST", "/api/actions", json=order, headers={CSRF: self.csrf})

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[DashboardEvent]]:
        timeout = aiohttp.ClientTimeout(total=None, sock_read=30)
        async with self.client.get(f"{self.url}/api/events", timeout=timeout) as answer:
            if answer.status != 200:
                raise PermissionError(f"{answer.status}: {await answer.text()}")
            yield _read(answer)


async def _read(answer: aiohttp.ClientResponse) -> AsyncIterator[DashboardEvent]:
    name, held = "", b""
    async for chunk in answer.content.iter_any():
        held += chunk
        *lines, held = held.split(b"\n")
        for line in lines:
            if line.startswith(b"event: "):
                name = line.removeprefix(b"event: ").decode()
            elif line.startswith(b"data: "):
                yield DashboardEvent(name, json.loads(line.removeprefix(b"data: ")))


def _spelled(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}

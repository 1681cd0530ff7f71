"""Plain requests to a test gateway, each on a connection of its own: nothing that the product sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import NamedTuple

from stoker_testkit.gateway.rest_api.control_routes import PREFIX
from stoker_testkit.gateway.rest_api.request_checks import HEADER

PATIENCE_SECONDS = 10.0


class Reply(NamedTuple):
    """A response."""

    status: int
    kind: str
    """The content type without its parameters."""
    body: bytes

    def json(self) -> object:
        return json.loads(self.body)

    def object(self) -> dict[str, object]:
        """The same where it has to be an object."""
        found = self.json()
        if not isinstance(found, dict):
            raise TypeError(f"an object was expected: {self.body[:200]!r}")
        return found


def ask(
    url: str, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> Reply:
    """One request to a gateway that speaks plain HTTP."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        kind = answer.headers.get("Content-Type", "").partition(";")[0]
        return Reply(answer.status, kind, answer.read())
    finally:
        connection.close()


def ask_with(url: str, key: str, method: str, path: str, body: bytes | None = None) -> Reply:
    """The same with a key."""
    return ask(url, method, path, {HEADER: key}, body)


def pull(url: str, verb: str, **fields: object) -> dict[str, object]:
    """Pull one of the strings of `control_routes`, from whichever process."""
    reply = ask(url, "POST", f"{PREFIX}{verb}", body=json.dumps(fields).encode())
    if reply.status != 200:
        raise ValueError(f"{verb}: {reply.status} {reply.body[:300].decode(errors='replace')}")
    return reply.object()

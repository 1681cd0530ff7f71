"""A refusal of a forge is its status and our own words; nothing of the body is in it."""

from __future__ import annotations

import pytest

from stoker.forges.errors import forge_refusal
from stoker.http_client import ServiceResponse

SAID = b'{"message": "canary", "errors": [{"message": "canary"}], "error": "canary", "canary": ["canary"]}'


@pytest.mark.parametrize("headers", [{}, {"retry-after": "42"}])
@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 405, 408, 409, 418, 422, 429, 500, 502, 503])
@pytest.mark.parametrize("body", [SAID, b"canary", b'"canary"', b"<html>canary</html>"])
def test_a_refusal_says_the_status_and_nothing_of_the_body(
    status: int, headers: dict[str, str], body: bytes
) -> None:
    error = forge_refusal(ServiceResponse(status, body, headers), "forge.test", "a/b")
    assert "canary" not in error.message
    assert error.message.startswith("forge.test (a/b) ")
    assert f"(status {status})" in error.message

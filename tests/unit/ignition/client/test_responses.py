"""Every kind of answer becomes one reason and one sentence."""

from __future__ import annotations

import json

import pytest

from stoker.domain.errors import Retry, Stalled
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.responses import (
    GatewayBusy,
    GatewayPresence,
    GatewayRequestInfo,
    GatewayResponse,
    GatewayState,
    PathNotOffered,
    answer_error,
)

PLAIN = GatewayRequestInfo("scan of projects", GatewayAddress("gw", 8088, tls=False), "stoker", writes=True)
SECURE = GatewayRequestInfo("listing projects", GatewayAddress("gw", 8043, tls=True), "stoker", writes=False)
JSON = "application/json"
JETTY = b"<html><title>Error 500</title><tr><th>MESSAGE:</th><td>NullPointer</td></tr></html>"


def answer(status: int, body: bytes = b"", kind: str = JSON, location: str = "") -> GatewayResponse:
    return GatewayResponse(status, kind, location, body)


@pytest.mark.parametrize(
    ("given", "asked", "error", "reason", "words"),
    [
        (answer(401), PLAIN, Stalled, Reason.TOKEN_REJECTED, "'stoker' .*requires a secure connection"),
        (answer(401), SECURE, Stalled, Reason.TOKEN_REJECTED, "secret is wrong$"),
        (answer(403), PLAIN, Stalled, Reason.LEVEL_NOT_GRANTED, "Gateway Write, .*not require a secure"),
        (answer(403, b"<html>", "text/html"), SECURE, Stalled, Reason.LEVEL_NOT_GRANTED, "Gateway Read$"),
        (answer(403, b'{"message":"no"}'), SECURE, Stalled, Reason.LEVEL_NOT_GRANTED, ": no$"),
        (answer(403, b'{"message":"Secure only"}'), PLAIN, Stalled, Reason.SECURE_REQUIRED, "https://"),
        (answer(302, location="https://gw/"), PLAIN, Stalled, Reason.SECURE_REQUIRED, "https://"),
        (answer(302, location="https://evil/"), SECURE, Retry, Reason.GATEWAY_ERROR, "points elsewhere"),
        (answer(404, b"<html>", "text/html"), PLAIN, PathNotOffered, Reason.NOT_IGNITION_83, "no such path"),
        (answer(302, location="/welcome"), PLAIN, Retry, Reason.NOT_COMMISSIONED, "set-up"),
        (answer(302, location="https://gw/welcome"), PLAIN, Retry, Reason.NOT_COMMISSIONED, "set-up"),
        (answer(302, location="https://gw/welcomed"), SECURE, Retry, Reason.GATEWAY_ERROR, "elsewhere"),
        (answer(302, location="/idp/default/authn/login"), PLAIN, Retry, Reason.GATEWAY_ERROR, "elsewhere"),
        (answer(302, location="http://[half"), SECURE, Retry, Reason.GATEWAY_ERROR, "elsewhere"),
        (answer(405), PLAIN, PathNotOffered, Reason.NOT_IGNITION_83, "no such path"),
        (answer(408), PLAIN, GatewayBusy, Reason.GATEWAY_ERROR, "busy"),
        (answer(409, b'{"message":"held"}'), PLAIN, GatewayBusy, Reason.GATEWAY_ERROR, "busy .*: held$"),
        (answer(422, b'{"messages":["no","yes"]}'), PLAIN, Stalled, Reason.GATEWAY_ERROR, "422: no$"),
        (answer(400, b'{"error":{"message":"no"}}'), PLAIN, Stalled, Reason.GATEWAY_ERROR, "400: no$"),
        (
            answer(400, b'{"error":{"message":[]},"messages":[{}]}'),
            PLAIN,
            Stalled,
            Reason.GATEWAY_ERROR,
            "400$",
        ),
        (answer(502), PLAIN, Retry, Reason.GATEWAY_UNREACHABLE, "proxy"),
        (answer(429), PLAIN, Retry, Reason.GATEWAY_ERROR, "429$"),
        (answer(500, JETTY, "text/html"), PLAIN, Retry, Reason.GATEWAY_ERROR, "answered 500: NullPointer$"),
        (answer(400, b'{"error":"a\\nb"}'), PLAIN, Stalled, Reason.GATEWAY_ERROR, "400: a b$"),
        (answer(500, b"<h1>", "text/html"), PLAIN, Retry, Reason.GATEWAY_ERROR, "answered 500$"),
        (answer(503), PLAIN, Retry, Reason.GATEWAY_STARTING, "not ready"),
        (answer(200, b'{"success":false,"message":"busy"}'), PLAIN, Retry, Reason.GATEWAY_ERROR, "it: busy$"),
    ],
)
def test_a_refusal_is_described_in_words(
    given: GatewayResponse, asked: GatewayRequestInfo, error: type[Exception], reason: Reason, words: str
) -> None:
    trouble = answer_error(given, asked)
    assert isinstance(trouble, error)
    assert trouble.reason is reason
    with pytest.raises(type(trouble), match=words):
        raise trouble


@pytest.mark.parametrize(
    "body",
    [
        b"NaN",
        b'{"a":-Infinity}',
        b"1" * 10_000,
        b"[" * 100_000,
        b"[" + b"[]," * 500_000 + b"1]",
        b'{"a":',
        b"\xff\xff",
        b"\x1f\x8b\x08",
    ],
)
def test_what_only_looks_like_json_is_none(body: bytes) -> None:
    assert answer(200, body).json() is None


@pytest.mark.parametrize("kind", ["text/html", "application/octet-stream", "application/xml"])
def test_another_content_type_is_not_parsed(kind: str) -> None:
    assert answer(200, b"{}", kind).json() is None


@pytest.mark.parametrize("body", [b"", b"[]", b'{"success":true}', b"not json", b"[" * 100_000])
def test_a_200_that_does_not_say_no_is_a_yes(body: bytes) -> None:
    assert answer_error(answer(200, body), PLAIN) is None


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"ContextStatus=RUNNING;X=1;Version=8.3.7;Y", GatewayPresence(GatewayState.RUNNING, "8.3.7")),
        (b"ContextStatus=FAULTED;Version=8.1.44", GatewayPresence(GatewayState.FAULTED, "8.1.44")),
        (b"<html>", GatewayPresence()),
        (b"\xff\xfe;;=;=", GatewayPresence()),
        (b"", GatewayPresence()),
    ],
)
def test_the_state_is_read_without_a_key(body: bytes, found: GatewayPresence) -> None:
    assert GatewayPresence.from_gwinfo(body) == found


@pytest.mark.parametrize("value", [None, [], "RUNNING", {"state": None}, {"status": "RUNNING"}])
def test_a_ping_that_is_none_says_nothing(value: object) -> None:
    assert GatewayPresence.from_ping(value).state is GatewayState.UNKNOWN


@pytest.mark.parametrize("before", [0, 280])
@pytest.mark.parametrize("repeated", ["stoker:s3cr3t-of-the-key", "s3cr3t-of-the-key"])
@pytest.mark.parametrize("status", [200, 400, 403, 409, 500, 503])
def test_a_gateway_that_repeats_the_key_is_quoted_without_it(status: int, repeated: str, before: int) -> None:
    text = f"{'x' * before} bad token {repeated}"
    asked = PLAIN._replace(key=Secret("stoker:s3cr3t-of-the-key"))
    page = f"<th>MESSAGE:</th><td>{text}</td>".encode()
    for given in (
        answer(status, json.dumps({"success": False, "message": text}).encode()),
        answer(status, page, "text/html"),
    ):
        error = answer_error(given, asked)
        assert "s3cr" not in str(error)
    assert "s3cr3t" not in repr(asked)

"""From an answer of the server to the error that says what to do."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from stoker.domain.errors import Retry, Stalled
from stoker.domain.reasons import Reason
from stoker.kube.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    error_for,
)


def status(message: str, *, reason: str = "", details: Mapping[str, object] | None = None) -> bytes:
    fields = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason}
    return msgspec.json.encode(fields | ({"details": details} if details else {}))


@pytest.mark.parametrize(
    ("code", "reason", "kind", "consequence", "word"),
    [
        (401, "Unauthorized", Unauthorized, Stalled, Reason.UNAUTHORIZED),
        (403, "Forbidden", Forbidden, Stalled, Reason.RBAC_DENIED),
        (404, "NotFound", NotFound, Stalled, Reason.NOT_FOUND),
        (409, "AlreadyExists", AlreadyExists, Retry, Reason.ALREADY_EXISTS),
        (409, "Conflict", Conflict, Retry, Reason.CONFLICT),
        (409, "", Conflict, Retry, Reason.CONFLICT),
        (410, "Expired", Gone, Retry, Reason.RESOURCE_VERSION_EXPIRED),
        (410, "Gone", Gone, Retry, Reason.RESOURCE_VERSION_EXPIRED),
        (400, "BadRequest", Invalid, Stalled, Reason.REJECTED),
        (405, "MethodNotAllowed", Invalid, Stalled, Reason.REJECTED),
        (413, "RequestEntityTooLarge", Invalid, Stalled, Reason.REJECTED),
        (415, "UnsupportedMediaType", Invalid, Stalled, Reason.REJECTED),
        (422, "Invalid", Invalid, Stalled, Reason.REJECTED),
        (408, "Timeout", ServerError, Retry, Reason.API_SERVER_ERROR),
        (429, "TooManyRequests", TooManyRequests, Retry, Reason.TOO_MANY_REQUESTS),
        (500, "InternalError", ServerError, Retry, Reason.API_SERVER_ERROR),
        (503, "ServiceUnavailable", ServerError, Retry, Reason.API_SERVER_ERROR),
        (504, "Timeout", ServerError, Retry, Reason.API_SERVER_ERROR),
        (0, "", ServerError, Retry, Reason.API_SERVER_ERROR),
    ],
)
def test_each_answer_has_its_error_and_its_consequence(
    code: int, reason: str, kind: type[ApiError], consequence: type[Exception], word: Reason
) -> None:
    body = status('User "x" cannot do that', reason=reason)
    error = error_for(code, body, {}, what="get configmaps shop/prices")
    assert type(error) is kind
    assert isinstance(error, consequence)
    assert (error.status, error.api_reason, error.reason) == (code, reason, word)
    assert error.message == 'get configmaps shop/prices: User "x" cannot do that'


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (502, b"", "the server answered 502 without a word"),
        (401, b"", "the server answered 401 without a word"),
        (
            502,
            b"<html><head><title>502 Bad Gateway</title><style>b { x }</style></head>\n<hr>nginx</html>",
            "the server answered 502 (502 Bad Gateway nginx)",
        ),
        (503, b"no healthy upstream\n", "the server answered 503 (no healthy upstream)"),
        (500, b"\xff\xfe\x00", "the server answered 500 (\ufffd\ufffd)"),
        (500, b'{"kind":"Pod","message":"misleading"}', "the server answered 500 without a word"),
        (500, b'{"kind":"Status","message":7}', "the server answered 500 without a word"),
        (500, b'{"truncated', "the server answered 500 without a word"),
        (500, b'["a list"]', 'the server answered 500 (["a list"])'),
        (500, b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}", "the server answered 500 without a word"),
        (
            302,
            b"<a href='https://evil.example/'>",
            "the server answered 302, a redirect, and redirects are not followed",
        ),
    ],
)
def test_answers_that_are_not_of_the_api_are_understood(code: int, body: bytes, expected: str) -> None:
    error = error_for(code, body, {}, what="list pods")
    assert error.message == f"list pods: {expected}"


def test_a_redirect_is_no_reason_to_try_again() -> None:
    assert isinstance(error_for(307, b"", {}), Invalid)


def test_causes_are_shown_unless_the_message_has_them() -> None:
    causes = [
        {"reason": "FieldValueInvalid", "message": "must be even", "field": "spec.size"},
        {"reason": "FieldValueRequired", "message": "is invalid"},
        {"reason": "Odd", "message": "sum is odd"},
    ]
    error = error_for(
        422,
        status("Widget is invalid", reason="Invalid", details={"causes": causes}),
        {},
        what="create widgets",
    )
    assert error.message == "create widgets: Widget is invalid; spec.size: must be even; sum is odd"


def test_a_long_or_broken_message_becomes_one_bounded_line() -> None:
    error = error_for(422, status("first\nsecond\x1b[31m\ttab" + "x" * 5000), {}, what="create widgets")
    assert error.message.startswith("create widgets: first second [31m tab")
    assert len(error.message) < 1100
    assert error.message.isprintable()


def test_a_refused_secret_is_described_by_its_fields_alone() -> None:
    causes = [{"reason": "FieldValueInvalid", "message": 'Invalid value: "hunter2"', "field": "data[a]"}]
    body = status(
        'Secret "x" is invalid: data[a]: Invalid value: "hunter2"',
        reason="Invalid",
        details={"causes": causes},
    )
    error = error_for(422, body, {}, what="create secrets in shop", confidential=True)
    assert (
        error.message
        == "create secrets in shop: the server answered 422 Invalid for data[a] (FieldValueInvalid)"
    )
    plain = error_for(400, b"hunter2", {}, what="create secrets in shop", confidential=True)
    assert plain.message == "create secrets in shop: the server answered 400 refused"
    denied = error_for(403, status('User "x" cannot create resource "secrets"'), {}, confidential=True)
    assert 'User "x" cannot create' in denied.message


def test_a_denial_by_admission_is_distinguished_from_rbac() -> None:
    error = error_for(403, status('pods "x" is forbidden: exceeded quota', reason="Forbidden"), {})
    assert isinstance(error, Forbidden)
    assert error.reason is Reason.REJECTED


@pytest.mark.parametrize(
    ("headers", "details", "after"),
    [
        ({}, {}, None),
        ({"Retry-After": "7"}, {}, 7.0),
        ({"retry-after": " 7 "}, {"retryAfterSeconds": 3}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({}, {"retryAfterSeconds": -3}, None),
        ({"Retry-After": "9" * 400}, {}, 300.0),
        ({"Retry-After": "-1"}, {}, None),
        ({"Retry-After": "soon"}, {}, None),
        (
            {"Retry-After": "Wed, 21 Oct 2026 07:28:10 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"},
            {},
            10.0,
        ),
        (
            {"Retry-After": "Wed, 21 Oct 2015 07:28:10 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"},
            {},
            0.0,
        ),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:10 GMT"}, {}, None),
    ],
)
def test_how_long_to_stay_away(
    headers: dict[str, str], details: dict[str, object], after: float | None
) -> None:
    assert error_for(429, status("busy", details=details), headers).after == after

"""Errors of the API server, each with its consequence for the loop that catches it.

    ApiError                            the server answered, but not with what was requested
    ├── Unauthorized          Stalled   401: it does not accept our credentials
    ├── Forbidden             Stalled   403: it does, and RBAC or admission denies the request
    ├── NotFound              Stalled   404
    ├── Invalid               Stalled   400, 405, 413, 415, 422, a redirect: the request itself is refused
    ├── UnreadableResponse    Stalled   the response does not have the requested shape
    │   └── ResponseTooLarge            the response is longer than this client accepts
    ├── AlreadyExists         Retry     409 on create
    ├── Conflict              Retry     409: another client wrote first, read again
    ├── Gone                  Retry     410: the resourceVersion or continue token is too old, list again
    ├── TooManyRequests       Retry     429: `after` is when to come back
    └── ServerError           Retry     5xx, or a response that is not of the API at all
    ApiServerUnreachable      Retry     no response: name, connection, TLS, timeout, broken stream

`error_for` is the only place that reads status codes and `ApiStatus` bodies; `stoker.kube.client.transport`
is the only place that catches aiohttp's exceptions. Nothing here ever quotes a request's body or headers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import msgspec

from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.text import one_line
from stoker.kube.client.objects import ApiStatus

# A wrong clock or a broken proxy must not delay an object for a week.
MAX_RETRY_AFTER_SECONDS = 300.0


class ApiError(StokerError):
    """The server answered with an error; `status` and `api_reason` are from its response."""

    default_reason = Reason.API_SERVER_ERROR

    def __init__(
        self,
        message: str,
        *,
        status: int,
        api_reason: str = "",
        after: float | None = None,
        reason: Reason | None = None,
    ) -> None:
        super().__init__(message, reason=reason)
        self.status = status
        self.api_reason = api_reason
        self.after = after


class Unauthorized(ApiError, Stalled):
    """401, after the credentials were read again."""

    default_reason = Reason.UNAUTHORIZED


class Forbidden(ApiError, Stalled):
    """403; `reason` distinguishes a denial by RBAC from that of an admission plug-in or a quota."""

    default_reason = Reason.RBAC_DENIED


class NotFound(ApiError, Stalled):
    """404: the object or its kind does not exist."""

    default_reason = Reason.NOT_FOUND


class Invalid(ApiError, Stalled):
    """The server will never accept this request, however often it is repeated."""

    default_reason = Reason.REJECTED


class UnreadableResponse(ApiError, Stalled):
    """A well-formed response of another shape than requested: an object that its schema allowed."""

    default_reason = Reason.INVALID_VALUE


class ResponseTooLarge(UnreadableResponse):
    """The response has more bytes than this client accepts."""


class AlreadyExists(ApiError, Retry):
    """409 on create."""

    default_reason = Reason.ALREADY_EXISTS


class Conflict(ApiError, Retry):
    """409: the object changed since it was read, or another manager owns a field."""

    default_reason = Reason.CONFLICT


class Gone(ApiError, Retry):
    """410: the requested version has been compacted."""

    default_reason = Reason.RESOURCE_VERSION_EXPIRED


class TooManyRequests(ApiError, Retry):
    """429: the server limits the request rate."""

    default_reason = Reason.TOO_MANY_REQUESTS


class ServerError(ApiError, Retry):
    """The server, or a proxy before it, failed."""


class ApiServerUnreachable(Retry):
    """No response, or one that broke off."""

    default_reason = Reason.UNREACHABLE


_CLASSES: Mapping[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: ServerError,
    409: Conflict,
    410: Gone,
    429: TooManyRequests,
}


def error_for(
    status: int,
    body: bytes,
    headers: Mapping[str, str],
    *,
    what: str = "request",
    confidential: bool = False,
) -> ApiError:
    """Return the error for a response of `status`.

    `what` names the verb and the object ("get configmaps shop/prices"). A `confidential` request contains a
    Secret: where the server refuses its content, the server's message may quote that content, so only the
    names of fields are kept.
    """
    said = _read_status(body)
    kind = _error_class(status, said)
    if confidential and kind is Invalid:
        sentence = _fields_only(status, said)
    else:
        sentence = _error_sentence(status, said, body, headers)
    reason = Reason.REJECTED if kind is Forbidden and _is_denied_by_admission(said) else None
    return kind(
        f"{what}: {sentence}",
        status=status,
        api_reason=said.reason,
        after=retry_after(headers, said),
        reason=reason,
    )


def retry_after(headers: Mapping[str, str], said: ApiStatus | None = None) -> float | None:
    """Return the seconds to wait, from the header (a number or a date) or from the Status; bounded.

    A date is relative to the response's own `Date`, so that clock differences do no harm.
    """
    known = {name.lower(): value.strip() for name, value in headers.items()}
    text = known.get("retry-after", "")
    if text.isdecimal():
        return min(float(text[:10]), MAX_RETRY_AFTER_SECONDS)
    if text:
        try:
            wait = parsedate_to_datetime(text) - parsedate_to_datetime(known.get("date", ""))
        except (ValueError, TypeError):
            return None
        return min(max(wait.total_seconds(), 0.0), MAX_RETRY_AFTER_SECONDS)
    if said and said.details and said.details.retry_after_seconds > 0:
        return min(float(said.details.retry_after_seconds), MAX_RETRY_AFTER_SECONDS)
    return None


def _error_class(status: int, said: ApiStatus) -> type[ApiError]:
    if status == 409 and said.reason == "AlreadyExists":
        return AlreadyExists
    if status in _CLASSES:
        return _CLASSES[status]
    # 1xx and 2xx occur here only as the code of an ERROR event without a code of its own.
    return ServerError if status >= 500 or status < 300 else Invalid


def _read_status(body: bytes) -> ApiStatus:
    try:
        said = msgspec.json.decode(body, type=ApiStatus)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ApiStatus()
    return said if said.kind in {"Status", ""} else ApiStatus()


def _is_denied_by_admission(said: ApiStatus) -> bool:
    """Whether admission denied it; a denial by RBAC reads `User "x" cannot list resource "y"`."""
    return bool(said.message) and " cannot " not in said.message


def _error_sentence(status: int, said: ApiStatus, body: bytes, headers: Mapping[str, str]) -> str:
    if 300 <= status < 400:
        return f"the server answered {status}, a redirect, and redirects are not followed"
    if not said.message:
        return _plain_answer_text(status, said, body)
    causes = [
        f"{cause.field}: {cause.message}" if cause.field else cause.message
        for cause in (said.details.causes if said.details else None) or ()
        if cause.message and cause.message not in said.message
    ]
    return one_line("; ".join([said.message, *causes]))


def _plain_answer_text(status: int, said: ApiStatus, body: bytes) -> str:
    """Describe a response that is not a Status: an HTML page of a proxy, a line of text, or nothing."""
    text = body[:2000].decode("utf-8", "replace")
    text = re.sub(r"<(script|style)\b[^<]*</\1>|<[^>]*>", " ", text) if "<" in text else text
    page = one_line(text, 200) if not text.lstrip().startswith("{") else said.reason
    return f"the server answered {status}" + (f" ({page})" if page else " without a word")


def _fields_only(status: int, said: ApiStatus) -> str:
    causes = (said.details.causes if said.details else None) or ()
    fields = one_line(", ".join(f"{cause.field} ({cause.reason})" for cause in causes if cause.field))
    return f"the server answered {status} {said.reason or 'refused'}" + (f" for {fields}" if fields else "")

"""What the API server can answer, each answer with what it asks of the loop that catches it.

    ApiError                       the server answered, and the answer is not what was asked for
    ├── Unauthorized     Stalled   401: it does not know who we are
    ├── Forbidden        Stalled   403: it knows, and RBAC or admission says no
    ├── NotFound         Stalled   404
    ├── Invalid          Stalled   400, 405, 413, 415, 422, a redirect: the request itself is refused
    ├── Unreadable       Stalled   the answer is not of the shape that was asked for
    │   └── TooLarge               the answer is longer than this client takes
    ├── AlreadyExists    Retry     409 on create
    ├── Conflict         Retry     409: somebody else wrote first, read again
    ├── Gone             Retry     410: the resourceVersion or continue token is too old, list again
    ├── TooManyRequests  Retry     429: `after` says when to come back
    └── ServerError      Retry     5xx, or an answer that is not of the API at all
    Unreachable          Retry     no answer: name, connection, TLS, time-out, broken stream

`error_for` is the only place that reads status codes and `ApiStatus` bodies;
`stoker.kube.client.transport` is the only place that reads aiohttp's exceptions.
Nothing here ever quotes a request's body or headers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import msgspec

from stoker.domain import text as domain_text
from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.kube.client.objects import ApiStatus

MAX_SENTENCE_LENGTH = 1000
# A clock that is off or a broken proxy must not park an object for a week.
MAX_RETRY_AFTER_SECONDS = 300.0


class ApiError(StokerError):
    """The server answered otherwise than asked; `status` and `api_reason` are its own words."""

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
    """401, after the credentials were read anew."""

    default_reason = Reason.UNAUTHORIZED


class Forbidden(ApiError, Stalled):
    """403; `reason` tells RBAC's denial from that of an admission plug-in or a quota."""

    default_reason = Reason.RBAC_DENIED


class NotFound(ApiError, Stalled):
    """404: neither the object nor, perhaps, its kind."""

    default_reason = Reason.NOT_FOUND


class Invalid(ApiError, Stalled):
    """The server will not take this request, however often it comes."""

    default_reason = Reason.REJECTED


class UnreadableResponse(ApiError, Stalled):
    """A well-formed answer of another shape than asked for: an object that its schema let through."""

    default_reason = Reason.INVALID_VALUE


class ResponseTooLarge(UnreadableResponse):
    """More bytes than this client takes at once."""


class AlreadyExists(ApiError, Retry):
    """409 on create."""

    default_reason = Reason.ALREADY_EXISTS


class Conflict(ApiError, Retry):
    """409: the object changed since it was read, or another manager owns a field."""

    default_reason = Reason.CONFLICT


class Gone(ApiError, Retry):
    """410: what was asked for has been compacted away."""

    default_reason = Reason.RESOURCE_VERSION_EXPIRED


class TooManyRequests(ApiError, Retry):
    """429: the server protects itself."""

    default_reason = Reason.TOO_MANY_REQUESTS


class ServerError(ApiError, Retry):
    """The server, or something on the way to it, failed."""


class ApiServerUnreachable(Retry):
    """No answer at all, or one that broke off."""

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
    """The error for an answer of `status`.

    `what` names the verb and the object ("get configmaps shop/prices"). A
    `confidential` request carried a Secret: where the server refuses its content,
    its sentence may quote that content, so only the names of fields are kept.
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
    """Seconds to stay away, from the header (a number or a date) or from the Status; bounded.

    A date counts from the answer's own `Date`, so that clocks which differ do no harm.
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


def one_line(text: str, longest: int = MAX_SENTENCE_LENGTH) -> str:
    """Text from elsewhere as part of a sentence: no line breaks, no control characters, no novel."""
    return domain_text.one_line(text, longest)


def _error_class(status: int, said: ApiStatus) -> type[ApiError]:
    if status == 409 and said.reason == "AlreadyExists":
        return AlreadyExists
    if status in _CLASSES:
        return _CLASSES[status]
    # 1xx and 2xx reach this only as the code of an ERROR event that forgot to set one.
    return ServerError if status >= 500 or status < 300 else Invalid


def _read_status(body: bytes) -> ApiStatus:
    try:
        said = msgspec.json.decode(body, type=ApiStatus)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ApiStatus()
    return said if said.kind in {"Status", ""} else ApiStatus()


def _is_denied_by_admission(said: ApiStatus) -> bool:
    """RBAC says `User "x" cannot list resource "y"`; quotas, policies and webhooks say other things."""
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
    """For an answer that is not a Status: a proxy's page of HTML, a line of text, or nothing."""
    text = body[:2000].decode("utf-8", "replace")
    text = re.sub(r"<(script|style)\b[^<]*</\1>|<[^>]*>", " ", text) if "<" in text else text
    page = one_line(text, 200) if not text.lstrip().startswith("{") else said.reason
    return f"the server answered {status}" + (f" ({page})" if page else " without a word")


def _fields_only(status: int, said: ApiStatus) -> str:
    causes = (said.details.causes if said.details else None) or ()
    fields = one_line(", ".join(f"{cause.field} ({cause.reason})" for cause in causes if cause.field))
    return f"the server answered {status} {said.reason or 'refused'}" + (f" for {fields}" if fields else "")

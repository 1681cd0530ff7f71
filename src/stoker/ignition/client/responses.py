"""Responses of a gateway, and the error that each of them means for the caller.

A 401 may have an empty body, a 404 may be a page of HTML, a 403 may be JSON, and a 200
may carry `success:false`. So this module checks the status and the content type first, and
parses a body only if it can be JSON. Pure: no I/O, no retries. It never quotes a request,
because the request holds the key.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.domain.text import one_line, quote_line
from stoker.ignition.client.address import GatewayAddress

MAX_QUOTE_LENGTH = 300
MAX_JSON_VALUES = 400_000
"""More than any response that we request holds; a few MiB of `[],[],…` would become hundreds in memory."""


SHORT_BODY_BYTES = 64 * 1024
"""No error response is longer."""

_NO_SUCH_PATH = frozenset({404, 405, 410, 501})
_COMMISSIONING_REDIRECT = re.compile(r"(https?://[^/]{1,300})?/welcome\b")
_PAGE_MESSAGE = re.compile(r"<th>MESSAGE:</th>\s*<td>([^<]+)")


class PathNotOffered(Stalled):
    """404 and similar: this gateway has no such path."""

    default_reason = Reason.NOT_IGNITION_83


class GatewayBusy(Retry):
    """408 or 409: another operation on the gateway is in progress."""

    default_reason = Reason.GATEWAY_ERROR

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ScanLockRefused(Retry):
    """Another client holds the scan lock, or the gateway is busy with a change of its own."""

    default_reason = Reason.SCAN_LOCK_HELD


@dataclass(frozen=True, slots=True)
class GatewayResponse:
    """A response, read completely."""

    status: int
    content_type: str
    location: str
    body: bytes = field(repr=False)

    def json(self) -> object:
        """Return the body as JSON; None if it is something else, whatever the header says."""
        if self.content_type not in {"application/json", "text/json", "text/plain", ""}:
            return None
        if sum(map(self.body.count, (b",", b"[", b"{"))) > MAX_JSON_VALUES:
            return None
        try:
            return json.loads(self.body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return None


def _refuse_constant(word: str) -> None:
    raise ValueError(word)  # NaN and Infinity are not JSON


class GatewayRequestInfo(NamedTuple):
    """A description of the request, for error messages."""

    what: str
    address: GatewayAddress
    key_name: str
    writes: bool
    key: Secret | None = None
    """The key that was sent, so that a response that repeats it is redacted before it is quoted."""


def answer_error(answer: GatewayResponse, asked: GatewayRequestInfo) -> StokerError | None:
    """Return why the response is not the requested one, or None if it is."""
    at = f"{asked.what}: the gateway at {asked.address}"
    status = answer.status
    if 200 <= status < 300:
        return _refusal_error(answer, asked, at)
    if 300 <= status < 400:
        return _redirect_error(answer, asked, at)
    if status == 401:
        plain = "" if asked.address.tls else ", or it requires a secure connection and this one is plain HTTP"
        return Stalled(
            f"{at} does not accept the API key {asked.key_name!r} (401): it is unknown or disabled, its "
            f"secret is wrong{plain}",
            reason=Reason.TOKEN_REJECTED,
        )
    if status == 403:
        return _forbidden_error(answer, asked, at)
    if status in _NO_SUCH_PATH:
        return PathNotOffered(f"{at} has no such path ({status})")
    if status in {408, 409}:
        return GatewayBusy(
            f"{at} is busy with something else ({status}){_gateway_message(answer, asked)}", status
        )
    if status == 503:
        return Retry(
            f"{at} is not ready (503){_gateway_message(answer, asked)}", reason=Reason.GATEWAY_STARTING
        )
    if status in {502, 504}:
        return Retry(
            f"{at} cannot be reached by the proxy before it ({status})", reason=Reason.GATEWAY_UNREACHABLE
        )
    kind = Retry if status >= 500 or status == 429 else Stalled
    return kind(
        f"{at} answered {status}{_gateway_message(answer, asked) or _page_text(answer, asked)}",
        reason=Reason.GATEWAY_ERROR,
    )


def unreadable_answer(asked: GatewayRequestInfo) -> Retry:
    """Return the error for a 200 with a wrong body: a login page, half a document, another program."""
    return Retry(
        f"{asked.what}: the gateway at {asked.address} answered with something else than was asked for, or "
        "with a part of it",
        reason=Reason.GATEWAY_ERROR,
    )


def _refusal_error(answer: GatewayResponse, asked: GatewayRequestInfo, at: str) -> StokerError | None:
    # Lists are long, and the caller parses them; a refusal is short and contains this key.
    body = answer.body
    said = answer.json() if len(body) <= SHORT_BODY_BYTES and b'"success"' in body else None
    if isinstance(said, dict) and said.get("success") is False:
        return Retry(
            f"{at} answered {answer.status} and did not do it{_gateway_message(answer, asked)}",
            reason=Reason.GATEWAY_ERROR,
        )
    return None


def _redirect_error(answer: GatewayResponse, asked: GatewayRequestInfo, at: str) -> StokerError:
    if _COMMISSIONING_REDIRECT.match(answer.location):
        return Retry(
            f"{at} is new: finish its set-up in a browser first",
            reason=Reason.NOT_COMMISSIONED,
        )
    if not asked.address.tls and answer.location.startswith("https://"):
        return _https_required_error(at)
    # Not followed: the key must not be sent to another host.
    return Retry(f"{at} points elsewhere ({answer.status})", reason=Reason.GATEWAY_ERROR)


def _forbidden_error(answer: GatewayResponse, asked: GatewayRequestInfo, at: str) -> StokerError:
    if not asked.address.tls and "secure" in _gateway_message(answer, asked).lower():
        return _https_required_error(at)
    permission = "Write" if asked.writes else "Read"
    plain = "" if asked.address.tls else ", and the key must not require a secure connection, as this is none"
    return Stalled(
        f"{at} knows the API key {asked.key_name!r} and does not let it do this (403): its security level "
        f"must be granted Gateway {permission}{plain}{_gateway_message(answer, asked)}",
        reason=Reason.LEVEL_NOT_GRANTED,
    )


def _https_required_error(at: str) -> Stalled:
    return Stalled(
        f"{at} requires a secure connection, on localhost too: use its TLS port with https://",
        reason=Reason.SECURE_REQUIRED,
    )


def _gateway_message(answer: GatewayResponse, asked: GatewayRequestInfo) -> str:
    """Return the gateway's own message, if the body holds a short one."""
    said = answer.json() if len(answer.body) <= SHORT_BODY_BYTES else None
    if not isinstance(said, dict):
        return ""
    for name in ("message", "error", "problem", "detail", "messages"):
        words = said.get(name)
        if isinstance(words, dict):
            words = words.get("message")
        if isinstance(words, list) and words:
            words = words[0]
        if isinstance(words, str) and words.strip():
            return f": {_quoted(words, asked)}"
    return ""


def _page_text(answer: GatewayResponse, asked: GatewayRequestInfo) -> str:
    """Return the message of a web server's error page besides its status."""
    if answer.content_type != "text/html":
        return ""
    found = _PAGE_MESSAGE.search(answer.body[:SHORT_BODY_BYTES].decode("latin-1"))
    return f": {_quoted(found[1], asked)}" if found is not None and found[1].strip() else ""


def _quoted(text: str, asked: GatewayRequestInfo) -> str:
    """Return the gateway's text for use in a message, with the key redacted."""
    key = "" if asked.key is None else asked.key.reveal()
    return quote_line(text, MAX_QUOTE_LENGTH, (key, key.partition(":")[2]))


class GatewayState(StrEnum):
    """The state that a gateway reports."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    FAULTED = "FAULTED"
    UNKNOWN = "UNKNOWN"


class GatewayPresence(NamedTuple):
    """State and version, which a gateway returns without a key."""

    state: GatewayState = GatewayState.UNKNOWN
    version: str = ""

    @classmethod
    def from_gwinfo(cls, body: bytes) -> GatewayPresence:
        """Parse `ContextStatus=RUNNING;…;Version=8.3.7;…`."""
        pairs = dict(part.partition("=")[::2] for part in body[:8192].decode("latin-1").strip().split(";"))
        return cls(_parse_state(pairs.get("ContextStatus", "")), one_line(pairs.get("Version", ""), 40))

    @classmethod
    def from_ping(cls, said: object) -> GatewayPresence:
        """Parse `{"state":"STARTING"}`."""
        return cls(
            _parse_state(str(said.get("state", ""))) if isinstance(said, dict) else GatewayState.UNKNOWN
        )


def _parse_state(word: str) -> GatewayState:
    return GatewayState.__members__.get(word.strip().upper(), GatewayState.UNKNOWN)

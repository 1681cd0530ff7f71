"""The receiver's responses and their metric.

Every response is JSON of the shape `{"accepted": …, "ref": …, "reason": …}`. Refusals are counted, and
logged only at debug level: a flood of requests must not fill a disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec
from aiohttp import web

from stoker.telemetry.logs import get_logger
from stoker.telemetry.metrics import Metrics
from stoker.webhooks.receiver.payloads import WebhookCaller

UNKNOWN_CALLER = "unknown"
_HEADERS = {"Server": "stoker", "Cache-Control": "no-store"}

log = get_logger(__name__)


class WebhookResult(StrEnum):
    """The result of a request; the label `result` of its metric."""

    ACCEPTED = "accepted"
    IGNORED = "ignored"
    MALFORMED = "malformed"
    UNAUTHORIZED = "unauthorized"
    NOT_FOUND = "not-found"
    UNSUPPORTED = "unsupported"
    SLOW = "slow"
    TOO_LARGE = "too-large"
    LIMITED = "limited"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """A response before it is encoded."""

    status: int
    result: WebhookResult
    reason: str = ""
    ref: str = ""
    caller: WebhookCaller | None = None
    retry_after: int = 0


class WebhookRefused(Exception):
    """Ends the handling of a request with this response."""

    def __init__(
        self,
        status: int,
        result: WebhookResult,
        reason: str,
        caller: WebhookCaller | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(reason)
        self.answer = WebhookResponse(status, result, reason, caller=caller, retry_after=retry_after)


class WebhookCounter:
    """Counts requests; an unauthenticated request has source `unknown`, since its sender may be forged."""

    def __init__(self, metrics: Metrics | None) -> None:
        self._received = metrics and metrics.counter(
            "ignition_sync_webhook_received_total",
            "Requests to the webhook receiver, by the sort of sender and how they ended.",
            ("source", "result"),
        )

    def count(self, answer: WebhookResponse, address: str) -> None:
        caller = str(answer.caller or UNKNOWN_CALLER)
        if self._received:
            self._received.inc(source=caller, result=answer.result)
        if answer.status >= 300:
            log.debug("webhook.refused", address=address, status=answer.status, why=answer.reason)


def respond(answer: WebhookResponse) -> web.Response:
    """Encode the response; close the connection after a refusal, so the caller cannot send more on it."""
    said: dict[str, object] = {"accepted": answer.result is WebhookResult.ACCEPTED}
    said |= {name: str(text) for name, text in (("ref", answer.ref), ("reason", answer.reason)) if text}
    headers = dict(_HEADERS)
    if answer.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if answer.status == 405:
        headers["Allow"] = "POST"
    if answer.retry_after:
        headers["Retry-After"] = str(answer.retry_after)
    response = web.Response(
        status=answer.status,
        body=msgspec.json.encode(said),
        content_type="application/json",
        headers=headers,
    )
    if answer.status >= 300:
        response.force_close()
    return response

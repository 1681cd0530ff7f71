"""Calls to external services during a rollout: health checks of stages, and approval announcements.

A health check is a GET that has to answer 200 within ten seconds. The deciding check is repeated within them,
so that one cut connection does not stop a rollout. `approval.webhook` gets one announcement for each approval
request: a POST that is repeated with growing pauses until the service accepts it, the request is over, or
`ATTEMPTS` have failed. Messages name only the host of a URL, because the rest may be a secret.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NamedTuple

from stoker.api.spec.status import ApprovalRequest
from stoker.controller.cache.objects import ResourceKey
from stoker.controller.rollout import StageHealthCheck, StageHealthResult
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.intent.source import SecretKey
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.http_client import ServiceRequest, send_request
from stoker.kube.runtime.backoff import Backoff

ANSWER_TIMEOUT_SECONDS = 10.0
RETRY_SECONDS = 1.0
MAX_PAGE_BYTES = 4 << 20
ATTEMPTS = 10
PAUSES = Backoff(base=1.0, ceiling=300.0, jitter=0.2)

SecretKeyReader = Callable[[str, SecretKey], Awaitable[Secret]]
"""Reads the current value of a Secret key of a namespace."""
CalloutReporter = Callable[[ResourceKey, bool, Reason, str], None]
"""Emits an Event: resource, whether it is a warning, reason and message."""


class ApprovalNotice(NamedTuple):
    """The announcement of an approval request: URL and body."""

    url: str
    body: bytes


class StageHealthChecker:
    """Makes health checks, with the same trust as calls to gateways."""

    def __init__(self, clock: Clock, secret: SecretKeyReader) -> None:
        self._clock = clock
        self._secret = secret

    async def check(self, key: ResourceKey, what: StageHealthCheck) -> StageHealthResult:
        """Make one health check."""
        until = self._clock.monotonic() + ANSWER_TIMEOUT_SECONDS
        while True:
            left = until - self._clock.monotonic()
            trouble = await self._trouble_with(key, what, max(left, RETRY_SECONDS))
            if not trouble or not what.last or until - self._clock.monotonic() <= RETRY_SECONDS:
                return StageHealthResult(what, trouble)
            await self._clock.sleep(RETRY_SECONDS)

    async def _trouble_with(self, key: ResourceKey, what: StageHealthCheck, seconds: float) -> str:
        request = ServiceRequest(
            what.url,
            timeout=seconds,
            max_reply=MAX_PAGE_BYTES,
            verified=what.verified,
            services_of=key.object.namespace,
        )
        try:
            if what.ca is not None and what.verified:
                ca = await self._secret(key.object.namespace, what.ca)
                request = replace(request, ca=ca.reveal_bytes())
            answer = await send_request(request)
        except StokerError as error:
            return error.message
        return "" if answer.status == 200 else f"{request.host} answered {answer.status}"


def announcement(key: ResourceKey, url: str, request: ApprovalRequest) -> ApprovalNotice:
    """Build the announcement; the same request always gives the same text."""
    told = {
        "kind": key.kind,
        "namespace": key.object.namespace,
        "name": key.object.name,
        "commit": request.commit,
        "ref": request.ref,
        "stage": request.stage,
        "digest": request.digest,
        "filesAdded": request.files_added,
        "filesModified": request.files_modified,
        "filesDeleted": request.files_deleted,
        "requestedAt": request.requested_at,
        "expiresAt": request.expires_at,
    }
    kept = {name: value for name, value in told.items() if value is not None}
    return ApprovalNotice(url, json.dumps(kept, sort_keys=True).encode())


class ApprovalNotifier:
    """Sends announcements of approval requests."""

    def __init__(self, clock: Clock, say: CalloutReporter) -> None:
        self._clock = clock
        self._say = say

    async def tell(self, key: ResourceKey, what: ApprovalNotice) -> bool:
        """Send the announcement, with retries; return whether the service accepted it."""
        headers = {"Content-Type": "application/json"}
        request = ServiceRequest(
            what.url,
            method="POST",
            headers=headers,
            body=what.body,
            timeout=ANSWER_TIMEOUT_SECONDS,
            services_of=key.object.namespace,
        )
        trouble = ""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = await send_request(request)
            except StokerError as error:
                trouble = error.message
            else:
                if answer.ok:
                    message = f"{request.host} was notified of a pending approval"
                    self._say(key, False, Reason.PENDING_APPROVAL, message)
                    return True
                trouble = f"{request.host} answered {answer.status}"
            if attempt == 1:
                message = f"approval.webhook could not be notified and is retried: {trouble}"
                self._say(key, True, Reason.SERVICE_UNREACHABLE, message)
            await self._clock.sleep(PAUSES.delay(attempt))
        message = f"approval.webhook was not notified of the request: {trouble}"
        self._say(key, True, Reason.SERVICE_UNREACHABLE, message)
        return False

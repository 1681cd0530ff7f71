"""Asks the user's validation webhook before each change, and stops the sync if it refuses.

It runs as the first hook that can refuse a change: contents are staged and checked, no live file has changed,
and none will unless the webhook allows it. The request lists the changes, never the contents. Timeouts and
errors also refuse the change, but count as temporary. A refusal with a reason stalls the sync, which asks
again with backoff.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING

from stoker.agent.sync.hooks import SyncChange
from stoker.agent.sync.jobs import GatewayRef
from stoker.domain.errors import Retry, Stalled
from stoker.domain.git_objects import HeldPath, PathNote
from stoker.domain.intent.policies import ValidationPolicy
from stoker.domain.reasons import Reason
from stoker.domain.text import one_line
from stoker.fs.apply_plan import ApplyResult

if TYPE_CHECKING:
    from stoker.http_client import ServiceResponse

MAX_PATHS = 5000
MAX_REASON_LENGTH = 300
_RETRY_STATUSES = frozenset({408, 425, 429})
"""Statuses that concern the moment and not the change."""


class ValidationHook:
    """A `SyncHook` that asks the validation webhook."""

    def __init__(self, validation: ValidationPolicy, gateway: GatewayRef) -> None:
        self._validation = validation
        self._gateway = gateway

    async def hold(self, change: SyncChange) -> tuple[HeldPath, ...]:
        return ()

    @asynccontextmanager
    async def around(self, change: SyncChange) -> AsyncIterator[None]:
        await self._ask(change)
        yield

    async def after(self, change: SyncChange, applied: ApplyResult) -> tuple[PathNote, ...]:
        return ()

    async def _ask(self, change: SyncChange) -> None:
        from stoker.http_client import ServiceRequest, ServiceUnreachable, send_request  # noqa: PLC0415 - few resources have a webhook

        request = ServiceRequest(
            self._validation.webhook_url,
            "POST",
            {"Content-Type": "application/json"},
            json.dumps(request_body(change, self._gateway)).encode(),
            timeout=self._validation.webhook_timeout,
        )
        try:
            answer = await send_request(request)
        except ServiceUnreachable as error:
            raise Retry(
                f"the validation webhook did not approve: {error.message}", reason=Reason.VALIDATION_REJECTED
            ) from None
        check_answer(answer, request.host)


def request_body(change: SyncChange, gateway: GatewayRef) -> dict[str, object]:
    """Return the request; of very many files it lists the first, with the total counts."""
    plan = change.plan
    added = [write.path for write in plan.writes if not write.replaces]
    modified = [*(write.path for write in plan.writes if write.replaces), *(one.path for one in plan.modes)]
    deleted = [one.path for one in plan.removals]
    kinds = {"deleted": deleted, "modified": modified, "added": added}  # deletions are cut last
    files: Iterator[dict[str, str]] = chain.from_iterable(
        ({"path": str(path), "action": word} for path in paths) for word, paths in kinds.items()
    )
    return {
        "commit": str(change.commit),
        "ref": str(change.ref),
        "gateway": gateway.name,
        "namespace": gateway.namespace,
        "resource": gateway.resource,
        "changedFiles": list(islice(files, MAX_PATHS)),
        "planDigest": plan.digest,
        "counts": {word: len(paths) for word, paths in kinds.items()}
        | {"total": sum(map(len, kinds.values()))},
    }


def check_answer(answer: ServiceResponse, host: str) -> None:
    """Raise unless the webhook allows the change."""
    if answer.status >= 500 or answer.status in _RETRY_STATUSES:
        raise Retry(
            f"the validation webhook did not approve: {host} answers {answer.status}; nothing was changed",
            after=answer.wait,
            reason=Reason.VALIDATION_REJECTED,
        )
    said = _parse_answer(answer.body)
    if answer.ok and said is None:
        raise Stalled(
            f"the validation webhook did not approve: {host} answers {answer.status}, and not with JSON",
            reason=Reason.VALIDATION_REJECTED,
        )
    said = said or {}
    if answer.ok and said.get("allowed", True) is True:
        return
    reason = said.get("reason") or said.get("message")
    why = (
        one_line(reason[:2000], MAX_REASON_LENGTH)
        if isinstance(reason, str)
        else f"{host} answers {answer.status} without a reason"
    )
    raise Stalled(f"the validation webhook refuses the commit: {why}", reason=Reason.VALIDATION_REJECTED)


def _parse_answer(body: bytes) -> dict[str, object] | None:
    """Return the JSON object; None for other content, such as the login page of a proxy."""
    if not body.strip():
        return {}
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None

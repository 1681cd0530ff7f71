"""Maps the webhook's paths to handlers, and measures how long each review takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from stoker.domain.clock import Clock
from stoker.http_server.review_server import ReviewHandler
from stoker.telemetry.metrics import Metrics
from stoker.webhooks.admission.crd_conversion import answer_conversion
from stoker.webhooks.admission.pod_review import PodInjector
from stoker.webhooks.admission.reviews import (
    AdmissionRequest,
    AdmissionVerdict,
    admission_answer,
    read_admission,
)
from stoker.webhooks.admission.validate import ResourceValidator

INJECT = "/inject"
VALIDATE = "/validate"
APPROVAL_PATH = "/validate-approval"
CONVERT = "/convert"


def routes(
    injector: PodInjector, validator: ResourceValidator, metrics: Metrics, clock: Clock
) -> dict[str, ReviewHandler]:
    """Return a handler for each path, from the bytes of a review to those of its response."""
    reviews = metrics.histogram(
        "ignition_sync_review_duration_seconds",
        "How long a review took, by its path and how it ended.",
        ("kind", "result"),
    )

    def measured(path: str, handler: ReviewHandler) -> ReviewHandler:
        async def handle(body: bytes) -> bytes:
            began, result = clock.monotonic(), "failed"
            try:
                answer = await handler(body)
                result = "answered"
                return answer
            finally:
                reviews.observe(clock.monotonic() - began, kind=path.strip("/"), result=result)

        return handle

    handlers: dict[str, ReviewHandler] = {
        INJECT: _admission_handler(injector.review),
        VALIDATE: _admission_handler(validator.review),
        APPROVAL_PATH: _admission_handler(validator.review_approval),
        CONVERT: answer_conversion,
    }
    return {path: measured(path, handler) for path, handler in handlers.items()}


def _admission_handler(judge: Callable[[AdmissionRequest], Awaitable[AdmissionVerdict]]) -> ReviewHandler:
    async def handle(body: bytes) -> bytes:
        review = read_admission(body)
        return admission_answer(review.uid, await judge(review))

    return handle

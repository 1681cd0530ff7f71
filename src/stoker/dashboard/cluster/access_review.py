"""TokenReview and SubjectAccessReview requests: who owns a token, and what that user may do.

At most 16 requests run at a time, for all users together. If a request fails, sign-in is refused and
nothing is shown. The log has the cause; the response does not, because its reader is not authenticated.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from stoker.domain.clock import Clock
from stoker.domain.errors import Misconfigured, Retry, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import deadline
from stoker.kube.client.resources import ApiResource
from stoker.kube.config.credentials import bearer_header
from stoker.telemetry.logs import get_logger

T = TypeVar("T")

MAX_CONCURRENT_REVIEWS = 16
REVIEW_TIMEOUT_SECONDS = 10.0
MAX_TOKEN_LENGTH = 16 << 10

_TOKENS = ApiResource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
_ACCESS = ApiResource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)

log = get_logger(__name__)


class DashboardUser(msgspec.Struct, frozen=True):
    """A user as the API server knows them."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, list[str]] | None = None

    def subject(self) -> dict[str, Any]:
        """Return the user fields of a SubjectAccessReview's spec."""
        said = {"user": self.username, "uid": self.uid, "groups": self.groups, "extra": self.extra}
        return {name: value for name, value in said.items() if value}

    def key(self) -> bytes:
        """Return the cache key of a user: a digest of everything that an authorizer may look at."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).digest()


class _TokenReviewStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: DashboardUser = DashboardUser()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenReviewStatus = _TokenReviewStatus()


class _AccessReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessReviewStatus = _AccessReviewStatus()


class AccessQuestion(NamedTuple):
    """A permission to check: verb, kind and namespace; an empty namespace means all."""

    verb: str
    resource: ApiResource
    namespace: str = ""
    name: str = ""


class AccessReviews:
    """Sends reviews with the dashboard's own service account."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REVIEWS)

    async def identified(self, token: Secret) -> DashboardUser | None:
        """Return the owner of the token; None if it is not valid."""
        if not _is_token(token):
            return None
        async with self._slots:
            body = {"spec": {"token": token.reveal()}}
            review = await self._answer(_TOKENS, body, _TokenReview)
        known = review.status.authenticated and review.status.user.username
        return review.status.user if known else None

    async def allowed(self, subject: dict[str, Any], asked: AccessQuestion) -> bool:
        attributes = {
            "verb": asked.verb,
            "group": asked.resource.group,
            "version": asked.resource.version,
            "resource": asked.resource.plural,
            "namespace": asked.namespace,
            "name": asked.name,
        }
        body = {"spec": {**subject, "resourceAttributes": attributes}}
        async with self._slots:
            return (await self._answer(_ACCESS, body, _AccessReview)).status.allowed

    async def _answer(self, resource: ApiResource, body: dict[str, Any], into: type[T]) -> T:
        try:
            async with deadline(self._clock, REVIEW_TIMEOUT_SECONDS):
                return await self._client.create(resource, body, into=into)
        except TimeoutError:
            error: StokerError = Retry("it does not answer in time", reason=Reason.UNREACHABLE)
        except StokerError as failed:
            error = failed
        log.warning("dashboard.gate_failed", kind=resource.kind, reason=error.reason, error=error.message)
        raise Retry(
            "the API server could not be asked who may come in; the log says why", reason=error.reason
        )


async def gather_all(works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Run all at once; the first failure cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


def _is_token(token: Secret) -> bool:
    """Return whether it can be a bearer header at all; other values are not sent to the API server."""
    if len(token.reveal_bytes()) > MAX_TOKEN_LENGTH:
        return False
    try:
        bearer_header(token, "the visitor")
    except Misconfigured:
        return False
    return True

"""Performs actions for a visitor, with the visitor's own token.

Each action has its own Kubernetes client, which is closed after the action. RBAC and the admission
webhook therefore treat it as if the visitor had used kubectl, and the API server's audit log names the
visitor. This module never uses the dashboard's own service account, whatever buttons a page has shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from stoker.api.to_intent.annotations.annotation_requests import DASHBOARD
from stoker.dashboard.interfaces import ActionRefused, Visitor
from stoker.dashboard.view_models import ActionBody, DashboardAction
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import InvalidValue, Retry, StokerError
from stoker.domain.refs import CommitId
from stoker.fleet.approve import approve_plan
from stoker.fleet.approve_deletions import DESTINATION, approve_deletions
from stoker.fleet.pause import PAUSE_MAP, has_live_controller, pause_installation, pause_resource
from stoker.fleet.resource_name import KINDS, ResourceName
from stoker.fleet.rollback import request_rollback
from stoker.fleet.trigger import trigger_sync
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import deadline
from stoker.kube.client.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from stoker.kube.config.config import ClusterConfig
from stoker.kube.config.credentials import RequestIdentity, StaticCredentials, bearer_header
from stoker.snapshots.ids import is_snapshot_id

ACTION_TIMEOUT_SECONDS = 20.0
NAME = "stoker-dashboard"

_STATUSES: tuple[tuple[type[StokerError], int], ...] = (
    (Unauthorized, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (TooManyRequests, 429),
    (Invalid, 400),
    (InvalidValue, 400),
    (ApiError, 502),
    (Retry, 502),
    (StokerError, 409),
)

ClusterAction = Callable[[KubeClient], Awaitable[str]]


class ClusterActions:
    """Performs actions with the visitor's identity."""

    def __init__(self, config: ClusterConfig, home: str, clock: Clock | None = None) -> None:
        self._config = config
        self._home = home
        self._clock = clock or SystemClock()

    async def do(self, order: ActionBody, visitor: Visitor) -> str:
        try:
            work = self._work(order)
            async with deadline(self._clock, ACTION_TIMEOUT_SECONDS), self._client(visitor) as client:
                return await work(client)
        except TimeoutError:
            raise ActionRefused(
                502, "the API server did not answer in time; look whether it was done"
            ) from None
        except StokerError as error:
            raise ActionRefused(_http_status(error), error.message, error.reason) from None

    def _client(self, visitor: Visitor) -> KubeClient:
        """Return a client of the same API server with the visitor's credentials only."""
        identity = RequestIdentity(bearer_header(visitor.token, "the session"))
        return KubeClient(
            replace(self._config, credentials=StaticCredentials(identity), impersonate=()),
            clock=self._clock,
            user_agent=NAME,
        )

    def _work(self, order: ActionBody) -> ClusterAction:
        if order.action in (DashboardAction.STOP, DashboardAction.GO_ON):
            return lambda client: self._stop(client, paused=order.action is DashboardAction.STOP)
        named = _resource_of(order)
        match order.action:
            case DashboardAction.APPROVE:
                digest = order.digest
                if not digest:
                    raise InvalidValue("an approval names the plan that was seen: its digest is missing")
                if order.kind == DESTINATION:
                    return lambda client: approve_deletions(client, named, digest)
                return lambda client: approve_plan(client, named, digest, self._clock)
            case DashboardAction.PAUSE | DashboardAction.RESUME:
                return lambda client: pause_resource(
                    client, named, paused=order.action is DashboardAction.PAUSE
                )
            case DashboardAction.SYNC:
                return lambda client: trigger_sync(client, named, DASHBOARD, self._clock)
            case DashboardAction.ROLLBACK:
                to = _rollback_target(order)
                return lambda client: request_rollback(client, named, to, gateway=order.gateway)
            case DashboardAction.RELEASE:
                return lambda client: request_rollback(client, named, None)
        raise InvalidValue(f"this dashboard cannot {order.action}")

    async def _stop(self, client: KubeClient, *, paused: bool) -> str:
        done = await pause_installation(client, self._home, paused=paused, manager=NAME)
        if not await has_live_controller(client, self._home, self._clock):
            raise InvalidValue(
                f"{PAUSE_MAP} was written, but no controller runs in namespace {self._home} that heeds it"
            )
        return done


def _resource_of(order: ActionBody) -> ResourceName:
    if order.kind not in KINDS and (order.kind, order.action) != (DESTINATION, DashboardAction.APPROVE):
        raise InvalidValue(f"{order.kind[:80]!r} is none of the kinds that something can be done to")
    if not order.namespace or not order.name:
        raise InvalidValue("the order does not say which resource is meant")
    return ResourceName(order.namespace, order.name, order.kind)


def _rollback_target(order: ActionBody) -> str:
    """Return the target of a rollback: one snapshot or one commit."""
    if bool(order.to_snapshot) == bool(order.to_commit):
        raise InvalidValue("say either a snapshot or a commit to go back to")
    if order.to_commit:
        return str(CommitId(order.to_commit))
    to = order.to_snapshot or ""
    if not is_snapshot_id(to):
        raise InvalidValue(f"{to[:80]!r} is no snapshot")
    return to


def _http_status(error: StokerError) -> int:
    return next(status for kind, status in _STATUSES if isinstance(error, kind))

"""A fleet of values for the dashboard: nothing real behind it, but the real web server before it.

What is shown can be changed while a page is open, actions of users are recorded and
done as far as it can be seen, and how far each visitor sees is a table. The values come
from `stoker_testkit.dashboard.sample_fleets`.

    python -m stoker_testkit.dashboard.fake_fleet_server [GATEWAYS]    serve it; prints the address
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

import msgspec

from stoker.dashboard.interfaces import CLUSTER, ActionRefused, GatewayKey, VisibleScope, Visitor
from stoker.dashboard.server import DashboardOptions, DashboardServer
from stoker.dashboard.versioned_store import ChangeLog
from stoker.dashboard.view_models import (
    ActionBody,
    ChangesView,
    DashboardAction,
    DashboardView,
    DestinationView,
    EmergencyStopView,
    GatewayHistoryView,
    ResourceView,
    RollbackView,
)
from stoker.domain.clock import SystemClock, rfc3339
from stoker.domain.secrets import Secret
from stoker_testkit.dashboard import sample_fleets
from stoker_testkit.event_loop_thread import LoopThread
from stoker_testkit.stoppable import Stoppable

EDITOR = "editor-token"
VIEWER = "viewer-token"
BUTTONS = (
    DashboardAction.APPROVE,
    DashboardAction.PAUSE,
    DashboardAction.RESUME,
    DashboardAction.SYNC,
    DashboardAction.ROLLBACK,
    DashboardAction.RELEASE,
)
_EVERYTHING = VisibleScope(True, frozenset(), lambda action, namespace: True, True)
_LOOKING = VisibleScope(True, frozenset(), lambda action, namespace: False, False)


class FakeViewSource:
    """All that can be seen; only to be touched on the loop that serves it."""

    def __init__(self, mode: str = CLUSTER) -> None:
        self._mode = mode
        self._shown: ChangeLog[ResourceView | DestinationView | EmergencyStopView] = ChangeLog()
        self._stopped = EmergencyStopView()
        self._unseen: tuple[str, ...] = ()
        self.pasts: Callable[[ResourceView, str], GatewayHistoryView | None] = sample_fleets.past_of

    @property
    def mode(self) -> str:
        return self._mode

    def version(self) -> int:
        return self._shown.version

    async def changed(self, seen: int) -> int:
        return await self._shown.changed(seen)

    def put(self, *values: ResourceView | DestinationView) -> None:
        for one in values:
            self._shown.set(one.id, one)

    def remove(self, *ids: str) -> None:
        for one in ids:
            self._shown.remove(one)

    def set_stop(self, *, active: bool) -> None:
        self._stopped = EmergencyStopView(active=active, since=_now() if active else None)
        self._shown.set("stop", self._stopped)

    def set_unseen(self, *kinds: str) -> None:
        """These can no longer be read."""
        self._unseen = kinds
        self._shown.begin_anew()

    def resource(self, key: str) -> ResourceView:
        found = self._shown.get(key)
        if not isinstance(found, ResourceView):
            raise ActionRefused(404, f"there is no {key}")
        return found

    def picture(self, sight: VisibleScope) -> DashboardView:
        every = [value for _, value in self._shown]
        return DashboardView(
            version=self.version(),
            mode=self._mode,
            at=_now(),
            stop=self._stop(sight),
            resources=tuple(_seen_by(sight, every)),
            destinations=tuple(one for one in every if isinstance(one, DestinationView)),
            unseen=self._unseen,
        )

    def changes(self, seen: int, sight: VisibleScope) -> ChangesView | None:
        since = self._shown.since(seen)
        if since is None:
            return None
        values = [value for key in since.changed if (value := self._shown.get(key)) is not None]
        return ChangesView(
            version=self.version(),
            resources=tuple(_seen_by(sight, values)),
            gone=since.gone,
            destinations=tuple(one for one in values if isinstance(one, DestinationView)),
            gone_destinations=since.gone,
            stop=self._stop(sight) if "stop" in since.changed else None,
        )

    def gateway(self, key: GatewayKey, sight: VisibleScope) -> GatewayHistoryView | None:
        found = self._shown.get(f"{key.namespace}/{key.kind}/{key.name}")
        if not isinstance(found, ResourceView) or not sight.sees(key.namespace):
            return None
        return self.pasts(found, key.gateway)

    def _stop(self, sight: VisibleScope) -> EmergencyStopView:
        return msgspec.structs.replace(self._stopped, may=sight.may_stop)


def _seen_by(sight: VisibleScope, values: Iterable[object]) -> Iterable[ResourceView]:
    for one in values:
        if isinstance(one, ResourceView) and sight.sees(one.namespace):
            may = tuple(action for action in BUTTONS if sight.may(action, one.namespace))
            yield msgspec.structs.replace(one, may=may)


@dataclass
class FakeActions:
    """Writes down what was asked, and lets the scene show it."""

    scene: FakeViewSource
    orders: list[ActionBody] = field(default_factory=list)
    refusal: ActionRefused | None = None
    """The view that every client gets from now on."""

    async def do(self, order: ActionBody, visitor: Visitor) -> str:
        self.orders.append(order)
        if self.refusal is not None:
            raise self.refusal
        if order.action in (DashboardAction.STOP, DashboardAction.GO_ON):
            self.scene.set_stop(active=order.action is DashboardAction.STOP)
            return "everything is paused" if order.action is DashboardAction.STOP else "everything is resumed"
        old = self.scene.resource(f"{order.namespace}/{order.kind}/{order.name}")
        if (
            order.action is DashboardAction.ROLLBACK
            and old.rollback is not None
            and self.scene.mode == CLUSTER
        ):
            raise ActionRefused(
                409, f"{order.name} is already rolled back: let it follow its ref again first"
            )
        self.scene.put(_after(order, old))
        return f"{order.action.value} of {order.kind} {order.namespace}/{order.name} for {visitor.name}"


def _after(order: ActionBody, old: ResourceView) -> ResourceView:
    match order.action:
        case DashboardAction.PAUSE | DashboardAction.RESUME:
            return msgspec.structs.replace(old, paused=order.action is DashboardAction.PAUSE)
        case DashboardAction.APPROVE:
            return msgspec.structs.replace(old, approval=None)
        case DashboardAction.ROLLBACK:
            rollback = RollbackView(
                to_commit=order.to_commit, to_snapshot=order.to_snapshot, state="Succeeded", message=""
            )
            return msgspec.structs.replace(old, rollback=rollback)
        case DashboardAction.RELEASE:
            return msgspec.structs.replace(old, rollback=None)
        case _:
            return msgspec.structs.replace(old, last_sync=_now())


@dataclass
class FakeAuth:
    """What each token may see."""

    sights: dict[str, VisibleScope] = field(default_factory=lambda: {EDITOR: _EVERYTHING, VIEWER: _LOOKING})
    names: dict[str, str] = field(default_factory=dict)
    """Those who are not called by the first word of their token."""

    def known(self, token: Secret) -> Visitor | None:
        return None

    async def admit(self, token: Secret) -> Visitor | None:
        text = token.reveal()
        if text not in self.sights:
            return None
        return Visitor(self.names.get(text, f"{text.split('-')[0]}@plant.example"), (), token)

    async def sight(self, visitor: Visitor) -> VisibleScope:
        found = self.sights.get(visitor.token.reveal())
        if found is None:
            raise ActionRefused(401, "that token opens nothing any more")
        return found


class FakeFleetServer(Stoppable):
    """The real dashboard over a scene of values, on a loop of its own; its methods are plain calls."""

    def __init__(self, mode: str = CLUSTER) -> None:
        self._loop = LoopThread("fleet scene")
        self._dashboard = self._loop.run(self._open(mode))
        self.url = f"http://127.0.0.1:{self._dashboard.port}"

    @classmethod
    def start(cls, *values: ResourceView | DestinationView, mode: str = CLUSTER) -> Self:
        made = cls(mode)
        made.put(*values)
        return made

    async def _open(self, mode: str) -> DashboardServer:
        self.scene, self.gate = FakeViewSource(mode), FakeAuth()
        self.hands = FakeActions(self.scene)
        dashboard = DashboardServer(
            self.scene, self.hands, self.gate, settings=DashboardOptions(address="127.0.0.1:0")
        )
        return await dashboard.__aenter__()

    def put(self, *values: ResourceView | DestinationView) -> None:
        self._loop.call(self.scene.put, *values)

    def remove(self, *ids: str) -> None:
        self._loop.call(self.scene.remove, *ids)

    def set_stop(self, *, active: bool) -> None:
        self._loop.call(self.scene.set_stop, active=active)

    def set_unseen(self, *kinds: str) -> None:
        self._loop.call(self.scene.set_unseen, *kinds)

    def resource(self, key: str) -> ResourceView:
        return self._loop.call(self.scene.resource, key)

    def forget_sessions(self) -> None:
        """As if everybody's token had ended."""
        self._loop.call(self.gate.sights.clear)
        self.end_sessions()

    def end_sessions(self) -> None:
        """Everybody has to come in again; who brings a token may."""
        self._loop.call(self._end_sessions)

    def _end_sessions(self) -> None:
        sessions = self._dashboard.sessions
        for each in list(sessions._open.values()):
            sessions.end(each)

    @property
    def streams(self) -> int:
        """The number of open event streams."""
        return self._loop.call(lambda: self._dashboard.streams.open)

    @property
    def orders(self) -> list[ActionBody]:
        return self._loop.call(lambda: list(self.hands.orders))

    def stop(self) -> None:
        self._loop.run(self._dashboard.__aexit__(None, None, None))
        self._loop.stop()


def _now() -> str:
    return rfc3339(SystemClock().now())


def main(arguments: list[str]) -> None:
    values = sample_fleets.large(int(arguments[0])) if arguments else sample_fleets.mixed()
    with FakeFleetServer.start(*values, *sample_fleets.destinations()) as served:
        sys.stdout.write(f"{served.url}/#token={EDITOR}\n")
        sys.stdout.flush()
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main(sys.argv[1:])

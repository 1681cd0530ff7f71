"""A dashboard over real HTTP that shows a fleet of values, and its visitors."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any, Self

from stoker.dashboard.interfaces import Visitor
from stoker.dashboard.server import DashboardOptions, DashboardServer
from stoker.dashboard.view_models import ActionBody
from stoker_testkit.dashboard import sample_fleets
from stoker_testkit.dashboard.api_client import DashboardClient
from stoker_testkit.dashboard.fake_fleet_server import FakeActions, FakeAuth, FakeViewSource


class ServedDashboard:
    """A dashboard, what it shows, and visitors."""

    def __init__(self, **options: Any) -> None:
        self.scene, self.gate = FakeViewSource(), FakeAuth()
        self.scene.put(*sample_fleets.mixed(), *sample_fleets.destinations())
        self.hands: Any = FakeActions(self.scene)
        self._options = {"settings": DashboardOptions(address="127.0.0.1:0"), **options}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.dashboard = await self._stack.enter_async_context(
            DashboardServer(self.scene, self, self.gate, **self._options)
        )
        self.url = f"http://127.0.0.1:{self.dashboard.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def do(self, order: ActionBody, visitor: Visitor) -> str:
        done: str = await self.hands.do(order, visitor)
        return done

    async def visit(self, token: str = "") -> DashboardClient:
        visit = await self._stack.enter_async_context(DashboardClient(self.url))
        if token:
            answer = await visit.sign_in(token)
            if answer.status != 200:
                raise AssertionError(f"sign-in: {answer.status}")
        return visit

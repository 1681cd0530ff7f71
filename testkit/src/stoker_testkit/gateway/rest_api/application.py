"""All paths of the test gateway put together."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from stoker_testkit.gateway.rest_api.control_routes import ControlRoutes
from stoker_testkit.gateway.rest_api.inventory_routes import InventoryRoutes
from stoker_testkit.gateway.rest_api.request_checks import RequestChecks, html_errors
from stoker_testkit.gateway.rest_api.request_log import GatewayRequest
from stoker_testkit.gateway.rest_api.scan_routes import ScanRoutes
from stoker_testkit.gateway.rest_api.session_routes import SessionRoutes
from stoker_testkit.gateway.runtime import GatewayRuntime
from stoker_testkit.gateway.settings import GatewaySettings


def application(
    runtime: GatewayRuntime, settings: GatewaySettings, requests: Sequence[GatewayRequest]
) -> web.Application:
    """The web application of one gateway; `requests` is the record that is shown to tests."""
    app = web.Application(middlewares=[html_errors])
    guard, inventory = RequestChecks(runtime, settings), InventoryRoutes(runtime, settings)
    for route in inventory.open_to_all():
        app.router.add_route(route.method, route.path, route.handler)
    for rules in (inventory, ScanRoutes(runtime, settings), SessionRoutes(runtime, settings)):
        for route in rules.routes():
            app.router.add_route(route.method, route.path, guard.guarded(route))
    ControlRoutes(runtime, settings, requests).add_to(app.router)
    return app

"""`stoker sync --watch`: runs the sync loop and the servers beside it.

Beside the loop run health, metrics, the dashboard and, if a secret is configured, a webhook. Signals trigger
and stop the loop; a file given with -f is read again when it changes. All parts run in one event loop and end
together. The first SIGTERM or SIGINT lets the running sync finish; the second cancels it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from stoker.agent.loop.local_webhook import LocalWebhookServer
from stoker.agent.loop.loop import SyncLoop
from stoker.agent.loop.metrics import SyncMetrics
from stoker.agent.sync.sync_report import SyncReport
from stoker.cli.common.options import SharedOptionValues
from stoker.cli.common.output import show_notices, show_object
from stoker.cli.exit_codes import ExitCode
from stoker.cli.sync.sync_request import SyncRequest
from stoker.cli.watch.request_reload import RequestReloader
from stoker.cli.watch.settings import DEFAULT_DASHBOARD_ADDRESS, WatchOptions
from stoker.domain.clock import SystemClock
from stoker.domain.errors import InvalidValue, StokerError, Wait
from stoker.engine.layout.protected_paths import STATE
from stoker.telemetry.health import ProcessHealth
from stoker.telemetry.logs import configure_logging
from stoker.telemetry.metrics import Metrics
from stoker.telemetry.probes import ProbeServer, parse_address

FILE_LOOK = 2.0


def watch_order(given: SharedOptionValues, options: Mapping[str, Any], output: str) -> int:
    """Run until a signal; errors that are known at the start are raised before any server listens."""
    if given.approve_plan:
        raise InvalidValue(
            "--approve-plan applies to one sync: use it without --watch, or approve the plan on the dashboard"
        )
    configure_logging(level=options["log_level"], log_format=options["log_format"])
    settings = WatchOptions.read(options)
    orders = RequestReloader(given, settings)
    if settings.webhook_address and not orders.order.webhook_keys:
        raise InvalidValue(
            "--webhook-address needs --webhook-secret-file: without a secret no request is accepted"
        )
    if settings.dashboard_token_file is not None:
        from stoker.cli.watch.dashboard import read_token  # noqa: PLC0415 - needed with a dashboard only

        read_token(orders, settings.dashboard_token_file)
    try:
        orders.claim()
    except Wait:
        raise
    except StokerError:
        pass  # the loop reports the folder's problem and retries
    show_notices("sync", orders.order.notices)
    told = (lambda report: show_object(report.as_json())) if output == "json" else None
    asyncio.run(watch(orders, settings, told))
    return ExitCode.DONE


async def watch(
    orders: RequestReloader, settings: WatchOptions, told: Callable[[SyncReport], None] | None = None
) -> None:
    clock, metrics, health = SystemClock(), Metrics(), ProcessHealth()
    order = orders.order
    meter = SyncMetrics(metrics, clock, namespace=order.namespace, cr=order.resource, gateway=order.gateway)
    watcher = SyncLoop(orders.assign, meter=meter, told=told, clock=clock)
    orders.nudged_by = lambda: watcher.trigger
    orders.answered = meter.scanned
    health.live.add("watcher", watcher.heartbeat.check)
    health.ready.add("sync", watcher.why_not_ready)
    health.started.add("sync", watcher.why_not_ready)
    _handle_signals(watcher, orders)
    async with AsyncExitStack() as parts:
        if orders.shipper is not None:
            metrics.collect_from(orders.shipper.readings)
            parts.push_async_callback(asyncio.to_thread, orders.shipper.close)
        parts.push_async_callback(orders.stop)
        await parts.enter_async_context(
            ProbeServer(
                health,
                metrics,
                health_address=settings.health_address,
                metrics_address=settings.metrics_address,
            )
        )
        if order.webhook_keys:
            server = LocalWebhookServer(
                settings.webhook_address or f"127.0.0.1:{order.webhook_port}",
                orders.webhook_secrets,
                watcher.nudge,
                clock=clock,
            )
            await parts.enter_async_context(server)
        if parse_address(settings.dashboard_address or DEFAULT_DASHBOARD_ADDRESS) is not None or _is_held(
            order
        ):
            from stoker.cli.watch.dashboard import serve_dashboard  # noqa: PLC0415 - loaded only if needed

            await parts.enter_async_context(serve_dashboard(orders, settings, watcher, clock, metrics))
        looking = asyncio.create_task(_watch_files(orders, watcher))
        try:
            await watcher.run()
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


def _is_held(order: SyncRequest) -> bool:
    """Return whether a user stopped or paused it on an earlier dashboard; that holds without one, too."""
    from stoker.dashboard.standalone.pending_actions import NOTES  # noqa: PLC0415

    return any((order.job.data_dir / STATE / name).exists() for name in NOTES)


async def _watch_files(orders: RequestReloader, watcher: SyncLoop) -> None:
    while True:
        await asyncio.sleep(FILE_LOOK)
        if orders.changed:
            watcher.nudge("file")


def _handle_signals(watcher: SyncLoop, orders: RequestReloader) -> None:
    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    asked = False

    def stop() -> None:
        nonlocal asked
        if asked and main is not None:
            main.cancel()
        asked = True
        watcher.stop()

    def reread() -> None:
        orders.force()
        watcher.nudge("signal")

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, reread)
    loop.add_signal_handler(signal.SIGUSR1, lambda: watcher.nudge("signal"))

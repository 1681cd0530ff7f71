"""The dashboard of `stoker sync --watch`, connected to the sync loop and to the current request.

Syncing the gateway's files has priority: if the address is in use, the certificate is missing or the token
cannot be written to the folder, the loop continues and the dashboard is retried every 30 s. Stop and pause
from an earlier run's dashboard stay in effect with and without a dashboard. The token is printed only to a
terminal; the log gets the name of its file.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from stoker.agent.loop.loop import SyncLoop
from stoker.agent.rollback.state import QuarantineRecord, RollbackPin, RollbackRecords
from stoker.agent.sync.sync_report import SyncReport
from stoker.cli.common.output import print_to_stderr
from stoker.cli.sync.rollback import roll_back
from stoker.cli.sync.sync_request import SyncRequest
from stoker.cli.sync.sync_setup import ConfiguredSync, list_snapshots, open_snapshots
from stoker.cli.watch.request_reload import RequestReloader
from stoker.cli.watch.settings import DASHBOARD_TOKEN, DEFAULT_DASHBOARD_ADDRESS, WatchOptions
from stoker.dashboard.keep_serving import serve_with_retries
from stoker.dashboard.metrics import DashboardMetrics
from stoker.dashboard.server import DashboardOptions as WebSettings
from stoker.dashboard.server import DashboardServer
from stoker.dashboard.server_tls import server_tls_context
from stoker.dashboard.standalone.pending_actions import NOTES
from stoker.dashboard.standalone.setup import StandaloneDashboard
from stoker.dashboard.standalone.token_check import LocalAuth, LocalToken, check_token_length
from stoker.dashboard.standalone.view import FolderSubject
from stoker.domain.clock import Clock
from stoker.domain.errors import Stalled, StokerError
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.engine.layout.protected_paths import STATE
from stoker.snapshots.types import Snapshot
from stoker.telemetry.logs import get_logger
from stoker.telemetry.metrics import Metrics
from stoker.telemetry.probes import ListenAddress, parse_address

KIND = "Folder"
"""The kind shown for a folder that options describe, without a resource."""

log = get_logger(__name__)


@asynccontextmanager
async def serve_dashboard(
    orders: RequestReloader, settings: WatchOptions, watcher: SyncLoop, clock: Clock, metrics: Metrics
) -> AsyncIterator[None]:
    """Serve the dashboard while the sync loop runs."""
    data_dir = orders.order.job.data_dir
    ways = _RollbackActions(orders)
    stage = StandaloneDashboard(
        subject_of(orders.order), data_dir, ways, lambda: watcher.nudge("manual"), clock
    )
    for name, held in zip(NOTES, (stage.desk.stopped, stage.desk.paused), strict=True):
        if held:
            log.warning("dashboard.holds_still", note=str(data_dir / STATE / name))
    orders.shown = _apply_page_requests(orders, stage)
    async with AsyncExitStack() as parts:
        parts.push_async_callback(stage.aclose)
        address = parse_address(settings.dashboard_address or DEFAULT_DASHBOARD_ADDRESS)
        if address is not None:
            meter = DashboardMetrics(metrics)
            serving = serve_with_retries(
                lambda: _serve_page(address, orders, settings, stage, meter, clock), clock
            )
            parts.push_async_callback(_cancel_and_wait, asyncio.create_task(serving, name="dashboard"))
        yield


async def _cancel_and_wait(task: asyncio.Task[NoReturn]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _serve_page(
    address: ListenAddress,
    orders: RequestReloader,
    settings: WatchOptions,
    stage: StandaloneDashboard,
    meter: DashboardMetrics,
    clock: Clock,
) -> None:
    """Open the dashboard's server, and keep it open until cancelled."""
    gate, file, own = _token_gate(orders, settings)
    async with AsyncExitStack() as parts:
        tls = await parts.enter_async_context(server_tls_context(settings.dashboard_cert_dir, clock))
        server = DashboardServer(
            stage.scene,
            stage.hands,
            gate,
            settings=WebSettings(
                settings.dashboard_address or DEFAULT_DASHBOARD_ADDRESS,
                names=_allowed_hosts(address, settings),
            ),
            tls=tls,
            clock=clock,
            meter=meter,
        )
        await parts.enter_async_context(server)
        if own is not None:  # only now: the process that holds the port may own this folder's token file, too
            own.write()
            parts.callback(_remove_own_token, own)
        _print_address(address, server.port or 0, "http" if tls is None else "https", file, own)
        await asyncio.Event().wait()


def subject_of(order: SyncRequest) -> FolderSubject:
    owner = order.owner
    return FolderSubject(
        namespace=order.namespace or "local",
        kind=str(owner.door) if owner is not None else KIND,
        name=order.resource or order.gateway,
        gateway=order.gateway,
        ref=str(order.job.source.ref),
        paused=order.paused,
    )


def _apply_page_requests(
    orders: RequestReloader, stage: StandaloneDashboard
) -> Callable[[ConfiguredSync], bool]:
    def apply(kept: ConfiguredSync) -> bool:
        order = orders.order
        here = map(PlanApproval, sorted(stage.desk.approved))
        kept.order = order._replace(approved_plans=(*order.approved_plans, *here))
        kept.observer = stage.next_sync(subject_of(order), order.job.source.ref)
        return kept.observer is None

    return apply


def _token_gate(orders: RequestReloader, settings: WatchOptions) -> tuple[LocalAuth, Path, LocalToken | None]:
    """Return the authenticator, the token's file, and the token itself if it was generated here."""
    file = settings.dashboard_token_file
    if file is not None:
        return LocalAuth(partial(read_token, orders, file)), file, None
    own = LocalToken(orders.order.job.data_dir / STATE)
    return LocalAuth(lambda: own.value), own.file, own


def read_token(orders: RequestReloader, file: Path) -> Secret:
    """Read the token of a file; raises if it is too short."""
    return check_token_length(orders.order.secrets.line(DASHBOARD_TOKEN), file)


def _remove_own_token(own: LocalToken) -> None:
    with suppress(StokerError, OSError):
        own.clear()


def _allowed_hosts(address: ListenAddress, settings: WatchOptions) -> frozenset[str]:
    return frozenset(
        name.lower() for name in (address.host, socket.gethostname(), *settings.dashboard_hosts) if name
    )


def _print_address(
    address: ListenAddress, port: int, scheme: str, file: Path, own: LocalToken | None
) -> None:
    host = address.host
    url = f"{scheme}://{ListenAddress(host or 'localhost', port)}/"
    if scheme == "http" and not _is_loopback(host):
        log.warning("dashboard.in_the_clear", address=url, why="tokens and data are not encrypted")
    if own is not None and sys.stderr.isatty():
        print_to_stderr(f"stoker sync: dashboard: {url}#token={own.value.reveal()}")
    else:
        log.info("dashboard.open", address=url, token_file=str(file))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


class _RollbackActions:
    """The actions of `stoker rollback`, for the current request."""

    def __init__(self, orders: RequestReloader) -> None:
        self._orders = orders

    async def go_back(self, to: str, approved: str) -> SyncReport:
        by_page = (PlanApproval(approved),) if approved else ()
        order = self._orders.order._replace(goes_back=True)
        order = order._replace(approved_plans=(*order.approved_plans, *by_page))
        if order.dry_run:
            raise Stalled(f"this is a dry run, so {to[:40]} is not restored", reason=Reason.DRY_RUN)
        try:
            _, report = await roll_back(order, to, lambda: "manual")
        finally:
            self._orders.renew()
        return report

    def release(self) -> Sequence[str]:
        rollback = open_snapshots(self._orders.order)
        self._orders.renew()
        return rollback.release() if rollback is not None else ()

    def snapshots(self) -> Sequence[Snapshot]:
        return list_snapshots(self._orders.order)

    @property
    def pin(self) -> RollbackPin | None:
        return self._notes.pin

    @property
    def quarantine(self) -> QuarantineRecord | None:
        return self._notes.quarantine

    @property
    def _notes(self) -> RollbackRecords:
        return RollbackRecords(self._orders.order.job.data_dir / STATE)

"""`stoker sync --watch`: the agent's loop on a machine without a cluster.

Health, metrics and, where there is a secret, a webhook are served beside it; signals
nudge and stop it; a file given with -f is read again when it changes. All parts live
in one event loop and end together. SIGTERM and SIGINT let the pass that runs finish;
the second one does not.
"""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stoker.agent.metering import PassMetrics
from stoker.agent.receiving import WebhookServer
from stoker.agent.reporting import SyncReport
from stoker.agent.watching import Assignment, Watcher
from stoker.cli.exits import Exit
from stoker.cli.keepers import Kept
from stoker.cli.options import STDIN, Given
from stoker.cli.orders import Order, order_from
from stoker.cli.showing import show_notices, show_object
from stoker.domain.clock import SystemClock
from stoker.domain.errors import InvalidValue, StokerError
from stoker.domain.intent.delivery import SHORTEST_POLLING, Polling
from stoker.domain.intent.intents import Notice
from stoker.domain.intent.policies import Drift, DriftMode
from stoker.domain.intent.source import SecretKey
from stoker.domain.quantities import parse_duration
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.engine.protecting import STATE
from stoker.telemetry.health import Health
from stoker.telemetry.logs import configure, get_logger
from stoker.telemetry.metrics import Metrics
from stoker.telemetry.probes import ProbeServer, parse_address

FILE_LOOK = 2.0
POLL_SECONDS = 30.0
USUAL = "127.0.0.1:8090"
DASHBOARD_TOKEN = SecretKey("--dashboard-token-file", "")

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that only mean something while watching."""

    health_address: str
    metrics_address: str
    webhook_address: str | None = None
    webhook_secret_file: Path | None = None
    dashboard_address: str | None = None
    """None: the usual one, if it is free."""
    dashboard_token_file: Path | None = None
    dashboard_cert_dir: Path | None = None
    dashboard_hosts: tuple[str, ...] = ()
    interval: float | None = None
    drift: DriftMode | None = None
    drift_interval: float | None = None

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Settings:
        drift = options["drift"]
        for name in ("health_address", "metrics_address", "webhook_address", "dashboard_address"):
            parse_address(options[name] or "")
        return cls(
            options["health_address"],
            options["metrics_address"],
            options["webhook_address"],
            options["webhook_secret_file"],
            options["dashboard_address"],
            options["dashboard_token_file"],
            options["dashboard_cert_dir"],
            options["dashboard_host"],
            _pause("--interval", options["interval"]),
            DriftMode(drift) if drift else None,
            _pause("--drift-interval", options["drift_interval"]),
        )

    def over(self, order: Order) -> Order:
        """The order with what these settings change of it."""
        secrets, key = order.secrets.flag("--webhook-secret-file", self.webhook_secret_file)
        if key is not None:
            secrets.line(key)
        secrets, token = secrets.flag(DASHBOARD_TOKEN.name, self.dashboard_token_file)
        if token is not None:
            secrets.line(token)
        given = tuple(one for one in order.webhook_keys if secrets.has(one))
        drift = order.drift if order.drift is not None else Drift(DriftMode.RESTORE)
        polling = order.polling if order.polling is not None else Polling(interval=POLL_SECONDS)
        return order._replace(
            secrets=secrets,
            webhook_keys=(key,) if key else given,
            notices=(
                *order.notices,
                *(_deaf(one) for one in order.webhook_keys if not (key or one in given)),
            ),
            drift=replace(
                drift, mode=self.drift or drift.mode, interval=self.drift_interval or drift.interval
            ),
            polling=polling
            if self.interval is None
            else replace(polling, enabled=True, interval=self.interval),
        )


def watch_order(given: Given, options: Mapping[str, Any], output: str) -> int:
    """Run until a signal; everything that can be wrong at first is refused before anything listens."""
    configure(level=options["log_level"], log_format=options["log_format"])
    settings = Settings.read(options)
    orders = Orders(given, settings)
    if settings.webhook_address and not orders.order.webhook_keys:
        raise InvalidValue(
            "--webhook-address needs --webhook-secret-file: nobody is believed without a secret"
        )
    show_notices("sync", orders.order.notices)
    told = (lambda report: show_object(report.as_json())) if output == "json" else None
    asyncio.run(watch(orders, settings, told))
    return Exit.DONE


class Orders:
    """The order of now. A file that was edited is read again; a broken edit changes nothing, and is told."""

    def __init__(self, given: Given, settings: Settings, *, reader: Any = None) -> None:
        self._given = given
        self._settings = settings
        self._reader = reader
        self._seen = self._stamps()
        self._forced = False
        self._kept: Kept | None = None
        self.nudged_by: Callable[[], str] = str
        """What made the watcher look, while it does."""
        self.answered: Callable[[float], None] | None = None
        """Hears how long the gateway took to answer each request for a scan."""
        self.shown: Callable[[Assignment, Kept], Assignment] | None = None
        """Changes what the watcher does next by what people want of it."""
        self._renewed = False
        self.order = settings.over(order_from(given))

    @property
    def changed(self) -> bool:
        return self._stamps() != self._seen

    def force(self) -> None:
        """Read again before the next pass, whatever the files' dates say."""
        self._forced = STDIN not in self._given.manifests

    async def assign(self) -> Assignment:
        if self._forced or self.changed:
            await self._reread()
        if self._renewed:
            self._renewed = False
            await self.aclose()
        if self._kept is None:
            self._kept = Kept(
                self.order, reader=self._reader, nudged_by=self.nudged_by, answered=self.answered
            )
        order = self.order
        now = Assignment(
            kept=self._kept,
            interval=_interval(order.polling),
            drift=order.drift or Drift(DriftMode.RESTORE),
            paused=order.paused,
        )
        if self.shown is not None:
            now = self.shown(now, self._kept)
        if now.paused:
            self._kept.paused()
        return now

    def renew(self) -> None:
        """Remember nothing of the folder in the next pass: somebody else was at work there."""
        self._renewed = True

    def webhook_secrets(self) -> list[Secret]:
        return [self.order.secrets.line(key) for key in self.order.webhook_keys]

    async def aclose(self) -> None:
        if self._kept is not None:
            await self._kept.aclose()
            self._kept = None

    async def _reread(self) -> None:
        self._seen, self._forced = self._stamps(), False
        try:
            fresh = self._settings.over(order_from(self._given))
        except StokerError as error:
            log.warning("file.broken", reason=error.reason, error=error.message, kept="what it said before")
            return
        if fresh != self.order:
            log.info("file.reread", files=list(self._given.manifests))
            await self.aclose()
            self.order = fresh

    def _stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        """What tells that a file was edited; standard input cannot be."""
        return tuple(_stamp(Path(name)) for name in self._given.manifests if name != STDIN)


async def watch(orders: Orders, settings: Settings, told: Callable[[SyncReport], None] | None = None) -> None:
    clock, metrics, health = SystemClock(), Metrics(), Health()
    order = orders.order
    meter = PassMetrics(metrics, clock, namespace=order.namespace, cr=order.resource, gateway=order.gateway)
    watcher = Watcher(orders.assign, meter=meter, told=told, clock=clock)
    orders.nudged_by = lambda: watcher.trigger
    orders.answered = meter.scanned
    health.live.add("watcher", watcher.heartbeat.check)
    health.ready.add("sync", watcher.why_not_ready)
    health.started.add("sync", watcher.why_not_ready)
    _listen_to_signals(watcher, orders)
    async with AsyncExitStack() as parts:
        parts.push_async_callback(orders.aclose)
        await parts.enter_async_context(
            ProbeServer(
                health,
                metrics,
                health_address=settings.health_address,
                metrics_address=settings.metrics_address,
            )
        )
        if order.webhook_keys:
            server = WebhookServer(
                settings.webhook_address or f"127.0.0.1:{order.webhook_port}",
                orders.webhook_secrets,
                watcher.nudge,
                clock=clock,
            )
            await parts.enter_async_context(server)
        if parse_address(settings.dashboard_address or USUAL) is not None or _is_held(order):
            from stoker.cli.watch_pages import showing  # noqa: PLC0415 - for those who look

            await parts.enter_async_context(showing(orders, settings, watcher, clock))
        looking = asyncio.create_task(_look_at_files(orders, watcher))
        try:
            await watcher.run()
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


def _is_held(order: Order) -> bool:
    """Whether somebody stopped or paused it on a page that it had before; that holds without a page."""
    from stoker.web.standalone.desk import NOTES  # noqa: PLC0415

    return any((order.job.data_dir / STATE / name).exists() for name in NOTES)


async def _look_at_files(orders: Orders, watcher: Watcher) -> None:
    while True:
        await asyncio.sleep(FILE_LOOK)
        if orders.changed:
            watcher.nudge("file")


def _listen_to_signals(watcher: Watcher, orders: Orders) -> None:
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


def _deaf(key: SecretKey) -> Notice:
    return Notice(
        Reason.SECRET_NOT_FOUND,
        f"Secret {key.name!r} with key {key.key!r} of spec.webhook is not given: "
        f"who knows it is not believed; use --secret {key.name}/{key.key}=FILE",
    )


def _pause(flag: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = parse_duration(text)
    except StokerError as error:
        raise InvalidValue(f"{flag}: {error.message}") from None
    if seconds < SHORTEST_POLLING:
        raise InvalidValue(f"{flag} {text!r} is shorter than {SHORTEST_POLLING:g} s")
    return seconds


def _interval(polling: Polling | None) -> float:
    if polling is None:
        return POLL_SECONDS
    return polling.interval if polling.enabled else math.inf


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

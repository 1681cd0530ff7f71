"""The current `SyncRequest` of a watch: built from options and files, rebuilt when a file was edited.

The sync loop calls `assign` before each sync. A file with an error changes nothing: the error is logged and
the previous request stays in effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoker.agent.loop.loop import SyncAssignment
from stoker.cli.common.options import STDIN, SharedOptionValues
from stoker.cli.sync.sync_request import build_order
from stoker.cli.sync.sync_setup import ConfiguredSync, audit_shipper, claim_data_folder
from stoker.cli.watch.settings import POLL_SECONDS, WatchOptions
from stoker.domain.errors import StokerError
from stoker.domain.intent.delivery import PollingPolicy
from stoker.domain.intent.policies import DriftMode, DriftPolicy
from stoker.domain.secrets import Secret
from stoker.fs.writer_claim import WriterClaim
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)


class RequestReloader:
    """The current request, and the `ConfiguredSync` that runs it."""

    def __init__(self, given: SharedOptionValues, settings: WatchOptions, *, reader: Any = None) -> None:
        self._given = given
        self._settings = settings
        self._reader = reader
        self._seen = self._stamps()
        self._forced = False
        self._kept: ConfiguredSync | None = None
        self.nudged_by: Callable[[], str] = str
        """Returns what triggered the current sync."""
        self.answered: Callable[[float], None] | None = None
        """Receives the seconds that the gateway took to answer each scan request."""
        self.shown: Callable[[ConfiguredSync], bool] | None = None
        """Applies the dashboard's requests to the next sync; returns whether the sync is paused."""
        self._renewed = False
        self._claim: WriterClaim | None = None
        self.order = settings.over(build_order(given))
        self.shipper = audit_shipper()
        """Shared by all `ConfiguredSync` objects, so that its counters survive a reload."""

    @property
    def changed(self) -> bool:
        return self._stamps() != self._seen

    def force(self) -> None:
        """Reload before the next sync, even if the files' timestamps are unchanged."""
        self._forced = STDIN not in self._given.manifests

    def claim(self) -> None:
        """Claim the folder for this process; raises if another process holds it."""
        if self._claim is None:
            self._claim = claim_data_folder(self.order, "stoker sync --watch")
        self._claim.follow(str(self.order.job.source.ref))

    async def assign(self) -> SyncAssignment:
        if self._forced or self.changed:
            await self._reread()
        self.claim()
        if self._renewed:
            self._renewed = False
            await self.aclose()
        if self._kept is None:
            self._kept = ConfiguredSync(
                self.order,
                reader=self._reader,
                nudged_by=self.nudged_by,
                answered=self.answered,
                shipper=self.shipper,
            )
        order = self.order
        paused = order.paused if self.shown is None else self.shown(self._kept)
        if paused:
            self._kept.paused()
        return SyncAssignment(
            kept=None if paused else self._kept,
            interval=_interval(order.polling),
            drift=order.drift or DriftPolicy(DriftMode.RESTORE),
        )

    def renew(self) -> None:
        """Drop all cached state of the folder before the next sync, because another writer changed it."""
        self._renewed = True

    def webhook_secrets(self) -> list[Secret]:
        return [self.order.secrets.line(key) for key in self.order.webhook_keys]

    async def stop(self) -> None:
        """Close everything, and release the folder for other processes."""
        await self.aclose()
        if self._claim is not None:
            self._claim.release()

    async def aclose(self) -> None:
        if self._kept is not None:
            await self._kept.aclose()
            self._kept = None

    async def _reread(self) -> None:
        self._seen, self._forced = self._stamps(), False
        try:
            fresh = self._settings.over(build_order(self._given))
        except StokerError as error:
            log.warning("file.broken", reason=error.reason, error=error.message, kept="what it said before")
            return
        if fresh != self.order:
            log.info("file.reread", files=list(self._given.manifests))
            await self.aclose()
            self.order = fresh

    def _stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Stat data that changes when a file is edited; standard input has none."""
        return tuple(_stat_stamp(Path(name)) for name in self._given.manifests if name != STDIN)


def _interval(polling: PollingPolicy | None) -> float:
    if polling is None:
        return POLL_SECONDS
    return polling.interval if polling.enabled else math.inf


def _stat_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

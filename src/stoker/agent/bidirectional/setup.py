"""Opens the capture of one gateway and adds it to its `FolderSync`, if bidirectional sync is enabled."""

from __future__ import annotations

from collections.abc import Callable

from stoker.agent.bidirectional.capture import ChangeCapture
from stoker.agent.bidirectional.outbox_sender import OutboxSender
from stoker.agent.bidirectional.types import OutboxAddress
from stoker.agent.bidirectional.watch import CaptureLoop
from stoker.agent.desired_state import DesiredState
from stoker.agent.loop.log_dedup import DriftedFiles
from stoker.agent.loop.loop import SyncableFolder
from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.hooks import NoiseFilter
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import Clock
from stoker.domain.protocol import GatewayChangesReport


def capture_inputs(direction: DesiredState) -> object:
    """Return the inputs of the capture; it stays open as long as they are the same."""
    policies = direction.intent.policies
    if not policies.bidirectional.enabled:
        return None
    return policies.bidirectional, policies.drift.interval, direction.address.key, direction.intent.gateway


def open_capture(
    direction: DesiredState,
    keeper: FolderSync,
    sender: OutboxSender | None,
    clock: Clock,
    *,
    noise: NoiseFilter | None,
    tell: Callable[[GatewayChangesReport | None], None],
    may: Callable[[], bool],
) -> CaptureLoop | None:
    """Start the capture and add it as a sync hook; the caller closes it."""
    policies = direction.intent.policies
    if not policies.bidirectional.enabled or sender is None:
        tell(None)
        return None
    postal = OutboxAddress(direction.intent.gateway, direction.address.key)
    capturing = ChangeCapture(
        policies.bidirectional, keeper, sender, postal, clock, noise=noise, tell=tell, may=may
    )
    keeper.add_hook(capturing)
    capturing.say()
    watch = CaptureLoop(
        capturing,
        direction.job.data_dir,
        clock,
        debounce=policies.bidirectional.debounce,
        compare=policies.drift.interval,
    )
    watch.start()
    return watch


class ExclusiveSync:
    """A folder (`stoker.agent.loop.loop.SyncableFolder`) whose syncs and capture steps exclude each other."""

    def __init__(self, kept: SyncableFolder, capturing: ChangeCapture) -> None:
        self._kept = kept
        self._capturing = capturing

    async def sync(self, *, walk: bool) -> SyncReport:
        async with self._capturing.lock:
            report = await self._kept.sync(walk=walk)
        self._capturing.passed(report)
        return report

    async def verify(self) -> DriftedFiles:
        async with self._capturing.lock:
            return await self._kept.verify()

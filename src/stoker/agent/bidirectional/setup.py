"""The way back of one gateway, put together and joined to its keeper; nothing where nobody asked for it."""

from __future__ import annotations

from collections.abc import Callable

from stoker.agent.bidirectional.capture import Capturing
from stoker.agent.bidirectional.outbox_sender import Sender
from stoker.agent.bidirectional.types import Postal
from stoker.agent.bidirectional.watch import Watch
from stoker.agent.desired_state import Direction
from stoker.agent.loop.log_dedup import Drifted
from stoker.agent.loop.loop import Keeping
from stoker.agent.sync.folder import Keeper
from stoker.agent.sync.hooks import Noise
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import Clock
from stoker.domain.protocol import OwnChanges


def made_of(direction: Direction) -> object:
    """As long as it stays the same, so does what is opened."""
    policies = direction.intent.policies
    if not policies.bidirectional.enabled:
        return None
    return policies.bidirectional, policies.drift.interval, direction.address.key, direction.intent.gateway


def open_capture(
    direction: Direction,
    keeper: Keeper,
    sender: Sender | None,
    clock: Clock,
    *,
    noise: Noise | None,
    tell: Callable[[OwnChanges | None], None],
    may: Callable[[], bool],
) -> Watch | None:
    """Started, and to be closed; the keeper asks it before each change from now on."""
    policies = direction.intent.policies
    if not policies.bidirectional.enabled or sender is None:
        tell(None)
        return None
    postal = Postal(direction.intent.gateway, direction.address.key)
    capturing = Capturing(
        policies.bidirectional, keeper, sender, postal, clock, noise=noise, tell=tell, may=may
    )
    keeper.add_hook(capturing)
    capturing.say()
    watch = Watch(
        capturing,
        direction.job.data_dir,
        clock,
        debounce=policies.bidirectional.debounce,
        compare=policies.drift.interval,
    )
    watch.start()
    return watch


class Alternating:
    """A data folder (`stoker.agent.loop.loop.Keeping`) whose passes take turns with looks at it."""

    def __init__(self, kept: Keeping, capturing: Capturing) -> None:
        self._kept = kept
        self._capturing = capturing

    async def sync(self, *, walk: bool) -> SyncReport:
        async with self._capturing.lock:
            report = await self._kept.sync(walk=walk)
        self._capturing.passed(report)
        return report

    async def verify(self) -> Drifted:
        async with self._capturing.lock:
            return await self._kept.verify()

"""Opens the capture of one gateway and adds it to its `FolderSync`, if bidirectional sync is enabled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stoker.agent.bidirectional.capture import ChangeCapture
from stoker.agent.bidirectional.outbox import OutboxSender
from stoker.agent.bidirectional.types import OutboxAddress
from stoker.agent.bidirectional.watch import CaptureLoop
from stoker.agent.desired_state import DesiredState
from stoker.agent.sync.folder import FolderSync
from stoker.domain.clock import Clock
from stoker.domain.protocol import GatewayChangesReport

if TYPE_CHECKING:
    from stoker.ignition.content.noise import ResourceNoise


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
    noise: ResourceNoise | None,
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
    keeper.capture = capturing
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

"""Decides whether a change may be made now or waits for a maintenance window.

It is evaluated once, when a sync begins; a window that closes meanwhile interrupts nothing. The sync still
plans, so that the waiting change is reported, and the sync loop tries again when the window opens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.agent.sync.jobs import SyncWait
from stoker.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from stoker.domain.intent.policies import MaintenanceWindowPolicy


def wait_for_window(windows: Sequence[MaintenanceWindowPolicy], now: datetime) -> SyncWait | None:
    """Return what a change has to wait for; None if it may be made now."""
    if not windows:
        return None
    from stoker.domain.schedule.maintenance_windows import is_open, next_edge  # noqa: PLC0415 - few resources have windows

    if is_open(windows, now):
        return None
    return SyncWait(Reason.WAITING_FOR_WINDOW, next_edge(windows, now))

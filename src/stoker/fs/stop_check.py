"""Stops a sync that runs in a worker thread.

Long loops check between two files. A stop leaves files and ledger consistent, as if the sync had done less
work.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.domain.errors import StokerError

StopCheck = Callable[[], bool]


class SyncStopped(StokerError):
    """The sync was stopped; files and ledger are consistent."""


def never_stop() -> bool:
    return False


def raise_if_stopped(stopped: StopCheck) -> None:
    if stopped():
        raise SyncStopped("the sync was stopped")

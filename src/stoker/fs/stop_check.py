"""How a pass that runs in a worker thread is told to end.

Everything here that takes long asks between two files. Whoever stops leaves files
and ledger consistent: a stop is a pass that got less far, not one that broke off.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.domain.errors import StokerError

StopCheck = Callable[[], bool]


class SyncStopped(StokerError):
    """The pass was asked to end; what is on disk and in the ledger is consistent."""


def never_stop() -> bool:
    return False


def raise_if_stopped(stopped: StopCheck) -> None:
    if stopped():
        raise SyncStopped("the sync was stopped")

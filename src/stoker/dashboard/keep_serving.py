"""Keeps the dashboard running beside the actual work of its process.

A failure of the dashboard must never end the process. A port in use, a missing certificate or an
unexpected exception is logged, and the dashboard starts again after 30 s. Wrong command-line options are
not handled here: the command must refuse them before it calls this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NoReturn

from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.telemetry.logs import get_logger

RETRY_SECONDS = 30.0

log = get_logger(__name__)


async def serve_with_retries(serve: Callable[[], Awaitable[object]], clock: Clock) -> NoReturn:
    """Serve until cancelled; `serve` starts the dashboard and returns when it ends."""
    while True:
        try:
            await serve()
            log.warning("dashboard.off", why="it ended by itself", again_in=RETRY_SECONDS)
        except (StokerError, OSError) as error:
            log.warning("dashboard.off", why=str(error), again_in=RETRY_SECONDS)
        except Exception:
            log.exception("dashboard.broke", again_in=RETRY_SECONDS)
        await clock.sleep(RETRY_SECONDS)

"""A page that is served for as long as its process lives, whatever happens to the page.

What the process is there for does not end with its dashboard: a port that somebody else
has, a certificate that is not there yet or a mistake of ours is told in the log, and tried
again after a while. What a command line says wrongly is for whoever reads it to refuse,
before this begins.
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
    """Serve until cancelled; `serve` opens the page anew and runs for as long as it is open."""
    while True:
        try:
            await serve()
            log.warning("dashboard.off", why="it ended by itself", again_in=RETRY_SECONDS)
        except (StokerError, OSError) as error:
            log.warning("dashboard.off", why=str(error), again_in=RETRY_SECONDS)
        except Exception:
            log.exception("dashboard.broke", again_in=RETRY_SECONDS)
        await clock.sleep(RETRY_SECONDS)

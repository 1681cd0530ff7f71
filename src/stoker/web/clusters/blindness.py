"""What was shown and can no longer be read: until it is, nothing is shown as if it were so now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason
from stoker.kube.errors import NotFound
from stoker.kube.reflector import Reflector
from stoker.telemetry.logs import get_logger

BLIND_SECONDS = 60.0

log = get_logger(__name__)


class Blind(NamedTuple):
    """The kinds that nobody has been able to look at for a while."""

    kinds: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise Retry where there is one."""
        if self.kinds:
            raise Retry(
                f"the API server no longer tells of {', '.join(self.kinds)}:"
                " nothing is shown until it does, for it would be old",
                reason=Reason.UNREACHABLE,
            )

    def log(self) -> None:
        if self.kinds:
            log.warning("dashboard.blind", kinds=self.kinds)
        else:
            log.info("dashboard.sees_again")


def blind_to(reflectors: Iterable[Reflector[Any]], now: float) -> Blind:
    return Blind(tuple(sorted({str(one.resource) for one in reflectors if _is_lost(one, now)})))


def _is_lost(reflector: Reflector[Any], now: float) -> bool:
    """A kind that was never read is not shown at all, and one that is not there has no objects."""
    health = reflector.health
    return (
        health.synced
        and health.failing_since is not None
        and not isinstance(health.error, NotFound)
        and now - health.failing_since > BLIND_SECONDS
    )

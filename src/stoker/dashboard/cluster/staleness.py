"""Kinds that were shown and can no longer be read: they are hidden until they can be read again.

An unreadable kind hides only itself: the page shows the rest and names what is missing. Only if nothing
at all can be read is there no view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from stoker.dashboard.cluster.permissions import can_see_any
from stoker.dashboard.interfaces import VisibleScope
from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason
from stoker.kube.client.errors import NotFound
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.kube.watch.reflector import Reflector
from stoker.telemetry.logs import get_logger

BLIND_SECONDS = 60.0
STOP = "emergency stop"
"""The name of the emergency stop's ConfigMap among the kinds."""

log = get_logger(__name__)


class UnreadableKind(NamedTuple):
    """A kind that could not be read for a while; no namespace means all namespaces."""

    kind: str
    namespace: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} in {self.namespace}" if self.namespace else self.kind


class StaleKinds(NamedTuple):
    """All unreadable kinds."""

    lost: tuple[UnreadableKind, ...] = ()
    everything: bool = False
    """Everything that was ever read is unreadable now."""

    def check(self) -> None:
        """Raise Retry if there is nothing to show."""
        if self.everything:
            raise Retry(
                "the API server no longer tells of anything that was shown:"
                " nothing is shown until it does, for it would be old",
                reason=Reason.UNREACHABLE,
            )

    def hides(self, kind: str, namespace: str) -> bool:
        return any(one.kind == kind and one.namespace in (None, namespace) for one in self.lost)

    def told(self, sight: VisibleScope) -> Iterator[str]:
        """Yield what is missing from the view, as far as the visitor would see it."""
        for one in self.lost:
            if one.kind == STOP:
                yield STOP
            elif can_see_any(sight, one.kind, one.namespace):
                yield str(one)

    def log(self) -> None:
        if self.lost:
            log.warning("dashboard.blind", kinds=[str(one) for one in self.lost])
        else:
            log.info("dashboard.sees_again")


def find_lost_watches(reflectors: Iterable[Reflector[Any]], now: float) -> StaleKinds:
    read = [one for one in reflectors if one.health.synced]
    lost = [one for one in read if _is_lost(one, now)]
    return StaleKinds(
        tuple(sorted({_lost_watch(one) for one in lost}, key=str)), bool(read) and len(lost) == len(read)
    )


def _lost_watch(reflector: Reflector[Any]) -> UnreadableKind:
    if reflector.resource == CONFIG_MAPS:
        return UnreadableKind(STOP)
    return UnreadableKind(reflector.resource.kind, reflector.namespace)


def _is_lost(reflector: Reflector[Any], now: float) -> bool:
    """Return whether a watch has failed for too long.

    A kind that was never read is not shown at all, and a kind that is not installed has no objects.
    """
    health = reflector.health
    return (
        health.failing_since is not None
        and not isinstance(health.error, NotFound)
        and now - health.failing_since > BLIND_SECONDS
    )

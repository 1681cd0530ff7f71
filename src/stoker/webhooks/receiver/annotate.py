"""Writes a sync request on a resource: a merge patch of its annotations, and of nothing else.

Every replica does this, leader or not, so this client is not fenced by a Lease. Conflicts and short
outages of the API server are retried as long as the caller waits; then the caller gets a 503 and retries.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.api.registry import KINDS
from stoker.domain.clock import Clock
from stoker.domain.errors import Retry
from stoker.domain.intent.intent import ResourceIdentity, SyncResourceKind
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import deadline
from stoker.kube.client.kinds import rest_resource
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import ApiResource
from stoker.kube.runtime.backoff import Backoff
from stoker.telemetry.logs import get_logger

WRITE_TIMEOUT_SECONDS = 4.0
_PAUSES = Backoff(base=0.1, ceiling=1.0)

log = get_logger(__name__)

_DOORS: Mapping[SyncResourceKind, ApiResource] = {
    door: rest_resource(kind) for door in SyncResourceKind for kind in KINDS if kind.name == door
}


def annotation_group(who: ResourceIdentity) -> str:
    """Return the prefix of a resource's annotations: the API group of its kind."""
    return _DOORS[who.door].group


class Annotator:
    """Patches annotations of resources."""

    def __init__(self, client: KubeClient, clock: Clock, patience: float = WRITE_TIMEOUT_SECONDS) -> None:
        self._client = client
        self._clock = clock
        self._patience = patience

    async def __call__(self, who: ResourceIdentity, annotations: Mapping[str, str]) -> None:
        """Return when the patch is written; raises the API server's last error after a timeout."""
        body = {"metadata": {"annotations": dict(annotations)}}
        failures = 0
        last = Retry("the API server does not answer")
        try:
            async with deadline(self._clock, self._patience):
                while True:
                    try:
                        await self._client.patch(
                            _DOORS[who.door], body, who.name, who.namespace, into=ObjectHeader
                        )
                    except Retry as error:
                        last, failures = error, failures + 1
                        log.info("webhook.retried", name=who.name, reason=error.reason, failures=failures)
                    else:
                        return
                    await self._clock.sleep(max(_PAUSES.delay(failures), last.after or 0.0))
        except TimeoutError:
            raise last from None

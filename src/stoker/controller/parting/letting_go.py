"""Before an uninstall: every resource loses our finalizer, and no controller puts it back.

A finalizer that nobody is left to take off would keep its resource, and the namespace
around it, from ever being deleted. `stoker controller --let-go` runs as the chart's hook
before anything of the release goes:

    seize    every shard's lease, for as long as the uninstall may take, so that whoever leads stops
    wait     until their terms are over by their own clocks
    release  the finalizer of each resource that is ours, by namespaces and labels

Nothing else is touched. The resources stay, as their CRDs do, and so do the maps and
rights that belong to them: gateways go on as they are, and a later install finds
everything again. Whoever deletes a resource from then on takes all of it along at once.
"""

from __future__ import annotations

from collections.abc import Collection

from stoker.controller.parting.untying import TRIES, untie
from stoker.controller.seeing.objects import SYNCED_KINDS, OwnedHeader, ResourceKey
from stoker.domain.clock import Clock
from stoker.domain.errors import Retry
from stoker.kube.client import Client
from stoker.kube.errors import Conflict, NotFound
from stoker.kube.kinds import rest
from stoker.kube.lease import Lease, Terms, claimed, unique_identity
from stoker.kube.resources import LEASES
from stoker.kube.store import ObjectKey
from stoker.telemetry.logs import get_logger

HOLD = 120
"""Seconds for which no controller leads after this: the uninstall is over by then, or was called off."""

log = get_logger(__name__)


class LettingGo:
    """Runs once and ends."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        leases: Collection[ObjectKey],
        namespaces: Collection[str] = (),
        labels: str = "",
    ) -> None:
        """`namespaces` are those that are worked on; none named means all. Others may work on resources
        that do not fit `labels`."""
        self._client = client
        self._clock = clock
        self._leases = leases
        self._scopes: Collection[str | None] = namespaces or (None,)
        self._labels = labels or None

    async def run(self) -> int:
        """How many resources were let go of."""
        await self._clock.sleep(max([await self._seize(lease) for lease in self._leases], default=0.0))
        count = 0
        for kind in SYNCED_KINDS:
            for scope in self._scopes:
                for one in await self._listed(kind, scope):
                    key = ResourceKey(kind, ObjectKey(one.metadata.namespace, one.metadata.name))
                    count += await untie(self._client, key, one)
        log.info("resources.let_go", count=count)
        return count

    async def _listed(self, kind: str, scope: str | None) -> list[OwnedHeader]:
        try:
            return await self._client.list(
                rest(SYNCED_KINDS[kind]), scope, into=OwnedHeader, labels=self._labels
            )
        except NotFound:
            return []  # somebody was quicker, and has taken the CRD with all that was of it

    async def _seize(self, lease: ObjectKey) -> float:
        """Take a lease whoever holds it; seconds until its holder has stopped in any case."""
        terms = Terms(unique_identity(), HOLD, HOLD / 4)
        namespace, name = lease
        for _ in range(TRIES):
            try:
                found = await self._client.get(LEASES, name, namespace, into=Lease)
                mine = claimed(found, terms, name, namespace, self._clock.now())
                await self._client.replace(LEASES, mine, name, namespace, into=Lease)
            except Conflict:
                continue  # its holder renewed it just now
            except NotFound:
                return 0.0
            log.info("lease.seized", lease=str(lease), holder=found.holder)
            return float(found.spec.lease_duration_seconds or 0) if found.holder else 0.0
        raise Retry(f"lease {lease} cannot be taken: it changed each time")

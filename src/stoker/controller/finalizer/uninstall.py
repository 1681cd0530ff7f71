"""Before an uninstall: every resource loses our finalizer, and no controller puts it back.

A finalizer that nobody is left to take off would keep its resource, and the namespace
around it, from ever being deleted. `stoker controller --let-go` runs as the chart's hook
before anything of the release goes:

    seize    every shard's lease, for as long as the uninstall may take, so that whoever leads stops
    wait     until their terms are over by their own clocks
    release  the finalizer of each resource that is ours, by namespaces and labels, or that we have tied

Nothing else is touched. The resources stay, as their CRDs do, and so do the maps and
rights that belong to them: gateways go on as they are, and a later install finds
everything again. Whoever deletes a resource from then on takes all of it along at once.

A namespace that is gone, or on its way out, took our rights along: it is refused to us and
needs nothing of us. One that is there and refuses keeps its finalizers, and the uninstall
must not go on as if it did not; the others are let go of all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product

from stoker.controller.cache.objects import SYNCED_KINDS, ResourceKey
from stoker.controller.finalizer.finalizer_removal import MAX_ATTEMPTS, remove_finalizer
from stoker.controller.finalizer.orphaned import FinalizedHeader, has_finalizer_of
from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, Stalled
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import Conflict, Forbidden, NotFound
from stoker.kube.client.kinds import rest_resource
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import LEASES, NAMESPACES
from stoker.kube.leader.lease import Lease, LeaseTerms, claim_lease, unique_identity
from stoker.kube.watch.store import ObjectKey
from stoker.telemetry.logs import get_logger

HOLD = 120
"""Seconds for which no controller leads after this: the uninstall is over by then, or was called off."""

log = get_logger(__name__)


class UninstallCleanup:
    """Runs once and ends."""

    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        *,
        leases: Collection[ObjectKey],
        manager: str,
        namespaces: Collection[str] = (),
        labels: str = "",
    ) -> None:
        """`namespaces` are those that are worked on; none named means all. Others may work on resources
        that do not fit `labels`, and those that they have tied, not being `manager`, stay theirs."""
        self._client = client
        self._clock = clock
        self._leases = leases
        self._manager = manager
        self._scopes: Collection[str | None] = namespaces or (None,)
        self._labels = labels or None
        self._refused: dict[str | None, Forbidden] = {}

    async def run(self) -> int:
        """How many resources were let go of."""
        await self._clock.sleep(max([await self._seize(lease) for lease in self._leases], default=0.0))
        count = 0
        for kind, scope in product(SYNCED_KINDS, self._scopes):
            for key, one in (await self._ours(kind, scope)).items():
                count += await self._untied(key, one)
        log.info("resources.let_go", count=count)
        held = [told for where, error in self._refused.items() if (told := await self._held(where, error))]
        if held:
            raise Stalled("; ".join(held), reason=Reason.RBAC_DENIED)
        return count

    async def _ours(self, kind: str, scope: str | None) -> Mapping[ResourceKey, FinalizedHeader]:
        """Those that fit, and those that we have tied when they did."""
        fitting = await self._listed(kind, scope, self._labels)
        others = await self._listed(kind, scope, None) if self._labels else {}
        return {
            key: one for key, one in others.items() if has_finalizer_of(self._manager, key, one)
        } | fitting

    async def _listed(
        self, kind: str, scope: str | None, labels: str | None
    ) -> dict[ResourceKey, FinalizedHeader]:
        try:
            found = await self._client.list(
                rest_resource(SYNCED_KINDS[kind]), scope, into=FinalizedHeader, labels=labels
            )
        except NotFound:
            return {}  # somebody was quicker, and has taken the CRD with all that was of it
        except Forbidden as error:
            self._refused.setdefault(scope, error)
            return {}
        return {ResourceKey(kind, ObjectKey(one.metadata.namespace, one.metadata.name)): one for one in found}

    async def _untied(self, key: ResourceKey, one: FinalizedHeader) -> bool:
        try:
            return await remove_finalizer(self._client, key, one)
        except Forbidden as error:
            self._refused.setdefault(key.object.namespace, error)
            return False

    async def _held(self, scope: str | None, error: Forbidden) -> str:
        """Why finalizers are left in a namespace that stays; nothing for one that does not."""
        if scope is None:
            return error.message
        try:
            found = await self._client.get(NAMESPACES, scope, into=ObjectHeader)
        except NotFound:
            log.info("namespace.gone", namespace=scope)
            return ""
        except Forbidden:
            return (
                f"namespace {scope} refuses, and whether it is still there must not be seen: {error.message}"
            )
        if found.metadata.deletion_timestamp is None:
            return f"namespace {scope} is there and refuses: {error.message}"
        # Nobody can be granted anything in it any more. What is tied there holds it until people help.
        log.warning("namespace.ending", namespace=scope, error=error.message)
        return ""

    async def _seize(self, lease: ObjectKey) -> float:
        """Take a lease whoever holds it; seconds until its holder has stopped in any case."""
        terms = LeaseTerms(unique_identity(), HOLD, HOLD / 4)
        namespace, name = lease
        for _ in range(MAX_ATTEMPTS):
            try:
                found = await self._client.get(LEASES, name, namespace, into=Lease)
                mine = claim_lease(found, terms, name, namespace, self._clock.now())
                await self._client.replace(LEASES, mine, name, namespace, into=Lease)
            except Conflict:
                continue  # its holder renewed it just now
            except NotFound:
                return 0.0
            log.info("lease.seized", lease=str(lease), holder=found.holder)
            return float(found.spec.lease_duration_seconds or 0) if found.holder else 0.0
        raise Retry(f"lease {lease} cannot be taken: it changed each time")

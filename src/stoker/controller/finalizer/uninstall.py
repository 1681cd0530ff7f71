"""Removes our finalizers before an uninstall, so that no resource is blocked after it.

A finalizer without a controller to remove it would block the deletion of its resource, and of the namespace
around it, forever. `stoker controller --remove-finalizers` runs as the chart's hook before any object of the
release is deleted:

    seize    take every shard's lease for as long as the uninstall may take, so that leaders stop
    wait     until their terms are over by their own clocks
    release  remove the finalizer of each resource in our namespaces with our labels or set by us

Nothing else changes. The resources stay, as their CRDs do, with the ConfigMaps and RBAC that belong to them:
gateways continue as they are, and a later install finds everything again. A resource that a user deletes from
then on is garbage-collected at once with all its objects.

A namespace that is deleted or being deleted has lost our Role: it forbids access and needs nothing. A
namespace that exists and forbids access keeps its finalizers, so the uninstall must fail; the finalizers of
all other namespaces are removed all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product

from stoker.controller.cache.objects import SYNCED_KINDS, ResourceKey
from stoker.controller.finalizer.finalizer import MAX_ATTEMPTS, remove_finalizer
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
"""Seconds for which no controller can lead afterwards: by then the uninstall is over or cancelled."""

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
        """`namespaces` are those that are reconciled; empty means all.

        Other installations may reconcile resources that do not match `labels`. Finalizers that they have set
        under a name other than `manager` stay.
        """
        self._client = client
        self._clock = clock
        self._leases = leases
        self._manager = manager
        self._scopes: Collection[str | None] = namespaces or (None,)
        self._labels = labels or None
        self._refused: dict[str | None, Forbidden] = {}

    async def run(self) -> int:
        """Remove the finalizers; return the number of resources."""
        await self._clock.sleep(max([await self._seize(lease) for lease in self._leases], default=0.0))
        count = 0
        for kind, scope in product(SYNCED_KINDS, self._scopes):
            for key, one in (await self._ours(kind, scope)).items():
                count += await self._untied(key, one)
        log.info("finalizers.removed", count=count)
        held = [told for where, error in self._refused.items() if (told := await self._held(where, error))]
        if held:
            raise Stalled("; ".join(held), reason=Reason.RBAC_DENIED)
        return count

    async def _ours(self, kind: str, scope: str | None) -> Mapping[ResourceKey, FinalizedHeader]:
        """Resources that match the selector, and those with our finalizer from when they did."""
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
            return {}  # the CRD was deleted meanwhile, with all its resources
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
        """Why finalizers are left in a namespace that stays; empty for a namespace that is being deleted."""
        if scope is None:
            return error.message
        try:
            found = await self._client.get(NAMESPACES, scope, into=ObjectHeader)
        except NotFound:
            log.info("namespace.gone", namespace=scope)
            return ""
        except Forbidden:
            return (
                f"namespace {scope} denies access, and it is unknown whether the namespace still exists: "
                f"{error.message}"
            )
        if found.metadata.deletion_timestamp is None:
            return f"namespace {scope} exists and denies access: {error.message}"
        # No right can be granted in it any more. A finalizer there blocks the namespace until a user removes
        # it.
        log.warning("namespace.ending", namespace=scope, error=error.message)
        return ""

    async def _seize(self, lease: ObjectKey) -> float:
        """Take a lease from any holder; return the seconds until that holder has stopped in any case."""
        terms = LeaseTerms(unique_identity(), HOLD, HOLD / 4)
        namespace, name = lease
        for _ in range(MAX_ATTEMPTS):
            try:
                found = await self._client.get(LEASES, name, namespace, into=Lease)
                mine = claim_lease(found, terms, name, namespace, self._clock.now())
                await self._client.replace(LEASES, mine, name, namespace, into=Lease)
            except Conflict:
                continue  # its holder has just renewed it
            except NotFound:
                return 0.0
            log.info("lease.seized", lease=str(lease), holder=found.holder)
            return float(found.spec.lease_duration_seconds or 0) if found.holder else 0.0
        raise Retry(f"lease {lease} cannot be acquired: every write conflicted")

"""Which replica is to hold which branch, so that another replica is another pair of hands.

Each replica says that it lives by a Lease of its own and looks at those of the others. All
of them compute the same choice from the same members (the highest of a hash of member
and branch), so a member that comes or goes moves only its share. The choice is a wish:
who may write is decided by the Lease of the branch alone. A holder that is not the chosen
one any more gives the branch back; who is not chosen waits a moment before it claims one
that nobody holds. The first of the members speaks for what nobody holds (`speaks`).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable

from stoker.api.meta import ObjectMeta
from stoker.domain.clock import Clock, rfc3339_micro
from stoker.domain.errors import StokerError
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import AlreadyExists, Conflict, NotFound
from stoker.kube.client.resources import LEASES
from stoker.kube.leader.lease import Lease, LeaseTerms
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

LABEL = "configbutler.ai/reverser-member"
_FORGOTTEN_AFTER = 10


def assigned_replica(members: Iterable[str], branch: str) -> str | None:
    """The member that is to hold a branch; None if there is none."""

    def weight(member: str) -> bytes:
        return hashlib.sha256(f"{member}\n{branch}".encode()).digest()

    return max(sorted(members), key=weight, default=None)


class LiveReplicas:
    """The replicas that live, as this one sees them."""

    def __init__(
        self, client: KubeClient, namespace: str, terms: LeaseTerms, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._terms = terms
        self._clock = clock
        self._changed = changed
        self._name = f"gitops-reverser-member-{hashlib.sha256(terms.identity.encode()).hexdigest()[:16]}"
        self._seen: dict[str, tuple[str, float]] = {}
        """Lease to version and when it was first seen like that."""
        self._living: frozenset[str] = frozenset({terms.identity})

    @property
    def living(self) -> frozenset[str]:
        return self._living

    @property
    def speaks(self) -> bool:
        """Whether this replica tells about what nobody holds."""
        return min(self._living) == self._terms.identity

    def is_mine(self, branch: str) -> bool:
        return assigned_replica(self._living, branch) == self._terms.identity

    async def run(self) -> None:
        try:
            while True:
                await self.look()
                await self._clock.sleep(self._terms.renew)
        finally:
            with contextlib.suppress(StokerError, TimeoutError):
                await self._client.delete(LEASES, self._name, self._namespace)

    async def look(self) -> None:
        """Say that we live, and see who else does. What fails leaves it as it was."""
        try:
            await self._show_up()
            leases = await self._client.list(LEASES, self._namespace, labels=LABEL, into=Lease)
        except StokerError as error:
            log.warning("members.unseen", error=error.message)
            return
        now = self._clock.monotonic()
        living = {self._terms.identity}
        for lease in leases:
            name = lease.metadata.name
            version, since = self._seen.get(name, ("", now))
            if lease.version != version:
                version, since = lease.version, now
            self._seen[name] = version, since
            duration = lease.spec.lease_duration_seconds or self._terms.duration
            if lease.holder and now - since < duration:
                living.add(lease.holder)
            elif now - since > _FORGOTTEN_AFTER * duration and name != self._name:
                with contextlib.suppress(StokerError):
                    await self._client.delete(LEASES, name, self._namespace, resource_version=version)
        for name in self._seen.keys() - {lease.metadata.name for lease in leases}:
            del self._seen[name]
        if living != self._living:
            log.info("members.changed", members=len(living))
            self._living = frozenset(living)
            self._changed()

    async def _show_up(self) -> None:
        now = self._clock.now()
        patch = {"spec": {"renewTime": rfc3339_micro(now), "holderIdentity": self._terms.identity}}
        try:
            await self._client.patch(LEASES, patch, self._name, self._namespace, into=Lease)
        except NotFound:
            owner = self._terms.owner
            metadata = ObjectMeta(
                name=self._name,
                namespace=self._namespace,
                labels={LABEL: "true"},
                owner_references=None if owner is None else (owner,),
            )
            body = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": metadata,
                "spec": {
                    "holderIdentity": self._terms.identity,
                    "leaseDurationSeconds": self._terms.duration,
                    "acquireTime": rfc3339_micro(now),
                    "renewTime": rfc3339_micro(now),
                },
            }
            with contextlib.suppress(AlreadyExists, Conflict):
                await self._client.create(LEASES, body, self._namespace, into=Lease)

"""Assign branches to living replicas, so that additional replicas share the work.

Each replica renews a Lease of its own and lists the Leases of the others. All replicas compute the same
assignment from the same members (rendezvous hashing: the highest hash of member and branch), so a member that
joins or leaves moves only its share. The assignment is a preference: only the Lease of the branch decides
which replica writes. A holder that is no longer assigned releases the branch; a replica that is not assigned
waits briefly before it claims a free branch. The first member writes the statuses of objects whose branch no
replica holds (`speaks`).
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
    """Return the member that a branch is assigned to; None without members."""

    def weight(member: str) -> bytes:
        return hashlib.sha256(f"{member}\n{branch}".encode()).digest()

    return max(sorted(members), key=weight, default=None)


class LiveReplicas:
    """The living replicas, as this replica sees them."""

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
        """Lease name to its version and the time when that version was first seen."""
        self._living: frozenset[str] = frozenset({terms.identity})

    @property
    def living(self) -> frozenset[str]:
        return self._living

    @property
    def speaks(self) -> bool:
        """Whether this replica writes the statuses of objects whose branch no replica holds."""
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
        """Renew the own Lease and list the others. After an error the last members stay."""
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

"""The Lease object: which replica may act, and for how long.

It defines the type that the API server stores (coordination.k8s.io/v1) and the three changes to it: create,
claim, release. `stoker.kube.leader.election` decides when; `stoker.kube.leader.elector` sends them.

The times in it are for people. They are from the wall clock of one machine and must never be compared with
that of another. Only the resourceVersion, which changes with every renewal, shows that a holder is alive.
"""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass
from datetime import datetime

import msgspec

from stoker.api.meta import ObjectMeta, OwnerReference
from stoker.domain.clock import rfc3339_micro
from stoker.domain.errors import Misconfigured
from stoker.kube.client.resources import LEASES

# The fraction by which the clock rates of two machines may differ before two could lead at once, and the part
# of the lease that is left for a write sent at the last moment to arrive.
MARGIN = 0.1
# Renewals are seen at most this late, so that a dead holder is replaced within the duration and two seconds.
MAX_POLL_SECONDS = 1.5


class LeaseSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The holder, the duration, and the times."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One Lease as the API server stores it; metadata that others added is kept."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()

    @property
    def holder(self) -> str:
        """The identity of the holder; empty after a release."""
        return self.spec.holder_identity or ""

    @property
    def version(self) -> str:
        return self.metadata.resource_version

    @property
    def transitions(self) -> int:
        """How often the holder has changed."""
        return self.spec.lease_transitions or 0


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The settings of one candidate: its identity, and duration and renewal interval in seconds."""

    identity: str
    duration: int
    renew: float
    says: tuple[tuple[str, str], ...] = ()
    """Annotations that every claim sets: information about the holder for others."""
    owner: OwnerReference | None = None
    """The owner of a newly created Lease, with which it is garbage-collected."""

    def __post_init__(self) -> None:
        if not self.identity:
            raise Misconfigured("a candidate for a lease needs an identity")
        if self.duration < 1 or self.renew <= 0 or 2 * self.renew > self.duration - self.margin:
            raise Misconfigured(
                f"a lease of {self.duration} s cannot be renewed every {self.renew} s:"
                " two renewals must fit into nine tenths of its duration"
            )

    @property
    def margin(self) -> float:
        """How long before the lease expires its holder stops acting."""
        return self.duration * MARGIN

    @property
    def poll(self) -> float:
        """How often a candidate that does not hold the lease reads it."""
        return min(self.renew / 2, MAX_POLL_SECONDS)


def unique_identity() -> str:
    """Return the name of this pod or machine, with a random part that no other process has."""
    return f"{socket.gethostname()}_{secrets.token_hex(8)}"


def claim_lease(lease: Lease | None, terms: LeaseTerms, name: str, namespace: str, now: datetime) -> Lease:
    """Return the lease with this candidate as holder, renewed; a new Lease if there is none."""
    stamp = rfc3339_micro(now)
    if lease is None:
        lease = Lease(
            api_version=LEASES.api_version,
            kind=LEASES.kind,
            metadata=ObjectMeta(name=name, namespace=namespace),
        )
        acquired, transitions = stamp, 0
    elif lease.holder == terms.identity:
        acquired, transitions = lease.spec.acquire_time or stamp, lease.transitions
    else:
        acquired, transitions = stamp, lease.transitions + 1
    spec = msgspec.structs.replace(
        lease.spec,
        holder_identity=terms.identity,
        lease_duration_seconds=terms.duration,
        acquire_time=acquired,
        renew_time=stamp,
        lease_transitions=transitions,
    )
    metadata = _with_owner(lease.metadata, terms.owner)
    if terms.says:
        annotations = {**(metadata.annotations or {}), **dict(terms.says)}
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
    return msgspec.structs.replace(lease, metadata=metadata, spec=spec)


def _with_owner(metadata: ObjectMeta, owner: OwnerReference | None) -> ObjectMeta:
    """Replace another account as owner: a Lease must not be collected with its previous holder's account."""
    if owner is None:
        return metadata
    others = (one for one in metadata.owner_references or () if one.kind != owner.kind)
    return msgspec.structs.replace(metadata, owner_references=(*others, owner))


def release_lease(lease: Lease, now: datetime) -> Lease:
    """Return the lease as its holder releases it: without a holder, free at once."""
    spec = msgspec.structs.replace(
        lease.spec, holder_identity="", lease_duration_seconds=1, renew_time=rfc3339_micro(now)
    )
    return msgspec.structs.replace(lease, spec=spec)

"""The Lease object: one word in the cluster about who may act, and how long that word is good.

It is the shape that the API server keeps (coordination.k8s.io/v1) and the three
changes that are ever made to it: made anew, claimed, released. Who decides when
is `stoker.kube.leader.election`; who sends is `stoker.kube.leader.elector`.

The times in it are for people. They come from the wall clock of one machine and
must never be compared with that of another; that a holder lives is seen from the
resourceVersion alone, which changes with every renewal.
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

# How far the rates of two machines' clocks may lie apart before two could lead at once, and the part of
# the lease that is left for a write that was sent in the last moment to arrive.
MARGIN = 0.1
# Renewals are seen at most this late, so that a dead holder is replaced within the duration and two seconds.
MAX_POLL_SECONDS = 1.5


class LeaseSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Who holds it, for how long, and since when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One Lease as the API server keeps it; what others added to its metadata is kept."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()

    @property
    def holder(self) -> str:
        """Whose it is; nobody's after a release."""
        return self.spec.holder_identity or ""

    @property
    def version(self) -> str:
        return self.metadata.resource_version

    @property
    def transitions(self) -> int:
        """How often it has gone from one holder to another."""
        return self.spec.lease_transitions or 0


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """On which terms one candidate takes part: its name, and the seconds that it claims and keeps."""

    identity: str
    duration: int
    renew: float
    says: tuple[tuple[str, str], ...] = ()
    """Annotations that come with every claim: what others are to know of the holder."""
    owner: OwnerReference | None = None
    """What a Lease that is made anew goes away with."""

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
        """How long before the lease runs out its holder stops acting."""
        return self.duration * MARGIN

    @property
    def poll(self) -> float:
        """How often a candidate that does not hold it looks at it."""
        return min(self.renew / 2, MAX_POLL_SECONDS)


def unique_identity() -> str:
    """The name of this pod or machine, and something that no other process has, even under the same name."""
    return f"{socket.gethostname()}_{secrets.token_hex(8)}"


def claim_lease(lease: Lease | None, terms: LeaseTerms, name: str, namespace: str, now: datetime) -> Lease:
    """The lease with this candidate as its holder, renewed; made anew where there is none."""
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
    """By this account in place of another: a Lease must not be collected with whoever held it before."""
    if owner is None:
        return metadata
    others = (one for one in metadata.owner_references or () if one.kind != owner.kind)
    return msgspec.structs.replace(metadata, owner_references=(*others, owner))


def release_lease(lease: Lease, now: datetime) -> Lease:
    """The lease as its holder leaves it: nobody's, free at once."""
    spec = msgspec.structs.replace(
        lease.spec, holder_identity="", lease_duration_seconds=1, renew_time=rfc3339_micro(now)
    )
    return msgspec.structs.replace(lease, spec=spec)

"""Chooses the resource that a pod belongs to, among those of its namespace.

A pod names it by `cr-name`, and by `cr-kind` if both kinds have a resource of that name. It may omit the
name if there is only one resource. A resource that is being deleted gets no new gateways. Nothing is
guessed: an ambiguous pod is refused with the annotation that would decide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.api.registry import CustomResourceKind
from stoker.api.to_intent.annotations.annotations import PodSettings
from stoker.api.to_intent.pod_facts import PREFIX, PodAnnotationKey
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.reasons import Reason
from stoker.kube.client.objects import ObjectHeader

MAX_SHOWN = 5


@dataclass(frozen=True, slots=True)
class OwnerCandidate:
    """A resource of the pod's namespace that the pod may belong to, undecoded."""

    kind: CustomResourceKind
    header: ObjectHeader
    raw: bytes

    @property
    def name(self) -> str:
        return self.header.metadata.name

    def __str__(self) -> str:
        return f"{self.kind.name} {self.name}"


def wanted_kinds(pod: PodSettings, kinds: Sequence[CustomResourceKind]) -> tuple[CustomResourceKind, ...]:
    """Return the kinds to search."""
    if not pod.resource_kind:
        return tuple(kinds)
    found = tuple(one for one in kinds if one.name == pod.resource_kind)
    if not found:
        raise InvalidValue(
            f"annotation {PREFIX}{PodAnnotationKey.CR_KIND} is {pod.resource_kind!r}, "
            f"which is none of {', '.join(SyncResourceKind)}"
        )
    return found


def choose_owner(pod: PodSettings, namespace: str, candidates: Sequence[OwnerCandidate]) -> OwnerCandidate:
    """Return the pod's resource; `candidates` are those that match what the pod names."""
    alive = [one for one in candidates if one.header.metadata.deletion_timestamp is None]
    if len(alive) == 1:
        return alive[0]
    if not alive:
        raise _missing_owner(pod, namespace, candidates)
    listed = ", ".join(str(one) for one in alive[:MAX_SHOWN]) + (" …" if len(alive) > MAX_SHOWN else "")
    if pod.resource:
        raise Stalled(
            f"namespace {namespace} has {listed}: annotation {PREFIX}{PodAnnotationKey.CR_KIND} must say "
            f"which is meant",
            reason=Reason.RESOURCE_AMBIGUOUS,
        )
    raise Stalled(
        f"the pod names no resource and namespace {namespace} has several ({listed}): "
        f"annotation {PREFIX}{PodAnnotationKey.CR_NAME} must say which is meant",
        reason=Reason.RESOURCE_AMBIGUOUS,
    )


def _missing_owner(pod: PodSettings, namespace: str, candidates: Sequence[OwnerCandidate]) -> Stalled:
    kinds = pod.resource_kind or " or ".join(SyncResourceKind)
    if candidates:
        why = f"{candidates[0]} in namespace {namespace} is being deleted"
    elif pod.resource:
        why = f"namespace {namespace} has no {kinds} {pod.resource!r}"
    else:
        why = f"the pod names no resource and namespace {namespace} has no {kinds}"
    return Stalled(why, reason=Reason.RESOURCE_NOT_FOUND)

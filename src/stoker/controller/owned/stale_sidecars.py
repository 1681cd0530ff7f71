"""Pods whose agent is not what would be injected now: another image, other Secrets, other resources.

The injector stamps a digest on each pod; what it would stamp now is asked of a function
that is handed in, because only the installation knows it all. A pod that carries no
digest was not injected by this product's webhook and is not judged.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.api.to_intent.pod_facts import PodAnnotationKey
from stoker.controller.cache.gateways import GatewayFleet
from stoker.controller.cache.pods import AgentState
from stoker.controller.spec.load import LoadedSpec
from stoker.domain.errors import StokerError
from stoker.domain.intent.intent import ResourceIntent

SidecarDigest = Callable[[ResourceIntent, str], str]
"""The digest for a resource and the image that a pod asks for (empty: none of its own)."""


def outdated_sidecar_finder(
    sidecar: SidecarDigest | None,
) -> Callable[[LoadedSpec, GatewayFleet], tuple[str, ...]]:
    """Names the pods that no longer fit."""

    def names(understood: LoadedSpec, fleet: GatewayFleet) -> tuple[str, ...]:
        if sidecar is None:
            return ()
        wanted: dict[str, str] = {}
        found = []
        for gateway in fleet.gateways:
            pod = gateway.pod
            stamped = pod.annotated(PodAnnotationKey.INJECTED)
            if pod.agent is AgentState.NONE or not stamped:
                continue
            image = pod.annotated(PodAnnotationKey.AGENT_IMAGE)
            if image not in wanted:
                wanted[image] = _digest(sidecar, understood.intent, image)
            if wanted[image] not in ("", stamped):
                found.append(pod.name)
        return tuple(found)

    return names


def _digest(sidecar: SidecarDigest, intent: ResourceIntent, image: str) -> str:
    """Empty where nothing would be injected at all: the pod has what it has, and admission says the rest."""
    try:
        return sidecar(intent, image)
    except StokerError:
        return ""

"""Finds pods whose sidecar differs from what would be injected now: image, Secrets or resources.

The injector writes a digest on each pod. A function that the installation supplies computes the digest it
would write now. A pod without a digest was not injected by this product's webhook and is not compared.
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
"""The digest for a resource and the image that a pod requests (empty for the default image)."""


def outdated_sidecar_finder(
    sidecar: SidecarDigest | None,
) -> Callable[[LoadedSpec, GatewayFleet], tuple[str, ...]]:
    """Return a function that names the pods with an outdated sidecar."""

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
    """Empty if nothing can be injected: the pod keeps its sidecar, and admission reports the error."""
    try:
        return sidecar(intent, image)
    except StokerError:
        return ""

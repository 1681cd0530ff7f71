"""Pods whose agent is not what would be injected now: another image, other Secrets, other resources.

The injector stamps a digest on each pod; what it would stamp now is asked of a function
that is handed in, because only the installation knows it all. A pod that carries no
digest was not injected by this product's webhook and is not judged.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.api.to_intent.pod_facts import Key
from stoker.controller.cache.gateways import Fleet
from stoker.controller.cache.pods import AgentState
from stoker.controller.spec.load import Understood
from stoker.domain.errors import StokerError
from stoker.domain.intent.intent import ResourceIntent

SidecarOf = Callable[[ResourceIntent, str], str]
"""The digest for a resource and the image that a pod asks for (empty: none of its own)."""


def outdated_in(sidecar: SidecarOf | None) -> Callable[[Understood, Fleet], tuple[str, ...]]:
    """Names the pods that no longer fit."""

    def names(understood: Understood, fleet: Fleet) -> tuple[str, ...]:
        if sidecar is None:
            return ()
        wanted: dict[str, str] = {}
        found = []
        for gateway in fleet.gateways:
            pod = gateway.pod
            stamped = pod.annotated(Key.INJECTED)
            if pod.agent is AgentState.NONE or not stamped:
                continue
            image = pod.annotated(Key.AGENT_IMAGE)
            if image not in wanted:
                wanted[image] = _digest(sidecar, understood.intent, image)
            if wanted[image] not in ("", stamped):
                found.append(pod.name)
        return tuple(found)

    return names


def _digest(sidecar: SidecarOf, intent: ResourceIntent, image: str) -> str:
    """Empty where nothing would be injected at all: the pod has what it has, and admission says the rest."""
    try:
        return sidecar(intent, image)
    except StokerError:
        return ""

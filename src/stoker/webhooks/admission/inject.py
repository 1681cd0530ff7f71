"""Builds the patch that injects an agent into a pod, or raises the reason against it. No I/O, no clock.

    asks_for_agent   whether the pod asks for an agent and has none yet
    pod_settings     the pod's annotations (`stoker.api.to_intent.annotations.annotations`)
    choose_owner     the resource that the pod belongs to (`stoker.webhooks.admission.pod_owner`)
    build_injection  the containers, volumes, annotations and labels to add

Only entries with our own names are added; nothing of the pod is changed or repeated. Every obstacle
raises, and `stoker.webhooks.admission.pod_review` decides whether the pod is admitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.api.to_intent.annotations.annotations import PodSettings
from stoker.api.to_intent.pod_facts import PREFIX, PodAnnotationKey, PodFacts
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.intent.delivery import ReceiverPolicy
from stoker.domain.intent.intent import Notice, ResourceIntent
from stoker.domain.pods.injection import AgentInstallation, build_sidecar
from stoker.domain.protocol import resource_labels
from stoker.domain.reasons import Reason
from stoker.webhooks.admission.agent_container import (
    HEALTH_PORT,
    METRICS_PORT,
    AgentPlacement,
    InjectedParts,
    agent_parts,
)
from stoker.webhooks.admission.data_volume import find_data_volume, gateway_user, snapshot_volume
from stoker.webhooks.admission.json_patch import append_items, set_entries
from stoker.webhooks.admission.pod_model import AdmittedPod


@dataclass(frozen=True, slots=True)
class InjectionRules:
    """The installation's rules for every injection."""

    installation: AgentInstallation
    selector: Mapping[str, str | None] = field(default_factory=dict)
    """Labels that a gateway's pod must have, None for any value; empty: every pod is accepted."""


@dataclass(frozen=True, slots=True)
class Injection:
    """The patch of a pod, and what to report about it."""

    patch: tuple[dict[str, Any], ...]
    digest: str
    gateway: str
    notices: tuple[Notice, ...] = ()


def asks_for_agent(pod: AdmittedPod, facts: PodFacts) -> bool:
    """Return whether to inject: the pod asks for an agent and has none yet.

    Any value other than `false` is a request, and `pod_settings` reports an invalid value.
    """
    asked = facts.annotation(PodAnnotationKey.INJECT)
    return asked is not None and asked.value != "false" and not pod.has_agent


def build_injection(
    pod: AdmittedPod, facts: PodFacts, settings: PodSettings, resource: ResourceIntent, rules: InjectionRules
) -> Injection:
    """Return the patch that injects the resource's agent into the pod; raises the reason if it must not."""
    _refuse_unselected(facts, rules.selector)
    _refuse_foreign_namespace(facts.namespace, resource.receiver, resource.identity.name)
    _refuse_without_content(settings)
    _refuse_taken_ports(pod)
    sidecar = build_sidecar(resource, rules.installation, settings.agent_image)
    data = find_data_volume(pod.spec, settings.data_volume)
    user, group = gateway_user(pod.spec, data.gateway)
    context = data.gateway.security_context if data.gateway else None
    placement = AgentPlacement(
        resource=resource.identity.name,
        door=resource.identity.door,
        gateway=settings.gateway,
        data=data,
        user=user,
        group=group,
        se_linux=context.se_linux_options if context else None,
        snapshot_volume=snapshot_volume(pod.spec, settings.snapshot_volume),
    )
    parts = agent_parts(sidecar, placement, {one.name for one in pod.spec.volumes or ()})
    stamps = {
        PREFIX + PodAnnotationKey.CR_NAME: placement.resource,
        PREFIX + PodAnnotationKey.CR_KIND: str(placement.door),
        PREFIX + PodAnnotationKey.INJECTED: sidecar.digest,
    }
    if settings.gateway:
        stamps[PREFIX + PodAnnotationKey.GATEWAY_NAME] = settings.gateway
    return Injection(
        patch=tuple(_patch(pod, parts, stamps, resource_labels(placement.door, placement.resource))),
        digest=sidecar.digest,
        gateway=settings.gateway,
        notices=(*settings.notices, *_notices(user)),
    )


def _patch(
    pod: AdmittedPod, parts: InjectedParts, annotations: dict[str, str], labels: dict[str, str]
) -> Iterator[dict[str, Any]]:
    spec, metadata = pod.spec, pod.metadata
    yield from append_items("/spec/volumes", parts.volumes, spec.volumes)
    yield from append_items("/spec/initContainers", parts.init_containers, spec.init_containers)
    yield from append_items("/spec/containers", parts.containers, spec.containers)
    yield from set_entries("/metadata/annotations", annotations, metadata.annotations)
    yield from set_entries("/metadata/labels", labels, metadata.labels)


def _refuse_unselected(facts: PodFacts, selector: Mapping[str, str | None]) -> None:
    for label, wanted in selector.items():
        found = facts.labels.get(label)
        if found is None or wanted not in (None, found):
            shown = label if wanted is None else f"{label}={wanted}"
            raise Stalled(
                f"this installation puts agents into pods with label {shown} only",
                reason=Reason.POD_NOT_SELECTED,
            )


def _refuse_foreign_namespace(namespace: str, receiver: ReceiverPolicy, resource: str) -> None:
    allowed = receiver.allowed_namespaces
    if allowed and namespace not in allowed:
        raise Stalled(
            f"webhook.allowedNamespaces of {resource} does not list namespace {namespace}",
            reason=Reason.NAMESPACE_NOT_ALLOWED,
        )


def _refuse_without_content(settings: PodSettings) -> None:
    """Refuse a pod without profile and folder; the agent checks that they exist, as they may come later."""
    if not settings.profile and settings.service_path is None:
        raise InvalidValue(
            f"the pod has neither annotation {PREFIX}{PodAnnotationKey.SYNC_PROFILE} nor "
            f"{PREFIX}{PodAnnotationKey.SERVICE_PATH}: "
            "nothing says which files its gateway gets",
            reason=Reason.NO_MAPPINGS,
        )


def _refuse_taken_ports(pod: AdmittedPod) -> None:
    """Refuse a pod that uses the agent's ports: containers share them, and the agent would never be ready."""
    for container in pod.all_containers():
        for port in container.ports or ():
            if port.container_port in (HEALTH_PORT, METRICS_PORT):
                raise Stalled(
                    f"container {container.name!r} uses port {port.container_port}, which the agent needs",
                    reason=Reason.PORT_IN_USE,
                )


def _notices(user: int) -> Iterator[Notice]:
    if user == 0:
        yield Notice(Reason.RUNS_AS_ROOT, "the gateway runs as root, so its agent does, too")

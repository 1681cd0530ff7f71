"""The agent's container and its volumes, exactly as the agent expects them.

Paths, variables and ports are fixed (`stoker.agent.identity` reads them); everything variable comes from
the `SidecarTemplate` and from the pod. Secrets are mounted as optional files: the agent reports a missing
Secret, which therefore never prevents a gateway from starting. No variable contains their paths. The
container satisfies Pod Security `restricted` wherever the pod itself does.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from stoker.domain.intent.delivery import SidecarMode
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.pods.injection import CONTAINER, INITIAL_SYNC_CONTAINER, SidecarTemplate
from stoker.domain.pods.secret_volumes import secret_volume, secrets_volume
from stoker.webhooks.admission.data_volume import DataVolume

HEALTH_PORT = 8082
METRICS_PORT = 8083
SNAPSHOTS = "/snapshots"

PERIOD = 10
# Thirty probes are exactly the default startup budget. Without a few more, the kubelet would kill the agent
# at the moment when it lets the gateway start with the files it has.
MIN_STARTUP_PROBES = 30
EXTRA_STARTUP_PROBES = 3

_TOKEN_SECONDS = 3607  # as Kubernetes itself requests: an hour, plus 7 s to recognize such tokens

ContainerJson = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AgentPlacement:
    """The properties of one agent that come from its pod and its resource."""

    resource: str
    door: SyncResourceKind
    gateway: str
    """Empty if it has no name of its own and the pod has no name yet: then it gets the pod's name."""
    data: DataVolume
    user: int
    group: int
    se_linux: dict[str, str] | None = None
    snapshot_volume: str = ""
    """A volume of the pod for snapshots, which has precedence over a claim of the resource."""


@dataclass(frozen=True, slots=True)
class InjectedParts:
    """The parts to add to a pod."""

    init_containers: tuple[ContainerJson, ...]
    containers: tuple[ContainerJson, ...]
    volumes: tuple[ContainerJson, ...]


@dataclass(frozen=True, slots=True)
class _InjectedVolume:
    name: str
    source: ContainerJson
    mount: ContainerJson


def agent_parts(sidecar: SidecarTemplate, placement: AgentPlacement, taken: Collection[str]) -> InjectedParts:
    """Return containers and volumes; `taken` are the names of the pod's existing volumes."""
    claimed = () if placement.snapshot_volume else tuple(_snapshot_claim(sidecar))
    volumes = [_rename_volume(one, taken) for one in (*_volumes(sidecar), *claimed)]
    mounts = [{"name": one.name, **one.mount} for one in volumes]
    mounts.insert(2, _data_mount(placement.data))
    if placement.snapshot_volume:
        mounts.append({"name": placement.snapshot_volume, "mountPath": SNAPSHOTS})
    container = _container(sidecar, placement, mounts)
    agent = {"name": CONTAINER, **container, "args": ["agent"], **_ports_and_probes(sidecar)}
    added = tuple({"name": one.name, **one.source} for one in volumes)
    if sidecar.mode is SidecarMode.NATIVE:
        return InjectedParts(({**agent, "restartPolicy": "Always"},), (), added)
    first = {"name": INITIAL_SYNC_CONTAINER, **container, "args": ["agent", "--initial-sync"]}
    return InjectedParts((first,), (agent,), added)


def _container(
    sidecar: SidecarTemplate, placement: AgentPlacement, mounts: list[ContainerJson]
) -> ContainerJson:
    return {
        "image": sidecar.image,
        "imagePullPolicy": sidecar.pull_policy,
        "env": [*_variables(placement), *_installation_variables(sidecar)],
        "resources": {"requests": dict(sidecar.requests), "limits": dict(sidecar.limits)},
        "volumeMounts": mounts,
        "securityContext": _security_context(placement),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _variables(placement: AgentPlacement) -> Iterator[ContainerJson]:
    yield {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    yield {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    yield {"name": "CR_NAME", "value": placement.resource}
    yield {"name": "CR_KIND", "value": str(placement.door)}
    if placement.gateway:
        # Escaped, because $(…) refers to another variable.
        yield {"name": "GATEWAY_NAME", "value": placement.gateway.replace("$", "$$")}
    else:
        yield {"name": "GATEWAY_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    yield {"name": "TMPDIR", "value": "/tmp"}  # noqa: S108 - a volume of the pod's own


def _installation_variables(sidecar: SidecarTemplate) -> Iterator[ContainerJson]:
    """Yield the variables that the installation sets for all agents; they cannot replace ours."""
    for name, value in sidecar.environment:
        yield {"name": name, "value": value.replace("$", "$$")}


def _ports_and_probes(sidecar: SidecarTemplate) -> ContainerJson:
    def look(path: str) -> ContainerJson:
        return {"httpGet": {"path": path, "port": HEALTH_PORT}}

    looks = max(MIN_STARTUP_PROBES, math.ceil(sidecar.startup_budget / PERIOD)) + EXTRA_STARTUP_PROBES
    # Names of our own: a Service for the gateway's port "metrics" would otherwise select the sidecar's.
    return {
        "ports": [
            {"name": "stoker-health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
            {"name": "stoker-metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        "startupProbe": {**look("/startupz"), "periodSeconds": PERIOD, "failureThreshold": looks},
        "livenessProbe": {**look("/healthz"), "periodSeconds": PERIOD},
        "readinessProbe": {**look("/readyz"), "periodSeconds": 5},
    }


def _security_context(placement: AgentPlacement) -> ContainerJson:
    context: ContainerJson = {
        "runAsUser": placement.user,
        "runAsGroup": placement.group,
        # The files of a gateway that runs as root are writable only by root.
        "runAsNonRoot": placement.user != 0,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if placement.se_linux:
        context["seLinuxOptions"] = placement.se_linux
    return context


def _data_mount(data: DataVolume) -> ContainerJson:
    mount: ContainerJson = {"name": data.name, "mountPath": "/ignition-data"}
    if data.sub_path:
        mount["subPath"] = data.sub_path
    if data.sub_path_expr:
        mount["subPathExpr"] = data.sub_path_expr
    return mount


def _volumes(sidecar: SidecarTemplate) -> Iterator[_InjectedVolume]:
    limit = {"sizeLimit": sidecar.repo_size} if sidecar.repo_size else {}
    yield _InjectedVolume("stoker-repo", {"emptyDir": limit}, {"mountPath": "/repo"})
    yield _InjectedVolume("stoker-tmp", {"emptyDir": {"sizeLimit": "50Mi"}}, {"mountPath": "/tmp"})  # noqa: S108
    yield _InjectedVolume("pod-annotations", {"downwardAPI": _podinfo()}, _read_only_mount("/etc/podinfo"))
    yield _InjectedVolume(
        "stoker-token",
        {"projected": _account_token()},
        _read_only_mount("/var/run/secrets/kubernetes.io/serviceaccount"),
    )
    if sidecar.shared_claim:
        claim = {"claimName": sidecar.shared_claim, "readOnly": True}
        yield _InjectedVolume(
            "stoker-shared-repo", {"persistentVolumeClaim": claim}, _read_only_mount("/shared-repo")
        )
    own_places = {
        "git-credentials": sidecar.git,
        "api-key": sidecar.api_key,
        "metadata-key": sidecar.metadata_key,
    }
    for place, secret in own_places.items():
        if secret is not None:
            yield _InjectedVolume(
                f"stoker-{place}", secret_volume(secret), _read_only_mount(f"/etc/stoker/{place}")
            )
    if sidecar.secrets:
        yield _InjectedVolume(
            "stoker-secrets", secrets_volume(sidecar.secrets), _read_only_mount("/etc/stoker/secrets")
        )


def _snapshot_claim(sidecar: SidecarTemplate) -> Iterator[_InjectedVolume]:
    if sidecar.snapshot_claim:
        claim = {"persistentVolumeClaim": {"claimName": sidecar.snapshot_claim}}
        yield _InjectedVolume("stoker-snapshots", claim, {"mountPath": SNAPSHOTS})


def _podinfo() -> ContainerJson:
    """Return annotations, labels and name as files, which the kubelet updates while the pod runs."""
    fields = {"annotations": "metadata.annotations", "labels": "metadata.labels", "name": "metadata.name"}
    return {"items": [{"path": path, "fieldRef": {"fieldPath": field}} for path, field in fields.items()]}


def _account_token() -> ContainerJson:
    """Return a token of the pod's service account, even if the pod disables automounting."""
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ]
    }


def _read_only_mount(path: str) -> ContainerJson:
    return {"mountPath": path, "readOnly": True}


def _rename_volume(volume: _InjectedVolume, taken: Collection[str]) -> _InjectedVolume:
    """Return the volume with an unused name: the API server refuses a pod with duplicate names."""
    name, number = volume.name, 2
    while name in taken:
        name, number = f"{volume.name}-{number}", number + 1
    return _InjectedVolume(name, volume.source, volume.mount)

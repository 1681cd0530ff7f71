"""As much of a pod as `stoker_testkit.kubelet.process_kubelet` can run; anything else is refused by name.

What a process on this machine cannot be held to (memory limits, capabilities, where a
scheduler may put it) is read and passed over, and is listed here as `Unused`. A field that
is not listed at all is an error: a test must not pass for something that no code
has tried.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from stoker.domain.errors import StokerError

Unused = object
"""Known, and without effect on a process."""


class PodRefused(StokerError):
    """The pod asks for something that this kubelet does not do."""


class _Shape(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class FieldRef(_Shape, frozen=True):
    field_path: str
    api_version: str = "v1"


class ValueSource(_Shape, frozen=True):
    field_ref: FieldRef


class Variable(_Shape, frozen=True):
    name: str
    value: str = ""
    value_from: ValueSource | None = None


class Mount(_Shape, frozen=True):
    name: str
    mount_path: str
    sub_path: str = ""
    read_only: bool = False


class Port(_Shape, frozen=True):
    container_port: int
    name: str = ""
    protocol: str = "TCP"


class HttpGet(_Shape, frozen=True):
    path: str
    port: int | str
    scheme: str = "HTTP"


class Probe(_Shape, frozen=True):
    http_get: HttpGet
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    initial_delay_seconds: int = 0


class ContainerSecurity(_Shape, frozen=True):
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: Unused = None
    allow_privilege_escalation: Unused = None
    capabilities: Unused = None
    seccomp_profile: Unused = None


class PodSecurity(_Shape, frozen=True):
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    fs_group: Unused = None
    fs_group_change_policy: Unused = None
    seccomp_profile: Unused = None


class Container(_Shape, frozen=True):
    name: str
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    ports: tuple[Port, ...] = ()
    volume_mounts: tuple[Mount, ...] = ()
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    restart_policy: str = ""
    security_context: ContainerSecurity = ContainerSecurity()
    image_pull_policy: Unused = None
    resources: Unused = None
    termination_message_path: Unused = None
    termination_message_policy: Unused = None


class KeyToPath(_Shape, frozen=True):
    key: str
    path: str


class SecretVolume(_Shape, frozen=True):
    secret_name: str
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False
    default_mode: Unused = None


class ProjectedObject(_Shape, frozen=True):
    """A Secret or a ConfigMap among the sources of a projected volume."""

    name: str
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


class FieldFile(_Shape, frozen=True):
    path: str
    field_ref: FieldRef


class Downward(_Shape, frozen=True):
    items: tuple[FieldFile, ...]
    default_mode: Unused = None


class Token(_Shape, frozen=True):
    path: str
    expiration_seconds: int = 3600


class Projection(_Shape, frozen=True):
    service_account_token: Token | None = None
    config_map: ProjectedObject | None = None
    secret: ProjectedObject | None = None
    downward_api: Downward | None = msgspec.field(name="downwardAPI", default=None)


class Projected(_Shape, frozen=True):
    sources: tuple[Projection, ...]
    default_mode: Unused = None


class EmptyDir(_Shape, frozen=True):
    size_limit: Unused = None


class Claim(_Shape, frozen=True):
    claim_name: str
    read_only: bool = False


class Volume(_Shape, frozen=True):
    name: str
    empty_dir: EmptyDir | None = None
    secret: SecretVolume | None = None
    projected: Projected | None = None
    downward_api: Downward | None = msgspec.field(name="downwardAPI", default=None)
    persistent_volume_claim: Claim | None = None


class SecretName(_Shape, frozen=True):
    name: str = ""


class Spec(_Shape, frozen=True):
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    service_account_name: str = "default"
    security_context: PodSecurity = PodSecurity()
    termination_grace_period_seconds: int = 30
    restart_policy: str = "Always"
    image_pull_secrets: tuple[SecretName, ...] = ()
    """For images that want a login; most are on this machine already."""
    service_account: Unused = None
    automount_service_account_token: Unused = None
    dns_policy: Unused = None
    enable_service_links: Unused = None
    hostname: Unused = None
    subdomain: Unused = None
    preemption_policy: Unused = None
    priority: Unused = None
    scheduler_name: Unused = None
    tolerations: Unused = None


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int = 30


class Pod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that is bound to a node."""

    metadata: Metadata
    spec: Spec

    def field(self, path: str) -> str:
        """The value of a `fieldRef`."""
        known = {
            "metadata.name": self.metadata.name,
            "metadata.namespace": self.metadata.namespace,
            "metadata.uid": self.metadata.uid,
            "spec.nodeName": self.spec.node_name,
            "spec.serviceAccountName": self.spec.service_account_name,
        }
        if path not in known:
            raise PodRefused(f"field {path} of pod {self.metadata.name}: this kubelet does not know it")
        return known[path]

    def all_containers(self) -> Iterator[Container]:
        yield from self.spec.init_containers
        yield from self.spec.containers

    def volume(self, name: str) -> Volume:
        for one in self.spec.volumes:
            if one.name == name:
                return one
        raise PodRefused(f"pod {self.metadata.name} mounts volume {name!r}, which it does not have")


def read_pod(raw: bytes, *, any_user: bool = False) -> Pod:
    """A pod that can be run here, or Refused with the field at which it cannot.

    With `any_user` every container is run as this very user, whomever it asks for.
    """
    try:
        pod = msgspec.json.decode(raw, type=Pod)
    except msgspec.ValidationError as error:
        raise PodRefused(f"this kubelet cannot run the pod: {error}") from None
    for container in () if any_user else pod.all_containers():
        _check_user(pod, container)
    return pod


def _check_user(pod: Pod, container: Container) -> None:
    """All processes run as the current user; a container that asks for another one is refused."""
    own, shared = container.security_context, pod.spec.security_context
    user = shared.run_as_user if own.run_as_user is None else own.run_as_user
    forbids_root = shared.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root
    if user is not None and user != os.geteuid():
        raise PodRefused(
            f"container {container.name!r} asks for user {user}, and this kubelet can run {os.geteuid()} only"
        )
    if forbids_root and os.geteuid() == 0:
        raise PodRefused(f"container {container.name!r} must not run as root, and this kubelet does")

"""The fields of a pod that injection reads; all others stay untouched, because the response is a patch.

The API server has validated what it sends, but a review can come from any client: a value of the wrong
type is refused with a message. `null` means an empty list, as Go encodes it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stoker.api.to_intent.pod_facts import PodFacts
from stoker.domain.errors import InvalidValue
from stoker.domain.pods.injection import AGENT_CONTAINERS
from stoker.kube.events.series import ObjectRef


class _AdmittedShape(msgspec.Struct, frozen=True, rename="camel"):
    pass


class PodOwner(_AdmittedShape, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class PodMetadata(_AdmittedShape, frozen=True):
    name: str = ""
    generate_name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[PodOwner, ...] | None = None


class PodFieldRef(_AdmittedShape, frozen=True):
    field_path: str = ""


class PodEnvSource(_AdmittedShape, frozen=True):
    field_ref: PodFieldRef | None = None


class PodEnvVar(_AdmittedShape, frozen=True):
    name: str = ""
    value_from: PodEnvSource | None = None


class PodVolumeMount(_AdmittedShape, frozen=True):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


class PodPort(_AdmittedShape, frozen=True):
    container_port: int = 0


class PodSecurityContext(_AdmittedShape, frozen=True):
    run_as_user: int | None = None
    run_as_group: int | None = None
    se_linux_options: dict[str, str] | None = None


class PodContainer(_AdmittedShape, frozen=True):
    name: str = ""
    volume_mounts: tuple[PodVolumeMount, ...] | None = None
    env: tuple[PodEnvVar, ...] | None = None
    ports: tuple[PodPort, ...] | None = None
    security_context: PodSecurityContext | None = None


class PodVolume(_AdmittedShape, frozen=True):
    """A volume, and whether its type can be written to at all."""

    name: str = ""
    config_map: object = None
    secret: object = None
    projected: object = None
    downward_a_p_i: object = msgspec.field(name="downwardAPI", default=None)
    image: object = None

    @property
    def writable(self) -> bool:
        kinds = (self.config_map, self.secret, self.projected, self.downward_a_p_i, self.image)
        return all(kind is None for kind in kinds)


class PodSpec(_AdmittedShape, frozen=True):
    containers: tuple[PodContainer, ...] | None = None
    init_containers: tuple[PodContainer, ...] | None = None
    volumes: tuple[PodVolume, ...] | None = None
    security_context: PodSecurityContext | None = None


class AdmittedPod(_AdmittedShape, frozen=True):
    """A pod under review; it may have no name yet."""

    metadata: PodMetadata = PodMetadata()
    spec: PodSpec = PodSpec()

    @property
    def shown(self) -> str:
        """The name for messages; a name that the API server will generate ends in an asterisk."""
        name = self.metadata.name or (
            f"{self.metadata.generate_name}*" if self.metadata.generate_name else ""
        )
        return name[:253] or "without a name"

    @property
    def has_agent(self) -> bool:
        return any(one.name in AGENT_CONTAINERS for one in self.all_containers())

    def all_containers(self) -> Iterator[PodContainer]:
        yield from self.spec.init_containers or ()
        yield from self.spec.containers or ()

    def facts(self, namespace: str) -> PodFacts:
        return PodFacts(
            name=self.metadata.name,
            namespace=namespace,
            labels=self.metadata.labels or {},
            annotations=self.metadata.annotations or {},
        )

    def maker(self, namespace: str) -> ObjectRef | None:
        """Return the controller that owns the pod, such as its StatefulSet: users look there for Events."""
        owners = self.metadata.owner_references or ()
        return next(
            (
                ObjectRef(one.api_version, one.kind, one.name, namespace, one.uid)
                for one in owners
                if one.controller
            ),
            None,
        )


_POD = msgspec.json.Decoder(AdmittedPod)


def read_pod(raw: bytes) -> AdmittedPod:
    try:
        return _POD.decode(raw)
    except RecursionError:
        raise InvalidValue("the pod is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidValue(f"the pod cannot be read: {error}") from None

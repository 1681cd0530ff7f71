"""As much of a pod as injection reads; all else passes through untouched, because the answer is a patch.

The API server has checked what it sends, but a review can come from anywhere: what
does not fit its type is refused with a sentence. `null` stands for an empty list, as
Go writes it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stoker.api.to_intent.pod_facts import PodFacts
from stoker.domain.errors import InvalidValue
from stoker.domain.injection import AGENTS
from stoker.kube.events.series import ObjectRef


class _Shape(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Owner(_Shape, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(_Shape, frozen=True):
    name: str = ""
    generate_name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[Owner, ...] | None = None


class FieldRef(_Shape, frozen=True):
    field_path: str = ""


class ValueSource(_Shape, frozen=True):
    field_ref: FieldRef | None = None


class Variable(_Shape, frozen=True):
    name: str = ""
    value_from: ValueSource | None = None


class Mount(_Shape, frozen=True):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


class Port(_Shape, frozen=True):
    container_port: int = 0


class SecurityContext(_Shape, frozen=True):
    run_as_user: int | None = None
    run_as_group: int | None = None
    se_linux_options: dict[str, str] | None = None


class Container(_Shape, frozen=True):
    name: str = ""
    volume_mounts: tuple[Mount, ...] | None = None
    env: tuple[Variable, ...] | None = None
    ports: tuple[Port, ...] | None = None
    security_context: SecurityContext | None = None


class Volume(_Shape, frozen=True):
    """A volume, and whether it is of a kind that nobody can write to."""

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


class Spec(_Shape, frozen=True):
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    security_context: SecurityContext | None = None


class Pod(_Shape, frozen=True):
    """A pod on its way into the cluster; it may have no name yet."""

    metadata: Metadata = Metadata()
    spec: Spec = Spec()

    @property
    def shown(self) -> str:
        """Its name for people; one that the server will make up ends in an asterisk."""
        name = self.metadata.name or (
            f"{self.metadata.generate_name}*" if self.metadata.generate_name else ""
        )
        return name[:253] or "without a name"

    @property
    def has_agent(self) -> bool:
        return any(one.name in AGENTS for one in self.all_containers())

    def all_containers(self) -> Iterator[Container]:
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
        """What made the pod and will be looked at when it does not do what it should."""
        owners = self.metadata.owner_references or ()
        return next(
            (
                ObjectRef(one.api_version, one.kind, one.name, namespace, one.uid)
                for one in owners
                if one.controller
            ),
            None,
        )


_POD = msgspec.json.Decoder(Pod)


def read_pod(raw: bytes) -> Pod:
    try:
        return _POD.decode(raw)
    except RecursionError:
        raise InvalidValue("the pod is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidValue(f"the pod cannot be read: {error}") from None

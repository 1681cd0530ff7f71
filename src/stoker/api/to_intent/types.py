"""What is passed between the front doors and the code that they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stoker.api.kinds.resource import CustomResource
from stoker.api.kinds.stoker import SyncProfile
from stoker.api.kinds.sync import SyncSpec
from stoker.api.meta import ObjectMeta
from stoker.api.to_intent.annotation_requests import parse_requests
from stoker.domain.intent.annotation_requests import ResourceRequests
from stoker.domain.intent.intent import Notice, ResourceIdentity, SyncResourceKind

R = TypeVar("R", bound=CustomResource)

RUNTIME_FILES = "**/.resources/**"
_SAME_AS_RUNTIME_FILES = frozenset({RUNTIME_FILES, "**/.resources/", "**/.resources"})


@dataclass(frozen=True, slots=True)
class SettledResource(Generic[R]):
    """A resource that inherits nothing any more, and what was noticed on the way."""

    resource: R
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class IntentContext:
    """What a gateway's intent depends on beside its resource and its pod.

    `profiles` are those of the pod's namespace, by name; `alone` says that the
    resource has no second gateway.
    """

    profiles: Mapping[str, SyncProfile] = field(default_factory=dict)
    cluster_name: str = ""
    alone: bool = True


@dataclass(frozen=True, slots=True)
class SyncResource:
    """A resource behind its front door: which kind it is, in which API group, and its settled spec."""

    kind: SyncResourceKind
    group: str
    metadata: ObjectMeta
    spec: SyncSpec

    @property
    def identity(self) -> ResourceIdentity:
        return ResourceIdentity(self.kind, self.metadata.namespace, self.metadata.name)

    def requests(self) -> tuple[ResourceRequests, tuple[Notice, ...]]:
        return parse_requests(self.metadata.annotations or {}, self.group)


def excludes_runtime_files(patterns: Iterable[str]) -> bool:
    return not _SAME_AS_RUNTIME_FILES.isdisjoint(patterns)

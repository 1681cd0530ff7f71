"""Values passed between the adapters and their shared code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stoker.api.kinds.resource import CustomResource
from stoker.api.kinds.stoker import SyncProfile
from stoker.api.kinds.sync import SyncSpec
from stoker.api.meta import ObjectMeta
from stoker.api.to_intent.annotations.annotation_requests import parse_requests
from stoker.domain.intent.annotation_requests import ResourceRequests
from stoker.domain.intent.intent import Notice, ResourceIdentity, SyncResourceKind

R = TypeVar("R", bound=CustomResource)

RUNTIME_FILES = "**/.resources/**"
_SAME_AS_RUNTIME_FILES = frozenset({RUNTIME_FILES, "**/.resources/", "**/.resources"})


@dataclass(frozen=True, slots=True)
class SettledResource(Generic[R]):
    """A resource merged with everything that it inherits, and the notices of the merge."""

    resource: R
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class IntentContext:
    """Inputs of a gateway's intent besides its resource and its pod.

    `profiles` are those of the pod's namespace, by name; `alone` means that the resource
    has no second gateway.
    """

    profiles: Mapping[str, SyncProfile] = field(default_factory=dict)
    cluster_name: str = ""
    alone: bool = True


@dataclass(frozen=True, slots=True)
class SyncResource:
    """A resource independent of its kind: the kind, its API group, and the merged spec."""

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

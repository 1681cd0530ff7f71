"""Cached pods: pods with an agent or a request for it, reduced to the fields that decisions need.

The watch covers all pods of the scope. A pod that was created while the injector was down has an annotation
and no label, and annotations cannot be selected. A pod without any of our prefixes is not even decoded. The
cached form is small and comparable, so a change of other fields enqueues nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from stoker.api.to_intent.pod_facts import LEGACY_PREFIX, PREFIX, PodAnnotationKey, PodFacts
from stoker.domain.pods.injection import AGENT_CONTAINERS
from stoker.domain.protocol import CR_KIND_LABEL, CR_NAME_LABEL
from stoker.kube.watch.store import ObjectKey

_ANNOTATION_PREFIX_BYTES = (PREFIX.encode(), LEGACY_PREFIX.encode())
_FINISHED = frozenset({"Succeeded", "Failed"})
_DEFAULT_ACCOUNT = "default"

UNNAMED_RESOURCE = "*"
"""The index entry of a pod that does not name its resource."""


class AgentState(StrEnum):
    """The state of the agent's container; its readiness probe counts as the heartbeat."""

    NONE = "none"
    STARTING = "starting"
    READY = "ready"
    LOST = "lost"


class CachedPod(msgspec.Struct, frozen=True):
    """A pod that has an agent, has the annotation for it, or carries our label."""

    name: str
    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    """Only those with our prefixes."""
    account: str
    agent: AgentState
    finished: bool = False
    """Its phase is Succeeded or Failed, and it was not deleted."""
    leaving: bool = False

    @property
    def facts(self) -> PodFacts:
        return PodFacts(self.name, self.namespace, self.labels, self.annotations)

    @property
    def active(self) -> bool:
        """Whether a gateway is expected to run in it."""
        return not self.finished and not self.leaving

    @property
    def wants_agent(self) -> bool:
        asked = self.facts.annotation(PodAnnotationKey.INJECT)
        return asked is not None and asked.value != "false"

    def annotated(self, key: PodAnnotationKey) -> str:
        found = self.facts.annotation(key)
        return "" if found is None else found.value

    @property
    def resource(self) -> str:
        """The name of its resource, from the injector's label, else from its own annotation."""
        return self.labels.get(CR_NAME_LABEL) or self.annotated(PodAnnotationKey.CR_NAME) or UNNAMED_RESOURCE

    @property
    def resource_kind(self) -> str:
        return self.labels.get(CR_KIND_LABEL) or self.annotated(PodAnnotationKey.CR_KIND)


def decode_pod(raw: bytes) -> CachedPod | None:
    """Return the cached form of a pod; None for a pod that has nothing to do with us."""
    if not any(mark in raw for mark in _ANNOTATION_PREFIX_BYTES):
        return None
    pod = _decode(raw)
    meta = pod.metadata
    annotations = {
        name: value
        for name, value in (meta.annotations or {}).items()
        if name.startswith((PREFIX, LEGACY_PREFIX))
    }
    seen = CachedPod(
        name=meta.name,
        namespace=meta.namespace,
        labels=meta.labels or {},
        annotations=annotations,
        account=pod.spec.service_account_name or _DEFAULT_ACCOUNT,
        agent=_agent_state(pod),
        finished=pod.status.phase in _FINISHED,
        leaving=meta.deletion_timestamp is not None,
    )
    ours = seen.wants_agent or CR_NAME_LABEL in seen.labels or seen.agent is not AgentState.NONE
    return seen if ours else None


def index_by_resource(_: ObjectKey, pod: CachedPod | None) -> Iterator[str]:
    """Index function: pods by the resource that they name."""
    if pod is not None:
        yield f"{pod.namespace}/{pod.resource}"


def index_by_namespace(_: ObjectKey, pod: CachedPod | None) -> Iterator[str]:
    if pod is not None:
        yield pod.namespace


class _PodShape(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _CachedPodMeta(_PodShape, frozen=True):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _CachedContainer(_PodShape, frozen=True):
    name: str = ""


class _CachedPodSpec(_PodShape, frozen=True):
    containers: tuple[_CachedContainer, ...] | None = None
    init_containers: tuple[_CachedContainer, ...] | None = None
    service_account_name: str = ""


class _ContainerWaiting(_PodShape, frozen=True):
    reason: str = ""


class _ContainerTerminated(_PodShape, frozen=True):
    exit_code: int = 0


class _ContainerState(_PodShape, frozen=True):
    waiting: _ContainerWaiting | None = None
    terminated: _ContainerTerminated | None = None


class _ContainerStatus(_PodShape, frozen=True):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    state: _ContainerState = _ContainerState()


class _CachedPodStatus(_PodShape, frozen=True):
    phase: str = ""
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None


class _WatchedPod(_PodShape, frozen=True):
    metadata: _CachedPodMeta
    spec: _CachedPodSpec = _CachedPodSpec()
    status: _CachedPodStatus = _CachedPodStatus()


_decode = msgspec.json.Decoder(_WatchedPod).decode


def _agent_state(pod: _WatchedPod) -> AgentState:
    spec, status = pod.spec, pod.status
    names = {one.name for one in (*(spec.containers or ()), *(spec.init_containers or ()))} & AGENT_CONTAINERS
    if not names:
        return AgentState.NONE
    if status.phase in _FINISHED:
        return AgentState.LOST
    told = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    agent = next((one for one in told if one.name in names), None)
    if agent is None:
        return AgentState.STARTING
    if agent.ready:
        return AgentState.READY
    waiting = agent.state.waiting
    crashed = agent.state.terminated is not None or (
        waiting is not None and waiting.reason == "CrashLoopBackOff"
    )
    return AgentState.LOST if crashed or agent.started else AgentState.STARTING

"""The gateways of a resource: name, status key and last report of each. Pure.

Injector, agent and controller use the same identity function (`stoker.api.to_intent.pod_facts`), so that a
pod, its report and its entry in the status always match. If several active pods have the same gateway name,
all gateways report under the names of their pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.api.to_intent.annotations.annotation_values import object_name
from stoker.api.to_intent.pod_facts import PodAnnotation, PodAnnotationKey, gateway_name, status_key
from stoker.controller.cache.pods import AgentState, CachedPod
from stoker.domain.errors import InvalidValue
from stoker.domain.protocol import GatewayReport, StatusKeyMode, SyncState

PER_MAP = 20
"""Reports in one status ConfigMap: the cost of an apply grows with the number of field managers."""
UNSHARD_BELOW = 10
"""With at most this many gateways, reports return to one ConfigMap. In between, no report moves."""


@dataclass(frozen=True, slots=True)
class FleetGateway:
    """A pod of a resource, with the gateway in it."""

    pod: CachedPod
    name: str
    key: str
    """The key of its report in the status ConfigMap."""
    profile: str = ""
    override: str = ""
    """A ref of its own, which its agent resolves itself."""
    mistake: str = ""
    """The error in its annotations; empty if there is none."""
    report: GatewayReport | None = None
    target: str = ""
    """Its name in the metadata ConfigMap's targets, which may give it a commit of its own."""

    @property
    def synced_commit(self) -> str:
        return self.report.synced_commit if self.report is not None else ""

    def is_at(self, commit: str) -> bool:
        """Whether it has synced this commit; a gateway with a ref of its own counts once it has synced."""
        report = self.report
        if report is None or report.sync_status is not SyncState.SYNCED:
            return False
        return bool(self.override) or (bool(commit) and report.synced_commit == commit)

    @property
    def failed(self) -> bool:
        return self.report is not None and self.report.sync_status is SyncState.ERROR


class NeighbourGateway(NamedTuple):
    """A gateway of any resource in a namespace, with the commit that it should have."""

    gateway: FleetGateway
    commit: str


@dataclass(frozen=True, slots=True)
class GatewayFleet:
    """All gateways of a resource."""

    gateways: tuple[FleetGateway, ...] = ()
    """The gateways of active pods, by name."""
    mode: StatusKeyMode = StatusKeyMode.GATEWAY
    accounts: tuple[str, ...] = ()
    """Service accounts of unfinished pods: an agent that cannot read its ConfigMap can never start."""
    accounted: frozenset[str] = field(default_factory=frozenset)
    """Keys under which a pod may still report, including pods that are being deleted."""
    pods: frozenset[str] = field(default_factory=frozenset)
    """The names of those pods."""

    @property
    def without_agent(self) -> tuple[FleetGateway, ...]:
        return tuple(one for one in self.gateways if one.pod.agent is AgentState.NONE)


def fleet_of(pods: Sequence[CachedPod], reports: Mapping[str, GatewayReport]) -> GatewayFleet:
    """Match pods with their reports."""
    active = [pod for pod in pods if pod.active]
    names = {pod.name: _name(pod) for pod in pods}
    counts = Counter(names[pod.name] for pod in active)
    mode = StatusKeyMode.POD if any(count > 1 for count in counts.values()) else StatusKeyMode.GATEWAY

    def gateway(pod: CachedPod) -> FleetGateway:
        name = names[pod.name]
        key = status_key(pod.name if mode is StatusKeyMode.POD else name)
        own = reports.get(key)
        if own is None or own.pod_name not in ("", pod.name):
            # The agent may still report under the key of the other mode. A report of the pod's predecessor
            # does not count, nor does a report that another pod writes in this pod's name under its own key.
            said = (reports.get(status_key(each)) for each in (pod.name, name))
            own = next((one for one in said if one is not None and one.pod_name == pod.name), None)
        return FleetGateway(
            pod=pod,
            name=name,
            key=key,
            profile=_profile(pod),
            override=pod.annotated(PodAnnotationKey.REF_OVERRIDE),
            mistake=_identity_error(pod),
            report=own,
            target=pod.name if mode is StatusKeyMode.POD else name,
        )

    gateways = sorted(map(gateway, active), key=lambda one: (one.name, one.pod.name))
    staying = [pod for pod in pods if not pod.finished]
    keys = {status_key(each) for pod in staying for each in (pod.name, names[pod.name])}
    return GatewayFleet(
        gateways=tuple(gateways),
        mode=mode,
        accounts=tuple(sorted({pod.account for pod in staying if _may_have_agent(pod)})),
        accounted=frozenset(keys),
        pods=frozenset(pod.name for pod in staying),
    )


def shards_for(keys: Sequence[str], before: Mapping[str, int]) -> dict[str, int]:
    """Assign each report to a status ConfigMap; empty if one is enough. Reports move only if needed."""
    if len(keys) <= PER_MAP and (not before or len(keys) <= UNSHARD_BELOW):
        return {}
    room: Counter[int] = Counter()
    placed: dict[str, int] = {}
    for key in keys:
        shard = before.get(key)
        if shard is not None and room[shard] < PER_MAP:
            placed[key] = shard
            room[shard] += 1
    for key in keys:
        if key not in placed:
            shard = next(number for number in range(len(keys) + 1) if room[number] < PER_MAP)
            placed[key] = shard
            room[shard] += 1
    return {key: placed[key] for key in sorted(placed)}


def _name(pod: CachedPod) -> str:
    try:
        return gateway_name(pod.facts)
    except InvalidValue:
        return pod.name


def _profile(pod: CachedPod) -> str:
    named = pod.facts.annotation(PodAnnotationKey.SYNC_PROFILE)
    try:
        return object_name(named) if named is not None else ""
    except InvalidValue:
        return ""


def _identity_error(pod: CachedPod) -> str:
    """Return only errors that give the pod a wrong identity; the agent reports all others."""
    try:
        gateway_name(pod.facts)
        named: PodAnnotation | None = pod.facts.annotation(PodAnnotationKey.SYNC_PROFILE)
        if named is not None:
            object_name(named)
    except InvalidValue as error:
        return error.message
    return ""


def _may_have_agent(pod: CachedPod) -> bool:
    return pod.agent is not AgentState.NONE or pod.wants_agent

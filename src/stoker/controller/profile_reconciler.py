"""Reconciles SyncProfiles: usage count, validity and dependencies, written to their status.

Profiles have one watch, which serves both their own status and the resources whose gateways name them. This
reconciler writes only the status of a profile. The reconcile of a resource decides which commit its gateways
get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from stoker.api.kinds.stoker import SyncProfile, SyncProfileStatus
from stoker.api.to_intent.pod_facts import PodAnnotationKey
from stoker.controller.cache.gateways import NeighbourGateway
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import PROFILES, CachedResource, decode_resource
from stoker.controller.mapping_conflicts import mapping_conflicts
from stoker.controller.rollout import dependency_wait_reason, transitive_dependencies
from stoker.controller.spec.references import profile_dependencies
from stoker.domain.clock import Clock
from stoker.domain.cycles import refuse_cycle
from stoker.domain.errors import InvalidValue
from stoker.domain.reasons import ConditionType, Reason
from stoker.domain.text import first_names
from stoker.kube.client.client import KubeClient
from stoker.kube.client.kinds import rest_resource
from stoker.kube.events.recorder import EventRecorder
from stoker.kube.events.series import ObjectRef
from stoker.kube.runtime.conditions import (
    ConditionStamp,
    StatusConditions,
    find_condition,
    mark_failed,
    mark_ready,
    remove_conditions,
    set_condition,
)
from stoker.kube.runtime.controller import ReconcileResult
from stoker.kube.watch.store import ObjectKey


class ProfileReconciler:
    """Reconciles one profile at a time."""

    def __init__(
        self,
        observed: ControllerInformers,
        client: KubeClient,
        neighbours: Callable[[str], Iterator[NeighbourGateway]],
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        self._observed = observed
        self._client = client
        self._neighbours = neighbours
        self._events = events
        self._clock = clock

    async def reconcile(self, key: ObjectKey) -> ReconcileResult:
        kept = self._observed.profiles.get(key)
        if kept is None or kept.header.metadata.deletion_timestamp is not None:
            return ReconcileResult()
        before = _status(kept)
        after = self._judged(key, kept, before)
        if after != before:
            await self._write(key, kept, after)
            self._tell(kept, before, after)
        return ReconcileResult()

    def _judged(self, key: ObjectKey, kept: CachedResource, before: SyncProfileStatus) -> SyncProfileStatus:
        at = ConditionStamp(kept.header.metadata.generation, self._clock.now())
        conditions = before.conditions or ()
        count = self._count(key)
        try:
            profile = decode_resource(kept, SyncProfile)
            waits_for = profile_dependencies(self._observed.profiles_in(key.namespace))
            refuse_cycle(key.name, waits_for, what="SyncProfile")
        except InvalidValue as error:
            return SyncProfileStatus(
                observed_generation=at.generation,
                gateway_count=count,
                conditions=mark_failed(conditions, error, at=at),
            )
        conditions = self._dependencies(key, waits_for, conditions, at)
        conflicts = tuple(mapping_conflicts(profile))
        reason = Reason.CONFLICT_DETECTED if conflicts else Reason.PROFILE_USABLE
        message = "; ".join(conflicts) or f"{len(profile.spec.mappings)} mappings"
        return SyncProfileStatus(
            observed_generation=at.generation,
            gateway_count=count,
            conditions=mark_ready(conditions, reason, message, at=at),
        )

    def _count(self, key: ObjectKey) -> int:
        pods = (pod for _, pod in self._observed.pods.find("namespace", key.namespace))
        return sum(
            1
            for pod in pods
            if pod is not None and pod.active and pod.annotated(PodAnnotationKey.SYNC_PROFILE) == key.name
        )

    def _dependencies(
        self,
        key: ObjectKey,
        waits_for: dict[str, tuple[str, ...]],
        conditions: StatusConditions,
        at: ConditionStamp,
    ) -> StatusConditions:
        met, needed = ConditionType.DEPENDENCIES_MET, transitive_dependencies(key.name, waits_for)
        if not needed:
            return remove_conditions(conditions, met)
        why = dependency_wait_reason(list(self._neighbours(key.namespace)), needed, waits_for)
        if why:
            return set_condition(conditions, met, False, Reason.DEPENDENCY_WAITING, f"waits for {why}", at=at)
        message = f"the gateways of {first_names(needed)} are synced"
        return set_condition(conditions, met, True, Reason.DEPENDENCIES_SATISFIED, message, at=at)

    async def _write(self, key: ObjectKey, kept: CachedResource, status: SyncProfileStatus) -> None:
        body = msgspec.json.decode(kept.raw, type=dict[str, object])
        body["status"] = status
        request = self._client.replace(
            rest_resource(PROFILES), body, key.name, key.namespace, into=msgspec.Raw, subresource="status"
        )
        await self._observed.profiles.write(key, request)

    def _tell(self, kept: CachedResource, before: SyncProfileStatus, after: SyncProfileStatus) -> None:
        old = find_condition(before.conditions or (), ConditionType.READY)
        new = find_condition(after.conditions or (), ConditionType.READY)
        quiet = new is None or new.reason == Reason.PROFILE_USABLE
        if (
            new is None
            or quiet
            or (old is not None and (old.reason, old.message) == (new.reason, new.message))
        ):
            return
        meta = kept.header.metadata
        about = ObjectRef(PROFILES.api_version, PROFILES.name, meta.name, meta.namespace, meta.uid)
        self._events.warning(about, Reason(new.reason), new.message)


class _ProfileWithStatus(msgspec.Struct):
    status: SyncProfileStatus = SyncProfileStatus()


def _status(kept: CachedResource) -> SyncProfileStatus:
    try:
        return msgspec.json.decode(kept.raw, type=_ProfileWithStatus).status
    except msgspec.ValidationError:
        return SyncProfileStatus()

"""Finds fields of a resource that only have an effect in a cluster, for `stoker sync -f`.

No field is ignored silently. A gate between a commit and a gateway is refused, because continuing would
bypass it; every other field is named in a warning. Only fields that the user wrote count, not defaults. Once
standalone sync supports a field, its entry here is removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from stoker.api.to_intent.annotations.annotation_requests import REQUESTED_REF
from stoker.api.to_intent.pod_facts import PodAnnotationKey
from stoker.api.to_intent.tree_merge import SpecTree, value_at
from stoker.domain.errors import Misconfigured
from stoker.domain.intent.intent import Notice
from stoker.domain.reasons import Reason

_UNSET_VALUES: tuple[object, ...] = (None, False, "", [], {})


class ClusterOnlyField(NamedTuple):
    """A path in a spec, its values without effect, and what happens instead of the field's effect."""

    path: str
    harmless: tuple[object, ...] = ()
    instead: str = ""


GATES = (ClusterOnlyField("approval.required"),)

CLUSTER_ONLY_FIELDS = (
    ClusterOnlyField("agent"),
    ClusterOnlyField("alerting.enabled"),
    ClusterOnlyField("bidirectional.enabled"),
    ClusterOnlyField("deployment.stages"),
    ClusterOnlyField("deployment.syncOrder"),
    ClusterOnlyField("drift.mode", ("off", "report", "restore"), "drift mode capture only reports drift"),
    ClusterOnlyField("ignition.peerGatewayName"),
    ClusterOnlyField("ignition.redundancyRole"),
    ClusterOnlyField("rateLimit"),
    ClusterOnlyField(
        "snapshots.storage.pvc.claimName", (), "snapshots are stored in .sync-state of the data folder"
    ),
    ClusterOnlyField("storage"),
    ClusterOnlyField("webhook.allowedNamespaces"),
    ClusterOnlyField(
        "webhook.allowedRefs", ([],), "a request syncs the configured ref, whatever ref it names"
    ),
)

CLUSTER_ONLY_PROFILE_FIELDS = (
    ClusterOnlyField("dependsOn"),
    ClusterOnlyField("syncPeriod", (), "spec.polling.interval sets how often the ref is polled"),
)

ANNOTATIONS = (
    ClusterOnlyField(PodAnnotationKey.DATA_VOLUME),
    ClusterOnlyField(PodAnnotationKey.INJECT, ("false",)),
    ClusterOnlyField(PodAnnotationKey.PEER_GATEWAY_NAME),
    ClusterOnlyField(PodAnnotationKey.REDUNDANCY_ROLE),
    ClusterOnlyField(PodAnnotationKey.SNAPSHOT_VOLUME),
    ClusterOnlyField(
        PodAnnotationKey.SYNC_PERIOD, (), "spec.polling.interval sets how often the ref is polled"
    ),
)


def refuse_cluster_gates(spec: SpecTree) -> None:
    """Raise for a gate such as `approval.required`: syncing without it would bypass it."""
    for field in _set_fields(GATES, spec):
        raise Misconfigured(
            f"spec.{field.path} delays changes, which is not supported without a cluster; remove it from the "
            "file to sync anyway",
            reason=Reason.FEATURE_NOT_RUNNING,
        )


def ignored_field_notices(
    spec: SpecTree, profile: SpecTree, pod: Mapping[str, str], resource: Mapping[str, str]
) -> Iterator[Notice]:
    """One notice for each field; `pod` and `resource` are annotations by key, without prefix."""
    for field in _set_fields(CLUSTER_ONLY_FIELDS, spec):
        yield _ignored_field_notice(f"spec.{field.path}", field)
    for field in _set_fields(CLUSTER_ONLY_PROFILE_FIELDS, profile):
        yield _ignored_field_notice(f"spec.{field.path} of the SyncProfile", field)
    for field in _set_fields(ANNOTATIONS, dict(pod)):
        yield _ignored_field_notice(f"annotation {field.path}", field)
    if resource.get(REQUESTED_REF):
        yield _ignored_field_notice(
            f"annotation {REQUESTED_REF} of the resource",
            ClusterOnlyField("", (), "use --ref to name another ref"),
        )


def _set_fields(fields: tuple[ClusterOnlyField, ...], tree: SpecTree) -> Iterator[ClusterOnlyField]:
    for field in fields:
        value = value_at(tree, field.path)
        if value not in _UNSET_VALUES and value not in field.harmless:
            yield field


def _ignored_field_notice(name: str, field: ClusterOnlyField) -> Notice:
    instead = f": {field.instead}" if field.instead else ""
    return Notice(Reason.FEATURE_NOT_RUNNING, f"{name} has no effect without a cluster{instead}")

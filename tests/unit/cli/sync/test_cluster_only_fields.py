"""Every field of a resource on disk is served, refused or named; the schema says which there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from stoker.api.codegen.generate import crd_yaml
from stoker.api.registry import KINDS
from stoker.api.to_intent.pod_facts import PodAnnotationKey
from stoker.cli.sync.cluster_only_fields import (
    ANNOTATIONS,
    CLUSTER_ONLY_FIELDS,
    CLUSTER_ONLY_PROFILE_FIELDS,
    GATES,
    ignored_field_notices,
    refuse_cluster_gates,
)
from stoker.domain.errors import Misconfigured

# Obeyed by `stoker sync -f`, once or with --watch.
SERVED = (
    "additionalFiles",
    "deletionBudget",
    "drift.ignore",
    "drift.interval",
    "drift.mode",
    "excludePatterns",
    "gateway",
    "git",
    "ignition.binaryPolicy",
    "ignition.designerSessionPolicy",
    "ignition.designerSessionTimeout",
    "ignition.perspectiveSessionPolicy",
    "inheritsFrom",
    "maintenanceWindows",
    "normalize",
    "orphans",
    "paused",
    "polling",
    "deployment.autoRollback",
    "rollback",
    "shared.externalResources",
    "shared.modules.enabled",
    "shared.modules.order",
    "shared.modules.source",
    "shared.scripts",
    "shared.udts",
    "siteNumber",
    "snapshots",
    "validation.dryRunBefore",
    "validation.webhook",
    "webhook.bearerSecretRef",
    "webhook.enabled",
    "webhook.port",
    "webhook.secretRef",
)
# Means something only beside a field that is named or refused.
DETAILS = (
    "alerting.webhooks",
    "approval.teams",
    "approval.timeout",
    "approval.webhook",
    "bidirectional",
    "deployment.strategy",
)
# Another spelling of one of these.
ALIASES = ("autoRollback", "webhookNamespaces")

NO_EFFECT = "has no effect without a cluster"
POLLING = "spec.polling.interval sets how often the ref is polled"

SERVED_OF_THE_PROFILE = (
    "deploymentMode",
    "dryRun",
    "excludePatterns",
    "mappings",
    "patches",
    "paused",
    "vars",
)


def _leaves(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    properties = schema.get("properties")
    if not properties:
        yield path
        return
    for name, below in properties.items():
        yield from _leaves(below, f"{path}.{name}" if path else name)


def _fields(kind: str) -> list[str]:
    (found,) = (one for one in KINDS if one.name == kind)
    crd = yaml.safe_load(crd_yaml(found))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return list(_leaves(schema["properties"]["spec"]))


def _is_known(field: str, known: set[str]) -> bool:
    parts = field.split(".")
    return any(".".join(parts[:count]) in known for count in range(1, len(parts) + 1))


@pytest.mark.parametrize("kind", ["Stoker", "IgnitionSync", "IgnitionSyncBase"])
def test_no_field_of_a_resource_is_ignored_in_silence(kind: str) -> None:
    known = {*SERVED, *DETAILS, *ALIASES, *(one.path for one in (*GATES, *CLUSTER_ONLY_FIELDS))}
    assert [field for field in _fields(kind) if not _is_known(field, known)] == []


def test_no_field_of_a_profile_is_ignored_in_silence() -> None:
    known = {*SERVED_OF_THE_PROFILE, *(one.path for one in CLUSTER_ONLY_PROFILE_FIELDS)}
    assert [field for field in _fields("SyncProfile") if not _is_known(field, known)] == []


def test_every_name_in_the_lists_is_a_field() -> None:
    fields = [*_fields("Stoker"), *_fields("IgnitionSync")]
    for path in (*SERVED, *DETAILS, *ALIASES, *(one.path for one in (*GATES, *CLUSTER_ONLY_FIELDS))):
        assert any(f"{field}.".startswith(f"{path}.") for field in fields), path
    for path in (*SERVED_OF_THE_PROFILE, *(one.path for one in CLUSTER_ONLY_PROFILE_FIELDS)):
        assert any(f"{field}.".startswith(f"{path}.") for field in _fields("SyncProfile")), path
    assert {one.path for one in ANNOTATIONS} <= set(PodAnnotationKey)


@pytest.mark.parametrize(
    "spec",
    [
        {"approval": {"required": True}},
    ],
    ids=str,
)
def test_what_holds_changes_back_is_refused_by_name(spec: dict[str, object]) -> None:
    (block,) = spec
    with pytest.raises(Misconfigured, match=rf"spec\.{block}"):
        refuse_cluster_gates(spec)


def test_what_is_switched_off_asks_for_nothing() -> None:
    spec: dict[str, object] = {
        "approval": {"required": False, "timeout": "1h"},
        "maintenanceWindows": [],
        "ignition": {"binaryPolicy": "requireSigned", "designerSessionPolicy": "proceed"},
        "snapshots": {"enabled": False},
        "webhook": {"allowedRefs": []},
        "drift": {"mode": "restore"},
    }
    refuse_cluster_gates(spec)
    assert list(ignored_field_notices(spec, {}, {}, {})) == []


def test_what_has_no_effect_is_named_with_what_holds_instead() -> None:
    spec: dict[str, object] = {"webhook": {"allowedRefs": ["release/*"]}, "agent": {"sidecarMode": "native"}}
    notices = ignored_field_notices(
        spec, {"syncPeriod": 10}, {"redundancy-role": "backup"}, {"requested-ref": "v2"}
    )
    assert [one.message for one in notices] == [
        f"spec.agent {NO_EFFECT}",
        f"spec.webhook.allowedRefs {NO_EFFECT}: a request syncs the configured ref, whatever ref it names",
        f"spec.syncPeriod of the SyncProfile {NO_EFFECT}: {POLLING}",
        f"annotation redundancy-role {NO_EFFECT}",
        f"annotation requested-ref of the resource {NO_EFFECT}: use --ref to name another ref",
    ]

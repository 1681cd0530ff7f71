"""No field is silently ignored.

The types themselves are walked: a field that is added to a spec fails here until
the adapter makes two different intents of two values. Where any two words would
not do, the table below has them. What has no effect on the intent is in its
own table, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec
import pytest
from msgspec.inspect import StructType, Type, VarTupleType

from stoker.api.kinds.ignitionsync import IgnitionSync, IgnitionSyncSpec
from stoker.api.kinds.stoker import Stoker, StokerSpec, SyncProfile, SyncProfileSpec
from stoker.api.schema import fields_of, unwrap_type
from stoker.api.to_intent import (
    IntentContext,
    PodFacts,
    SettledResource,
    gateway_intent_for,
    intent_for,
    merge_spec,
)
from stoker.domain.intent.intent import GatewayIntent, ResourceIntent

Leaves = dict[str, object]
Pair = tuple[object, object]
Kind = type[IgnitionSync | Stoker]

FIELDS: dict[str, Pair] = {
    "git.repo": ("https://git.example.net/a.git", "https://git.example.net/b.git"),
    "git.ref": ("main", "v1"),
    "git.auth.githubApp.appId": (1, 2),
    "git.auth.githubApp.installationId": (1, 2),
    "git.verify.mode": ("commit", "tag"),
    "git.proxy": ("http://proxy:3128", "http://proxy:3129"),
    "git.allowRewrite": (True, False),
    "gateway.port": (8088, 8089),
    "gateway.tls": (True, False),
    "gateway.apiKeyHeader": ("X-Ignition-API-Token", "X-Other-Token"),
    "gateway.insecureSkipVerify": (True, False),
    "gateway.filesOnly": (False, True),
    "gateway.scanOrder": ("projectsFirst", "configFirst"),
    "polling.enabled": (True, False),
    "polling.interval": ("60s", "61s"),
    "webhook.enabled": (True, False),
    "webhook.port": (8443, 8444),
    "webhook.allowedRefs": (["*"], ["v*"]),
    "webhook.allowedNamespaces": (["a"], ["b"]),
    "webhookNamespaces": (["a"], ["b"]),
    "excludePatterns": (["a"], ["b"]),
    "orphans": ("mirror", "owned"),
    "deletionBudget.files": (50, 51),
    "deletionBudget.percent": (50, 51),
    "normalize.systemName": (True, False),
    "normalize.fields[].jsonPath": (".a", ".b"),
    "normalize.templates[].jsonPath": (".c", ".d"),
    "normalize.templates[].valueTemplate": ("c", "d"),
    "validation.dryRunBefore": (False, True),
    "validation.webhook.url": ("https://a", "https://b"),
    "validation.webhook.timeout": ("10s", "11s"),
    "ignition.designerSessionPolicy": ("wait", "fail"),
    "ignition.designerSessionTimeout": ("5m", "6m"),
    "ignition.perspectiveSessionPolicy": ("graceful", "none"),
    "ignition.redundancyRole": ("primary", "backup"),
    "ignition.binaryPolicy": ("allow", "refuse"),
    "drift.mode": ("report", "restore"),
    "drift.interval": ("5m", "6m"),
    "drift.ignore[].jsonPointer": ("/a", "/b"),
    "maintenanceWindows[].cron": ("0 2 * * 6", "0 3 * * 6"),
    "maintenanceWindows[].duration": ("1h", "2h"),
    "maintenanceWindows[].timeZone": ("UTC", "Europe/Berlin"),
    "snapshots.enabled": (True, False),
    "snapshots.retentionCount": (5, 6),
    "snapshots.scope": ("managed", "all"),
    "snapshots.storage.type": ("pvc", "s3"),
    "snapshots.storage.s3.endpoint": ("https://a", "https://b"),
    "bidirectional.enabled": (True, False),
    "bidirectional.watchPaths": (["a"], ["b"]),
    "bidirectional.debounce": ("30s", "31s"),
    "bidirectional.createPR": (True, False),
    "bidirectional.prLabels": (["a"], ["b"]),
    "bidirectional.conflictStrategy": ("gitWins", "manual"),
    "bidirectional.guardrails.maxFileSize": ("10Mi", "11Mi"),
    "bidirectional.guardrails.maxFilesPerPR": (100, 101),
    "bidirectional.guardrails.excludePatterns": (["a"], ["b"]),
    "bidirectional.forge.type": ("github", "gitlab"),
    "bidirectional.forge.url": ("https://a", "https://b"),
    "rateLimit.maxConcurrentSyncs": (5, 6),
    "rateLimit.maxSyncsPerMinute": (20, 21),
    "rateLimit.burstLimit": (10, 11),
    "approval.required": (True, False),
    "approval.timeout": ("24h", "25h"),
    "approval.teams": (["a"], ["b"]),
    "approval.webhook.url": ("https://a", "https://b"),
    "alerting.enabled": (True, False),
    "alerting.webhooks[].type": ("slack", "teams"),
    "alerting.webhooks[].url": ("https://a", "https://b"),
    "alerting.webhooks[].on": (["A"], ["B"]),
    "alerting.webhooks[].true": (["A"], ["B"]),
    "agent.image.pullPolicy": ("Always", "Never"),
    "agent.image.digest": ("sha256:" + "a" * 64, "sha256:" + "b" * 64),
    "agent.resources.requests": ({"cpu": "50m"}, {"cpu": "60m"}),
    "agent.resources.limits": ({"cpu": "70m"}, {"cpu": "80m"}),
    "agent.sidecarMode": ("native", "container"),
    "agent.startupBudget": ("300s", "301s"),
    "siteNumber": ("1", "2"),
    "paused": (False, True),
    "rollback.toCommit": ("a" * 40, "b" * 40),
    "deployment.strategy": ("canary", "all-at-once"),
    "deployment.stages[].gateways": (["a"], ["b"]),
    "deployment.stages[].postSyncWait": ("1s", "2s"),
    "deployment.stages[].healthCheckUrl": ("https://a", "https://b"),
    "deployment.stages[].requireApproval": (False, True),
    "deployment.syncOrder[].weight": (1, 2),
    "deployment.syncOrder[].dependsOn": (["x"], ["y"]),
    "deployment.autoRollback.enabled": (True, False),
    "deployment.autoRollback.triggers": (["scanFailure"], ["configError"]),
    "autoRollback.enabled": (True, False),
    "autoRollback.triggers": (["scanFailure"], ["configError"]),
    "storage.size": ("1Gi", "2Gi"),
    "storage.accessMode": ("ReadWriteMany", "ReadWriteOnce"),
    "shared.externalResources.enabled": (True, False),
    "shared.externalResources.createFallback": (False, True),
    "shared.scripts.enabled": (True, False),
    "shared.udts.enabled": (True, False),
    "shared.modules.enabled": (True, False),
    "shared.modules.order": (["a"], ["b"]),
    "additionalFiles[].type": ("file", "dir"),
    "additionalFiles[].orphans": ("owned", "mirror"),
}

PROFILE_FIELDS: dict[str, Pair] = {
    "mappings[].type": ("dir", "file"),
    "mappings[].required": (False, True),
    "mappings[].template": (False, True),
    "mappings[].orphans": ("owned", "mirror"),
    "patches[].set": ({".a": "1"}, {".a": "2"}),
    "vars": ({"a": "1"}, {"a": "2"}),
    "excludePatterns": (["a"], ["b"]),
    "syncPeriod": (30, 31),
    "dryRun": (False, True),
    "paused": (False, True),
}

WITHOUT_EFFECT: dict[str, str] = {
    "inheritsFrom.name": "names the base, whose content is in the resource once it is settled",
    "inheritsFrom.namespace": "as its name",
}

# Of each line only one can be written; the first is, unless the field is in another.
EITHER_OR: tuple[tuple[str, ...], ...] = (
    ("git.auth.sshKey", "git.auth.token", "git.auth.basic", "git.auth.githubApp"),
    ("git.verify.gpgKeysSecretRef", "git.auth.gpgKey"),
    ("gateway.caSecretRef", "gateway.insecureSkipVerify"),
    ("rollback.toSnapshot", "rollback.toCommit"),
    ("webhook.allowedNamespaces", "webhookNamespaces"),
    ("deployment.autoRollback", "autoRollback"),
    ("snapshots.storage.pvc", "snapshots.storage.s3", "snapshots.storage.gcs"),
    ("alerting.webhooks[].on", "alerting.webhooks[].true"),
    (
        "alerting.webhooks[].urlSecretRef",
        "alerting.webhooks[].url",
        "alerting.webhooks[].integrationKey",
        "alerting.webhooks[].integrationKeySecretRef",
    ),
)

# The fields that another field needs to have an effect.
BESIDE: dict[str, Leaves] = {
    "snapshots.storage.s3": {"snapshots.storage.type": "s3"},
    "snapshots.storage.gcs": {"snapshots.storage.type": "gcs"},
    "snapshots.storage.type": {"snapshots.storage.s3.bucket": "a"},
    "alerting.webhooks[].integrationKey": {"alerting.webhooks[].type": "pagerduty"},
    "alerting.webhooks[].integrationKeySecretRef": {"alerting.webhooks[].type": "pagerduty"},
}

# Fields that the rules tie to others, so that only a spec which was never checked can differ in them alone.
TIED = {"deployment.strategy"}


def leaves_of(model: type[msgspec.Struct], path: str = "") -> Iterator[str]:
    """Every field that holds a value rather than further fields, as a dotted path."""
    for one in fields_of(model):
        yield from _leaves_in(
            unwrap_type(one.type).type, f"{path}.{one.encode_name}" if path else one.encode_name
        )


def _leaves_in(type_: Type, path: str) -> Iterator[str]:
    item = unwrap_type(type_.item_type).type if isinstance(type_, VarTupleType) else None
    if isinstance(type_, StructType):
        yield from leaves_of(type_.cls, path)
    elif isinstance(item, StructType):
        yield from leaves_of(item.cls, f"{path}[]")
    else:
        yield path


def sample(path: str, table: Mapping[str, Pair]) -> Pair:
    """Any two words will do for a field that the table does not speak of, such as the place of a secret."""
    return table.get(path, ("a", "b"))


def is_at(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix + ".")


def written(leaves: Leaves) -> dict[str, object]:
    """A spec of these leaves; every list has one item."""
    spec: dict[str, object] = {}
    for path, value in leaves.items():
        block, (*parents, last) = spec, path.split(".")
        for name in parents:
            below = block.setdefault(name.removesuffix("[]"), [{}] if name.endswith("[]") else {})
            block = below[0] if isinstance(below, list) else below  # type: ignore[assignment]
        block[last] = value
    return spec


def full_spec(field: str, every: list[str]) -> Leaves:
    """All fields at once, but of fields that exclude each other only those that can be set with this one."""
    unwritten = set(WITHOUT_EFFECT)
    for line in EITHER_OR:
        chosen = next((prefix for prefix in line if is_at(field, prefix)), line[0])
        others = [prefix for prefix in line if prefix != chosen]
        unwritten |= {path for path in every if any(is_at(path, prefix) for prefix in others)}
    spec = {path: sample(path, FIELDS)[0] for path in every if path not in unwritten}
    for prefix, beside in BESIDE.items():
        if is_at(field, prefix):
            spec |= beside
    return spec


RESOURCE = {
    "metadata": {"name": "sync", "namespace": "plant"},
    "spec": {"git": {"repo": "https://git.example.net/a.git", "ref": "main"}},
}
POD = PodFacts("pod-0", "plant", {}, {"stoker.io/service-path": "services/site"})
PROFILED = PodFacts("pod-0", "plant", {}, {"stoker.io/sync-profile": "line"})


def profile(leaves: Leaves) -> SyncProfile:
    document = {"metadata": {"name": "line", "namespace": "plant"}, "spec": written(leaves)}
    return msgspec.convert(document, SyncProfile)


def intents(kind: Kind, leaves: Leaves, *, tied: bool) -> tuple[ResourceIntent, GatewayIntent]:
    """The result without the notices: a notice about a field is not a use of it."""
    document = {"metadata": {"name": "sync", "namespace": "plant"}, "spec": written(leaves)}
    resource = msgspec.convert(document, kind)
    known = SettledResource(resource) if tied else merge_spec(resource)
    resource_intent, gateway_intent = intent_for(known), gateway_intent_for(known, POD)
    return replace(resource_intent, notices=()), replace(gateway_intent, notices=())


IGNITION_SYNC, STOKER = list(leaves_of(IgnitionSyncSpec)), list(leaves_of(StokerSpec))
CASES: list[tuple[Kind, str]] = [(IgnitionSync, path) for path in IGNITION_SYNC if path not in WITHOUT_EFFECT]
CASES += [(Stoker, path) for path in STOKER if path not in WITHOUT_EFFECT]


@pytest.mark.parametrize(
    ("kind", "field"), [pytest.param(*case, id=f"{case[0].__name__}-{case[1]}") for case in CASES]
)
def test_a_field_of_a_resource_changes_the_intent(kind: Kind, field: str) -> None:
    every = IGNITION_SYNC if kind is IgnitionSync else STOKER
    spec = full_spec(field, every)
    value, other = sample(field, FIELDS)
    tied = field in TIED
    assert intents(kind, spec | {field: value}, tied=tied) != intents(kind, spec | {field: other}, tied=tied)


@pytest.mark.parametrize("field", list(leaves_of(SyncProfileSpec)))
def test_a_field_of_a_profile_changes_the_intent(field: str) -> None:
    def intent(value: object) -> GatewayIntent:
        spec = {path: sample(path, PROFILE_FIELDS)[0] for path in leaves_of(SyncProfileSpec)}
        known = merge_spec(msgspec.convert(RESOURCE, Stoker))
        return gateway_intent_for(known, PROFILED, IntentContext({"line": profile(spec | {field: value})}))

    value, other = sample(field, PROFILE_FIELDS)
    assert intent(value) != intent(other)


def test_no_table_names_fields_that_do_not_exist() -> None:
    assert FIELDS.keys() | WITHOUT_EFFECT.keys() <= set(IGNITION_SYNC)
    assert PROFILE_FIELDS.keys() <= set(leaves_of(SyncProfileSpec))

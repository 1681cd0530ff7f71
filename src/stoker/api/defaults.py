"""What a field means where nobody has set it: neither the resource, nor its base, nor the installation.

These values are not in the schema, because a default there is written into every
object at admission and nothing could be inherited (C-128, C-129). The merge
order is resource, base, the chart's `defaults`, then this table. Keys are paths
below `spec`; `[]` stands for every item of a list. The generator shows each value in
`kubectl explain` and in the reference page.

A value takes effect only where its block may come into being by itself: below
one of `OPTIONAL_BLOCKS`, and in list items, only if somebody wrote the block.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

DefaultValue = bool | int | str | tuple[str, ...]

SYNC: Mapping[str, DefaultValue] = {
    "git.allowRewrite": True,
    "git.verify.mode": "none",
    "gateway.port": 8043,
    "gateway.tls": True,
    "gateway.apiKeyHeader": "X-Ignition-API-Token",
    "gateway.insecureSkipVerify": False,
    "gateway.filesOnly": False,
    "gateway.scanOrder": "projectsFirst",
    "polling.enabled": True,
    "polling.interval": "60s",
    "webhook.enabled": True,
    "webhook.port": 8443,
    "excludePatterns": ("**/.git/", "**/.gitkeep", "**/.resources/**"),
    "orphans": "owned",
    "deletionBudget.files": 50,
    "deletionBudget.percent": 50,
    "normalize.systemName": False,
    "validation.dryRunBefore": False,
    "validation.webhook.url": "",
    "validation.webhook.timeout": "10s",
    "ignition.designerSessionPolicy": "wait",
    "ignition.designerSessionTimeout": "5m",
    "ignition.perspectiveSessionPolicy": "none",
    "ignition.redundancyRole": "",
    "ignition.peerGatewayName": "",
    "ignition.binaryPolicy": "allow",
    "drift.mode": "report",
    "drift.interval": "5m",
    "maintenanceWindows[].timeZone": "UTC",
    "snapshots.enabled": False,
    "snapshots.retentionCount": 5,
    "snapshots.scope": "managed",
    "snapshots.storage.type": "pvc",
    "snapshots.storage.s3.bucket": "",
    "snapshots.storage.s3.keyPrefix": "",
    "snapshots.storage.gcs.keyPrefix": "",
    "bidirectional.enabled": False,
    "bidirectional.targetBranch": "gateway-changes/{{.Namespace}}",
    "bidirectional.debounce": "30s",
    "bidirectional.createPR": True,
    "bidirectional.prLabels": ("gateway-change", "auto-generated"),
    "bidirectional.conflictStrategy": "gitWins",
    "bidirectional.guardrails.maxFileSize": "10Mi",
    "bidirectional.guardrails.maxFilesPerPR": 100,
    "bidirectional.guardrails.excludePatterns": ("**/.resources/**", "**/secrets/**", "**/*.jar"),
    "approval.required": False,
    "approval.timeout": "24h",
    "alerting.enabled": False,
    # The image itself has no default here: left out, it is the one that the admission webhook runs.
    "agent.image.pullPolicy": "IfNotPresent",
    "agent.image.digest": "",
    "agent.resources.requests.cpu": "50m",
    "agent.resources.requests.memory": "64Mi",
    "agent.resources.limits.cpu": "200m",
    "agent.resources.limits.memory": "256Mi",
    "agent.sidecarMode": "native",
    "agent.startupBudget": "300s",
}

SYNC_ONLY: Mapping[str, DefaultValue] = {
    "siteNumber": "",
    "paused": False,
    "rollback.toSnapshot": "",
    "rollback.toCommit": "",
    "deployment.strategy": "all-at-once",
    "deployment.stages[].postSyncWait": "0s",
    "deployment.stages[].requireApproval": False,
    "deployment.syncOrder[].weight": 0,
    "deployment.autoRollback.enabled": False,
    "deployment.autoRollback.triggers": ("scanFailure",),
}

CONTENT: Mapping[str, DefaultValue] = {
    "storage.storageClassName": "",
    "storage.size": "1Gi",
    "storage.accessMode": "ReadWriteMany",
    "shared.externalResources.enabled": True,
    "shared.externalResources.createFallback": False,
    "shared.scripts.enabled": True,
    "shared.udts.enabled": True,
    "shared.modules.enabled": True,
}

BUILT_IN_DEFAULTS: Mapping[str, Mapping[str, DefaultValue]] = {
    "IgnitionSync": {**SYNC, **SYNC_ONLY, **CONTENT},
    "IgnitionSyncBase": {**SYNC, **CONTENT},
    "Stoker": {**SYNC, **SYNC_ONLY},
    "SyncProfile": {
        "mappings[].required": False,
        "mappings[].template": False,
        "deploymentMode.destination": "config/resources/core",
        "syncPeriod": 30,
        "dryRun": False,
        "paused": False,
    },
    "GitRepoConfig": {"push.interval": "0s", "suspend": False},
    "GitDestination": {
        "batch.maxFiles": 200,
        "batch.maxBytes": "10Mi",
        "batch.maxWait": "20s",
        "suspend": False,
    },
    "WatchRule": {},
    "ClusterWatchRule": {},
}

OPTIONAL_BLOCKS: tuple[str, ...] = (
    "gateway",  # no gateway block: only files are synced, nothing talks to a gateway
    "storage",  # the block itself asks for a shared volume (C-017)
    "shared.externalResources",
    "shared.scripts",
    "shared.udts",
    "shared.modules",
    "deploymentMode",
    "snapshots.storage.s3",
    "snapshots.storage.gcs",
)

UNMERGED_PATHS: tuple[str, ...] = ("git.auth", "bidirectional.forge")
"""Maps that a resource replaces rather than merges with its base: their keys exclude each other."""


def with_defaults(kind: str, spec: Mapping[str, object]) -> dict[str, object]:
    """A copy of a spec in wire form in which every built-in value stands where nothing was set."""
    filled = copy.deepcopy(dict(spec))
    for path, value in BUILT_IN_DEFAULTS[kind].items():
        for block, name in _blocks_at(filled, path):
            if block.get(name) is None:
                block[name] = list(value) if isinstance(value, tuple) else value
    return filled


def _blocks_at(spec: dict[str, object], path: str) -> Iterator[tuple[dict[str, object], str]]:
    """Every block that holds the last name of the path, made where it may come into being by itself."""
    head, _, name = path.rpartition(".")
    blocks = [spec]
    written = ""
    for part in head.split(".") if head else ():
        step, many = part.removesuffix("[]"), part.endswith("[]")
        written = f"{written}.{step}" if written else step
        found = []
        for block in blocks:
            if block.get(step) is None and not many and written not in OPTIONAL_BLOCKS:
                block[step] = {}
            below = block.get(step)
            found += [one for one in (below if isinstance(below, list) else [below]) if isinstance(one, dict)]
        blocks = found
    return ((block, name) for block in blocks)

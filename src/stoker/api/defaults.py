"""Built-in defaults: the value of a field that neither the resource, its base nor the installation sets.

These values are not in the schema, because the API server writes a schema default into
every object at admission, and then nothing could be inherited. The merge order is resource,
base, the chart's `defaults`, then this table. Keys are paths below `spec`; `[]` means every
item of a list. The generator shows each value in `kubectl explain` and on the reference page.

A missing block is created for its defaults, except the blocks in `OPTIONAL_BLOCKS` and list
items: below those a default applies only if the user wrote the block.
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
    # The image has no default here: without it, the agent runs the image of the admission webhook.
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
    "gateway",  # without the block only files are synced, and no request is sent to a gateway
    "storage",  # the presence of the block requests a shared volume
    "shared.externalResources",
    "shared.scripts",
    "shared.udts",
    "shared.modules",
    "deploymentMode",
    "snapshots.storage.s3",
    "snapshots.storage.gcs",
)

UNMERGED_PATHS: tuple[str, ...] = ("git.auth", "bidirectional.forge")
"""Maps that a resource replaces instead of merging with its base: their keys exclude each other."""


def with_defaults(kind: str, spec: Mapping[str, object]) -> dict[str, object]:
    """Return a copy of a spec in wire form, with the built-in value of every unset field."""
    filled = copy.deepcopy(dict(spec))
    for path, value in BUILT_IN_DEFAULTS[kind].items():
        for block, name in _blocks_at(filled, path):
            if block.get(name) is None:
                block[name] = list(value) if isinstance(value, tuple) else value
    return filled


def _blocks_at(spec: dict[str, object], path: str) -> Iterator[tuple[dict[str, object], str]]:
    """Yield every block that holds the last name of the path; create missing blocks unless optional."""
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

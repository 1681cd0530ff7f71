"""The values that the requirements give as samples go through the real API server unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.api.manifests.codec import decode, to_wire
from stoker.api.registry import kind_for
from stoker_testkit.cluster.cluster_access import ClusterAccess

# A manifest is plain JSON; its shape is what these tests are about.
Spec = dict[str, Any]

GATEWAY = {"port": 8043, "tls": True, "apiKeySecretRef": {"name": "ignition-api-key", "key": "apiKey"}}
SSH = {"sshKey": {"secretRef": {"name": "git-sync-secret", "key": "ssh-privatekey"}}}
REPO = "git@git.example.com:plant/app.git"

SAMPLES: dict[str, Spec] = {
    "the worked example": {
        "git": {"repo": REPO, "ref": "2.0.0", "auth": SSH},
        "storage": {"storageClassName": "efs-sc", "size": "1Gi", "accessMode": "ReadWriteMany"},
        "webhook": {"secretRef": {"name": "sync-webhook-secret", "key": "hmac-key"}},
        "polling": {"enabled": True, "interval": "60s"},
        "gateway": GATEWAY,
        "siteNumber": "1",
        "shared": {
            "externalResources": {
                "enabled": True,
                "source": "shared/ignition-gateway/config/resources/external",
                "createFallback": True,
            },
            "scripts": {
                "enabled": True,
                "source": "shared/scripts",
                "destPath": "ignition/script-python/exchange/proveit2026",
            },
            "udts": {"enabled": True, "source": "shared/udts"},
        },
        "additionalFiles": [
            {"source": "shared/config/factory-config.json", "dest": "factory-config.json", "type": "file"},
            {"source": "shared/custom-modules", "dest": "user-lib/modules", "type": "dir"},
            {"source": "shared/config/factory-config.json", "dest": "factory-config.json"},
        ],
        "normalize": {
            "systemName": True,
            "fields": [{"jsonPath": ".someField", "valueTemplate": "{{.GatewayName}}-custom"}],
        },
    },
    "an app and changes that flow back": {
        "git": {
            "repo": "https://git.example.com/plant/app.git",
            "ref": "main",
            "auth": {
                "githubApp": {
                    "appId": 2716741,
                    "installationId": 12345678,
                    "privateKeySecretRef": {"name": "github-app-key", "key": "private-key.pem"},
                },
                "gpgKey": {"secretRef": {"name": "gpg-public-key", "key": "publicKey"}},
            },
        },
        "gateway": GATEWAY,
        "bidirectional": {
            "enabled": True,
            "watchPaths": [
                "config/resources/core/ignition/tag-definition/**",
                "projects/**/com.inductiveautomation.perspective/views/**",
            ],
            "targetBranch": "gateway-changes/{{.Namespace}}",
            "debounce": "30s",
            "createPR": True,
            "prLabels": ["gateway-change", "auto-generated"],
            "conflictStrategy": "gatewayWins",
            "guardrails": {
                "maxFileSize": "10Mi",
                "maxFilesPerPR": 100,
                "excludePatterns": ["**/.resources/**", "**/secrets/**", "**/*.jar"],
            },
        },
    },
    "a staged delivery": {
        "git": {"repo": "file:///var/mirrors/app.git", "ref": "4b825dc642cb6eb9a060e54bf8d69288fbee4904"},
        "gateway": {**GATEWAY, "tls": False},
        "snapshots": {
            "enabled": True,
            "retentionCount": 5,
            "storage": {"type": "s3", "s3": {"bucket": "snapshots", "keyPrefix": "ignition-sync/"}},
        },
        "rollback": {"toSnapshot": "site-20260212-102959.tar.gz"},
        "deployment": {
            "strategy": "canary",
            "stages": [
                {
                    "name": "dev",
                    "gateways": ["dev-gateway"],
                    "postSyncWait": "30s",
                    "healthCheckUrl": "GET https://dev-gateway:8043/status",
                },
                {
                    "name": "production",
                    "gateways": ["a", "b"],
                    "postSyncWait": "120s",
                    "requireApproval": True,
                },
            ],
            "syncOrder": [{"name": "hub", "weight": 100}, {"name": "a", "weight": 80, "dependsOn": ["hub"]}],
            "autoRollback": {"enabled": True, "triggers": ["scanFailure", "projectLoadError", "configError"]},
        },
        "rateLimit": {"maxConcurrentSyncs": 5, "maxSyncsPerMinute": 20, "burstLimit": 10},
        "approval": {
            "required": True,
            "timeout": "24h",
            "teams": ["platform-team"],
            "webhook": {"url": "https://approval.example.com/approve"},
        },
        "alerting": {
            "enabled": True,
            "webhooks": [
                {"type": "slack", "url": "https://hooks.example.com/x", "on": ["SyncFailed", "ScanFailure"]},
                {"type": "pagerduty", "integrationKey": "xxxx", "on": ["AutoRollback"]},
            ],
        },
    },
    "a child of a base": {
        "git": {
            "repo": REPO,
            "ref": "2.0.0",
            "auth": {"token": {"secretRef": {"name": "git-token", "key": "token"}}},
        },
        "inheritsFrom": {"name": "company-base", "namespace": "default"},
        "storage": {"storageClassName": "longhorn", "accessMode": "ReadWriteOnce"},
        "normalize": {
            "templates": [
                {"jsonPath": ".gateways[0].hostname", "valueTemplate": "gw-{{.SiteNumber}}.example.com"}
            ]
        },
    },
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_is_stored_as_it_was_written(kinds: ClusterAccess, namespace: str, sample: str) -> None:
    kind = kind_for("sync.ignition.io/v1alpha1", "IgnitionSync")
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": "sample"},
        "spec": SAMPLES[sample],
    }
    path = f"/apis/{kind.api_version}/namespaces/{namespace}/{kind.plural}"
    answer = kinds.request("POST", f"{path}?fieldValidation=Strict", body)
    assert answer.status == 201, answer.body.decode()
    stored = kinds.request("GET", f"{path}/sample").body
    assert json.loads(stored)["spec"] == SAMPLES[sample]
    assert to_wire(decode(stored, kind.model))["spec"] == SAMPLES[sample]

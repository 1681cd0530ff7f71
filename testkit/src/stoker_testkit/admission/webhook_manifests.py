"""Configurations and roles of the webhook, as an installation has them; only the address is a test's.

Where a chart names a Service these name a port of this machine, and each is limited to
one namespace, because configurations hold for a whole cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.api.registry import KINDS

SECRET = "stoker-webhook-tls"  # noqa: S105 - the name of one

ASKED = (
    "has(object.metadata.annotations) && ("
    "object.metadata.annotations[?'stoker.io/inject'].orValue('false') != 'false' || "
    "object.metadata.annotations[?'ignition-sync.io/inject'].orValue('false') != 'false')"
)
"""The match condition of injection (C-066)."""

_CHANGED = " || ".join(
    f"(has(object.metadata.annotations) ? object.metadata.annotations[?'{name}'].orValue('') : '') != "
    f"(oldObject != null && has(oldObject.metadata.annotations) ? "
    f"oldObject.metadata.annotations[?'{name}'].orValue('') : '')"
    for prefix in ("", "stoker.io/", "sync.ignition.io/")
    for name in (f"{prefix}approved-{part}" for part in ("by", "at", "ref", "plan"))
)
APPROVES = _CHANGED
"""The match condition of approvals."""


def mutating(name: str, namespace: str, ports: Sequence[int], policy: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"inject-{number}.stoker.io",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "NoneOnDryRun",
                "failurePolicy": policy,
                "reinvocationPolicy": "IfNeeded",
                "matchPolicy": "Equivalent",
                "timeoutSeconds": 10,
                "clientConfig": {"url": f"https://127.0.0.1:{port}/inject"},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [
                    {
                        "operations": ["CREATE"],
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                        "scope": "Namespaced",
                    }
                ],
                "matchConditions": [{"name": "asks-for-an-agent", "expression": ASKED}],
            }
            for number, port in enumerate(ports)
        ],
    }


def validating(name: str, namespace: str, ports: Sequence[int], policy: str) -> dict[str, Any]:
    groups: dict[str, list[str]] = {}
    for kind in KINDS:
        if kind.namespaced:
            groups.setdefault(kind.group, []).append(kind.plural)
    common = {
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 10,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }

    def rules(resources: dict[str, list[str]]) -> list[dict[str, Any]]:
        return [
            {
                "operations": ["CREATE", "UPDATE"],
                "apiGroups": [group],
                "apiVersions": ["v1alpha1"],
                "resources": names,
                "scope": "*",
            }
            for group, names in resources.items()
        ]

    webhooks: list[dict[str, Any]] = []
    for number, port in enumerate(ports):
        webhooks += [
            {
                **common,
                "name": f"validate-{number}.stoker.io",
                "failurePolicy": policy,
                "clientConfig": {"url": f"https://127.0.0.1:{port}/validate"},
                "rules": rules(groups),
            },
            {
                **common,
                "name": f"approve-{number}.stoker.io",
                "failurePolicy": "Fail",
                "clientConfig": {"url": f"https://127.0.0.1:{port}/validate-approval"},
                "rules": rules({"stoker.io": ["stokers"], "sync.ignition.io": ["ignitionsyncs"]}),
                "matchConditions": [{"name": "changes-an-approval", "expression": APPROVES}],
            },
        ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": webhooks,
    }


def roles(namespace: str, configuration: str, crds: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The least that the webhook needs: what the chart grants it."""
    kinds: dict[str, list[str]] = {}
    for kind in KINDS:
        kinds.setdefault(kind.group, []).append(kind.plural)
    by_name = {"resourceNames": [configuration], "verbs": ["get", "list", "watch", "patch"]}
    cluster: list[dict[str, Any]] = [
        {"apiGroups": [group], "resources": names, "verbs": ["get", "list"]} for group, names in kinds.items()
    ]
    cluster += [
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            **by_name,
        },
    ]
    if crds:
        cluster.append(
            {
                "apiGroups": ["apiextensions.k8s.io"],
                "resources": ["customresourcedefinitions"],
                "resourceNames": list(crds),
                "verbs": ["get", "list", "watch", "patch"],
            }
        )
    own = [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": [SECRET],
            "verbs": ["get", "list", "watch", "patch"],
        },
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ]
    account = {"kind": "ServiceAccount", "name": "stoker-webhook", "namespace": namespace}
    rbac = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "stoker-webhook", "namespace": namespace},
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": configuration},
            "rules": cluster,
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": configuration},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": configuration},
            "subjects": [account],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "Role",
            "metadata": {"name": "stoker-webhook", "namespace": namespace},
            "rules": own,
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "stoker-webhook", "namespace": namespace},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "stoker-webhook"},
            "subjects": [account],
        },
    ]

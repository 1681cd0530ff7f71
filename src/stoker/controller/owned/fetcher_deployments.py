"""Keeps the fetcher of each resource with a shared volume: service account, RBAC and Deployment.

An annotation on the RoleBinding has the digest of all applied manifests. The binding is watched anyway and is
written last, so a reconcile of a resource whose fetcher is up to date sends no request. Every `CHECK_SECONDS`
the controller reads the Deployment to see whether it was deleted.

The Deployment is in the resource's namespace. Its own service account may read the metadata ConfigMap of the
resource and nothing else; gateways do not share it. The pod has no label by which gateways are found. All
objects belong to the resource, are garbage-collected with it, and comply with Pod Security `restricted`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import CachedResource, ResourceKey, owned_metadata
from stoker.controller.owned.shared_volume import CHECK_SECONDS
from stoker.domain.clock import Clock
from stoker.domain.intent.intent import ResourceIntent, SyncResourceKind
from stoker.domain.pods.injection import AgentInstallation, container_image, source_secrets
from stoker.domain.pods.secret_volumes import secret_volume, secrets_volume
from stoker.domain.protocol import metadata_map_name
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import NotFound
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import DEPLOYMENTS, ROLE_BINDINGS, ROLES, ApiResource
from stoker.kube.watch.store import ObjectKey
from stoker.telemetry.logs import get_logger

ManifestJson = dict[str, Any]

MANAGER = "stoker-controller"

ACCOUNTS = ApiResource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)

CONTAINER = "fetcher"
DIGEST = "stoker.io/fetcher-digest"
"""Annotation of the RoleBinding, which is written last: the digest of all manifests."""
HEALTH_PORT = 8082
METRICS_PORT = 8083
USER = 65532

_PREFIX = {SyncResourceKind.STOKER: "stoker", SyncResourceKind.IGNITION_SYNC: "ignition-sync"}
_COMPONENT = {"app.kubernetes.io/component": "fetcher"}
# The first clone of a large repository takes long, and the startup probe must not end the pod for it.
_STARTS_WITHIN = 3600
_PERIOD = 10

log = get_logger(__name__)


class FetcherDeployments:
    """The `VolumeFetcher` of `stoker.controller.owned.shared_volume` that runs Deployments."""

    def __init__(
        self,
        observed: ControllerInformers,
        client: KubeClient,
        installation: AgentInstallation,
        clock: Clock,
        pull_secrets: Sequence[str] = (),
    ) -> None:
        """`pull_secrets` names Secrets in the resources' namespaces; kubelets ignore missing Secrets."""
        self._observed = observed
        self._client = client
        self._installation = installation
        self._clock = clock
        self._pull_secrets = tuple(pull_secrets)
        self._looked: dict[ResourceKey, float] = {}

    async def provide(
        self, key: ResourceKey, kept: CachedResource, intent: ResourceIntent, claim: str
    ) -> None:
        account, role = fetcher_account(key, kept), fetcher_role(key, kept)
        deployment = fetcher_deployment(key, kept, intent, self._installation, claim, self._pull_secrets)
        digest = manifests_digest(account, role, deployment)
        where = ObjectKey(key.object.namespace, fetcher_name(key))
        seen = self._observed.bindings.get(where)
        if (
            seen is not None
            and seen.metadata.annotations.get(DIGEST) == digest
            and await self._runs(key, where)
        ):
            return
        bound = fetcher_role_binding(key, kept, digest)
        await self._apply(ACCOUNTS, where, account)
        await self._observed.roles.write(where, self._apply(ROLES, where, role))
        await self._apply(DEPLOYMENTS, where, deployment)
        await self._observed.bindings.write(where, self._apply(ROLE_BINDINGS, where, bound))
        self._looked[key] = self._clock.monotonic()
        log.info("fetcher.provided", kind=key.kind, resource=str(key.object), claim=claim)

    async def withdraw(self, key: ResourceKey) -> None:
        where = ObjectKey(key.object.namespace, fetcher_name(key))
        self._looked.pop(key, None)
        if self._observed.roles.get(where) is None and self._observed.bindings.get(where) is None:
            return
        for resource in (DEPLOYMENTS, ACCOUNTS):
            with suppress(NotFound):
                await self._delete(resource, where)
        await self._observed.bindings.remove(where, self._delete(ROLE_BINDINGS, where))
        await self._observed.roles.remove(where, self._delete(ROLES, where))

    async def _runs(self, key: ResourceKey, where: ObjectKey) -> bool:
        now = self._clock.monotonic()
        if now - self._looked.get(key, -CHECK_SECONDS) < CHECK_SECONDS:
            return True
        try:
            await self._client.get(DEPLOYMENTS, where.name, where.namespace, into=ObjectHeader)
        except NotFound:
            return False
        self._looked[key] = now
        return True

    async def _apply(self, resource: ApiResource, where: ObjectKey, body: ManifestJson) -> msgspec.Raw:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return await self._client.apply(
            resource, whole, where.name, where.namespace, manager=MANAGER, into=msgspec.Raw
        )

    async def _delete(self, resource: ApiResource, where: ObjectKey) -> None:
        await self._client.delete(resource, where.name, where.namespace)


def fetcher_name(key: ResourceKey) -> str:
    return f"{_PREFIX[key.door]}-fetcher-{key.object.name}"


def fetcher_account(key: ResourceKey, kept: CachedResource) -> ManifestJson:
    return {"metadata": _fetcher_metadata(key, kept), "automountServiceAccountToken": False}


def fetcher_role(key: ResourceKey, kept: CachedResource) -> ManifestJson:
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [metadata_map_name(key.door, key.object.name)],
        "verbs": ["get", "list", "watch"],
    }
    return {"metadata": _fetcher_metadata(key, kept), "rules": [rule]}


def fetcher_role_binding(key: ResourceKey, kept: CachedResource, digest: str) -> ManifestJson:
    name = fetcher_name(key)
    return {
        "metadata": {**_fetcher_metadata(key, kept), "annotations": {DIGEST: digest}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": key.object.namespace}],
    }


def fetcher_deployment(
    key: ResourceKey,
    kept: CachedResource,
    intent: ResourceIntent,
    installation: AgentInstallation,
    claim: str,
    pull_secrets: Sequence[str] = (),
) -> ManifestJson:
    """Build a Deployment with at most one pod: two writers would block each other."""
    labels = {
        "app.kubernetes.io/name": "stoker",
        **_COMPONENT,
        # A resource name may be longer than a label value.
        "stoker.io/fetcher": hashlib.sha256(str(key).encode()).hexdigest()[:16],
    }
    volumes = list(_volumes(intent, installation, claim))
    return {
        "metadata": _fetcher_metadata(key, kept),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": fetcher_name(key),
                    "automountServiceAccountToken": True,
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": 30,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": USER,
                        "runAsGroup": USER,
                        "fsGroup": USER,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [_container(key, intent, installation, [mount for mount, _ in volumes])],
                    "volumes": [volume for _, volume in volumes],
                    **({"imagePullSecrets": [{"name": one} for one in pull_secrets]} if pull_secrets else {}),
                },
            },
        },
    }


def manifests_digest(*bodies: ManifestJson) -> str:
    return hashlib.sha256(json.dumps(bodies, sort_keys=True).encode()).hexdigest()[:16]


def _container(
    key: ResourceKey, intent: ResourceIntent, installation: AgentInstallation, mounts: list[ManifestJson]
) -> ManifestJson:
    def look(path: str) -> ManifestJson:
        return {"httpGet": {"path": path, "port": HEALTH_PORT}, "periodSeconds": _PERIOD}

    return {
        "name": CONTAINER,
        "image": str(container_image(intent, installation)),
        "imagePullPolicy": intent.agent.image.pull_policy,
        "args": ["fetcher", "--log-format=json"],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "CR_NAME", "value": key.object.name},
            {"name": "CR_KIND", "value": key.kind},
            {"name": "TMPDIR", "value": "/tmp"},  # noqa: S108 - a volume of the pod's own
            *(
                {"name": name, "value": value}
                for name, value in installation.environment
                if name.startswith("STOKER_EGRESS_")
            ),
        ],
        "ports": [
            {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        "startupProbe": {**look("/startupz"), "failureThreshold": _STARTS_WITHIN // _PERIOD},
        "livenessProbe": look("/healthz"),
        "readinessProbe": look("/readyz"),
        # Packing and unpacking takes the most memory; git itself is limited to a gigabyte.
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"cpu": "1", "memory": "1280Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }


def _volumes(
    intent: ResourceIntent, installation: AgentInstallation, claim: str
) -> Iterator[tuple[ManifestJson, ManifestJson]]:
    def entry(
        name: str, path: str, source: ManifestJson, *, writable: bool = False
    ) -> tuple[ManifestJson, ManifestJson]:
        mount = {"name": name, "mountPath": path, **({} if writable else {"readOnly": True})}
        return mount, {"name": name, **source}

    needed = source_secrets(intent, installation)
    yield entry("repo", "/repo", {"persistentVolumeClaim": {"claimName": claim}}, writable=True)
    yield entry("tmp", "/tmp", {"emptyDir": {"sizeLimit": "256Mi"}}, writable=True)  # noqa: S108
    for place, secret in (("git-credentials", needed.git), ("metadata-key", needed.metadata_key)):
        if secret is not None:
            yield entry(place, f"/etc/stoker/{place}", secret_volume(secret))
    if needed.trust:
        yield entry("secrets", "/etc/stoker/secrets", secrets_volume(needed.trust))


def _fetcher_metadata(key: ResourceKey, kept: CachedResource) -> ManifestJson:
    return owned_metadata(key, kept, fetcher_name(key), _COMPONENT)

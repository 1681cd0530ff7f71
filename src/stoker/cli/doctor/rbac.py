"""The rights that the operator and its agents need, and whether the API server grants them.

A test compares these lists to the chart's roles, so that they cannot diverge. Each right is checked with one
SubjectAccessReview, which changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from stoker.controller.cache.informers import PAUSE_MAP
from stoker.controller.sharding.division import lease_name
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import ApiResource

REVIEWS = ApiResource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
MAX_CONCURRENT_REVIEWS = 8
_IGNITION, _STOKER = "sync.ignition.io", "stoker.io"
_RBAC = "rbac.authorization.k8s.io"


class RequiredPermission(NamedTuple):
    """One right: a verb on a resource."""

    verb: str
    group: str
    resource: str
    name: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}" + (f" {self.name}" if self.name else "")


def needs(verbs: str, group: str, *resources: str, name: str = "") -> Iterator[RequiredPermission]:
    for resource in resources:
        for verb in verbs.split():
            yield RequiredPermission(verb, group, resource, name)


CONTROLLER: tuple[RequiredPermission, ...] = (
    *needs("list watch patch", _IGNITION, "ignitionsyncs"),
    *needs("list watch patch", _STOKER, "stokers"),
    *needs("update", _IGNITION, "ignitionsyncs/status"),
    *needs("update", _STOKER, "stokers/status", "syncprofiles/status"),
    *needs("list watch", _IGNITION, "ignitionsyncbases"),
    *needs("get list watch", _STOKER, "syncprofiles"),
    *needs("list watch", "", "pods"),
    *needs("get list watch", "", "secrets"),
    *needs("get list watch create update patch", "", "configmaps"),
    *needs("get list watch create update", _RBAC, "roles", "rolebindings"),
    *needs("create patch", "", "events"),
)
"""Needed in every watched namespace."""

SHARED_VOLUMES: tuple[RequiredPermission, ...] = (
    *needs("patch delete", _RBAC, "roles", "rolebindings"),
    *needs("list watch create patch delete", "", "persistentvolumeclaims"),
    *needs("get create patch delete", "apps", "deployments"),
    *needs("create patch delete", "", "serviceaccounts"),
)
"""Needed in addition if resources may use shared volumes."""


def home_needs(shards: int) -> tuple[RequiredPermission, ...]:
    """Needed in the operator's own namespace: leader election, and the pause ConfigMap."""
    return (
        *(one for index in range(shards) for one in needs("get update", *_LEASES, name=lease_name(index))),
        *needs("list create", *_LEASES),
        *needs("list watch", "", "configmaps", name=PAUSE_MAP),
    )


_LEASES = ("coordination.k8s.io", "leases")


class _PermissionReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _PermissionReview(msgspec.Struct, frozen=True):
    status: _PermissionReviewStatus = _PermissionReviewStatus()


async def missing_permissions(
    client: KubeClient,
    namespace: str,
    account: str,
    wanted: Iterable[RequiredPermission],
    *,
    where: str | None,
) -> list[RequiredPermission]:
    """Return the rights that a service account lacks in namespace `where`; None: in all namespaces."""
    turns = asyncio.Semaphore(MAX_CONCURRENT_REVIEWS)
    asked = list(wanted)

    async def allowed(need: RequiredPermission) -> bool:
        async with turns:
            body = _access_review(namespace, account, need, where)
            return (await client.create(REVIEWS, body, into=_PermissionReview)).status.allowed

    answers = await asyncio.gather(*map(allowed, asked))
    return [need for need, yes in zip(asked, answers, strict=True) if not yes]


def _access_review(
    namespace: str, account: str, need: RequiredPermission, where: str | None
) -> dict[str, Any]:
    resource, _, subresource = need.resource.partition("/")
    about = {
        "verb": need.verb,
        "group": need.group,
        "resource": resource,
        "subresource": subresource,
        "name": need.name,
        "namespace": where or "",
    }
    spec = {
        "user": f"system:serviceaccount:{namespace}:{account}",
        # The API server uses the groups of the request as they are and does not look them up.
        "groups": _groups(namespace),
        "resourceAttributes": {name: value for name, value in about.items() if value},
    }
    return {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind, "spec": spec}


def _groups(namespace: str) -> Sequence[str]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")

"""Which kinds are written when nobody says which, and which never are: data, and how it is spelt.

`PRESET` is the desired-state preset of the paper. `EXCLUDED` is the floor beneath
every rule: what an installation adds to it is excluded too, and nothing can be taken
away from it (C-149). Kinds are named as `kubectl` names them, `plural.group`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stoker.domain.errors import InvalidValue


class GroupResource(NamedTuple):
    """A kind in whatever version: `deployments` of `apps`."""

    group: str
    resource: str

    @classmethod
    def of(cls, text: str) -> GroupResource:
        """From `plural` (the core group) or `plural.group`."""
        resource, _, group = text.partition(".")
        if not resource or "/" in text or "*" in text or text.endswith("."):
            raise InvalidValue(f"{text[:80]!r} is not the name of a kind, such as deployments.apps")
        return cls(group, resource)

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


def _parse_kinds(*texts: str) -> tuple[GroupResource, ...]:
    return tuple(map(GroupResource.of, texts))


NAMESPACED = _parse_kinds(
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "services",
    "ingresses.networking.k8s.io",
    "networkpolicies.networking.k8s.io",
    "poddisruptionbudgets.policy",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "configmaps",
    "secrets",
    "serviceaccounts",
    "resourcequotas",
    "limitranges",
)
CLUSTER_WIDE = _parse_kinds(
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "priorityclasses.scheduling.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "storageclasses.storage.k8s.io",
)
PRESET = NAMESPACED + CLUSTER_WIDE

EXCLUDED = frozenset(
    _parse_kinds(
        "pods",
        "events",
        "events.events.k8s.io",
        "endpoints",
        "endpointslices.discovery.k8s.io",
        "leases.coordination.k8s.io",
        "controllerrevisions.apps",
        "flowschemas.flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
        "jobs.batch",
        "cronjobs.batch",
    )
)

MAX_KINDS = 300
"""Kinds that one installation watches; in the order of group, version and resource (C-174)."""


def excluded_kinds(more: Iterable[str] = ()) -> frozenset[GroupResource]:
    """The floor and what the installation adds to it."""
    return EXCLUDED | frozenset(map(GroupResource.of, more))

"""The kinds that the preset selects, the kinds that are never written, and how kinds are named.

`PRESET` is the desired-state preset, used where no rule names kinds. `EXCLUDED` is the floor beneath every
rule: an installation can add kinds to it and cannot remove any. Kinds are named as `kubectl` names them,
`plural.group`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stoker.domain.errors import InvalidValue


class GroupResource(NamedTuple):
    """A kind in any version: `deployments` of `apps`."""

    group: str
    resource: str

    @classmethod
    def of(cls, text: str) -> GroupResource:
        """Parse `plural` (the core group) or `plural.group`."""
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
"""The most kinds that one installation watches, taken in the order of group, version and resource."""


def excluded_kinds(more: Iterable[str] = ()) -> frozenset[GroupResource]:
    """Return the floor and the kinds that the installation adds to it."""
    return EXCLUDED | frozenset(map(GroupResource.of, more))

"""The namespaces in which a visitor may list and patch each kind. Pure functions and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.dashboard.cluster.kinds import ACTIONABLE_KINDS, DESTINATION
from stoker.dashboard.interfaces import VisibleScope
from stoker.dashboard.view_models import DashboardAction

RESOURCE_ACTIONS = (
    DashboardAction.APPROVE,
    DashboardAction.PAUSE,
    DashboardAction.RESUME,
    DashboardAction.SYNC,
    DashboardAction.ROLLBACK,
    DashboardAction.RELEASE,
)
"""Each of these actions is a patch of the resource."""


class GrantedNamespaces(NamedTuple):
    """The namespaces in which a permission is granted."""

    everywhere: bool = False
    namespaces: frozenset[str] = frozenset()

    def has(self, namespace: str) -> bool:
        return self.everywhere or namespace in self.namespaces


NO_REACH = GrantedNamespaces()


@dataclass(frozen=True, slots=True)
class VisitorRights:
    """A visitor's permissions as of the last check; equal permissions give equal views."""

    lists: Mapping[str, GrantedNamespaces] = field(default_factory=dict)
    """By kind."""
    patches: Mapping[str, GrantedNamespaces] = field(default_factory=dict)

    def __call__(self, action: DashboardAction, namespace: str) -> bool:
        """Return whether the action is permitted there for at least one kind."""
        return action in RESOURCE_ACTIONS and any(self.acts(kind, namespace) for kind in ACTIONABLE_KINDS)

    def sees(self, kind: str, namespace: str) -> bool:
        return self.lists.get(kind, NO_REACH).has(namespace)

    def acts(self, kind: str, namespace: str) -> bool:
        return self.patches.get(kind, NO_REACH).has(namespace)

    def sight(self, *, may_stop: bool) -> VisibleScope:
        reaches = self.lists.values()
        namespaces = frozenset().union(*(one.namespaces for one in reaches))
        return VisibleScope(
            bool(reaches) and all(one.everywhere for one in reaches), namespaces, self, may_stop
        )


def can_see(sight: VisibleScope, kind: str, namespace: str) -> bool:
    """Return whether the visitor may see the kind; a scope without `VisitorRights` knows only namespaces."""
    return sight.may.sees(kind, namespace) if isinstance(sight.may, VisitorRights) else sight.sees(namespace)


def can_see_any(sight: VisibleScope, kind: str, namespace: str | None) -> bool:
    """Return whether the visitor may see this kind in the namespace, or in any namespace if it is None."""
    if namespace is not None:
        return can_see(sight, kind, namespace)
    if isinstance(sight.may, VisitorRights):
        reach = sight.may.lists.get(kind, NO_REACH)
        return reach.everywhere or bool(reach.namespaces)
    return sight.everything or bool(sight.namespaces)


def allowed_actions(sight: VisibleScope, kind: str, namespace: str) -> tuple[str, ...]:
    """Return the actions that a visitor may perform on a resource of this kind there."""
    offered = (DashboardAction.APPROVE,) if kind == DESTINATION else RESOURCE_ACTIONS
    if isinstance(sight.may, VisitorRights):
        return tuple(map(str, offered)) if sight.may.acts(kind, namespace) else ()
    return tuple(str(one) for one in offered if sight.may(one, namespace))

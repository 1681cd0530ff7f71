"""How far a visitor sees and reaches: for each kind everywhere, or in these namespaces. Pure."""

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
"""Each of them is a patch of the resource."""


class GrantedNamespaces(NamedTuple):
    """Where something is allowed."""

    everywhere: bool = False
    namespaces: frozenset[str] = frozenset()

    def has(self, namespace: str) -> bool:
        return self.everywhere or namespace in self.namespaces


NO_REACH = GrantedNamespaces()


@dataclass(frozen=True, slots=True)
class VisitorRights:
    """What one visitor may, as it was found a moment ago; equal ones are the same picture."""

    lists: Mapping[str, GrantedNamespaces] = field(default_factory=dict)
    """By kind."""
    patches: Mapping[str, GrantedNamespaces] = field(default_factory=dict)

    def __call__(self, action: DashboardAction, namespace: str) -> bool:
        """Whether a button for it makes sense there, for one of the kinds at least."""
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
    """A sight that our gate made knows of kinds; any other is taken at its word."""
    return sight.may.sees(kind, namespace) if isinstance(sight.may, VisitorRights) else sight.sees(namespace)


def can_see_any(sight: VisibleScope, kind: str, namespace: str | None) -> bool:
    """Whether there is a namespace in which they would see this kind; with a name, whether it is this one."""
    if namespace is not None:
        return can_see(sight, kind, namespace)
    if isinstance(sight.may, VisitorRights):
        reach = sight.may.lists.get(kind, NO_REACH)
        return reach.everywhere or bool(reach.namespaces)
    return sight.everything or bool(sight.namespaces)


def allowed_actions(sight: VisibleScope, kind: str, namespace: str) -> tuple[str, ...]:
    """What a visitor may do to a resource of this kind there."""
    offered = (DashboardAction.APPROVE,) if kind == DESTINATION else RESOURCE_ACTIONS
    if isinstance(sight.may, VisitorRights):
        return tuple(map(str, offered)) if sight.may.acts(kind, namespace) else ()
    return tuple(str(one) for one in offered if sight.may(one, namespace))

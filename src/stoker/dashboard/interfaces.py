"""The interfaces that a dashboard backend implements: authentication, view and actions.

The server (`stoker.dashboard.server`) asks a `DashboardAuth` for the identity and the visible scope of a
visitor, asks a `ViewSource` for the data inside that scope, and passes an `ActionBody` to
`DashboardActions`. It has no other access to a gateway. A view source holds everything in memory, so that
it builds a view without waiting, however many pages are open. It never returns data that the visitor may
not see. `DashboardActions` checks the visitor's permission again, whatever buttons the page has shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from stoker.dashboard.view_models import (
    ActionBody,
    ChangesView,
    DashboardAction,
    DashboardView,
    GatewayHistoryView,
)
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret

CLUSTER = "cluster"
STANDALONE = "standalone"

PermissionCheck: TypeAlias = Callable[[DashboardAction, str], bool]
"""Whether a visitor may perform this action in that namespace."""


class Visitor(NamedTuple):
    """An authenticated user, with the token that proved it."""

    name: str
    groups: tuple[str, ...]
    token: Secret


class VisibleScope(NamedTuple):
    """The namespaces that a visitor may see and the actions they may perform, as of the last check."""

    everything: bool
    """All namespaces; otherwise only `namespaces`."""
    namespaces: frozenset[str]
    may: PermissionCheck
    may_stop: bool

    def sees(self, namespace: str) -> bool:
        return self.everything or namespace in self.namespaces


class GatewayKey(NamedTuple):
    """One gateway of one resource."""

    namespace: str
    kind: str
    name: str
    gateway: str


class ActionRefused(Exception):
    """A refused request; the page receives the status and the sentence unchanged."""

    def __init__(self, status: int, sentence: str, reason: Reason | str = "", *, after: float = 0.0) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.reason = str(reason)
        self.after = after
        """Seconds until a retry makes sense; 0 if unknown."""


class ViewSource(Protocol):
    """The data that the dashboard shows."""

    @property
    def mode(self) -> str:
        """CLUSTER or STANDALONE."""
        ...

    def version(self) -> int:
        """Return a number that grows with every change."""
        ...

    async def changed(self, seen: int) -> int:
        """Wait until the version is greater than `seen`, and return it."""
        ...

    def picture(self, sight: VisibleScope) -> DashboardView:
        """Return what this visitor may see and which actions they may perform. The server fills in `you`."""
        ...

    def changes(self, seen: int, sight: VisibleScope) -> ChangesView | None:
        """Return the changes since version `seen`; None if it is too old: send the whole view."""
        ...

    def gateway(self, key: GatewayKey, sight: VisibleScope) -> GatewayHistoryView | None:
        """Return a gateway with its history; None if it does not exist or the visitor may not see it."""
        ...


class DashboardActions(Protocol):
    """The actions that the dashboard offers."""

    async def do(self, order: ActionBody, visitor: Visitor) -> str:
        """Perform the action and return a sentence about the result.

        Raises StokerError, or ActionRefused where an HTTP status is more precise.
        """
        ...


class DashboardAuth(Protocol):
    """Authenticates visitors and decides what they may see."""

    def known(self, token: Secret) -> Visitor | None:
        """Return the owner of the token from memory, without a request; None if `admit` must be called."""
        ...

    async def admit(self, token: Secret) -> Visitor | None:
        """Return the owner of the token; None if it is not valid. Raises StokerError if the check failed."""
        ...

    async def sight(self, visitor: Visitor) -> VisibleScope:
        """Return what the visitor may see. Called again every few seconds, so that a revoked permission ends.

        Return an equal value if nothing changed (`may` must be the same object); otherwise every page
        receives the whole view again. Raises `ActionRefused(401, …)` if the token is no longer valid: the
        session ends. Raises StokerError if the check failed: the previous value stays valid for 5 minutes.
        """
        ...

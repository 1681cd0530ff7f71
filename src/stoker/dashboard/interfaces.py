"""What a place must have to be shown by the dashboard, and who may come in.

The server (`stoker.dashboard.server`) asks a `DashboardAuth` who a visitor is and how far they see, a
`ViewSource` for what can be seen from there, and hands an `ActionBody` to `DashboardActions`. It knows no
other way to a gateway. A scene holds all it shows in memory: a picture is made without
waiting, however many look. What a visitor may not see is not in what a scene returns;
what they may not do is refused again by whoever does it, whatever the page has shown.
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
"""Whether a visitor may do this in that namespace."""


class Visitor(NamedTuple):
    """Somebody who was let in, with what they proved it by."""

    name: str
    groups: tuple[str, ...]
    token: Secret


class VisibleScope(NamedTuple):
    """How far a visitor sees and reaches, as it was found a moment ago."""

    everything: bool
    """Every namespace; otherwise only `namespaces`."""
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
    """An order that is not carried out; the status and the sentence go to the page as they are."""

    def __init__(self, status: int, sentence: str, reason: Reason | str = "", *, after: float = 0.0) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.reason = str(reason)
        self.after = after
        """Seconds after which it may be tried again; 0: nobody knows."""


class ViewSource(Protocol):
    """What can be seen."""

    @property
    def mode(self) -> str:
        """CLUSTER or STANDALONE."""
        ...

    def version(self) -> int:
        """Grows with every change."""
        ...

    async def changed(self, seen: int) -> int:
        """Wait until the version is greater than `seen`, and return it."""
        ...

    def picture(self, sight: VisibleScope) -> DashboardView:
        """Only what this visitor may see, with what they may do. The server fills in `you`."""
        ...

    def changes(self, seen: int, sight: VisibleScope) -> ChangesView | None:
        """What is different since then; None: that was too long ago, take the picture."""
        ...

    def gateway(self, key: GatewayKey, sight: VisibleScope) -> GatewayHistoryView | None:
        """One gateway with its history; None: there is none, or none that this visitor may see."""
        ...


class DashboardActions(Protocol):
    """What can be done."""

    async def do(self, order: ActionBody, visitor: Visitor) -> str:
        """A sentence of what was done. Raises StokerError, or Refused where a status says more."""
        ...


class DashboardAuth(Protocol):
    """Who may come in."""

    def known(self, token: Secret) -> Visitor | None:
        """Who brings this token, as far as that is known without asking anybody; None: ask."""
        ...

    async def admit(self, token: Secret) -> Visitor | None:
        """Who brings this token; None: nobody we know. Raises StokerError where nobody could be asked."""
        ...

    async def sight(self, visitor: Visitor) -> VisibleScope:
        """Asked again every few seconds, so that a right that was taken away is gone.

        An equal value where nothing changed (its `may` is the same object), or pages are sent
        everything again. Raises `ActionRefused(401, …)` where the token itself is no longer good:
        the session ends; StokerError where nobody could be asked: what was known holds for 5 minutes.
        """
        ...

"""Values that the modules of bidirectional sync pass to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stoker.domain.intent.intent import GatewayIntent
from stoker.domain.intent.policies import BidirectionalPolicy
from stoker.domain.intent.source import SourceIntent
from stoker.domain.protocol import ChangeSetReply
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId


@dataclass(frozen=True, slots=True)
class ChangeSetSender:
    """A gateway that may send change sets."""

    key: str
    """The first part of its keys in the inbox, as in the status ConfigMap."""
    target: str
    """The name under which it gets replies."""
    name: str
    intent: Callable[[], GatewayIntent]
    """Returns its intent, or raises if that cannot be computed; called only if it sent a change set."""


@dataclass(frozen=True, slots=True)
class ReceivedChangeSet:
    """A change set in the inbox, not read yet."""

    gateway_key: str
    id: str
    chunks: tuple[tuple[str, str], ...]
    """The ConfigMap and the key of each chunk, by number."""
    complete: bool
    """Whether it may be complete: the chunks' own count is not known yet."""


@dataclass(frozen=True, slots=True)
class RawChangeSet:
    """The chunks of one change set as the ConfigMaps hold them, not decoded."""

    parts: tuple[bytes, ...]
    attempt: str = ""
    """The mark of the last attempt to decode a change set of this ConfigMap; empty if none is open."""


@dataclass(frozen=True, slots=True)
class BidirectionalRequest:
    """The input of the worker for one resource."""

    policy: BidirectionalPolicy
    source: SourceIntent
    """With the ref that is followed."""
    commit: CommitId | None
    """The ref's commit, if known; when it changes, open pull requests are checked."""
    interval: float | None
    secrets: tuple[str, ...] = ()
    """Versions of the Secrets for the repository; a change ends all pauses."""
    senders: Mapping[str, ChangeSetSender] = field(default_factory=dict)
    """By key."""
    parcels: tuple[ReceivedChangeSet, ...] = ()
    """Oldest first."""
    behind: frozenset[str] = frozenset()
    """Targets that may not apply the commit yet because a gate holds them."""


@dataclass(frozen=True, slots=True)
class GatewayChangesState:
    """The state of the changes of one gateway."""

    branch: str = ""
    """The branch with its changes under review; empty if there are none."""
    request: str = ""
    """URL of the open pull request."""
    conflicts: tuple[str, ...] = ()
    """Live paths that both sides have changed."""
    refused: tuple[str, ...] = ()
    """Live paths of the last change set that were refused."""
    reason: Reason | None = None
    message: str = ""
    """The current error, or other information for the user."""


@dataclass(frozen=True, slots=True)
class BidirectionalResult:
    """The results for all gateways of a resource."""

    answers: Mapping[str, ChangeSetReply] = field(default_factory=dict)
    """Replies by target."""
    standings: Mapping[str, GatewayChangesState] = field(default_factory=dict)
    """States by target."""

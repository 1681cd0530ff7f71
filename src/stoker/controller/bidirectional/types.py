"""What the parts of the way back hand to each other."""

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
    """A gateway that may have something to say."""

    key: str
    """The first part of its keys in the maps, as in the status map."""
    target: str
    """Under which it is answered."""
    name: str
    intent: Callable[[], GatewayIntent]
    """What its files shall be; raises where that cannot be told. Asked only if it sent something."""


@dataclass(frozen=True, slots=True)
class ReceivedChangeSet:
    """One set of changes as it lies in the maps, unread."""

    gateway_key: str
    id: str
    chunks: tuple[tuple[str, str], ...]
    """The map and the key of each part, by number."""
    complete: bool
    """Whether it can be: what the parts say of themselves is not known yet."""


@dataclass(frozen=True, slots=True)
class RawChangeSet:
    """The chunks of one change set as the ConfigMaps hold them, not decoded."""

    parts: tuple[bytes, ...]
    attempt: str = ""
    """The mark of the last attempt to decode a set of this ConfigMap; empty: none, or it ended."""


@dataclass(frozen=True, slots=True)
class BidirectionalRequest:
    """Everything that one resource wants at one time."""

    policy: BidirectionalPolicy
    source: SourceIntent
    """With the ref that is followed."""
    commit: CommitId | None
    """Where the ref is, as far as that is known; another one is a reason to look after open requests."""
    interval: float | None
    secrets: tuple[str, ...] = ()
    """Versions of the Secrets that open it; others are a reason to try again at once."""
    senders: Mapping[str, ChangeSetSender] = field(default_factory=dict)
    """By key."""
    parcels: tuple[ReceivedChangeSet, ...] = ()
    """Oldest first."""
    behind: frozenset[str] = frozenset()
    """Targets that may not apply the commit yet: they wait for a gate."""


@dataclass(frozen=True, slots=True)
class GatewayChangesState:
    """How it stands with the changes of one gateway."""

    branch: str = ""
    """Where its changes lie that nobody has decided about; empty: there are none."""
    request: str = ""
    """Address of the open pull request."""
    conflicts: tuple[str, ...] = ()
    """Live paths that both sides have changed."""
    refused: tuple[str, ...] = ()
    """Live paths of the last set that git did not get."""
    reason: Reason | None = None
    message: str = ""
    """What is in the way, or what else a person should know."""


@dataclass(frozen=True, slots=True)
class BidirectionalResult:
    """What became of everything so far."""

    answers: Mapping[str, ChangeSetReply] = field(default_factory=dict)
    """By target."""
    standings: Mapping[str, GatewayChangesState] = field(default_factory=dict)
    """By target."""

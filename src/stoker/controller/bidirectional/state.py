"""The worker's state for one resource between two runs, and functions on it.

The state only saves work: without it, everything can be found in the metadata ConfigMap, the status, git and
the forge.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.controller.bidirectional.types import BidirectionalRequest, GatewayChangesState, ReceivedChangeSet
from stoker.domain.errors import StokerError
from stoker.domain.protocol import ChangeSetReply


class FailurePause(NamedTuple):
    """The number of failures, and until when the next attempt waits."""

    failures: int = 0
    until: float = 0.0


@dataclass(slots=True, eq=False)
class BidirectionalState:
    """The worker's state for one resource."""

    ask: BidirectionalRequest
    answers: dict[str, ChangeSetReply]
    standings: dict[str, GatewayChangesState]
    troubles: dict[str, StokerError] = field(default_factory=dict)
    """The current error, by target."""
    halves: set[ReceivedChangeSet] = field(default_factory=set)
    """Change sets that were read and lack chunks."""
    since: dict[ReceivedChangeSet, float] = field(default_factory=dict)
    stuck: dict[ReceivedChangeSet, FailurePause] = field(default_factory=dict)
    """Failed change sets; each has its own pause and does not block others."""
    look_at: float = 0.0
    """When open pull requests are checked next."""
    lost: int = 0
    """How often in a row that check failed."""
    task: asyncio.Task[None] | None = None


def waiting_change_sets(desk: BidirectionalState) -> list[ReceivedChangeSet]:
    """The oldest change set of each gateway without a reply."""
    found: dict[str, ReceivedChangeSet] = {}
    for parcel in desk.ask.parcels:
        sender = desk.ask.senders.get(parcel.gateway_key)
        if sender is None or is_unusable(desk, parcel):
            continue
        answer = desk.answers.get(sender.target)
        if answer is not None and answer.id == parcel.id:
            continue
        found.setdefault(parcel.gateway_key, parcel)
    return list(found.values())


def stuck_pause(desk: BidirectionalState, parcel: ReceivedChangeSet) -> FailurePause:
    return desk.stuck.get(parcel, FailurePause())


def held_file_count(desk: BidirectionalState) -> int:
    """How many files agents must not overwrite."""
    return sum(len(answer.holds) for answer in desk.answers.values())


def is_unusable(desk: BidirectionalState, parcel: ReceivedChangeSet) -> bool:
    """Whether it cannot be processed as it is."""
    return parcel.gateway_key not in desk.ask.senders or not parcel.complete or parcel in desk.halves


def gateways_under_review(desk: BidirectionalState) -> list[str]:
    """Gateways whose changes still wait for a review."""
    holding = [target for target, answer in desk.answers.items() if answer.holds]
    proposed = [target for target, standing in desk.standings.items() if standing.branch]
    return sorted({*holding, *proposed})


def has_new_inputs(old: BidirectionalRequest, new: BidirectionalRequest) -> bool:
    """Whether an input changed that ends all pauses."""
    return (old.policy, old.source, old.commit, old.secrets, old.behind) != (
        new.policy,
        new.source,
        new.commit,
        new.secrets,
        new.behind,
    )

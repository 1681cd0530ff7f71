"""What is known of the way back of one resource between two steps of its work, and what follows from it.

It is only ever a saving of work: whoever begins without it finds everything in the published
map, in the status, in git and at the forge.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.controller.bidirectional.types import BidirectionalRequest, GatewayChangesState, ReceivedChangeSet
from stoker.domain.errors import StokerError
from stoker.domain.protocol import ChangeSetReply


class FailurePause(NamedTuple):
    """How often something failed, and until when it is left alone."""

    failures: int = 0
    until: float = 0.0


@dataclass(slots=True, eq=False)
class BidirectionalState:
    """What is known of one resource."""

    ask: BidirectionalRequest
    answers: dict[str, ChangeSetReply]
    standings: dict[str, GatewayChangesState]
    troubles: dict[str, StokerError] = field(default_factory=dict)
    """By target: what is in the way now."""
    halves: set[ReceivedChangeSet] = field(default_factory=set)
    """Looked at, and parts of them are still to come."""
    since: dict[ReceivedChangeSet, float] = field(default_factory=dict)
    stuck: dict[ReceivedChangeSet, FailurePause] = field(default_factory=dict)
    """Sets that did not go; each waits for itself, and keeps nobody else's."""
    look_at: float = 0.0
    """When open requests are looked after next."""
    lost: int = 0
    """How often in a row that failed."""
    task: asyncio.Task[None] | None = None


def waiting_change_sets(desk: BidirectionalState) -> list[ReceivedChangeSet]:
    """The oldest set of each gateway that has no answer yet."""
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
    """How many files agents are told to leave alone."""
    return sum(len(answer.holds) for answer in desk.answers.values())


def is_unusable(desk: BidirectionalState, parcel: ReceivedChangeSet) -> bool:
    """Whether nothing can be made of it as it is."""
    return parcel.gateway_key not in desk.ask.senders or not parcel.complete or parcel in desk.halves


def gateways_under_review(desk: BidirectionalState) -> list[str]:
    """Gateways whose changes somebody has still to decide about."""
    holding = [target for target, answer in desk.answers.items() if answer.holds]
    proposed = [target for target, standing in desk.standings.items() if standing.branch]
    return sorted({*holding, *proposed})


def has_new_inputs(old: BidirectionalRequest, new: BidirectionalRequest) -> bool:
    """In something that ends all pauses."""
    return (old.policy, old.source, old.commit, old.secrets, old.behind) != (
        new.policy,
        new.source,
        new.commit,
        new.secrets,
        new.behind,
    )

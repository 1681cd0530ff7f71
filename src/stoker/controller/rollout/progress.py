"""The progress of a rollout as the status records it: start times, queue and stages.

No value in it changes with time alone, or every reconcile would write the status.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import msgspec

from stoker.api.spec.status import RolloutStatus, StageStatus
from stoker.controller.rollout import sync_concurrency
from stoker.controller.rollout.gateways import RolloutMember
from stoker.controller.rollout.inputs import RolloutInputs
from stoker.controller.rollout.stages import StageEvaluation, StagePlan
from stoker.domain.clock import parse_rfc3339, rfc3339

RolloutProgress: TypeAlias = RolloutStatus


@dataclass(frozen=True, slots=True)
class RolloutQueue:
    """The gateways that may begin now, and those that wait in the queue."""

    free: frozenset[str] = frozenset()
    """Targets that may begin."""
    queue: tuple[str, ...] = ()
    busy: int = 0
    again_in: float | None = None


def has_progress(situation: RolloutInputs) -> bool:
    """Whether there is progress to record: most resources have neither stages, nor order, nor limits."""
    deployment = situation.deployment
    return bool(deployment.stages or deployment.order or situation.rate_limit is not None)


def begin_progress(
    situation: RolloutInputs, members: Sequence[RolloutMember], plan: StagePlan
) -> RolloutProgress:
    """Return the progress before this reconcile.

    A new commit starts anew, and so does a new request after a failure.
    """
    found = situation.progress
    asked = situation.asked or None
    failed = found is not None and any(one.state == "Failed" for one in found.stages or ())
    if found is not None and not (failed and found.request != asked):
        return found if failed else msgspec.structs.replace(found, request=asked)
    made = RolloutStatus(commit=str(situation.commit), started_at=rfc3339(situation.now), request=asked)
    there = {one.name for one in members}
    whole = all(set(stage.gateways) <= there for stage in plan.stages)
    if found is None and members and whole and all(one.done for one in members):
        # All gateways have the commit already: stages that are new in the spec pass at once.
        passed = tuple(StageStatus(name=stage.name, state="Passed") for stage in plan.stages)
        return msgspec.structs.replace(made, stages=passed or None)
    return made


def choose_turns(
    situation: RolloutInputs, before: RolloutProgress, able: Sequence[RolloutMember], busy: int
) -> RolloutQueue:
    """Choose which of the gateways that may go begin now; the others keep their places in the queue."""
    limit = situation.rate_limit
    if limit is None:
        return RolloutQueue(frozenset(one.target for one in able), (), busy + sum(one.busy for one in able))
    waited = {name: place for place, name in enumerate(before.queue or ())}
    weights = {one.gateway: one.weight for one in situation.deployment.order}
    line = sorted(
        able, key=lambda one: (waited.get(one.target, len(waited)), -weights.get(one.name, 0), one.target)
    )
    places = sync_concurrency.max_concurrent_syncs(limit, len(situation.fleet.gateways)) - busy
    room = sync_concurrency.rate_limit_room(
        limit, sync_concurrency.recent_starts(_recent_starts(situation), situation.now), situation.now
    )
    count = max(0, min(places, room.places, sync_concurrency.NO_RATE_LIMIT))
    free, rest = line[:count], line[count:]
    only_time = rest and places > len(free)
    again_in = (room.again_in or sync_concurrency.MIN_WAIT_SECONDS) if only_time else None
    return RolloutQueue(
        frozenset(one.target for one in free),
        tuple(one.target for one in rest)[: sync_concurrency.NO_RATE_LIMIT],
        busy + sum(one.busy for one in free),
        again_in,
    )


def end_progress(
    situation: RolloutInputs, before: RolloutProgress, walked: StageEvaluation, turn: RolloutQueue
) -> RolloutProgress:
    """Return the progress after this reconcile."""
    begun: tuple[str, ...] = tuple(_recent_starts(situation))
    if turn.free and situation.rate_limit is not None:
        still = sync_concurrency.recent_starts(begun, situation.now)
        now = [rfc3339(situation.now)] * len(turn.free)
        begun = (*map(rfc3339, still), *now)[-sync_concurrency.NO_RATE_LIMIT :]
    return msgspec.structs.replace(
        before,
        stages=tuple(walked.stages) or None,
        queued=len(turn.queue) if situation.rate_limit is not None else None,
        syncing=turn.busy,
        queue=turn.queue or None,
        queued_since=_queue_since(situation, turn.queue),
        begun=begun or None,
    )


def queue_growth(progress: RolloutProgress | None, now: datetime) -> tuple[bool, float | None]:
    """Whether the queue has not become shorter for too long, and if not, seconds until the next check."""
    if progress is None or not progress.queue or progress.queued_since is None:
        return False, None
    left = (
        sync_concurrency.QUEUE_GROWTH_SECONDS - (now - parse_rfc3339(progress.queued_since)).total_seconds()
    )
    return left < 0, left + sync_concurrency.MIN_WAIT_SECONDS if left >= 0 else None


def _queue_since(situation: RolloutInputs, queue: Sequence[str]) -> str | None:
    if not queue:
        return None
    earlier = situation.before.release
    stood = earlier.queue or () if earlier is not None else ()
    if earlier is not None and earlier.queued_since and 0 < len(stood) <= len(queue):
        return earlier.queued_since
    return rfc3339(situation.now)


def _recent_starts(situation: RolloutInputs) -> Sequence[str]:
    """The start times for the rate limit, which counts over all commits."""
    earlier = situation.before.release
    return (earlier.begun or ()) if earlier is not None else ()

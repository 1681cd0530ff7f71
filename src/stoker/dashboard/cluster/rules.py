"""The rules that send objects to destinations, as far as a page shows them. Pure.

A destination that can be written is no news where a rule's watch is refused: what it selects never
gets there, and nothing waits either. So a destination is shown with what is wrong with its rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from stoker.api.kinds.resource import ConditionedStatus
from stoker.dashboard.cluster.object_header import ReverserObjectMeta, ReverserObjectRef
from stoker.domain.reasons import ConditionType, Reason

HIDDEN = (
    "Of a rule that your account may not see, not everything is watched:"
    " its status, as a WatchRule or a ClusterWatchRule, says why."
)

_PROBLEM_CONDITIONS = (
    ConditionType.WATCH_ERRORED,
    ConditionType.ACCESS_DENIED,
    ConditionType.DISCOVERY_DEGRADED,
)


class DestinationKey(NamedTuple):
    """A GitDestination by its name."""

    namespace: str
    name: str


class CachedWatchRule(NamedTuple):
    """What is kept of a WatchRule or ClusterWatchRule."""

    kind: str
    namespace: str
    name: str
    destination: DestinationKey
    trouble: str = ""
    """Why not everything that it selects gets to its destination; what ails the destination is no part."""


class _RuleSpecPart(msgspec.Struct, frozen=True, rename="camel"):
    destination_ref: ReverserObjectRef = ReverserObjectRef()


class _RuleBody(msgspec.Struct, frozen=True):
    metadata: ReverserObjectMeta
    spec: _RuleSpecPart = _RuleSpecPart()
    status: ConditionedStatus = msgspec.field(default_factory=ConditionedStatus)


_body = msgspec.json.Decoder(_RuleBody)


def decode_rule(kind: str, raw: bytes) -> CachedWatchRule:
    body = _body.decode(raw)
    of, ref = body.metadata, body.spec.destination_ref
    to = DestinationKey(ref.namespace or of.namespace, ref.name)
    return CachedWatchRule(kind, of.namespace, of.name, to, _rule_problem(body.status))


def _rule_problem(status: ConditionedStatus) -> str:
    for one in status.conditions or ():
        unreadable = one.type == ConditionType.READY and one.reason == Reason.INVALID_SPEC
        if unreadable or (one.type in _PROBLEM_CONDITIONS and one.status == "True"):
            return one.message or one.reason or one.type
    return ""


def rule_problems(
    rules: Iterable[CachedWatchRule], may_see: Callable[[CachedWatchRule], bool]
) -> tuple[str, ...]:
    """What is wrong with rules; of those that somebody may not see, that it is so and no more."""
    wrong = [one for one in rules if one.trouble]
    seen = [f"{one.kind} {one.name}: {one.trouble}" for one in wrong if may_see(one)]
    return (*seen, *([HIDDEN] if len(seen) < len(wrong) else []))


class RulesByDestination:
    """All rules, by where they send to."""

    def __init__(self) -> None:
        self._by_destination: defaultdict[DestinationKey, dict[tuple[str, ...], CachedWatchRule]] = (
            defaultdict(dict)
        )

    def replace(self, old: CachedWatchRule | None, new: CachedWatchRule | None) -> set[DestinationKey]:
        """Take a rule in place of what it was; the destinations that this is about."""
        if old is not None:
            rules = self._by_destination[old.destination]
            rules.pop(old[:3], None)
            if not rules:
                del self._by_destination[old.destination]
        if new is not None:
            self._by_destination[new.destination][new[:3]] = new
        return {one.destination for one in (old, new) if one is not None}

    def of(self, destination: DestinationKey) -> tuple[CachedWatchRule, ...]:
        return tuple(rule for _, rule in sorted(self._by_destination.get(destination, {}).items()))

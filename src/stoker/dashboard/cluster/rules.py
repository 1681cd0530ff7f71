"""The rules that send objects to destinations, and their problems as a page shows them. Pure.

A destination can be Ready although the watch of one of its rules is denied: the selected objects never
reach it, and no change is pending either. The page therefore shows the problems of its rules with it.
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
    """The namespace and name of a GitDestination."""

    namespace: str
    name: str


class CachedWatchRule(NamedTuple):
    """The part of a WatchRule or ClusterWatchRule that is kept in memory."""

    kind: str
    namespace: str
    name: str
    destination: DestinationKey
    trouble: str = ""
    """Why some selected objects do not reach the destination; problems of the destination itself excluded."""


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
    """Return the problems of rules; for rules that the visitor may not see, only that there are problems."""
    wrong = [one for one in rules if one.trouble]
    seen = [f"{one.kind} {one.name}: {one.trouble}" for one in wrong if may_see(one)]
    return (*seen, *([HIDDEN] if len(seen) < len(wrong) else []))


class RulesByDestination:
    """All rules, by destination."""

    def __init__(self) -> None:
        self._by_destination: defaultdict[DestinationKey, dict[tuple[str, ...], CachedWatchRule]] = (
            defaultdict(dict)
        )

    def replace(self, old: CachedWatchRule | None, new: CachedWatchRule | None) -> set[DestinationKey]:
        """Replace a rule and return the destinations that this affects."""
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

"""Attribute changes to users: join admission facts with watch events. The answer is a certain author or None.

A fact matches an event if both are about the same object (by uid), the request found exactly the version that
the watch saw last, and it wants exactly the state that the event shows. For a `scale`, the new state with the
previous replica count must equal the previous state. If facts of two users match, or no fact matches, the
author is unknown. Authors are never guessed.

Callers must only pass an event that the watch delivered directly after the version that it saw last. An
object in a list may contain several changes, whose authors cannot be known, so callers must not pass it.

Admission does not show whether a write was carried out. If one user's request is refused later, another
user's identical request for the same version succeeds, and the fact of the second request is lost, then the
first fact matches. Facts are kept only as long as a batch can wait, which keeps this window short.

The memory is bounded by `capacity` and `keep`. All facts about one version of one object are stored and
dropped together: if a single fact were dropped, the remaining fact could seem certain.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from stoker.domain.git_objects import blob_of
from stoker.reverser.authors.facts import AuthorFact, RequestUser, ScaleChange
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import ChangeOperation

CAPACITY = 20_000
KEEP_SECONDS = 120.0
_MAX_FACTS = 32

_FactKey = tuple[GroupResource, str, str]


class ObservedEvent(NamedTuple):
    """The parts of a watch event that identify its author."""

    kind: GroupResource
    uid: str
    before: str
    """The resource version that was seen last; empty for an object that was never seen."""
    operation: ChangeOperation
    blob: str
    """`facts.object_blob_id` of the object in the event."""
    before_blob: str = ""
    """The blob id in git for the version seen last; only a `scale` needs it."""
    content: bytes = b""
    """The new content of the file; only a `scale` needs it."""
    ended_from: str = ""
    """For a deletion that finalizers delayed: the version seen last before the deletion was requested."""


@dataclass(slots=True)
class _VersionFacts:
    """All known requests for one version of one object."""

    since: float
    facts: list[AuthorFact]
    overflown: bool = False


class AuthorAttribution:
    """Remembers facts for a limited time and finds the author of an event. Callers pass in the time."""

    def __init__(self, *, capacity: int = CAPACITY, keep: float = KEEP_SECONDS) -> None:
        self._capacity = capacity
        self._keep = keep
        self._facts: OrderedDict[_FactKey, _VersionFacts] = OrderedDict()
        self.forgotten = 0
        """Number of versions whose facts were dropped early, because the capacity was exceeded."""

    def __len__(self) -> int:
        return len(self._facts)

    def learn(self, fact: AuthorFact, now: float) -> None:
        """Store a fact of this replica or of another; a duplicate is ignored."""
        self.forget(now)
        key = (fact.kind, fact.uid, fact.before)
        known = self._facts.get(key)
        if known is None:
            known = self._facts[key] = _VersionFacts(now, [])
            if len(self._facts) > self._capacity:
                self._facts.popitem(last=False)
                self.forgotten += 1
        if fact in known.facts or known.overflown:
            return
        known.overflown = len(known.facts) >= _MAX_FACTS
        known.facts.append(fact)

    def forget(self, now: float) -> None:
        """Drop facts that are too old to be needed."""
        while self._facts:
            key, oldest = next(iter(self._facts.items()))
            if now - oldest.since <= self._keep:
                return
            del self._facts[key]

    def author_of(self, seen: ObservedEvent, now: float) -> RequestUser | None:
        """Return the user who made the change; None if that is not certain."""
        self.forget(now)
        users: dict[str, RequestUser] = {}
        for version in dict.fromkeys((seen.before, seen.ended_from or seen.before)):
            known = self._facts.get((seen.kind, seen.uid, version))
            if known is None:
                continue
            if known.overflown:
                return None
            for fact in known.facts:
                if fact.is_doubt and fact.operation is seen.operation:
                    return None
                if _matches_event(fact, seen):
                    users.setdefault(fact.user.name, fact.user)
        return next(iter(users.values())) if len(users) == 1 else None


def _matches_event(fact: AuthorFact, seen: ObservedEvent) -> bool:
    """Return whether a request for this version of this object led to the event."""
    if fact.operation is not seen.operation:
        return False
    if fact.replicas is not None:
        return _is_scale_change(seen, fact.replicas)
    # A delayed deletion is the requested deletion, whatever finalizers changed meanwhile.
    return fact.blob == seen.blob or (bool(seen.ended_from) and fact.before == seen.ended_from)


def _is_scale_change(seen: ObservedEvent, replicas: ScaleChange) -> bool:
    """Return whether only the replica count changed, exactly as requested."""
    before = with_replicas(seen.content, replicas.after, replicas.before)
    return bool(seen.before_blob) and before is not None and _has_blob_id(before, seen.before_blob)


def _has_blob_id(content: bytes, blob: str) -> bool:
    return blob_of(content, digits=len(blob)) == blob


def with_replicas(content: bytes, now: int, instead: int) -> bytes | None:
    """Return a rendered object with another `spec.replicas`; None if it does not hold the count `now`."""
    spec = content.find(b"\nspec:\n")
    line = b"\n  replicas: %d\n" % now
    at = content.find(line, spec) if spec >= 0 else -1
    # Every line of `spec` is indented by at least two, so this line is its direct member, if it is still
    # inside.
    if at < 0 or re.search(rb"\n[^ \n]", content[spec + len(b"\nspec:") : at]):
        return None
    return content[:at] + b"\n  replicas: %d\n" % instead + content[at + len(line) :]
